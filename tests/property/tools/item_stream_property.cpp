// The same items are read for any cuts of the source and any sizes of blocks.
#include <rapidcheck.h>

#include "support/catch.hpp"
#include "support/memory_source.hpp"

namespace item_stream_property {

using namespace sepal;
using namespace sepal::tools;
using namespace test;

namespace {

const std::vector<ItemFormat> formats = {ItemFormat::lines, ItemFormat::crlf, ItemFormat::nul,
                                         ItemFormat::length_prefixed};

// Items with lengths near the edges of words and blocks, without the delimiter.
std::vector<std::string> some_items(ItemFormat format) {
  const auto length = rc::gen::weightedOneOf<std::size_t>(
      {{3, rc::gen::inRange<std::size_t>(0, 20)}, {1, rc::gen::inRange<std::size_t>(0, 300)}});
  const auto byte = rc::gen::map(rc::gen::arbitrary<char>(), [format](char c) {
    const bool is_end = is_lines(format) ? c == '\n' || c == '\0' : format == ItemFormat::nul && c == '\0';
    return is_end || (format == ItemFormat::crlf && c == '\r') ? 'x' : c;
  });
  const auto item = rc::gen::mapcat(
      length, [byte](std::size_t bytes) { return rc::gen::container<std::string>(bytes, byte); });
  return *rc::gen::container<std::vector<std::string>>(item);
}

}  // namespace

TEST_CASE("items are read back for any sizes of pieces and blocks") {
  CHECK(rc::check([] {
    const ItemFormat format = *rc::gen::elementOf(formats);
    const auto items = some_items(format);
    const auto pieces = *rc::gen::nonEmpty<std::vector<std::size_t>>(
        rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(1, 50)));
    std::size_t turn = 0;
    auto source =
        std::make_unique<MemorySource>(joined(format, items), [&] { return pieces[turn++ % pieces.size()]; });
    const ItemStreamOptions options{
        .format = format, .block_bytes = *rc::gen::inRange<std::size_t>(1, 400), .item_bytes_max = 400};
    const auto read = read_all(std::move(source), options);
    RC_ASSERT(!read.error);
    RC_ASSERT(read.items == items);
  }));
}

TEST_CASE("items are split as a simple reader of single bytes splits them") {
  CHECK(rc::check([](const std::vector<bool>& delimiters, bool high_bit) {
    // Bytes that differ from the delimiter in one bit: the carries of a word-wise search could confuse them.
    const char delimiter = high_bit ? '\0' : '\n';
    std::string bytes;
    for (const bool is_delimiter : delimiters)
      bytes += is_delimiter ? delimiter : static_cast<char>(delimiter ^ *rc::gen::element(1, 2, 128, 255));
    std::vector<std::string> expected, split;
    std::string item;
    for (const char byte : bytes) {
      if (byte != delimiter) item += byte;
      if (byte == delimiter) expected.push_back(std::exchange(item, ""));
    }
    if (!item.empty()) expected.push_back(item);
    split_at(delimiter, bytes, [&](std::string_view found) { split.emplace_back(found); });
    RC_ASSERT(split == expected);
  }));
}

}  // namespace item_stream_property
