// Replies that a session keeps in memory of its own: the journal is to be durable first, or a script to end.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/base/memory_reserve.hpp>
#include <sepal/resp/reply.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace sepal::session {

// `Step` is what follows when they are released. Confined to its worker.
template <class Step>
class HeldReplies {
 public:
  // The bytes move from `reply` to here, and back. False: there is no memory for that, and they are lost.
  [[nodiscard]] bool take(resp::Reply& reply) {
    SEPAL_ASSERT(bytes_.empty(), "replies are held already");
    return append(reply);
  }
  [[nodiscard]] bool append(resp::Reply& reply) {
    const bool fits = memory_reserve::suffices_for([&] { bytes_ += reply.bytes(); });
    reply.truncate(0);
    return fits;
  }
  [[nodiscard]] bool give(resp::Reply& reply) {
    const bool fits = memory_reserve::suffices_for([&] { reply.raw(bytes_); });
    clear();
    return fits;
  }
  void clear() { free_memory(bytes_); }
  [[nodiscard]] std::size_t capacity() const { return bytes_.capacity(); }

  // They wait for this position of the journal. 0: they wait for none.
  [[nodiscard]] std::uint64_t until() const { return until_; }
  void wait(std::uint64_t position, Step next) {
    SEPAL_ASSERT(until_ == 0, "replies are held already");
    until_ = position;
    next_ = next;
  }
  void change_next(Step next) { next_ = next; }
  Step release() {
    SEPAL_ASSERT(until_ != 0, "only what is held is released");
    until_ = 0;
    return next_;
  }

 private:
  std::string bytes_;
  std::uint64_t until_ = 0;
  Step next_{};
};

}  // namespace sepal::session
