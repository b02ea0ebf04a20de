#include "tls/socket_bio.hpp"

#include <cerrno>
#include <cstdint>
#include <openssl/bio.h>
#include <sys/socket.h>

namespace sepal::tls {
namespace {

int descriptor_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

bool comes_again() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int write_socket(BIO* bio, const char* bytes, std::size_t size, std::size_t* written) {
  // OpenSSL tells a call that has to come again from one that failed by these flags alone.
  BIO_clear_retry_flags(bio);
  const ssize_t count = ::send(descriptor_of(bio), bytes, size, MSG_NOSIGNAL);
  if (count < 0 && comes_again()) BIO_set_retry_write(bio);
  *written = count > 0 ? static_cast<std::size_t>(count) : 0;
  return count > 0 ? 1 : 0;
}

int read_socket(BIO* bio, char* into, std::size_t size, std::size_t* read) {
  BIO_clear_retry_flags(bio);
  const ssize_t count = ::recv(descriptor_of(bio), into, size, 0);
  if (count < 0 && comes_again()) BIO_set_retry_read(bio);
  // OpenSSL asks for the end by BIO_CTRL_EOF. Without the flag the end of the socket would look like an error
  // of it.
  if (count == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  *read = count > 0 ? static_cast<std::size_t>(count) : 0;
  return count > 0 ? 1 : 0;
}

// OpenSSL flushes after each message of a handshake. There is nothing to flush here.
long control_socket(BIO* bio, int command, long /*number*/, void* /*argument*/) {
  if (command == BIO_CTRL_FLUSH) return 1;
  return command == BIO_CTRL_EOF && BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
}

BIO_METHOD* make_method() {
  BIO_METHOD* const method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sepal socket");
  if (method == nullptr) return nullptr;
  BIO_meth_set_write_ex(method, write_socket);
  BIO_meth_set_read_ex(method, read_socket);
  BIO_meth_set_ctrl(method, control_socket);
  return method;
}

}  // namespace

bio_st* new_socket_bio(int descriptor) {
  static BIO_METHOD* const method = make_method();  // for the life of the process
  BIO* const bio = method == nullptr ? nullptr : BIO_new(method);
  if (bio == nullptr) return nullptr;
  // A BIO keeps a pointer. This one is a number, and no memory is reached by it.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
  // OpenSSL reads and writes only a BIO that says it is ready.
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace sepal::tls
