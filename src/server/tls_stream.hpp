// A client's TLS connection, behind the interface that the scheduler uses.
//
// A socket's events are about the bytes of the socket. OpenSSL reads ahead: it may hold bytes that the socket
// tells nothing of any more, and the client would wait for ever. Such a stream is in the worker's
// UnreadStreams, as long as the scheduler wants to hear that it is readable. The worker names it in a turn of
// its own, so the way of plain sockets is as it was.
#pragma once

#include <sepal/session/scheduler.hpp>
#include <sepal/session/stream.hpp>
#include <sepal/tls/connection.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "server/socket_stream.hpp"
#include "server/watched_stream.hpp"

namespace sepal::server {

class TlsStream;

// Confined to its worker.
class UnreadStreams {
 public:
  // `added` is called when there is one more.
  explicit UnreadStreams(std::function<void()> added) : added_(std::move(added)) {}

  void add(TlsStream& stream);
  void remove(TlsStream& stream);
  [[nodiscard]] const std::vector<TlsStream*>& all() const { return streams_; }

 private:
  std::function<void()> added_;
  std::vector<TlsStream*> streams_;
};

// Confined to its worker.
class TlsStream final : public WatchedStream {
 public:
  // The handshake of `connection` is done. It uses the descriptor of `socket`.
  TlsStream(SocketStream socket, std::unique_ptr<tls::Connection> connection);
  ~TlsStream() override;
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  Result<void> watch_for(session::Client& owner, Readiness& readiness, UnreadStreams& unread) override;
  void leave() override;
  [[nodiscard]] session::Client* owner() const { return socket_.owner(); }

  Transfer receive(std::span<char> into) override;
  Transfer send(std::string_view bytes) override;
  void watch(std::uint32_t events) override;
  bool end() override;
  [[nodiscard]] bool all_is_acknowledged() const override { return socket_.all_is_acknowledged(); }

 private:
  void note_unread(bool holds_bytes);
  void want_to_write(bool wants);

  SocketStream socket_;
  std::unique_ptr<tls::Connection> connection_;  // after the socket, whose descriptor it uses
  UnreadStreams* unread_ = nullptr;              // its worker's
  std::uint32_t watched_ = session::readable;
  bool holds_bytes_ = false;     // OpenSSL may hold what the socket does not tell of
  bool is_listed_ = false;       // in unread_
  bool wants_to_write_ = false;  // before it can receive
};

}  // namespace sepal::server
