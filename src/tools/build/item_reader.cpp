#include "tools/build/item_reader.hpp"

#include <sepal/base/assert.hpp>

#include <utility>

namespace sepal::tools {

ItemReader::ItemReader(std::vector<std::string> paths, const ItemStreamOptions& options)
    : paths_(std::move(paths)),
      options_(options),
      item_counts_(std::make_unique<std::atomic<std::uint64_t>[]>(paths_.size())) {}

bool ItemReader::next(NumberedBlock& block) {
  const MutexLock lock(mutex_);
  if (error_ || stopped_.load(std::memory_order_relaxed)) return false;
  // Reads and decompresses under the lock, so the blocks have their numbers in the order of the input. The
  // other threads work on their blocks meanwhile.
  const auto read_one = read(block);
  if (!read_one) error_ = read_one.error();
  return read_one && *read_one;
}

Result<bool> ItemReader::read(NumberedBlock& block) {
  for (; input_ < paths_.size(); ++input_) {
    if (!stream_) {
      auto source = open_input(paths_[input_], options_.format);
      if (!source) return source.error();
      stream_.emplace(std::move(*source), options_);
    }
    auto more = stream_->next(block);
    position_.store(earlier_position_ + stream_->position(), std::memory_order_relaxed);
    if (!more) return more;
    if (*more) {
      block.input = input_;
      block.number = next_number_++;
      return true;
    }
    // The input has ended. The next round of the loop opens the next one.
    earlier_position_ += stream_->position();
    stream_.reset();
  }
  return false;
}

void ItemReader::counted(const NumberedBlock& block, std::uint64_t item_count) {
  SEPAL_ASSERT(block.input < paths_.size(), "items are counted for an input that is not there");
  item_counts_[block.input].fetch_add(item_count, std::memory_order_relaxed);
}

std::uint64_t ItemReader::item_count() const {
  std::uint64_t sum = 0;
  for (std::size_t input = 0; input < paths_.size(); ++input) sum += item_counts_[input];
  return sum;
}

Result<void> ItemReader::outcome() const {
  const MutexLock lock(mutex_);
  if (!error_) return {};
  // These errors come behind all whole items of the input, and all of these are counted by now. So their
  // count is the index of the item that the error is about.
  const bool of_item = error_->code == Errc::too_large || error_->code == Errc::damaged;
  const std::string where = of_item ? place(input_, item_counts_[input_]) : input_name(paths_[input_]);
  return fail(error_->code, where + ": " + error_->detail);
}

std::string ItemReader::place_of(std::uint64_t item_index) const {
  std::size_t input = 0;
  for (; input + 1 < paths_.size() && item_index >= item_counts_[input]; ++input)
    item_index -= item_counts_[input];
  return place(input, item_index);
}

std::string ItemReader::place(std::size_t input, std::uint64_t item_index) const {
  SEPAL_ASSERT(input < paths_.size(), "an item of an input that is not there");
  // In lines, an item's number is a line number, and "list.txt:17" is what editors understand.
  const char* const separator = is_lines(options_.format) ? ":" : ": item ";
  return input_name(paths_[input]) + separator + std::to_string(item_index + 1);
}

}  // namespace sepal::tools
