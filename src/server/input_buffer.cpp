#include <sepal/server/input_buffer.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace sepal::server {
namespace {

// Own memory beyond twice what it holds is given back only above this.
constexpr std::size_t slack_bytes_max = 64 * 1024;

// Doubling keeps the copies linear; a large request whose end is near gets just what it needs.
std::size_t grown(std::size_t held, std::size_t expected) {
  const std::size_t room = std::max(held, read_bytes_min);
  if (expected > held && expected - held >= room / 2) return held + std::min(room, expected - held);
  return held + room;
}

}  // namespace

std::span<char> InputBuffer::space(std::size_t bytes_expected) {
  const std::size_t held = end_ - begin_;
  if (held <= copied_tail_bytes_max) return shared_.free().subspan(held);
  if (capacity_ - end_ < read_bytes_min) {
    move_to_front();
    const std::size_t wanted = grown(held, bytes_expected);
    if (capacity_ < wanted && !resize_own(wanted)) return {};
  }
  return {own_.get() + end_, capacity_ - end_};
}

void InputBuffer::arrived(std::size_t byte_count) {
  const std::size_t held = end_ - begin_;
  if (held <= copied_tail_bytes_max) {
    char* const part = shared_.free().data();
    if (held > 0) std::memcpy(part, own_.get() + begin_, held);
    in_shared_ = part;
    begin_ = 0;
    end_ = held;
    shared_.use(held + byte_count);
  }
  end_ += byte_count;
}

bool InputBuffer::stash() {
  const std::size_t held = end_ - begin_;
  if (held == 0) {
    release();
    return true;
  }
  if (in_shared_ != nullptr) {
    if (capacity_ < held && !resize_own(held)) {
      release();
      return false;
    }
    std::memcpy(own_.get(), in_shared_ + begin_, held);
    leave_shared();
    begin_ = 0;
    end_ = held;
  }
  if (capacity_ > 2 * held + slack_bytes_max) {
    move_to_front();
    return resize_own(held);
  }
  return true;
}

void InputBuffer::move_to_front() {
  if (begin_ == 0) return;
  std::memmove(own_.get(), own_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

// realloc and not a new block: for large blocks the system moves pages instead of bytes, and there is never a
// second copy.
bool InputBuffer::resize_own(std::size_t capacity) {
  char* const resized = static_cast<char*>(std::realloc(own_.get(), capacity));
  if (resized == nullptr) return false;
  static_cast<void>(own_.release());
  own_.reset(resized);
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

}  // namespace sepal::server
