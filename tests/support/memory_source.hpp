// Sources of items in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tools/build/byte_source.hpp"
#include "tools/build/item_stream.hpp"

namespace sepal::test {

// Gives its bytes in pieces. At the end it can fail, if the test wants that.
class MemorySource final : public tools::ByteSource {
 public:
  // `piece` says how many bytes a read may give; at least one.
  explicit MemorySource(
      std::string bytes, std::function<std::size_t()> piece = [] { return std::size_t{1} << 30; },
      std::optional<Error> failure = {})
      : bytes_(std::move(bytes)), piece_(std::move(piece)), failure_(std::move(failure)) {}

  Result<std::size_t> read(std::span<char> into) override {
    const std::size_t count = std::min({into.size(), bytes_.size() - at_, piece_()});
    if (count == 0 && failure_) return *failure_;
    std::copy_n(bytes_.data() + at_, count, into.data());
    at_ += count;
    return count;
  }
  [[nodiscard]] std::uint64_t position() const override { return at_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
  std::function<std::size_t()> piece_;
  std::optional<Error> failure_;
};

struct ReadItems {
  std::vector<std::string> items;
  std::optional<Error> error;
};

// All items of a stream, block by block.
inline ReadItems read_all(std::unique_ptr<tools::ByteSource> source,
                          const tools::ItemStreamOptions& options) {
  tools::ItemStream stream(std::move(source), options);
  tools::ItemBlock block;
  ReadItems read;
  for (;;) {
    const auto more = stream.next(block);
    if (!more) read.error = more.error();
    if (!more || !*more) return read;
    tools::for_each_item(options.format, block.bytes(),
                         [&](std::string_view item) { read.items.emplace_back(item); });
  }
}

// The items as bytes of a file.
inline std::string joined(tools::ItemFormat format, const std::vector<std::string>& items) {
  std::string bytes;
  for (const std::string& item : items) {
    if (format == tools::ItemFormat::length_prefixed) {
      char length[sizeof(tools::ItemLength)];
      store_little_endian(length, static_cast<tools::ItemLength>(item.size()));
      bytes.append(length, sizeof length);
    }
    bytes += item;
    if (format == tools::ItemFormat::lines) bytes += '\n';
    if (format == tools::ItemFormat::crlf) bytes += "\r\n";
    if (format == tools::ItemFormat::nul) bytes += '\0';
  }
  return bytes;
}

}  // namespace sepal::test
