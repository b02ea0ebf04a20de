// Dumps that RedisBloom made of these items, byte for byte.
#include <sepal/bloom/foreign/redisbloom.hpp>

#include "support/catch.hpp"

namespace redisbloom_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

struct Dump {
  std::string name;
  std::vector<std::string> items;
  std::string header;
  std::string bits;
};

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at < text.size(); at += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(at, 2), nullptr, 16)));
  return bytes;
}

// An item with many different bytes.
std::string item_of(std::size_t length) {
  std::string item;
  for (std::size_t i = 0; i < length; ++i) item += static_cast<char>(0x0b + 0x25 * i);
  return item;
}

std::vector<std::string> numbered(int count) {
  std::vector<std::string> items;
  for (int i = 0; i < count; ++i) items.push_back("i" + std::to_string(i));
  return items;
}

const std::vector<Dump> dumps{
    {.name = "empty_item",
     .items = {""},
     .header =
         "01000000000000000100000005000000020000001000000000000000800000000000000001000000000000007b14ae47"
         "e17a743fe9862fb2350e2640080000000a0000000000000000",
     .bits = "00040001000020000800028000400010"},
    {.name = "item_length_1",
     .items = {item_of(1)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "008480000000000121000000004008000000001002020000"},
    {.name = "item_length_3",
     .items = {item_of(3)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "0c0002800000000000000000002000080006000140001000"},
    {.name = "item_length_4",
     .items = {item_of(4)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "0000000260000c8001300004800000000000000000000000"},
    {.name = "item_length_5",
     .items = {item_of(5)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "000000000000822008010000000000000040100441080000"},
    {.name = "item_length_6",
     .items = {item_of(6)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "000000000010101000000000004040410000000000040504"},
    {.name = "item_length_7",
     .items = {item_of(7)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "004004004000004000000001000001001001001004000004"},
    {.name = "item_length_8",
     .items = {item_of(8)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "104000100004100104000100000000000000004000014000"},
    {.name = "item_length_9",
     .items = {item_of(9)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "08000000000000000000028002a000200008000280002000"},
    {.name = "item_length_16",
     .items = {item_of(16)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "200000880000000200220000880000200200000000080000"},
    {.name = "item_length_31",
     .items = {item_of(31)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "800000800000080000010010000012000002006000000400"},
    {.name = "item_length_32",
     .items = {item_of(32)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "000000400020800040000002000104000200100008000010"},
    {.name = "item_length_65",
     .items = {item_of(65)},
     .header =
         "01000000000000000100000005000000020000001800000000000000c0000000000000000100000000000000fca9f1d2"
         "4d62403f2e92f414fca32f400b0000000a0000000000000000",
     .bits = "040040010000100000000100101000000001004040000004"},
    {.name = "nonscaling",
     .items = {"a", "b", "c"},
     .header =
         "0300000000000000010000000d000000020000001000000000000000800000000000000003000000000000007b14ae47"
         "e17a843f88168ac58c2b2340070000000a0000000000000000",
     .bits = "1004000a005001202040208410c20900"},
    {.name = "capped_rate",
     .items = {"a", "b", "c"},
     .header =
         "030000000000000001000000050000000200000008000000000000004000000000000000030000000000000000000000"
         "0000c03f42a2e08bf54f1140040000000a0000000000000000",
     .bits = "2004208c10900120"},
    {.name = "two_layers",
     .items = numbered(40),
     .header =
         "28000000000000000200000005000000020000003800000000000000c00100000000000014000000000000002d431ceb"
         "e2360a3fb9cedc3be19c34400f0000001400000000000000007000000000000000800300000000000014000000000000"
         "002d431cebe236fa3ee9862fb2350e364010000000280000000000000000",
     .bits =
         "f6566a12fb728a6615e2ba38766a70db10c693fb9ec63926f921529a33b80a77feb83d288231fa50a02bb1a1718362ca"
         "15de51662b83123b04325301080621430d820412300c00c0387201ca54019c0ed04800212aa9040f24112e02a0321103"
         "242b00bb048b0c0a400380164186483240ce22b32016868f32f6a0229069e4e21001a017618c69058a21a8812e614046"
         "20a53401430412000b02810f8d8585252440300200010072"},
    {.name = "three_layers_expansion_1",
     .items = numbered(40),
     .header =
         "28000000000000000300000005000000010000003000000000000000800100000000000010000000000000002d431ceb"
         "e2360a3fb9cedc3be19c34400f0000001000000000000000003000000000000000800100000000000010000000000000"
         "002d431cebe236fa3ee9862fb2350e364010000000100000000000000000300000000000000080010000000000000800"
         "0000000000002d431cebe236ea3e193f82288a7f374011000000100000000000000000",
     .bits =
         "b866f5d23b87b22479114208190738d646de7b3076e25af074b252f012f2903f93286ab9026a12429462b50eec02f869"
         "82c5a96e83618c4724e1a2a3c98f1e13b5129dfa9cad7dc75707922f6a87b41b0c1f420bc8bf45b715c93c33658949c7"
         "3820b00a04c0a0a0282b3830290722202c62a9e2e02bc16220a0248a5830068d4202000182866088b0420010088c0106"},
    {.name = "item_1mib",
     .items = {std::string(1048576, 'x')},
     .header =
         "01000000000000000100000005000000020000001000000000000000800000000000000001000000000000007b14ae47"
         "e17a743fe9862fb2350e2640080000000a0000000000000000",
     .bits = "08080000020200808000002020000000"},
};

const Dump& of_three_layers() {
  return *std::ranges::find(dumps, "three_layers_expansion_1", &Dump::name);
}

FilterPtr empty_filter_of(const Dump& dump) {
  const auto header = decode_redisbloom_header(from_hex(dump.header), plenty.layers_max);
  REQUIRE(header);
  auto filter = Filter::restore(header->options, header->layers, plenty);
  REQUIRE(filter);
  return *filter;
}

FilterPtr filter_of(const Dump& dump) {
  const auto filter = empty_filter_of(dump);
  const auto bits = from_hex(dump.bits);
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < filter->layer_count(); ++i) {
    const std::size_t byte_count = filter->layer(i).plan().byte_count();
    filter->fill_bits(i, 0, std::span(bits).subspan(at, byte_count));
    at += byte_count;
  }
  REQUIRE(at == bits.size());
  return filter;
}

std::vector<std::byte> bits_of(const LayerView& layer) {
  std::vector<std::byte> bytes(layer.plan().byte_count());
  layer.copy_bits(0, bytes);
  return bytes;
}

bool holds(const Filter& filter, std::string_view item) {
  bool present = false;
  filter.contains({&item, 1}, {&present, 1});
  return present;
}

TEST_CASE("a dump of RedisBloom holds every item that was added there") {
  for (const Dump& dump : dumps) {
    INFO(dump.name);
    const auto filter = filter_of(dump);
    CHECK(filter->item_count() == dump.items.size());
    for (const std::string& item : dump.items) CHECK(holds(*filter, item));
    int found = 0;
    for (int i = 0; i < 100; ++i) found += holds(*filter, "absent " + std::to_string(i)) ? 1 : 0;
    CHECK(found < 30);
  }
}

TEST_CASE("items set the same bits in a filter of RedisBloom's shape as in RedisBloom") {
  for (const Dump& dump : dumps) {
    const auto header = *decode_redisbloom_header(from_hex(dump.header), plenty.layers_max);
    if (header.layers.size() > 1) continue;
    INFO(dump.name);
    auto layer = header.layers[0];
    layer.item_count = 0;
    const auto filter = *Filter::restore(header.options, {&layer, 1}, plenty);
    std::vector<std::string_view> items(dump.items.begin(), dump.items.end());
    bool added[3];
    REQUIRE(filter->try_add(items, std::span(added).first(items.size())));
    CHECK(bits_of(filter->newest_layer()) == from_hex(dump.bits));
    CHECK(filter->item_count() == items.size());
  }
}

TEST_CASE("a filter of RedisBloom grows Sepal's layers, with the rest of its rate") {
  const auto filter = filter_of(of_three_layers());
  const std::uint32_t foreign = filter->layer_count();
  const double last_rate = filter->newest_layer().plan().error_rate;
  const std::uint64_t capacity = filter->newest_layer().plan().capacity;
  const std::uint32_t expansion = filter->options().expansion;
  std::vector<std::string> items;
  for (int i = 0; filter->layer_count() < foreign + 3; ++i) {
    items.push_back("later " + std::to_string(i));
    REQUIRE(filter->add_alone(items.back(), plenty).refusal == Filter::Refusal::none);
  }
  for (const std::string& item : items) CHECK(holds(*filter, item));
  double sum = 0;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const LayerPlan plan = filter->layer(foreign + i).plan();
    CHECK(plan.layout == Layout::blocked);
    CHECK(plan.capacity == capacity * static_cast<std::uint64_t>(std::pow(expansion, i + 1)));
    sum += plan.error_rate;
  }
  CHECK(sum < last_rate);
}

TEST_CASE("the image of a filter of RedisBloom restores it, grown or not") {
  for (const Dump& dump : dumps) {
    INFO(dump.name);
    const auto filter = filter_of(dump);
    for (int i = 0; i < 200; ++i) (void)filter->add_alone("later " + std::to_string(i), plenty);
    const auto header = decode_image_header(encode(header_of(*filter)), plenty.layers_max);
    REQUIRE(header);
    CHECK(header->options == filter->options());
    const auto restored = *Filter::restore(header->options, header->layers, plenty);
    for (std::uint32_t i = 0; i < filter->layer_count(); ++i) {
      restored->fill_bits(i, 0, bits_of(filter->layer(i)));
      CHECK(restored->layer(i).plan() == filter->layer(i).plan());
    }
    for (const std::string& item : dump.items) CHECK(holds(*restored, item));
    CHECK(restored->item_count() == filter->item_count());
    CHECK(restored->byte_count() == filter->byte_count());
  }
}

TEST_CASE("the header of an ordinary filter stays one of version 1") {
  const auto filter = *Filter::create({.error_rate = 0.01, .capacity = 100}, plenty);
  const auto ordinary = encode(header_of(*filter));
  CHECK(ordinary[4] == std::byte{1});
  CHECK(encode(header_of(*filter_of(dumps[0])))[4] == std::byte{2});
  // The version limits the hashes and layouts.
  auto claimed = ordinary;
  claimed[4] = std::byte{2};
  CHECK_FALSE(decode_image_header(claimed, 64));
  claimed = ordinary;
  claimed[6] = std::byte{1};
  CHECK_FALSE(decode_image_header(claimed, 64));
}

TEST_CASE("bits can be filled at any byte offset") {
  for (const Dump& dump : dumps) {
    const auto filter = empty_filter_of(dump);
    const auto bits = from_hex(dump.bits);
    const std::size_t byte_count = filter->layer(0).plan().byte_count();
    for (std::size_t at = 0; at < byte_count; at += 3)
      filter->fill_bits(0, at, std::span(bits).subspan(at, std::min<std::size_t>(3, byte_count - at)));
    CHECK(bits_of(filter->layer(0)) ==
          std::vector(bits.begin(), bits.begin() + static_cast<long>(byte_count)));
  }
}

TEST_CASE("dumps that RedisBloom would refuse, and impossible filters, are refused") {
  const auto sound = from_hex(of_three_layers().header);
  REQUIRE(decode_redisbloom_header(sound, 3));
  CHECK_FALSE(decode_redisbloom_header(sound, 2));
  CHECK_FALSE(decode_redisbloom_header({}, 64));
  for (std::size_t length = 0; length < sound.size(); ++length)
    CHECK_FALSE(decode_redisbloom_header(std::span(sound).first(length), 64));
  auto longer = sound;
  longer.push_back({});
  CHECK_FALSE(decode_redisbloom_header(longer, 64));

  const auto with = [&](std::size_t offset, auto value) {
    auto bytes = sound;
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    return static_cast<bool>(decode_redisbloom_header(bytes, 64));
  };
  constexpr std::size_t layer = 20;
  CHECK_FALSE(with(0, std::uint64_t{39}));      // items
  CHECK_FALSE(with(12, std::uint32_t{1}));      // hashes of 32 bits
  CHECK_FALSE(with(12, std::uint32_t{0x105}));  // an unknown option
  CHECK_FALSE(with(12, std::uint32_t{13}));     // several layers, and does not scale
  CHECK_FALSE(with(16, expansion_max + 1));     // expansion
  CHECK_FALSE(with(layer, std::uint64_t{49}));  // bytes
  CHECK_FALSE(with(layer, ~std::uint64_t{0}));
  CHECK_FALSE(with(layer + 8, std::uint64_t{383}));  // bits
  CHECK_FALSE(with(layer + 8, std::uint64_t{0}));
  CHECK_FALSE(with(layer + 16, std::uint64_t{17}));  // items, more than its capacity
  for (const double rate : {0.0, 1.0, -0.5, 0.001, std::nan("")}) CHECK_FALSE(with(layer + 24, rate));
  for (const double bits : {0.0, 1e300, -1.0, std::nan("")}) CHECK_FALSE(with(layer + 32, bits));
  CHECK_FALSE(with(layer + 40, std::uint32_t{1}));  // probes
  CHECK_FALSE(with(layer + 44, std::uint64_t{0}));  // capacity
  CHECK_FALSE(with(layer + 44, std::uint64_t{1} << 40));
  CHECK_FALSE(with(layer + 52, std::uint8_t{8}));  // 2^n2 is not the size
  CHECK_FALSE(with(layer + 52, std::uint8_t{64}));
  CHECK(with(16, std::uint32_t{7}));
}

}  // namespace

}  // namespace redisbloom_test
