// A client's socket, behind the interface that the scheduler uses.
#pragma once

#include <sepal/base/descriptor.hpp>
#include <sepal/base/result.hpp>
#include <sepal/session/scheduler.hpp>
#include <sepal/session/stream.hpp>

#include <cstdint>
#include <span>
#include <string_view>

#include "server/readiness.hpp"
#include "server/watched_stream.hpp"

namespace sepal::server {

enum class StreamKind : std::uint8_t { tcp, tls, unix_socket };

// Confined to its worker.
class SocketStream final : public WatchedStream {
 public:
  // `descriptor` is in non-blocking mode.
  SocketStream(Descriptor descriptor, StreamKind kind);

  Result<void> watch_for(session::Client& owner, Readiness& readiness, UnreadStreams& unread) override;
  void leave() override;

  Transfer receive(std::span<char> into) override;
  Transfer send(std::string_view bytes) override;
  void watch(std::uint32_t events) override;
  // False for a UNIX socket: the peer can read all bytes after the socket is closed.
  bool end() override;
  [[nodiscard]] bool all_is_acknowledged() const override;

  [[nodiscard]] session::Client* owner() const { return owner_; }

 private:
  Descriptor descriptor_;
  StreamKind kind_;
  Readiness* readiness_ = nullptr;  // null, as the owner: it is not watched
  session::Client* owner_ = nullptr;
};

}  // namespace sepal::server
