// One TLS connection over a socket. It reads and writes the socket itself, and waits for nothing: where the
// socket is in non-blocking mode, each member says what the socket must be ready for before it goes on.
#pragma once

#include <sepal/tls/context.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct ssl_st;

namespace sepal::tls {

// Why a handshake failed.
enum class Failure : std::uint8_t {
  closed,           // the peer has closed the connection
  certificate,      // the peer showed no certificate, or one that is not valid
  refused_by_peer,  // the peer says that it does not go on: it may not trust the server's certificate
  protocol,         // the bytes are not TLS, or of no version and cipher that both sides have
};
inline constexpr std::size_t failure_count = 4;

// Confined.
class Connection {
 public:
  // The side of the server. `descriptor` must be open as long as the connection is used.
  Connection(const Context& context, int descriptor);
  // The side of a client. `server_name` is a name or an address; the server's certificate has to have it, if
  // the context verifies certificates.
  Connection(const Context& context, int descriptor, const std::string& server_name);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // What came of a call. `ended`: the peer sends no more. `failed`: the connection is of no more use.
  enum class Status : std::uint8_t { done, wants_read, wants_write, ended, failed };
  struct Transfer {
    Status status = Status::done;
    std::size_t byte_count = 0;  // above 0 for `done`, else 0
  };

  // Goes on with the handshake. Call it until it is `done`; it is never `ended`.
  Status handshake();
  // After a handshake failed.
  [[nodiscard]] Failure failure() const { return failure_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }  // a sentence without an end

  // `into` is not empty. It gets the bytes of one record at most.
  Transfer receive(std::span<char> into);
  // Whether bytes were read from the socket that receive() has not given yet. The socket tells nothing of
  // them. They may be less than a record.
  [[nodiscard]] bool holds_bytes() const;
  // `bytes` is not empty; a part may be taken. After wants_write, the next call must begin with the same
  // bytes, and have as many at least. They may be in another place.
  Transfer send(std::string_view bytes);
  // Tells the peer that nothing more is sent. Only the first call does something.
  void end();

  // The common name in the certificate that the peer has shown, and that was found to be valid; empty: none.
  [[nodiscard]] std::string common_name() const;

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  Status outcome(int result);
  void note_failure(int error);

  std::unique_ptr<ssl_st, Free> ssl_;
  Failure failure_ = Failure::closed;
  std::string reason_;
  bool failed_ = false;
  bool ended_ = false;
};

}  // namespace sepal::tls
