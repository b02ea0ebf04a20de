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

namespace sepal::server {

enum class StreamKind : std::uint8_t { tcp, tls, unix_socket };

// Confined to its worker.
class SocketStream final : public session::Stream {
 public:
  // `descriptor` is in non-blocking mode.
  SocketStream(Descriptor descriptor, StreamKind kind, Readiness& readiness);

  // Call it once, before any other member: from then on Readiness tells the socket's events with `owner`. It
  // is not part of the constructor, because the client needs the stream first. Errors: io.
  Result<void> watch_for(session::Client& owner);

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
  Readiness& readiness_;
  session::Client* owner_ = nullptr;
};

}  // namespace sepal::server
