// The two directions of bytes between a client and the scheduler: a socket, or what a test plays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sepal::session {

// What a stream is watched for, and what has happened to it. Bits; the values are those of epoll.
inline constexpr std::uint32_t readable = 0x001;
inline constexpr std::uint32_t writable = 0x004;
inline constexpr std::uint32_t broken = 0x018;      // told without being asked for
inline constexpr std::uint32_t peer_gone = 0x2000;  // the peer sends no more

// Confined to its worker. No member waits.
class Stream {
 public:
  virtual ~Stream() = default;

  // What came of a receive or a send. `again`: nothing now. `ended`: the peer sends no more. `failed`: the
  // stream is of no more use.
  enum class Status : std::uint8_t { done, again, ended, failed };
  struct Transfer {
    Status status = Status::done;
    std::size_t byte_count = 0;  // above 0 for `done`, else 0
  };

  // `into` is not empty.
  virtual Transfer receive(std::span<char> into) = 0;
  // `bytes` is not empty; the stream may take a part. Then the next call must begin with the rest, as far as
  // it is in one piece, and may have more behind it: TLS has encrypted the begin of the rest already. Never
  // `ended`.
  virtual Transfer send(std::string_view bytes) = 0;

  // From now on these events are told; `broken` always is.
  virtual void watch(std::uint32_t events) = 0;

  // Tells the peer that nothing more is sent. False: that is not needed or not possible, and the stream may
  // be destroyed at once.
  virtual bool end() = 0;
  // Whether the peer's system has acknowledged all that was sent. False where that is not known.
  [[nodiscard]] virtual bool all_is_acknowledged() const = 0;
};

}  // namespace sepal::session
