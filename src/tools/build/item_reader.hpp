// Reads items from a list of inputs, in blocks. Threads take the blocks in turn.
//
// A thread that takes a block reads it itself, into a buffer of its own. One thread at a time reads and
// decompresses, while the other threads work on their blocks. So there is no queue, and each thread needs the
// memory of one block.
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

#include "tools/build/item_stream.hpp"

namespace sepal::tools {

struct NumberedBlock : ItemBlock {
  std::uint32_t number = 0;  // over all inputs, from 0, in their order
  std::size_t input = 0;
};

// Synchronised. Blocks.
class ItemReader {
 public:
  ItemReader(std::vector<std::string> paths, const ItemStreamOptions& options);

  // False at the end, after stop(), and after an error, which outcome() returns.
  bool next(NumberedBlock& block);
  // Called for every block, with the number of items in it.
  void counted(const NumberedBlock& block, std::uint64_t item_count);
  // Ends the blocks, because a caller's work has failed.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

  // The sum over all inputs so far of ByteSource::position().
  [[nodiscard]] std::uint64_t position() const { return position_.load(std::memory_order_relaxed); }

  // The members below are called when no thread works on a block any more.

  [[nodiscard]] std::uint64_t item_count() const;
  // The error, with its input and item: "list.txt:17: is longer than ...".
  [[nodiscard]] Result<void> outcome() const;
  // "list.txt:17", for an item by its index over all inputs.
  [[nodiscard]] std::string place_of(std::uint64_t item_index) const;

 private:
  Result<bool> read(NumberedBlock& block) SEPAL_REQUIRES(mutex_);
  [[nodiscard]] std::string place(std::size_t input, std::uint64_t item_index) const;

  const std::vector<std::string> paths_;
  const ItemStreamOptions options_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> item_counts_;  // one for each input
  std::atomic<std::uint64_t> position_{0};
  std::atomic<bool> stopped_{false};

  mutable Mutex mutex_;  // Held while reading; no other lock is taken inside.
  std::optional<ItemStream> stream_ SEPAL_GUARDED_BY(mutex_);
  std::size_t input_ SEPAL_GUARDED_BY(mutex_) = 0;  // the stream's input, or the next one to open
  std::uint64_t earlier_position_ SEPAL_GUARDED_BY(mutex_) = 0;  // the sum for the inputs before this one
  std::uint32_t next_number_ SEPAL_GUARDED_BY(mutex_) = 0;
  std::optional<Error> error_ SEPAL_GUARDED_BY(mutex_);  // the error of an input
};

}  // namespace sepal::tools
