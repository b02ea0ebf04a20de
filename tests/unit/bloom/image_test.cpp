#include <sepal/bloom/filter/image.hpp>
#include <sepal/value/image.hpp>

#include "support/catch.hpp"

namespace image_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr char digits[] = "0123456789abcdef";
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

// A filter with twenty-five items in layers for 10 and 20.
bloom::FilterPtr sample() {
  auto filter = Filter::create(
      {.error_rate = 0.01, .capacity = 10, .expansion = 2, .seed = 0x0123456789abcdef}, plenty);
  REQUIRE(filter);
  for (int i = 0; i < 25; ++i) (void)(*filter)->add_alone("golden " + std::to_string(i), plenty);
  return *filter;
}

std::vector<std::byte> bits_of(const LayerView& layer) {
  std::vector<std::byte> bytes(layer.plan().byte_count());
  layer.copy_bits(0, bytes);
  return bytes;
}

TEST_CASE("the bytes of an image of version 1 never change") {
  const auto filter = sample();
  CHECK(hex(encode(header_of(*filter))) ==
        "53504c4601000000efcdab89674523017b14ae47e17a843f0a000000000000000200000002000000"
        "0a00000000000000339654e393e6783f010000000000000080000000060000000a000000000000000000000000000000"
        "1400000000000000339654e393e6583f010000000000000040010000060000000f000000000000000000000000000000");
  CHECK(hex(bits_of(filter->layers()[0])) == "5ae8d4e961201d421802122f8822b112");
  CHECK(hex(bits_of(filter->layers()[1])) ==
        "6818241002000150004301280408d100230a040006009808b69048704100547190a2109e02a84624");
}

TEST_CASE("a decoded header equals the encoded one, and the bytes after it are not read") {
  const ImageHeader header = header_of(*sample());
  auto bytes = encode(header);
  REQUIRE(bytes.size() == image_header_bytes + 2 * image_layer_bytes);
  CHECK(header.bitmap_bytes() == header.layers[0].plan.byte_count() + header.layers[1].plan.byte_count());
  bytes.resize(bytes.size() + 100, std::byte{0xff});
  const auto decoded = decode_image_header(bytes, 2);
  REQUIRE(decoded);
  CHECK(decoded->options == header.options);
  REQUIRE(decoded->layers.size() == header.layers.size());
  for (std::size_t i = 0; i < header.layers.size(); ++i) {
    CHECK(decoded->layers[i].plan == header.layers[i].plan);
    CHECK(decoded->layers[i].item_count == header.layers[i].item_count);
  }
}

TEST_CASE("a filter restored from header and bits answers like the original") {
  const auto filter = sample();
  const ImageHeader header = header_of(*filter);
  auto restored = Filter::restore(header.options, header.layers, plenty);
  REQUIRE(restored);
  const auto layers = filter->layers();
  for (std::uint32_t i = 0; i < layers.size(); ++i) (*restored)->fill_bits(i, 0, bits_of(layers[i]));
  CHECK((*restored)->item_count() == filter->item_count());
  CHECK((*restored)->byte_count() == filter->byte_count());
  CHECK(encode(header_of(**restored)) == encode(header));
  for (int i = 0; i < 2000; ++i) {
    const std::string item = "golden " + std::to_string(i);
    const std::string_view view = item;
    bool was = false, is = false;
    filter->contains({&view, 1}, {&was, 1});
    (*restored)->contains({&view, 1}, {&is, 1});
    if (was != is) FAIL("the filters differ at " << item);
  }
  // The restored filter continues like the original: it has room for five more items.
  for (int i = 0; (*restored)->item_count() < 30; ++i)
    (void)(*restored)->add_alone("more " + std::to_string(i), plenty);
  CHECK((*restored)->layer_count() == 2);
}

TEST_CASE("a header that is cut short anywhere is damaged") {
  const auto bytes = encode(header_of(*sample()));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = decode_image_header(std::span(bytes).first(size), 64);
    REQUIRE_FALSE(decoded);
    REQUIRE(decoded.error().code == Errc::damaged);
  }
}

TEST_CASE("a header may have as many layers as allowed; one more is over the limit") {
  const auto bytes = encode(header_of(*sample()));
  CHECK(decode_image_header(bytes, 2));
  REQUIRE_FALSE(decode_image_header(bytes, 1));
  CHECK(decode_image_header(bytes, 1).error().code == Errc::layer_limit);
}

TEST_CASE("a header of another version is not reported as damaged") {
  auto bytes = encode(header_of(*sample()));
  bytes[4] = std::byte{6};
  const auto decoded = decode_image_header(bytes, 64);
  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().code == Errc::unsupported_version);
}

TEST_CASE("a header with values that no filter has is damaged") {
  using Damage = std::function<void(ImageHeader&)>;
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::pair<const char*, Damage>> damages = {
      {"no layers", [](ImageHeader& h) { h.layers.clear(); }},
      {"rate 0", [](ImageHeader& h) { h.options.error_rate = 0; }},
      {"rate 1", [](ImageHeader& h) { h.options.error_rate = 1; }},
      {"rate not a number",
       [](ImageHeader& h) { h.options.error_rate = std::numeric_limits<double>::quiet_NaN(); }},
      {"no capacity", [](ImageHeader& h) { h.options.capacity = 0; }},
      {"expansion too large", [](ImageHeader& h) { h.options.expansion = expansion_max + 1; }},
      {"two layers of a filter that does not scale", [](ImageHeader& h) { h.options.expansion = 0; }},
      {"a smaller expansion", [](ImageHeader& h) { h.options.expansion = 1; }},
      {"another first capacity", [](ImageHeader& h) { h.options.capacity = 11; }},
      {"another second capacity", [](ImageHeader& h) { h.layers[1].plan.capacity = 21; }},
      {"more items than capacity", [](ImageHeader& h) { h.layers[0].item_count = 11; }},
      {"layer rate 0", [](ImageHeader& h) { h.layers[0].plan.error_rate = 0; }},
      {"another layer rate", [](ImageHeader& h) { h.layers[1].plan.error_rate *= 1.0001; }},
      {"layer rate negative", [](ImageHeader& h) { h.layers[0].plan.error_rate = -0.5; }},
      {"no blocks", [](ImageHeader& h) { h.layers[0].plan.block_count = 0; }},
      {"no bits", [](ImageHeader& h) { h.layers[0].plan.block_bits = 0; }},
      {"bits not of words", [](ImageHeader& h) { h.layers[0].plan.block_bits = 65; }},
      {"size wraps", [](ImageHeader& h) { h.layers[0].plan.block_count = largest / 8; }},
      {"sum of sizes wraps",
       [](ImageHeader& h) {
         for (auto& layer : h.layers) layer.plan.block_count = largest / 128 + 1, layer.plan.block_bits = 64;
       }},
      {"blocks too large",
       [](ImageHeader& h) {
         h.layers[0].plan.block_count = 2;
         h.layers[0].plan.block_bits = block_bits_max + 64;
       }},
      {"no probes", [](ImageHeader& h) { h.layers[0].plan.probe_count = 0; }},
      {"too many probes", [](ImageHeader& h) { h.layers[0].plan.probe_count = probe_count_max + 1; }},
      {"less than a bit an item",
       [](ImageHeader& h) {
         h.options.capacity = 65;
         h.layers.resize(1);
         h.layers[0].plan.capacity = 65;
         h.layers[0].plan.block_bits = 64;
       }},
  };
  const ImageHeader sound = header_of(*sample());
  for (const auto& [name, damage] : damages) {
    CAPTURE(name);
    ImageHeader header = sound;
    damage(header);
    const auto decoded = decode_image_header(encode(header), 64);
    REQUIRE_FALSE(decoded);
    CHECK(decoded.error().code == Errc::damaged);
    const auto restored = Filter::restore(header.options, header.layers, plenty);
    REQUIRE_FALSE(restored);
    CHECK(restored.error().code == Errc::out_of_range);
  }
}

TEST_CASE("a layer with less than its place asks for has a version of its own") {
  ImageHeader header = header_of(*sample());
  header.layers[1].plan.capacity -= 1;
  auto bytes = encode(header);
  CHECK(bytes[4] == std::byte{5});
  const auto decoded = decode_image_header(bytes, 64);
  REQUIRE(decoded);
  CHECK(decoded->layers[1].plan == header.layers[1].plan);
  CHECK(Filter::restore(header.options, header.layers, plenty));
  // Earlier builds would have refused it, and no build has written it so.
  bytes[4] = std::byte{1};
  CHECK(decode_image_header(bytes, 64).error().code == Errc::damaged);
  auto whole = encode(header_of(*sample()));
  CHECK(whole[4] == std::byte{1});
  whole[4] = std::byte{5};
  CHECK(decode_image_header(whole, 64).error().code == Errc::damaged);
}

TEST_CASE("unknown flags and reserved contents are damaged") {
  constexpr std::size_t flags_at = 6;
  constexpr std::size_t reserved_at = image_header_bytes + image_layer_bytes - 8;
  for (const std::size_t at : {std::size_t{0}, std::size_t{3}, flags_at, reserved_at, reserved_at + 7}) {
    auto bytes = encode(header_of(*sample()));
    bytes[at] ^= std::byte{1};
    CAPTURE(at);
    REQUIRE_FALSE(decode_image_header(bytes, 64));
    CHECK(decode_image_header(bytes, 64).error().code == Errc::damaged);
  }
}

TEST_CASE("a whole image restores the filter; a shorter or longer one is refused") {
  const auto filter = sample();
  const std::vector<std::byte> image = value::image_of(*filter);
  CHECK(image.size() == value::image_bytes(*filter));
  const auto back = value::value_of(image, plenty);
  REQUIRE(back);
  CHECK(value::image_of(**back) == image);
  CHECK(value::as<Filter>(**back).item_count() == 25);
  for (std::size_t length = 0; length < image.size(); ++length) {
    const auto cut = value::value_of(std::span(image).first(length), plenty);
    REQUIRE_FALSE(cut);
    REQUIRE(cut.error().code == Errc::damaged);
  }
  std::vector<std::byte> longer = image;
  longer.resize(image.size() + 8);
  REQUIRE_FALSE(value::value_of(longer, plenty));
  CHECK(value::value_of(longer, plenty).error().code == Errc::damaged);
  const auto too_large = value::value_of(image, {.bytes_max = 10});
  REQUIRE_FALSE(too_large);
  CHECK(too_large.error().code == Errc::too_large);
}

TEST_CASE("bits are copied and filled across layers, for pieces at any offset") {
  const auto filter = sample();
  const ImageHeader header = header_of(*filter);
  const std::vector<std::byte> image = value::image_of(*filter);
  const auto bits = std::span(image).subspan(image_bytes(header.layers.size()));
  const auto back = Filter::restore(header.options, header.layers, plenty);
  REQUIRE(back);
  for (std::size_t at = 0; at < bits.size(); at += 8) {
    std::vector<std::byte> piece(8);
    copy_bits(filter->layers(), at, piece);
    CHECK(std::equal(piece.begin(), piece.end(), bits.begin() + static_cast<std::ptrdiff_t>(at)));
    fill_bits(**back, at, piece);
  }
  CHECK(value::image_of(**back) == image);
}

TEST_CASE("a restore allocates nothing beyond its limits") {
  const ImageHeader header = header_of(*sample());
  const std::uint64_t bytes = sample()->byte_count();
  CHECK(Filter::restore(header.options, header.layers, {.bytes_max = bytes, .layers_max = 2}));
  const auto too_many_bytes = Filter::restore(header.options, header.layers, {.bytes_max = bytes - 1});
  REQUIRE_FALSE(too_many_bytes);
  CHECK(too_many_bytes.error().code == Errc::too_large);
  const auto too_many_layers =
      Filter::restore(header.options, header.layers, {.bytes_max = bytes, .layers_max = 1});
  REQUIRE_FALSE(too_many_layers);
  CHECK(too_many_layers.error().code == Errc::too_large);
}

}  // namespace

}  // namespace image_test
