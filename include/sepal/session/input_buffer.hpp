// The bytes that a connection has received and not yet run.
//
// Most of the time a request arrives whole and is run soon. So all connections of a worker receive into one
// shared buffer, and requests are parsed there. What is left of a connection's bytes at the end of the batch
// is mostly the beginning of a request. Only that is copied into memory of the connection's own:
//
//     shared   [ in use by others | tail | received now .............. ]      tail: copied back in front of
//                                          request request request req              what arrives
//                                                                  ^^^ stash
//     own      [ req ]
//
// So an idle connection holds nothing, and one system call takes a whole pipeline. The buffer does not copy a
// large tail. It receives new bytes after it. The tail's memory doubles as bytes really arrive; it never
// grows by what a client announces.
#pragma once

#include <sepal/base/assert.hpp>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>

namespace sepal::session {

// The least free bytes that a connection's own buffer offers to a receive.
inline constexpr std::size_t read_bytes_min = 16 * 1024;
// The most that it offers: other connections get their turn before the rest of a large request is received.
inline constexpr std::size_t read_bytes_max = 256 * 1024;
// A tail up to this size is copied in front of what arrives next.
inline constexpr std::size_t copied_tail_bytes_max = 4 * 1024;
static_assert(copied_tail_bytes_max < read_bytes_min && read_bytes_min <= read_bytes_max);

// The memory that the connections of a worker receive into, each behind the bytes of the others. It begins
// anew when no connection uses it any more. Confined to its worker.
class SharedInput {
 public:
  explicit SharedInput(std::span<char> memory) : memory_(memory) {}

  [[nodiscard]] std::span<char> free() const { return memory_.subspan(used_); }
  // One more connection uses so many bytes from the start of free().
  void use(std::size_t byte_count) {
    SEPAL_ASSERT(byte_count <= memory_.size() - used_,
                 "a connection uses more of the shared memory than is free");
    used_ += byte_count;
    ++users_;
  }
  void end_use() {
    SEPAL_ASSERT(users_ > 0, "a connection ends its use of the shared memory twice");
    if (--users_ == 0) used_ = 0;
  }

 private:
  std::span<char> memory_;
  std::size_t used_ = 0;
  std::size_t users_ = 0;
};

// Confined to its worker.
class InputBuffer {
 public:
  // `shared` has more than copied_tail_bytes_max free whenever space() is called, and outlives it.
  explicit InputBuffer(SharedInput& shared) : shared_(shared) {}
  ~InputBuffer() { leave_shared(); }
  InputBuffer(const InputBuffer&) = delete;
  InputBuffer& operator=(const InputBuffer&) = delete;

  // The memory to receive into; valid until another connection's arrived(). Empty when the system has no
  // memory. `bytes_expected` is what the request at the start of unparsed() is known to need (0: unknown).
  // Call it only after stash().
  [[nodiscard]] std::span<char> space(std::size_t bytes_expected);
  // `byte_count` bytes were received into the last space().
  void arrived(std::size_t byte_count);

  [[nodiscard]] std::string_view unparsed() const { return {data() + begin_, end_ - begin_}; }
  // Drops bytes from the start of unparsed(). Moves nothing.
  void consume(std::size_t byte_count) {
    SEPAL_ASSERT(byte_count <= end_ - begin_, "more bytes are consumed than have arrived");
    begin_ += byte_count;
  }
  // Takes back bytes that were dropped last, since the last space() or stash().
  void take_back(std::size_t byte_count) {
    SEPAL_ASSERT(byte_count <= begin_, "more bytes are taken back than were consumed");
    begin_ -= byte_count;
  }
  void clear() { begin_ = end_; }
  // Drops all bytes, and gives all memory back at once.
  void close() { release(); }

  // Ends the use of the shared buffer. The unparsed bytes move into own memory, and own memory that is too
  // large for them is given back, a part of it at a time. False when the system has no memory: the bytes are
  // lost.
  [[nodiscard]] bool stash();

  // After stash(): there is more to give back. Call stash() again soon.
  [[nodiscard]] bool gives_back() const { return gives_back_; }

  [[nodiscard]] std::size_t bytes_held() const { return capacity_; }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  [[nodiscard]] const char* data() const { return in_shared_ != nullptr ? in_shared_ : own_.get(); }
  void leave_shared();
  bool resize_own(std::size_t capacity);
  bool map_own(std::size_t capacity);
  void shrink(std::size_t capacity);
  void move_to_front();
  void release();

  SharedInput& shared_;
  const char* in_shared_ = nullptr;  // its part of the shared memory
  std::unique_ptr<char, Free> own_;
  std::size_t capacity_ = 0;  // the size of own_
  bool gives_back_ = false;
  std::size_t begin_ = 0;  // where the unparsed bytes begin, in in_shared_ or own_
  std::size_t end_ = 0;
};

}  // namespace sepal::session
