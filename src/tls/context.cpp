// What a context is set to, beyond the files:
//
//   - Nothing is resumed: no tickets, no cache of sessions. So each connection shows its certificate anew,
//     and a changed CA holds from the next connection on. Clients of this protocol keep their connections.
//   - Renegotiation and compression are off.
//   - A read takes as much from the socket as there is room for, and not record by record: half of the calls.
//   - The memory of a read or a write goes back when it is done, so an idle connection holds none.
#include <sepal/base/descriptor.hpp>
#include <sepal/tls/context.hpp>

#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <system_error>

#include "tls/openssl_error.hpp"

namespace sepal::tls {
namespace {

Error wrong_file(const std::string& path, const std::string& what) {
  return fail(Errc::invalid_setting, path + ": " + what);
}

// OpenSSL's own texts about files that cannot be opened do not say why. O_NONBLOCK: a pipe must not make the
// caller wait.
Result<void> check_readable(const std::string& path, const std::string& what) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0)
    return wrong_file(path, what + " cannot be read: " + std::generic_category().message(errno));
  if (!S_ISREG(status.st_mode)) return wrong_file(path, what + " cannot be read: it is no file");
  if (static_cast<std::uint64_t>(status.st_size) > file_bytes_max)
    return wrong_file(
        path, what + " cannot be read: it is longer than " + std::to_string(file_bytes_max) + " bytes");
  return {};
}

// Without this, OpenSSL asks for the passphrase of a key at the terminal.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*data*/) {
  return 0;
}

void set_up(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // A client may close the socket without the end that TLS has. With the last option that is an end, and no
  // error.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF);
  // The option above ends the tickets of TLS 1.2. TLS 1.3 would still send some.
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // The rest of a send that was cut short comes from the client's outbox, so from another place
  // (Stream::send()).
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
}

Result<void> use_certificate(SSL_CTX* context, const std::string& certificate_file,
                             const std::string& key_file) {
  if (auto readable = check_readable(certificate_file, "the certificate"); !readable) return readable;
  if (auto readable = check_readable(key_file, "the key"); !readable) return readable;
  if (SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1)
    return wrong_file(certificate_file,
                      "the certificate cannot be read: " + take_reason_without("PEM certificate"));
  BIO* const file = BIO_new_file(key_file.c_str(), "r");
  EVP_PKEY* const key =
      file == nullptr ? nullptr : PEM_read_bio_PrivateKey(file, nullptr, no_passphrase, nullptr);
  BIO_free(file);
  if (key == nullptr)
    return wrong_file(key_file, "the key cannot be read, or has a passphrase: " +
                                    take_reason_without("PEM key that OpenSSL knows"));
  const bool fits = SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1;
  EVP_PKEY_free(key);
  if (!fits)
    return wrong_file(key_file,
                      "the key does not fit the certificate " + certificate_file + ": " + take_reason());
  return {};
}

Result<void> use_authorities(SSL_CTX* context, const std::string& path) {
  if (auto readable = check_readable(path, "the CA certificate"); !readable) return readable;
  if (SSL_CTX_load_verify_locations(context, path.c_str(), nullptr) != 1)
    return wrong_file(path, "the CA certificate cannot be read: " + take_reason_without("PEM certificate"));
  return {};
}

std::string text_of(BIO* memory) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory, &bytes);
  std::string text(bytes, size > 0 ? static_cast<std::size_t>(size) : 0);
  static_cast<void>(BIO_reset(memory));
  return text;
}

// 0 if it is no time.
std::int64_t seconds_since_1970(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? std::int64_t{timegm(&parts)} : 0;
}

// As RFC 3339 has it; empty if it is no time.
std::string text_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

Certificate describe(const X509* certificate) {
  // For the log only: what cannot be read stays empty, and is no error.
  Certificate described;
  BIO* const memory = BIO_new(BIO_s_mem());
  if (certificate == nullptr || memory == nullptr) return described;
  X509_NAME_print_ex(memory, X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  described.subject = text_of(memory);
  BIO_free(memory);
  described.not_before = text_of(X509_get0_notBefore(certificate));
  described.not_after = text_of(X509_get0_notAfter(certificate));
  BIGNUM* const number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* const digits = number == nullptr ? nullptr : BN_bn2hex(number);
  if (digits != nullptr) described.serial = digits;
  OPENSSL_free(digits);
  BN_free(number);
  described.starts_at = seconds_since_1970(X509_get0_notBefore(certificate));
  described.ends_at = seconds_since_1970(X509_get0_notAfter(certificate));
  return described;
}

}  // namespace

void Context::Free::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

Result<void> Context::check(const Options& options) {
  if (options.certificate_file.empty())
    return fail(
        Errc::invalid_setting,
        "TLS needs a certificate: set tls_cert_file and tls_key_file (--tls-cert-file, --tls-key-file)");
  if (options.key_file.empty())
    return fail(Errc::invalid_setting, "TLS needs a key: set tls_key_file (--tls-key-file)");
  if (options.ca_file.empty() && options.auth_clients != AuthClients::no)
    return fail(Errc::invalid_setting,
                "to check the certificates of clients (tls_auth_clients), set tls_ca_cert_file");
  // Without this, a client with the certificate of a user of few rights would be `default`, with all rights.
  if (options.user_field != UserField::off && options.auth_clients == AuthClients::no)
    return fail(Errc::invalid_setting,
                "without certificates of clients, tls_auth_clients_user logs no client in: set "
                "tls_auth_clients to yes or optional");
  return {};
}

Result<std::shared_ptr<const Context>> Context::load(const Options& options) {
  if (auto checked = check(options); !checked) return checked.error();
  // The queue belongs to the thread, and may have errors of other calls: take_reason() would tell the oldest.
  ERR_clear_error();
  const std::shared_ptr<Context> context(new Context(SSL_CTX_new(TLS_server_method())));
  if (context->native() == nullptr) return fail(Errc::out_of_memory, "no TLS: " + take_reason());
  if (auto done = context->read_files(options); !done) return done.error();
  return std::shared_ptr<const Context>(context);
}

Result<void> Context::read_files(const Options& options) {
  SSL_CTX* const context = native();
  set_up(context);
  if (options.protocols == Protocols::tls_1_2) SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
  if (options.protocols == Protocols::tls_1_3) SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  auto used = use_certificate(context, options.certificate_file, options.key_file);
  if (!used) return used;
  certificate_ = describe(SSL_CTX_get0_certificate(context));
  user_field_ = options.user_field;
  if (options.ca_file.empty()) return {};
  if (auto authorities = use_authorities(context, options.ca_file); !authorities) return authorities;
  if (options.auth_clients == AuthClients::no) return {};
  // By these names, a client with several certificates chooses one.
  SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(options.ca_file.c_str()));
  SSL_CTX_set_verify(context,
                     options.auth_clients == AuthClients::yes
                         ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                         : SSL_VERIFY_PEER,
                     nullptr);
  return {};
}

Result<std::shared_ptr<const Context>> Context::load_for_client(const ClientOptions& options) {
  ERR_clear_error();
  const std::shared_ptr<Context> context(new Context(SSL_CTX_new(TLS_client_method())));
  SSL_CTX* const native = context->native();
  if (native == nullptr) return fail(Errc::out_of_memory, "no TLS: " + take_reason());
  set_up(native);
  if (options.verifies) SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
  if (!options.ca_file.empty()) {
    if (auto used = use_authorities(native, options.ca_file); !used) return used.error();
  } else if (SSL_CTX_set_default_verify_paths(native) != 1) {
    return fail(Errc::io, "the system's CA certificates cannot be read: " + take_reason());
  }
  if (options.certificate_file.empty()) return std::shared_ptr<const Context>(context);
  if (auto used = use_certificate(native, options.certificate_file, options.key_file); !used)
    return used.error();
  return std::shared_ptr<const Context>(context);
}

}  // namespace sepal::tls
