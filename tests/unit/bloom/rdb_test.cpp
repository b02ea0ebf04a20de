// Dumps that Redis made of RedisBloom's filters, and changed dumps.
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/rdb/dump.hpp>
#include <sepal/value/image.hpp>

#include "support/catch.hpp"
#include "support/rdb_dump.hpp"
#include "support/redisbloom_filter.hpp"

namespace rdb_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;
using namespace test;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

Result<FilterPtr> load(std::string_view dump, const FilterLimits& limits = plenty) {
  // Memory of exactly the needed size, so that a sanitizer notices a read beyond its end.
  const std::vector<char> exact(dump.begin(), dump.end());
  const auto decoded = decode_rdb_dump(std::as_bytes(std::span(exact)), limits.layers_max);
  if (!decoded) return decoded.error();
  return filter_of(*decoded, limits);
}

bool has(const Filter& filter, std::string_view item) {
  bool present = false;
  filter.contains({&item, 1}, {&present, 1});
  return present;
}

RedisBloomFilter two_layers() {
  RedisBloomFilter filter = test::empty_redisbloom({.error_rate = 0.01, .capacity = 1000, .expansion = 2});
  filter.layers.push_back(
      test::empty_redisbloom({.error_rate = 0.005, .capacity = 2000, .expansion = 2}).layers[0]);
  return filter;
}

// Bits that can be packed well, but are not all equal.
std::vector<std::string> bits_of(const RedisBloomFilter& filter) {
  std::vector<std::string> bits;
  for (const RedisBloomLayer& layer : filter.layers) {
    bits.emplace_back(layer.byte_count, '\0');
    for (std::size_t at = 0; at < layer.byte_count; at += 37)
      bits.back()[at] = static_cast<char>(at + bits.size());
  }
  return bits;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

std::string bits_in(const Filter& filter) {
  const std::vector<std::byte> image = value::image_of(filter);
  const std::size_t header = image_bytes(filter.layer_count());
  return {reinterpret_cast<const char*>(image.data()) + header, image.size() - header};
}

}  // namespace

TEST_CASE("the checksum of RDB dumps is CRC-64 of Jones") {
  CHECK(rdb::checksum(bytes_of("")) == 0);
  CHECK(rdb::checksum(bytes_of("123456789")) == 0xe9c6d914c4b8d9ca);
}

TEST_CASE("recorded dumps of Redis are restored to the right filters") {
  const auto& dump = test::recorded_rdb_dumps()[GENERATE(0u, 1u, 2u)];
  CAPTURE(dump.name);
  CHECK(rdb::begins(bytes_of(dump.bytes), rdb::module_type));
  const auto filter = load(dump.bytes);
  REQUIRE(filter);
  CHECK((*filter)->item_count() == dump.item_count);
  CHECK((*filter)->layer_count() == dump.layer_count);
  for (const char* item : {"a", "b", "c"}) CHECK(has(**filter, item));
  CHECK_FALSE(has(**filter, "zz"));
}

TEST_CASE("a recorded dump that is cut off or has any bit changed is refused") {
  const auto& dump = test::recorded_rdb_dumps()[GENERATE(0u, 1u, 2u)];
  for (std::size_t at = 0; at < dump.bytes.size(); ++at) {
    REQUIRE(load(std::string_view(dump.bytes).substr(0, at)).error().code == Errc::damaged);
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = dump.bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      REQUIRE(load(changed).error().code == Errc::damaged);
    }
  }
  CHECK(load(dump.bytes + "x").error().code == Errc::damaged);
}

TEST_CASE("contents with a right checksum are checked as well") {
  const auto& dump = test::recorded_rdb_dumps()[GENERATE(0u, 1u, 2u)];
  const std::string_view sealed = std::string_view(dump.bytes).substr(0, dump.bytes.size() - 8);
  RdbText text;
  for (std::size_t at = 0; at < sealed.size(); ++at) {
    text.bytes = sealed.substr(0, at);
    const auto cut = load(text.sealed());
    REQUIRE(cut.error().code == (at < 2 ? Errc::damaged : Errc::out_of_range));
    for (int bit = 0; bit < 8; ++bit) {
      text.bytes = sealed;
      text.bytes[at] = static_cast<char>(text.bytes[at] ^ (1 << bit));
      const auto changed = load(text.sealed());
      // The changed dump is another filter, which answers look-ups, or it is refused.
      if (changed) {
        has(**changed, "a");
      } else {
        REQUIRE(changed.error().code != Errc::damaged);
      }
    }
  }
  text.bytes = std::string(sealed) + "x";
  CHECK(load(text.sealed()).error().code == Errc::out_of_range);
}

TEST_CASE("lengths of any width, packed bits and later RDB versions are accepted") {
  const RedisBloomFilter filter = two_layers();
  const auto bits = bits_of(filter);
  RdbTextOptions options;
  options.length_bytes_min = GENERATE(1, 2, 5, 9);
  options.rdb_version = static_cast<std::uint16_t>(GENERATE(10, 0x1ff));
  if (GENERATE(false, true)) options.write_bits = test::write_packed;
  const auto loaded = load(test::rdb_dump(filter, bits, options));
  REQUIRE(loaded);
  CHECK(bits_in(**loaded) == joined(bits));
  CHECK((*loaded)->options().expansion == 2);
}

TEST_CASE("other modules and unknown encodings of RedisBloom are refused") {
  const RedisBloomFilter filter = two_layers();
  RdbTextOptions options;
  options.module_id = GENERATE(0x3016e5a289bef803, 0x3016e5a289bef805, 0x3016e5a289bef404, 0);
  CHECK(load(test::rdb_dump(filter, bits_of(filter), options)).error().code == Errc::out_of_range);
}

TEST_CASE("bits that do not unpack to the layer's size are refused") {
  const RedisBloomFilter filter = two_layers();
  const std::array<std::function<void(RdbText&, std::string_view)>, 8> writers{{
      [](RdbText& text, std::string_view bits) { text.packed("", bits.size()); },
      [](RdbText& text, std::string_view) { text.packed("", 0); },
      // Refers to bytes before the beginning.
      [](RdbText& text, std::string_view bits) { text.packed(std::string(60, '\xe0'), bits.size()); },
      // A literal run longer than the packed bytes.
      [](RdbText& text, std::string_view bits) { text.packed(std::string(60, '\x1f'), bits.size()); },
      // Unpacks to too few bytes, although the announced number is right.
      [](RdbText& text, std::string_view bits) {
        text.packed(std::string(20, '\0') + std::string(20, 'x'), bits.size());
      },
      // Unpacks to too many bytes.
      [](RdbText& text, std::string_view bits) {
        std::string packed;
        for (std::size_t at = 0; at <= bits.size(); ++at) packed += std::string(2, '\0');
        text.packed(packed, bits.size());
      },
      // Announces more bytes than any packing could give.
      [](RdbText& text, std::string_view) { text.packed("x", std::uint64_t{1} << 62); },
      [](RdbText& text, std::string_view bits) { text.string(bits.substr(1)); },
  }};
  const std::size_t index = GENERATE(0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u);
  CAPTURE(index);
  const std::string dump = test::rdb_dump(filter, bits_of(filter), {.write_bits = writers[index]});
  CHECK(load(dump).error().code == Errc::out_of_range);
}

TEST_CASE("layers and bytes of a dump are checked against the limits") {
  const RedisBloomFilter filter = two_layers();
  const std::string dump = test::rdb_dump(filter, bits_of(filter));
  CHECK(load(dump, {.bytes_max = plenty.bytes_max, .layers_max = 2}));
  CHECK(load(dump, {.bytes_max = plenty.bytes_max, .layers_max = 1}).error().code == Errc::layer_limit);
  CHECK(load(dump, {.bytes_max = 1000, .layers_max = 2}).error().code == Errc::too_large);
}

TEST_CASE("a dump says how much memory its unpacking takes") {
  const RedisBloomFilter filter = two_layers();
  const auto bits = bits_of(filter);
  const std::string packed = test::rdb_dump(filter, bits, {.write_bits = test::write_packed});
  CHECK(decode_rdb_dump(bytes_of(test::rdb_dump(filter, bits)), 2)->memory_bytes() == joined(bits).size());
  CHECK(decode_rdb_dump(bytes_of(packed), 2)->memory_bytes() == joined(bits).size());
  CHECK(packed.size() * rdb::growth_max >= joined(bits).size());
}

}  // namespace rdb_test
