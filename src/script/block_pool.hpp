// Memory for Lua, which allocates and frees many small blocks for each script. Freed blocks of a size are
// kept in a list for the next one of that size; a general allocator takes five times as long.
//
//     chunk  [link|block|block|block|block| ... not used yet ]   the link leads to the chunk before it
//     lists  16 bytes -> block -> block,  32 bytes -> ..., up to pooled_bytes_max
//
// Chunks go back to the system when the pool is destroyed. Larger blocks are the system's own.
#pragma once

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SEPAL_ASAN_BLOCKS
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SEPAL_ASAN_BLOCKS
#endif

namespace sepal::script {

// AddressSanitizer sees the use of a block that is freed only if the block goes back to the system.
#if defined(SEPAL_ASAN_BLOCKS)
inline constexpr bool pools_blocks = false;
#else
inline constexpr bool pools_blocks = true;
#endif

// Confined to its worker. Sizes are above 0; the caller says how long a block is.
class BlockPool {
 public:
  BlockPool() = default;
  ~BlockPool() {
    // Blocks are not freed one by one: Lua has ended, and none is in use.
    while (chunks_ != nullptr) std::free(std::exchange(chunks_, chunks_->next));
  }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  static constexpr std::size_t pooled_bytes_max = pools_blocks ? 512 : 0;

  // Null: the system has no memory.
  void* allocate(std::size_t bytes) {
    if (bytes > pooled_bytes_max) {
      void* const block = std::malloc(bytes);
      if (block != nullptr) large_bytes_ += bytes;
      return block;
    }
    Block*& list = lists_[list_of(bytes)];
    if (list == nullptr) return carve(list_of(bytes));
    return std::exchange(list, list->next);
  }

  void free(void* block, std::size_t bytes) {
    if (bytes > pooled_bytes_max) {
      SEPAL_ASSERT(large_bytes_ >= bytes, "a large block is freed that the pool does not have");
      large_bytes_ -= bytes;
      return std::free(block);
    }
    Block*& list = lists_[list_of(bytes)];
    list = new (block) Block{list};
  }

  // As allocate(); the block keeps its contents. Null: it stays as it was. Never null where the block gets
  // smaller: Lua relies on that.
  void* resize(void* block, std::size_t old_bytes, std::size_t new_bytes) {
    if (old_bytes > pooled_bytes_max && new_bytes > pooled_bytes_max) {
      SEPAL_ASSERT(large_bytes_ >= old_bytes, "a large block is resized that the pool does not have");
      void* const moved = std::realloc(block, new_bytes);
      if (moved == nullptr && new_bytes > old_bytes) return nullptr;
      large_bytes_ += new_bytes - old_bytes;
      return moved == nullptr ? block : moved;
    }
    // The block is as long as its list says, so a small change of size changes nothing.
    if (old_bytes <= pooled_bytes_max && new_bytes <= pooled_bytes_max &&
        list_of(old_bytes) == list_of(new_bytes))
      return block;
    // Allocated before the old block is freed: if there is no memory, the old block must stay as it was.
    void* const moved = allocate(new_bytes);
    if (moved == nullptr) {
      if (new_bytes > old_bytes) return nullptr;
      // The block stays, and joins the list of its new size when it is freed. What was a large block is then
      // the process's for ever: that is less than losing track of its size.
      if (old_bytes > pooled_bytes_max) large_bytes_ -= old_bytes;
      return block;
    }
    std::memcpy(moved, block, std::min(old_bytes, new_bytes));
    free(block, old_bytes);
    return moved;
  }

  // What the chunks take, with blocks that are free.
  [[nodiscard]] std::uint64_t chunk_bytes() const { return chunk_count_ * chunk_bytes_each; }
  // What the pool has from the system.
  [[nodiscard]] std::uint64_t held_bytes() const { return chunk_bytes() + large_bytes_; }

 private:
  struct Block {
    Block* next;
  };
  static constexpr std::size_t step_bytes = 16;  // also the alignment of each block
  static constexpr std::size_t chunk_bytes_each = std::size_t{64} << 10;
  static_assert(sizeof(Block) <= step_bytes && pooled_bytes_max % step_bytes == 0);
  static_assert(chunk_bytes_each % step_bytes == 0 && step_bytes + pooled_bytes_max <= chunk_bytes_each);

  static std::size_t list_of(std::size_t bytes) { return (bytes - 1) / step_bytes; }

  void* carve(std::size_t list) {
    SEPAL_ASSERT(list < lists_.size() && used_bytes_ <= chunk_bytes_each,
                 "a block of a size that has no list, or behind the end of its chunk");
    const std::size_t bytes = (list + 1) * step_bytes;
    if (chunks_ == nullptr || chunk_bytes_each - used_bytes_ < bytes) {
      // A list of chunks elsewhere would take memory, too.
      void* const chunk = std::malloc(chunk_bytes_each);
      if (chunk == nullptr) return nullptr;
      chunks_ = new (chunk) Block{chunks_};
      ++chunk_count_;
      // The link takes a whole step, so that the blocks behind it keep their alignment. What was left of
      // the chunk before stays unused.
      used_bytes_ = step_bytes;
    }
    void* const block = reinterpret_cast<std::byte*>(chunks_) + used_bytes_;
    used_bytes_ += bytes;
    return block;
  }

  std::array<Block*, pooled_bytes_max / step_bytes> lists_{};
  Block* chunks_ = nullptr;  // the last one
  std::uint64_t chunk_count_ = 0;
  std::size_t used_bytes_ = 0;     // of the last chunk
  std::uint64_t large_bytes_ = 0;  // of blocks that are not pooled
};

}  // namespace sepal::script
