#include "tools/build/item_stream.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <utility>

namespace sepal::tools {

void ItemBlock::grow(std::size_t capacity) {
  if (capacity <= capacity_) return;
  // Not zeroed: the source overwrites all that bytes() shows.
  auto larger = std::make_unique_for_overwrite<char[]>(capacity);
  std::copy_n(buffer_.get(), used_, larger.get());
  buffer_ = std::move(larger);
  capacity_ = capacity;
}

void ItemBlock::append(std::string_view bytes) {
  grow(used_ + bytes.size());
  std::ranges::copy(bytes, room().begin());
  used_ += bytes.size();
}

ItemStream::ItemStream(std::unique_ptr<ByteSource> source, const ItemStreamOptions& options)
    : source_(std::move(source)), options_(options) {
  SEPAL_ASSERT(options.block_bytes <= options.item_bytes_max, "a block is no longer than the longest item");
  SEPAL_ASSERT(source_ != nullptr && options.block_bytes > 0,
               "items come from no source, or in blocks of no bytes");
}

// Fills the block, cuts it behind its last whole item, and carries the rest into the next block. If the block
// has no whole item, it grows and is filled further. refusal() bounds that: no item is longer than
// item_bytes_max.
Result<bool> ItemStream::next(ItemBlock& block) {
  block.used_ = 0;
  block.grow(options_.block_bytes);
  block.append(carried_);
  carried_.clear();
  for (;;) {
    fill(block);
    stop_at_zero(block);
    const bool at_end = ended_;
    if (cut(block, at_end)) return true;
    // Whole items before a failure came first. This call has found none, so the failure is next.
    if (failure_) return *failure_;
    if (at_end && block.used_ == 0) return false;
    if (const auto refused = refusal(block, at_end)) return *refused;
    block.grow(std::min(2 * block.capacity_, options_.item_bytes_max + framing_bytes(options_.format)));
  }
}

void ItemStream::fill(ItemBlock& block) {
  while (!ended_ && !block.room().empty()) {
    const auto count = source_->read(block.room());
    if (!count) failure_ = count.error();
    ended_ = !count || *count == 0;
    if (!count) continue;
    SEPAL_ASSERT(*count <= block.room().size(), "a source gives more bytes than there is room for");
    block.used_ += *count;
  }
}

// Text has no zero bytes. UTF-16 has, binary data has, and a list for another format has: read as lines,
// these would become wrong items without a word. The lines before the first zero byte are whole.
void ItemStream::stop_at_zero(ItemBlock& block) {
  if (!is_lines(options_.format)) return;
  const std::size_t zero = block.bytes().find('\0');
  if (zero == std::string_view::npos) return;
  failure_ =
      fail(Errc::damaged,
           "has a zero byte, and lines of text have none: is it UTF-16, binary, or a list for --format "
           "nul or length?");
  ended_ = true;
  // rfind() gives npos where there is no line before, and the sum is 0.
  block.used_ = block.bytes().substr(0, zero).rfind('\n') + 1;
}

// Leaves the whole items in the block and carries the rest over. False: the block has no whole item.
bool ItemStream::cut(ItemBlock& block, bool at_end) {
  // The last item may lack its delimiter. After a failure of the source the rest may be half an item, and a
  // length tells by itself whether its item is whole.
  const bool rest_is_item = at_end && !failure_ && options_.format != ItemFormat::length_prefixed;
  const std::size_t whole_bytes =
      rest_is_item ? block.used_ : whole_items_bytes(options_.format, block.bytes(), options_.item_bytes_max);
  if (whole_bytes == 0) return false;
  SEPAL_ASSERT(whole_bytes <= block.used_, "the items of a block reach behind its end");
  carried_ = block.bytes().substr(whole_bytes);
  block.used_ = whole_bytes;
  return true;
}

// The error of a block that has no whole item and will have none. Nothing: reading on may complete its item.
std::optional<Error> ItemStream::refusal(const ItemBlock& block, bool at_end) const {
  const std::string_view bytes = block.bytes();
  const std::string limit = std::to_string(options_.item_bytes_max) + " bytes";
  if (options_.format != ItemFormat::length_prefixed) {
    if (bytes.size() <= options_.item_bytes_max) return std::nullopt;
    return fail(Errc::too_large, "is longer than " + limit);
  }
  if (bytes.size() >= sizeof(ItemLength)) {
    const auto length = load_little_endian<ItemLength>(bytes.data());
    if (length > options_.item_bytes_max)
      return fail(Errc::too_large,
                  "has a length of " + std::to_string(length) + " bytes, more than " + limit);
  }
  if (!at_end) return std::nullopt;
  return fail(Errc::damaged, "is not whole: the input ends within it");
}

}  // namespace sepal::tools
