// Items from a list of inputs, in blocks, for threads to take in turn.
//
// A thread that takes a block reads it itself, into a buffer of its own: one thread at a time reads, and
// decompresses, while the others work on what they have. So there is no queue, and memory is a block for each
// thread.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "item_stream.hpp"

namespace sepal::tools {

struct NumberedBlock : ItemBlock {
  std::uint32_t number = 0;  // over all inputs, from 0, in their order
  std::size_t input = 0;
};

// Synchronised. Blocks.
class ItemReader {
 public:
  ItemReader(std::vector<std::string> paths, const ItemStreamOptions& options);

  // False at the end, after stop(), and after an error, which outcome() tells.
  bool next(NumberedBlock& block);
  // To be told of every block: how many items there were in it.
  void counted(const NumberedBlock& block, std::uint64_t item_count);
  // No more blocks: somebody else failed.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

  // Of all inputs so far, as ByteSource::position().
  [[nodiscard]] std::uint64_t position() const { return position_.load(std::memory_order_relaxed); }

  // The rest is for when no thread works on a block any more.

  [[nodiscard]] std::uint64_t item_count() const;
  // The error with its input and item: "list.txt:17: is longer than ...".
  [[nodiscard]] Result<void> outcome() const;
  // "list.txt:17", for an item by its index over all inputs.
  [[nodiscard]] std::string place_of(std::uint64_t item_index) const;

 private:
  Result<bool> read(NumberedBlock& block) SEPAL_REQUIRES(mutex_);
  [[nodiscard]] std::string place(std::size_t input, std::uint64_t item_index) const;

  const std::vector<std::string> paths_;
  const ItemStreamOptions options_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> item_counts_;  // of each input
  std::atomic<std::uint64_t> position_{0};
  std::atomic<bool> stopped_{false};

  mutable Mutex mutex_;  // Held while reading; no other is taken meanwhile.
  std::optional<ItemStream> stream_ SEPAL_GUARDED_BY(mutex_);
  std::size_t input_ SEPAL_GUARDED_BY(mutex_) = 0;               // the stream's, or the next to open
  std::uint64_t earlier_position_ SEPAL_GUARDED_BY(mutex_) = 0;  // of the inputs before
  std::uint32_t next_number_ SEPAL_GUARDED_BY(mutex_) = 0;
  std::optional<Error> error_ SEPAL_GUARDED_BY(mutex_);  // of the input
};

}  // namespace sepal::tools
