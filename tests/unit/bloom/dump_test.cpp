#include <sepal/base/endian.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/bloom/filter/dump.hpp>

#include "support/catch.hpp"

namespace dump_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};
constexpr std::uint64_t process = 7;

FilterPtr filter_of(std::uint64_t capacity, int items) {
  const auto filter = *Filter::create({.error_rate = 0.001, .capacity = capacity, .seed = 3}, plenty);
  for (int i = 0; i < items; ++i) (void)filter->add_alone("item " + std::to_string(i), plenty);
  return filter;
}

std::vector<std::byte> bits_of(const Filter& filter) {
  std::vector<std::byte> all;
  for (const LayerView& layer : filter.layers()) {
    std::vector<std::byte> bytes(layer.plan().byte_count());
    layer.copy_bits(0, bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

TEST_CASE("the pieces of a dump are the image header and all bits, each once") {
  for (const auto& [capacity, items] :
       {std::pair{10, 0}, {100, 90}, {5, 2000}, {600'000, 100}, {2000, 100'000}}) {
    CAPTURE(capacity, items);
    const auto filter = filter_of(static_cast<std::uint64_t>(capacity), items);
    const auto header_piece = dump_header(*filter, process);
    const auto header = decode_dump_piece(header_piece, 64);
    REQUIRE(header);
    REQUIRE(header->image);
    CHECK(encode(*header->image) == encode(header_of(*filter)));
    CHECK(header->data.empty());
    std::vector<std::byte> bits;
    while (const auto dumped = dump_data(*filter, bits.size(), process)) {
      const auto piece = decode_dump_piece(dumped->piece, 64);
      REQUIRE(piece);
      CHECK(piece->identity == header->identity);
      CHECK(piece->offset == bits.size());
      CHECK(piece->total_bytes == header->total_bytes);
      CHECK(piece->image.has_value() == bits.empty());
      CHECK(piece->data.size() <= dump_data_bytes_max);
      bits.insert(bits.end(), piece->data.begin(), piece->data.end());
      CHECK(dumped->end == bits.size());
    }
    CHECK(bits == bits_of(*filter));
  }
}

TEST_CASE("a dump can be asked for from any offset") {
  const auto filter = filter_of(100, 50);
  const std::uint64_t total = bits_of(*filter).size();
  for (std::uint64_t offset = 0; offset < total; ++offset) {
    const auto dumped = dump_data(*filter, offset, process);
    REQUIRE(dumped);
    CHECK(decode_dump_piece(dumped->piece, 64)->offset == offset / 8 * 8);
    CHECK(dumped->end == total);
  }
  CHECK_FALSE(dump_data(*filter, total, process));
  CHECK_FALSE(dump_data(*filter, ~std::uint64_t{0}, process));
}

TEST_CASE("pieces of other filters and other processes have another identity") {
  const auto identity = [](const Filter& filter, std::uint64_t of_process) {
    return decode_dump_piece(dump_header(filter, of_process), 64)->identity;
  };
  const auto big = filter_of(600'000, 1);
  CHECK(identity(*big, 1) == identity(*big, 1));
  CHECK(identity(*big, 1) != identity(*big, 2));
  CHECK(identity(*big, 1) != identity(*filter_of(600'000, 1), 1));
}

TEST_CASE("a piece of a dump with any byte changed, or cut, is refused") {
  const auto filter = filter_of(20, 20);
  for (const auto& sound : {dump_header(*filter, process), dump_data(*filter, 0, process)->piece}) {
    REQUIRE(decode_dump_piece(sound, 64));
    for (std::size_t at = 0; at < sound.size(); ++at) {
      auto changed = sound;
      changed[at] ^= std::byte{0x10};
      const auto refused = decode_dump_piece(changed, 64);
      REQUIRE_FALSE(refused);
      // The version is looked at before the checksum.
      const bool is_version = at == 4 || at == 5;
      CHECK(is_version == (refused.error().detail.find("unknown version") != std::string::npos));
      CHECK_FALSE(decode_dump_piece(std::span(sound).first(at), 64));
    }
    auto longer = sound;
    longer.push_back({});
    CHECK_FALSE(decode_dump_piece(longer, 64));
  }
}

TEST_CASE("a piece that contradicts itself is refused, whatever its checksum") {
  const auto sound = dump_data(*filter_of(20, 20), 0, process)->piece;
  const auto with = [&](std::size_t offset, auto value) {
    auto bytes = sound;
    store_little_endian(bytes.data() + offset, value);
    const auto sealed = std::span(bytes).first(bytes.size() - 8);
    store_little_endian(bytes.data() + sealed.size(), Checksum::of(sealed));
    return static_cast<bool>(decode_dump_piece(bytes, 64));
  };
  CHECK(with(8, std::uint64_t{5}));         // identity
  CHECK_FALSE(with(4, std::uint16_t{2}));   // version
  CHECK_FALSE(with(6, std::uint16_t{1}));   // flags
  CHECK_FALSE(with(16, std::uint64_t{8}));  // offset
  CHECK_FALSE(with(16, ~std::uint64_t{0}));
  CHECK_FALSE(with(24, std::uint64_t{8}));  // total
  CHECK_FALSE(with(24, ~std::uint64_t{0}));
  CHECK_FALSE(with(32, std::uint32_t{0}));  // image header
  CHECK_FALSE(with(36, std::uint32_t{0}));  // data
  CHECK_FALSE(with(36, ~std::uint32_t{0}));
}

}  // namespace

}  // namespace dump_test
