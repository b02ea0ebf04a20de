// The replies that a client's stream has not taken yet, in blocks, so that to add more never copies them all,
// and what was sent goes back to the system block by block.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/command/run/client_memory.hpp>

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sepal::session {

// Confined to its worker.
class Outbox {
 public:
  static constexpr std::size_t block_bytes_max = mapped_allocation_min;

  [[nodiscard]] bool empty() const { return waiting_ == nullptr; }
  [[nodiscard]] std::size_t byte_count() const { return waiting_ == nullptr ? 0 : waiting_->byte_count; }
  // What its blocks take, with the bytes that were sent and the room for more.
  [[nodiscard]] std::size_t memory() const {
    if (waiting_ == nullptr) return 0;
    return waiting_->byte_count +
           static_cast<std::size_t>(command::counted(waiting_->memory - waiting_->byte_count));
  }

  // std::bad_alloc: only a part of the bytes is there, so close the client.
  void append(std::string_view bytes) {
    // Kept once it has bytes: there may be no memory for the first.
    std::unique_ptr<Waiting> first = waiting_ == nullptr ? std::make_unique<Waiting>() : nullptr;
    Waiting& to = first == nullptr ? *waiting_ : *first;
    while (!bytes.empty()) {
      if (to.blocks.empty() || to.blocks.back().size() == block_bytes_max)
        to.memory += to.blocks.emplace_back().capacity();
      std::string& block = to.blocks.back();
      const std::size_t taken = std::min(bytes.size(), block_bytes_max - block.size());
      const std::size_t capacity_before = block.capacity();
      block.append(bytes.substr(0, taken));
      to.memory += block.capacity() - capacity_before;
      to.byte_count += taken;
      bytes.remove_prefix(taken);
      if (first != nullptr) waiting_ = std::move(first);
    }
  }

  // The bytes to send next; not empty() first.
  [[nodiscard]] std::string_view front() const {
    SEPAL_ASSERT(!empty(), "nothing is left to send");
    return std::string_view(waiting_->blocks.front()).substr(waiting_->sent_bytes);
  }
  // So many bytes of front() were sent.
  void sent(std::size_t byte_count) {
    SEPAL_ASSERT(byte_count <= front().size(), "more was sent than there was");
    Waiting& from = *waiting_;
    from.sent_bytes += byte_count;
    from.byte_count -= byte_count;
    if (from.byte_count == 0) {
      waiting_ = nullptr;
      return;
    }
    if (from.sent_bytes < from.blocks.front().size()) return;
    // A full block is mapped by itself (base/free_memory.hpp), so it goes back to the system here.
    from.memory -= from.blocks.front().capacity();
    from.blocks.pop_front();
    from.sent_bytes = 0;
  }

 private:
  struct Waiting {
    std::list<std::string> blocks;  // none is empty
    std::size_t sent_bytes = 0;     // of the first block
    std::size_t byte_count = 0;     // that are not sent
    std::size_t memory = 0;         // the capacity of all blocks
  };
  std::unique_ptr<Waiting> waiting_;  // null: nothing waits, as for most clients
};

}  // namespace sepal::session
