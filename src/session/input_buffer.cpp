#include <sepal/base/free_memory.hpp>
#include <sepal/session/input_buffer.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace sepal::session {
namespace {

// Own memory is given back when it exceeds twice the bytes that it holds by more than this.
constexpr std::size_t slack_bytes_max = 64 * 1024;

// Giving back memory costs a millisecond for so much.
constexpr std::size_t given_back_bytes_max = 16 * 1024 * 1024;

// Doubling keeps the cost of copies linear. A large request that will soon be complete gets only what it
// needs.
std::size_t grown(std::size_t held, std::size_t expected) {
  const std::size_t room = std::max(held, read_bytes_min);
  if (expected > held && expected - held >= room / 2) return held + std::min(room, expected - held);
  return held + room;
}

}  // namespace

std::span<char> InputBuffer::space(std::size_t bytes_expected) {
  SEPAL_ASSERT(in_shared_ == nullptr, "a connection receives while its bytes are in the shared memory");
  SEPAL_ASSERT(shared_.free().size() > copied_tail_bytes_max,
               "the shared memory has no room for a tail and new bytes");
  const std::size_t held = end_ - begin_;
  // The room in front is for the tail: arrived() copies it there only if bytes really come.
  if (held <= copied_tail_bytes_max) return shared_.free().subspan(held);
  if (capacity_ - end_ < read_bytes_min) {
    move_to_front();
    // The bytes in front are moved first: that may be room enough.
    const std::size_t wanted = grown(held, bytes_expected);
    if (capacity_ < wanted && !resize_own(wanted)) return {};
  }
  return {own_.get() + end_, std::min(capacity_ - end_, read_bytes_max)};
}

void InputBuffer::arrived(std::size_t byte_count) {
  SEPAL_ASSERT(in_shared_ == nullptr, "bytes arrive twice without a batch in between");
  const std::size_t held = end_ - begin_;
  if (held <= copied_tail_bytes_max) {
    char* const part = shared_.free().data();
    if (held > 0) std::memcpy(part, own_.get() + begin_, held);
    in_shared_ = part;
    begin_ = 0;
    end_ = held;
    shared_.use(held + byte_count);
  }
  SEPAL_ASSERT(in_shared_ != nullptr || byte_count <= capacity_ - end_,
               "more bytes arrived than there was room for");
  end_ += byte_count;
}

bool InputBuffer::stash() {
  const std::size_t held = end_ - begin_;
  // Else a large request is still arriving, and its memory has the size that it is going to need.
  const bool consumed = in_shared_ != nullptr || begin_ > 0;
  if (held == 0) {
    leave_shared();
    begin_ = end_ = 0;
    shrink(0);
    return true;
  }
  if (in_shared_ != nullptr) {
    if (capacity_ < held && !resize_own(held)) {
      release();
      return false;
    }
    // own_ holds no bytes of use: arrived() has copied the tail out of it.
    std::memcpy(own_.get(), in_shared_ + begin_, held);
    leave_shared();
    begin_ = 0;
    end_ = held;
  }
  if ((consumed || gives_back_) && capacity_ > 2 * held + slack_bytes_max) {
    move_to_front();
    shrink(held);
  } else {
    gives_back_ = false;
  }
  return true;
}

void InputBuffer::shrink(std::size_t capacity) {
  // If there is too much to give back at once, only a part goes: stash() is called again.
  gives_back_ = capacity_ > capacity + given_back_bytes_max;
  if (gives_back_) capacity = capacity_ - given_back_bytes_max;
  if (capacity > 0 && resize_own(capacity)) return;
  // Where the system refuses, memory with bytes in it stays as it is.
  gives_back_ = false;
  if (begin_ == end_) release();
}

void InputBuffer::move_to_front() {
  SEPAL_ASSERT(in_shared_ == nullptr, "bytes in the shared memory do not move");
  if (begin_ == 0) return;
  std::memmove(own_.get(), own_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

// Uses realloc, not a new block: for large blocks the system moves pages instead of bytes, and memory never
// holds the bytes twice. When realloc succeeds it has taken the old block, so own_ must not free it.
bool InputBuffer::resize_own(std::size_t capacity) {
  SEPAL_ASSERT(in_shared_ != nullptr || end_ <= capacity, "memory becomes smaller than the bytes in it");
  if (capacity_ < mapped_allocation_min && capacity >= mapped_allocation_min) return map_own(capacity);
  char* const resized = static_cast<char*>(std::realloc(own_.get(), capacity));
  if (resized == nullptr) return false;
  static_cast<void>(own_.release());
  own_.reset(resized);
  capacity_ = capacity;
  return true;
}

// realloc would let a block of the heap grow where it is, and such a block can be neither moved nor given
// back without a copy.
bool InputBuffer::map_own(std::size_t capacity) {
  SEPAL_ASSERT(in_shared_ == nullptr, "what is left in the shared memory fits into a block of the heap");
  char* const mapped = static_cast<char*>(std::malloc(capacity));
  if (mapped == nullptr) return false;
  if (end_ > begin_) std::memcpy(mapped + begin_, own_.get() + begin_, end_ - begin_);
  own_.reset(mapped);
  capacity_ = capacity;
  return true;
}

void InputBuffer::release() {
  own_.reset();
  capacity_ = 0;
  begin_ = 0;
  end_ = 0;
  leave_shared();
}

void InputBuffer::leave_shared() {
  if (std::exchange(in_shared_, nullptr) != nullptr) shared_.end_use();
}

}  // namespace sepal::session
