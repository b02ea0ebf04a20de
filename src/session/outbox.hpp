// The replies that a client's stream has not taken yet, in blocks, so that to add more never copies them all,
// and what was sent goes back to the system block by block.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/command/run/client_memory.hpp>

#include <algorithm>
#include <cstddef>
#include <list>
#include <string>
#include <string_view>

namespace sepal::session {

// Confined to its worker.
class Outbox {
 public:
  static constexpr std::size_t block_bytes_max = mapped_allocation_min;

  [[nodiscard]] bool empty() const { return byte_count_ == 0; }
  [[nodiscard]] std::size_t byte_count() const { return byte_count_; }
  // What its blocks take, with the bytes that were sent and the room for more.
  [[nodiscard]] std::size_t memory() const {
    return byte_count_ + static_cast<std::size_t>(command::counted(memory_ - byte_count_));
  }

  // std::bad_alloc: only a part of the bytes is there, so close the client.
  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      if (blocks_.empty() || blocks_.back().size() == block_bytes_max)
        memory_ += blocks_.emplace_back().capacity();
      std::string& block = blocks_.back();
      const std::size_t taken = std::min(bytes.size(), block_bytes_max - block.size());
      const std::size_t capacity_before = block.capacity();
      block.append(bytes.substr(0, taken));
      memory_ += block.capacity() - capacity_before;
      byte_count_ += taken;
      bytes.remove_prefix(taken);
    }
  }

  // The bytes to send next; not empty() first.
  [[nodiscard]] std::string_view front() const {
    SEPAL_ASSERT(!empty(), "nothing is left to send");
    return std::string_view(blocks_.front()).substr(sent_bytes_);
  }
  // So many bytes of front() were sent.
  void sent(std::size_t byte_count) {
    SEPAL_ASSERT(byte_count <= front().size(), "more was sent than there was");
    sent_bytes_ += byte_count;
    byte_count_ -= byte_count;
    if (sent_bytes_ < blocks_.front().size()) return;
    // A full block is mapped by itself (base/free_memory.hpp), so it goes back to the system here.
    memory_ -= blocks_.front().capacity();
    blocks_.pop_front();
    sent_bytes_ = 0;
  }

 private:
  std::list<std::string> blocks_;  // none is empty; unlike a deque, an empty list has no memory of its own
  std::size_t sent_bytes_ = 0;     // of the first block
  std::size_t byte_count_ = 0;     // that are not sent
  std::size_t memory_ = 0;         // the capacity of all blocks
};

}  // namespace sepal::session
