// Items from one source, in blocks that end where an item ends.
//
//     source    | item | item | item | item | item |
//     block     | item | item |
//     carried                 | it
//     block                   | item | item | item |
#pragma once

#include <sepal/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tools/build/byte_source.hpp"
#include "tools/build/item_format.hpp"

namespace sepal::tools {

struct ItemStreamOptions {
  ItemFormat format = ItemFormat::lines;
  std::size_t block_bytes = 512 << 10;  // the size of a usual block, which fits into a core's cache
  // Clients cannot ask for longer items (resp::ParserLimits::bulk_bytes_max). At least block_bytes.
  std::size_t item_bytes_max = std::size_t{512} << 20;
};

// Holds whole items. Confined. The buffer is kept from one use to the next.
class ItemBlock {
 public:
  [[nodiscard]] std::string_view bytes() const { return {buffer_.get(), used_}; }

 private:
  friend class ItemStream;
  // Keeps the bytes that are in use.
  void grow(std::size_t capacity);
  void append(std::string_view bytes);
  [[nodiscard]] std::span<char> room() const { return {buffer_.get() + used_, capacity_ - used_}; }

  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

// Confined. Blocks.
class ItemStream {
 public:
  ItemStream(std::unique_ptr<ByteSource> source, const ItemStreamOptions& options);

  // Fills a block with at least one item; false at the end. Errors: too_large (an item), damaged (the source
  // ends within an item, or a line has a zero byte), and those of the source. An error comes after all whole
  // items before it. No error names the source.
  Result<bool> next(ItemBlock& block);

  [[nodiscard]] std::uint64_t position() const { return source_->position(); }

 private:
  void fill(ItemBlock& block);
  void stop_at_zero(ItemBlock& block);
  bool cut(ItemBlock& block, bool at_end);
  [[nodiscard]] std::optional<Error> refusal(const ItemBlock& block, bool at_end) const;

  std::unique_ptr<ByteSource> source_;
  ItemStreamOptions options_;
  std::string carried_;  // the beginning of an item
  bool ended_ = false;
  std::optional<Error> failure_;  // behind the items so far
};

}  // namespace sepal::tools
