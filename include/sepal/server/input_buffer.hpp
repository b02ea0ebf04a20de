// The bytes that a connection has received and not yet run.
//
// Most of the time a request arrives whole and is run at once. So bytes are received into a buffer that all
// connections of a worker share, parsed there, and only what is left of them when the worker turns to another
// connection, the beginning of a request, is copied into memory of the connection's own:
//
//     shared   [ tail | received now .............. ]      tail: copied back in front of what arrives
//                       request request request req
//                                               ^^^ stash
//     own      [ req ]
//
// An idle connection therefore holds nothing, and one system call takes a whole pipeline. A tail too large to
// be copied for every few bytes that arrive stays where it is, and bytes are received behind it; that memory
// grows by doubling with what has really arrived, never with what a client announces.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>

namespace sepal::server {

// Free bytes that a buffer of a connection's own offers to a receive.
inline constexpr std::size_t read_bytes_min = 16 * 1024;
// A tail up to this size is copied in front of what arrives next.
inline constexpr std::size_t copied_tail_bytes_max = 4 * 1024;

// Confined to its worker.
class InputBuffer {
 public:
  // `shared` is used by one connection at a time, from space() to stash(); larger than copied_tail_bytes_max.
  explicit InputBuffer(std::span<char> shared) : shared_(shared) {}

  // Where to receive to. Empty when the system has no memory. `bytes_expected` is what the request at the
  // start of unparsed() is known to need (0: unknown). Only after stash().
  [[nodiscard]] std::span<char> space(std::size_t bytes_expected);
  // `byte_count` bytes were received into the last space().
  void arrived(std::size_t byte_count);

  [[nodiscard]] std::string_view unparsed() const { return {data() + begin_, end_ - begin_}; }
  // Drops bytes from the start of unparsed(). Moves nothing.
  void consume(std::size_t byte_count) { begin_ += byte_count; }
  // Takes bytes back that were dropped last, since the last space() or stash().
  void take_back(std::size_t byte_count) { begin_ -= byte_count; }
  void clear() { begin_ = end_; }

  // Ends the use of the shared buffer; what is left moves into own memory, what is too much of it is given
  // back. False when the system has no memory: the bytes are lost.
  [[nodiscard]] bool stash();

  [[nodiscard]] std::size_t bytes_held() const { return capacity_; }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  [[nodiscard]] const char* data() const { return in_shared_ ? shared_.data() : own_.get(); }
  bool resize_own(std::size_t capacity);
  void move_to_front();
  void release();

  std::span<char> shared_;
  std::unique_ptr<char, Free> own_;
  std::size_t capacity_ = 0;  // of own_
  std::size_t begin_ = 0;     // of what is unparsed, in shared_ or own_
  std::size_t end_ = 0;
  bool in_shared_ = false;
};

}  // namespace sepal::server
