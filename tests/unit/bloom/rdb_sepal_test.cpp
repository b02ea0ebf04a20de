// Dumps of Sepal's own filters: what sepald and sepal.so write, and changed ones.
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/value/image.hpp>
#include <sepal/value/module_payload.hpp>

#include "support/catch.hpp"
#include "support/rdb_dump.hpp"

namespace rdb_sepal_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;
using namespace test;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

FilterPtr grown(std::uint64_t capacity, std::uint64_t item_count) {
  FilterPtr filter = *Filter::create({.error_rate = 0.01, .capacity = capacity, .seed = 5}, plenty);
  for (std::uint64_t i = 0; i < item_count; ++i) (void)filter->add_alone(std::to_string(i), plenty);
  return filter;
}

std::string dump_of(const FilterPtr& filter) {
  const value::Frozen frozen{value::ValuePtr(filter)};
  std::string dump;
  const auto pieces = value::module_payload_of(frozen.view(), {});
  for (const std::string& piece : *pieces) dump += piece;
  CHECK(dump.size() == value::module_payload_bytes(frozen.view()));
  return dump;
}

Result<FilterPtr> load(std::string_view dump, const FilterLimits& limits = plenty) {
  // Memory of exactly the needed size, so that a sanitizer notices a read beyond its end.
  const std::vector<char> exact(dump.begin(), dump.end());
  const auto decoded = decode_rdb_dump(std::as_bytes(std::span(exact)), limits.layers_max);
  if (!decoded) return decoded.error();
  return filter_of(*decoded, limits);
}

std::string header_text(const ImageHeader& header) {
  const auto bytes = encode(header);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A dump with this header and these strings.
std::string dump_with(const std::string& header, const std::vector<std::string>& strings,
                      std::uint64_t id = sepal_id) {
  RdbText text;
  text.bytes = "\x07";
  text.length(id);
  text.string(header);
  for (const std::string& string : strings) text.string(string);
  text.length(0);
  text.bytes += std::string("\x09\0", 2);
  return text.sealed();
}

}  // namespace

TEST_CASE("a dump restores a filter of any size, with its bits and counts") {
  // One layer, several layers, several pieces, and a last piece that is whole.
  for (const auto& filter : {grown(100, 50), grown(10, 2000), grown(3'000'000, 5000)}) {
    const auto restored = load(dump_of(filter));
    REQUIRE(restored);
    CHECK(value::image_of(**restored) == value::image_of(*filter));
    CHECK(rdb_bitmap_bytes_max(bytes_of(dump_of(filter)), 64) == header_of(*filter).bitmap_bytes());
  }
}

TEST_CASE("an empty string of a dump stands for zeros") {
  const FilterPtr filter = grown(3'000'000, 0);
  const std::uint64_t bitmap_bytes = header_of(*filter).bitmap_bytes();
  const std::vector<std::string> nothing((bitmap_bytes + rdb_piece_bytes - 1) / rdb_piece_bytes);
  const auto restored = load(dump_with(header_text(header_of(*filter)), nothing));
  REQUIRE(restored);
  CHECK(value::image_of(**restored) == value::image_of(*filter));
}

TEST_CASE("a dump with any byte changed, cut off or added is damaged") {
  const std::string dump = dump_of(grown(20, 30));
  for (std::size_t at = 0; at < dump.size(); ++at) {
    std::string changed = dump;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK(load(changed).error().code == Errc::damaged);
    CHECK(load(std::string_view(dump).substr(0, at)).error().code == Errc::damaged);
  }
  CHECK(load(dump + "x").error().code == Errc::damaged);
}

TEST_CASE("a sealed dump that no server writes is refused, and nothing is allocated for it") {
  const FilterPtr filter = grown(20, 5);
  const ImageHeader header = header_of(*filter);
  const std::string head = header_text(header);
  const std::string bits(header.bitmap_bytes(), '\0');
  REQUIRE(load(dump_with(head, {bits})));

  ImageHeader giant = header;
  giant.layers[0].plan.block_count = std::uint64_t{1} << 50;
  // The version and the hash of a string.
  std::string string = head;
  string[4] = 3;
  string[6] = 2;
  ImageHeader crowded = header;
  crowded.layers[0].item_count = crowded.layers[0].plan.capacity + 1;
  for (const std::string& dump :
       {dump_with(head, {}), dump_with(head, {bits, ""}), dump_with(head, {bits + "x"}),
        dump_with(head, {bits.substr(1)}), dump_with(head + "x", {bits}), dump_with("", {bits}),
        dump_with(head.substr(1), {bits}), dump_with(head, {bits}, sepal_id + 1),
        dump_with(header_text(giant), {bits}), dump_with(string, {bits}),
        dump_with(header_text(crowded), {bits})}) {
    const auto refused = load(dump);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::out_of_range);
  }
  CHECK(load(dump_with(head, {bits}), {.bytes_max = 8}).error().code == Errc::too_large);
}

}  // namespace rdb_sepal_test
