#include <sepal/base/assert.hpp>
#include <sepal/tls/connection.hpp>

#include <cerrno>
#include <new>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <system_error>

#include "tls/openssl_error.hpp"
#include "tls/socket_bio.hpp"

namespace sepal::tls {
namespace {

// The longest common name that is read. X.509 allows 64 characters.
constexpr std::size_t common_name_bytes_max = 256;

ssl_st* new_ssl(const Context& context, int descriptor) {
  SSL* const ssl = SSL_new(context.native());
  BIO* const socket = new_socket_bio(descriptor);
  if (ssl == nullptr || socket == nullptr) throw std::bad_alloc();
  // One BIO for both directions: OpenSSL then owns it once, and frees it with the connection.
  SSL_set_bio(ssl, socket, socket);
  return ssl;
}

// OpenSSL asks for an empty queue of errors before each call, so that it can tell what came of the call.
void prepare_call() {
  if (ERR_peek_error() != 0) ERR_clear_error();
  // note_failure() takes 0 for the end of the socket, which sets no errno.
  errno = 0;
}

}  // namespace

void Connection::Free::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

Connection::Connection(const Context& context, int descriptor) : ssl_(new_ssl(context, descriptor)) {
  SSL_set_accept_state(ssl_.get());
}

Connection::Connection(const Context& context, int descriptor, const std::string& server_name)
    : ssl_(new_ssl(context, descriptor)) {
  SSL_set_connect_state(ssl_.get());
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl_.get());
  // An address is compared with the addresses of the certificate, and is not sent as a name.
  if (X509_VERIFY_PARAM_set1_ip_asc(wanted, server_name.c_str()) == 1) return;
  SSL_set1_host(ssl_.get(), server_name.c_str());
  SSL_set_tlsext_host_name(ssl_.get(), server_name.c_str());
}

Connection::~Connection() = default;

Connection::Status Connection::handshake() {
  prepare_call();
  const Status status = outcome(SSL_do_handshake(ssl_.get()));
  if (status != Status::ended) return status;
  failed_ = true;
  return Status::failed;
}

Connection::Transfer Connection::receive(std::span<char> into) {
  SEPAL_ASSERT(!into.empty(), "a receive into no memory looks like the end of the stream");
  prepare_call();
  std::size_t count = 0;
  const Status status = outcome(SSL_read_ex(ssl_.get(), into.data(), into.size(), &count));
  return {.status = status, .byte_count = status == Status::done ? count : 0};
}

bool Connection::holds_bytes() const {
  return SSL_has_pending(ssl_.get()) == 1;
}

Connection::Transfer Connection::send(std::string_view bytes) {
  SEPAL_ASSERT(!bytes.empty(), "a send of nothing looks like the end of the stream");
  prepare_call();
  std::size_t count = 0;
  const Status status = outcome(SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count));
  return {.status = status, .byte_count = status == Status::done ? count : 0};
}

// What OpenSSL cannot send at once is lost: the peer then sees the end of the socket.
void Connection::end() {
  // After an error that cannot be mended, and before the handshake is done, OpenSSL allows no SSL_shutdown().
  if (failed_ || ended_ || SSL_in_init(ssl_.get()) != 0) return;
  ended_ = true;
  ERR_clear_error();
  static_cast<void>(SSL_shutdown(ssl_.get()));
}

Connection::Status Connection::outcome(int result) {
  if (result == 1) return Status::done;
  const int error = SSL_get_error(ssl_.get(), result);
  switch (error) {
    case SSL_ERROR_WANT_READ: return Status::wants_read;
    case SSL_ERROR_WANT_WRITE: return Status::wants_write;
    case SSL_ERROR_ZERO_RETURN: note_failure(error); return Status::ended;
    default:
      failed_ = true;
      note_failure(error);
      return Status::failed;
  }
}

void Connection::note_failure(int error) {
  // Before any call of OpenSSL, which may change it.
  const int system_error = errno;
  const unsigned long oldest = ERR_peek_error();
  if (error != SSL_ERROR_SSL || oldest == 0) {
    failure_ = Failure::closed;
    reason_ =
        system_error == 0 ? "the peer closed the connection" : std::generic_category().message(system_error);
    ERR_clear_error();
    return;
  }
  const int code = ERR_GET_REASON(oldest);
  const long verified = SSL_get_verify_result(ssl_.get());
  reason_ = take_reason();
  // The reasons above this number are those that the peer has sent.
  if (code > SSL_AD_REASON_OFFSET) {
    failure_ = Failure::refused_by_peer;
  } else if (code == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    failure_ = Failure::certificate;
    reason_ += std::string(": ") + X509_verify_cert_error_string(verified);
  } else {
    failure_ = code == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE ? Failure::certificate : Failure::protocol;
  }
}

std::string Connection::common_name() const {
  const X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  // The name becomes a user, so it must come from a certificate that this side asked for and verified.
  // Without a certificate, the result of the verification is OK as well.
  if (certificate == nullptr || SSL_get_verify_result(ssl_.get()) != X509_V_OK ||
      (SSL_get_verify_mode(ssl_.get()) & SSL_VERIFY_PEER) == 0)
    return {};
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  // With two names, it would depend on the reader which of them counts.
  if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) return {};
  unsigned char* bytes = nullptr;
  const int size = ASN1_STRING_to_UTF8(&bytes, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return {};
  // By its length: a name with a zero byte inside must not be taken for the shorter name before it.
  std::string name(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return name.size() <= common_name_bytes_max ? name : std::string();
}

}  // namespace sepal::tls
