#include <sepal/base/hash.hpp>
#include <sepal/cuckoo/foreign/redis_table.hpp>

#include "support/catch.hpp"

namespace redis_table_test {

namespace {

using namespace sepal;
using namespace sepal::cuckoo;
using Added = RedisTable::Added;

constexpr value::Limits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 32};

RedisTable made(const RedisOptions& options) {
  auto table = RedisTable::make(redis_header_of(options), plenty);
  REQUIRE(table);
  return std::move(*table);
}

std::string numbered(std::uint64_t number) {
  return "item:" + std::to_string(number);
}

// The slots of all layers, and the counts.
std::vector<std::uint8_t> bytes_of(const RedisTable& table) {
  std::vector<std::uint8_t> bytes;
  for (const std::byte byte : encode_redis_header(table.header()))
    bytes.push_back(std::to_integer<std::uint8_t>(byte));
  for (std::uint32_t layer = 0; layer < table.header().layer_count; ++layer)
    for (const std::byte byte : table.slots(layer)) bytes.push_back(std::to_integer<std::uint8_t>(byte));
  return bytes;
}

std::uint64_t used_slots(const RedisTable& table, std::uint32_t layer) {
  const auto slots = table.slots(layer);
  return slots.size() - static_cast<std::uint64_t>(std::ranges::count(slots, std::byte{0}));
}

// The slots that are used, each as "bucket:fingerprint".
std::string used_buckets(const RedisTable& table) {
  std::string text;
  const auto slots = table.slots(0);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == std::byte{0}) continue;
    text += std::to_string(i / table.header().bucket_slots) + ':' +
            std::to_string(std::to_integer<unsigned>(slots[i])) + ' ';
  }
  return text;
}

// Notes what it hears.
class Listener final : public RedisTable::Observer {
 public:
  explicit Listener(const RedisTable& table) : table_(table) {}
  void about_to_change(std::uint32_t layer, std::uint64_t offset, std::uint64_t byte_count) override {
    text += std::to_string(layer) + ':' + std::to_string(offset) + '+' + std::to_string(byte_count) + " of " +
            std::to_string(std::to_integer<int>(table_.slots(layer)[offset])) + ' ';
  }

  std::string text;

 private:
  const RedisTable& table_;
};

}  // namespace

TEST_CASE("an item has the two buckets and the fingerprint that RedisBloom gives it") {
  struct Vector {
    const char* item;
    const char* once;
    const char* thrice;
  };
  // The third copy goes to the other bucket.
  const std::vector<Vector> vectors{
      {"", "0:1 ", "0:1 0:1 405:1 "},
      {"a", "273:196 ", "261:196 273:196 273:196 "},
      {"foo", "257:217 ", "76:217 257:217 257:217 "},
      {"hello world", "462:116 ", "74:116 462:116 462:116 "},
  };
  for (const Vector& vector : vectors) {
    CAPTURE(vector.item);
    RedisTable table = made({});
    REQUIRE(table.add(vector.item, plenty) == Added::added);
    CHECK(used_buckets(table) == vector.once);
    REQUIRE(table.add(vector.item, plenty) == Added::added);
    REQUIRE(table.add(vector.item, plenty) == Added::added);
    CHECK(used_buckets(table) == vector.thrice);
    CHECK(table.count(vector.item) == 3);
    CHECK(table.header().item_count == 3);
  }
}

TEST_CASE("an item in one bucket counts twice where both buckets are the same") {
  RedisTable table = made({.capacity = 4, .bucket_slots = 4});
  REQUIRE(table.header().bucket_count == 1);
  REQUIRE(table.add("a", plenty) == Added::added);
  CHECK(table.count("a") == 2);
  CHECK(table.remove("a"));
  CHECK(table.count("a") == 0);
}

TEST_CASE("an item that is there is not added as a new one") {
  RedisTable table = made({});
  CHECK(table.add_new("a", plenty) == Added::added);
  CHECK(table.add_new("a", plenty) == Added::exists);
  CHECK(table.count("a") == 1);
  CHECK(table.header().item_count == 1);
}

TEST_CASE("a filter without expansion is full where no kick finds room, and is as before then") {
  RedisTable table = made({.capacity = 64, .expansion = 0});
  std::uint64_t added = 0;
  std::uint64_t refused = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto before = bytes_of(table);
    const Added answer = table.add(numbered(i), plenty);
    if (answer == Added::added) {
      ++added;
      continue;
    }
    CHECK(answer == Added::full);
    CHECK((bytes_of(table) == before));
    ++refused;
  }
  CHECK(refused > 0);
  CHECK(table.header().layer_count == 1);
  CHECK(table.header().item_count == added);
  CHECK(used_slots(table, 0) == added);
}

TEST_CASE("a filter grows by the expansion, and finds all items of all layers") {
  const auto expansion = static_cast<std::uint16_t>(GENERATE(1, 2, 4));
  RedisTable table = made({.capacity = 64, .expansion = expansion});
  for (std::uint64_t i = 0; i < 600; ++i) REQUIRE(table.add(numbered(i), plenty) == Added::added);
  const RedisHeader& header = table.header();
  CHECK(header.layer_count > 1);
  std::uint64_t used = 0;
  std::uint64_t slots = 64;
  for (std::uint32_t layer = 0; layer < header.layer_count; ++layer, slots *= expansion) {
    CHECK(table.slots(layer).size() == slots);
    used += used_slots(table, layer);
  }
  CHECK(used == 600);
  CHECK(header.item_count == 600);
  for (std::uint64_t i = 0; i < 600; ++i) CHECK(table.contains(numbered(i)));
}

TEST_CASE("one item many times grows the filter by a layer for each two buckets") {
  RedisTable table = made({.capacity = 1024});
  for (std::uint64_t i = 0; i < 4 * 31 + 4; ++i) REQUIRE(table.add("a", plenty) == Added::added);
  CHECK(table.header().layer_count == 32);
  const auto before = bytes_of(table);
  CHECK(table.add("a", plenty) == Added::layer_limit);
  CHECK((bytes_of(table) == before));
  // It fits without another layer.
  CHECK(table.add("b", plenty) == Added::added);
  // As RedisBloom, which looks at its limit once for each command.
  value::Limits more = plenty;
  more.layers_max = 33;
  CHECK(table.add("a", more) == Added::added);
  CHECK(table.header().layer_count == 33);
  CHECK(table.count("a") == 129);
}

TEST_CASE("a filter that may take no more memory does not grow") {
  const RedisHeader header = redis_header_of({.capacity = 1024});
  const std::uint64_t bytes = RedisTable::memory_bytes(header);
  CHECK(!RedisTable::make(header, {.bytes_max = bytes - 1}));
  auto table = RedisTable::make(header, {.bytes_max = bytes});
  REQUIRE(table);
  CHECK(table->allocated_bytes() == bytes);
  RedisHeader grown = header;
  grown.layer_count = 2;
  const std::uint64_t grown_bytes = RedisTable::memory_bytes(grown);
  for (int i = 0; i < 4; ++i) REQUIRE(table->add("a", {.bytes_max = bytes}) == Added::added);
  const auto before = bytes_of(*table);
  CHECK(table->add("a", {.bytes_max = grown_bytes - 1}) == Added::too_large);
  CHECK((bytes_of(*table) == before));
  CHECK(table->allocated_bytes() == bytes);
  CHECK(table->add("a", {.bytes_max = grown_bytes}) == Added::added);
  CHECK(table->allocated_bytes() == grown_bytes);
}

TEST_CASE("a size that cannot be is refused before anything is allocated") {
  const auto refused = [](const RedisHeader& header) {
    const auto table = RedisTable::make(header, {.bytes_max = std::uint64_t{1} << 30, .layers_max = 32});
    REQUIRE(!table);
    return table.error().code;
  };
  CHECK(refused({.bucket_count = redis_buckets_max}) == Errc::too_large);
  CHECK(refused({.bucket_count = redis_buckets_max, .layer_count = 2, .expansion = 2}) == Errc::out_of_range);
  CHECK(refused({.bucket_count = 3}) == Errc::out_of_range);
  CHECK(refused({.layer_count = 0}) == Errc::out_of_range);
  CHECK(refused({.layer_count = 33}) == Errc::layer_limit);
  CHECK(refused({.layer_count = redis_layers_max}) == Errc::layer_limit);
}

TEST_CASE("removals of several layers compact them") {
  RedisTable table = made({.capacity = 64});
  for (std::uint64_t i = 0; i < 200; ++i) REQUIRE(table.add(numbered(i), plenty) == Added::added);
  const std::uint32_t layers = table.header().layer_count;
  REQUIRE(layers > 2);
  // A tenth of the items that are left.
  for (std::uint64_t i = 0; i < 18; ++i) REQUIRE(table.remove(numbered(i)));
  CHECK(table.header().delete_count == 18);
  REQUIRE(table.remove(numbered(18)));
  CHECK(table.header().delete_count == 0);
  CHECK(table.header().item_count == 181);
  for (std::uint64_t i = 19; i < 180; ++i) REQUIRE(table.remove(numbered(i)));
  CHECK(table.header().layer_count == 1);
  CHECK(table.allocated_bytes() < RedisTable::memory_bytes(redis_header_of({.capacity = 64})) + 1024);
  for (std::uint64_t i = 180; i < 200; ++i) CHECK(table.contains(numbered(i)));
}

TEST_CASE("a filter of one layer counts its removals until it is compacted") {
  RedisTable table = made({});
  for (std::uint64_t i = 0; i < 20; ++i) REQUIRE(table.add(numbered(i), plenty) == Added::added);
  for (std::uint64_t i = 0; i < 19; ++i) REQUIRE(table.remove(numbered(i)));
  CHECK(table.header().delete_count == 19);
  table.compact();
  CHECK(table.header().delete_count == 0);
  CHECK(table.header().item_count == 1);
  CHECK(table.contains(numbered(19)));
}

TEST_CASE("a compaction that a client asks for goes past a layer that stays") {
  // Four copies fill both buckets of "a" in each layer.
  RedisTable table = made({.capacity = 1024});
  for (int i = 0; i < 12; ++i) REQUIRE(table.add("a", plenty) == Added::added);
  REQUIRE(table.header().layer_count == 3);
  // "b" is put to the newest layer, and a filter of two layers keeps it in the second.
  REQUIRE(table.add("b", plenty) == Added::added);
  REQUIRE(used_slots(table, 2) == 5);
  table.compact();
  CHECK(used_slots(table, 0) == 5);
  CHECK(used_slots(table, 1) == 4);
  CHECK(used_slots(table, 2) == 4);
  CHECK(table.header().layer_count == 3);
  CHECK(table.count("a") == 12);
  CHECK(table.contains("b"));
}

TEST_CASE("a count below 0 wraps, as RedisBloom's does") {
  RedisTable table = made({});
  REQUIRE(table.add("a", plenty) == Added::added);
  RedisHeader header = table.header();
  header.item_count = 0;
  auto loaded = RedisTable::make(header, plenty);
  REQUIRE(loaded);
  loaded->write({.layer = 0, .offset = 0, .byte_count = 1024}, table.slots(0));
  CHECK(loaded->remove("a"));
  CHECK(static_cast<std::int64_t>(loaded->header().item_count) == -1);
}

TEST_CASE("chunks of any length make the same filter") {
  RedisTable table = made({.capacity = 64, .expansion = 2});
  for (std::uint64_t i = 0; i < 500; ++i) REQUIRE(table.add(numbered(i), plenty) == Added::added);
  const std::uint64_t chunk_bytes = GENERATE(1, 7, 64, 1000);
  auto copy = RedisTable::make(table.header(), plenty);
  REQUIRE(copy);
  std::int64_t iterator = 1;
  for (std::uint32_t layer = 0; layer < table.header().layer_count; ++layer) {
    const auto slots = table.slots(layer);
    for (std::size_t offset = 0; offset < slots.size(); offset += chunk_bytes) {
      const auto chunk = slots.subspan(offset, std::min<std::size_t>(chunk_bytes, slots.size() - offset));
      iterator += static_cast<std::int64_t>(chunk.size());
      const auto place = redis_place_of(copy->header(), iterator, chunk.size());
      REQUIRE(place);
      copy->write(*place, chunk);
    }
  }
  CHECK((bytes_of(*copy) == bytes_of(table)));
  for (std::uint64_t i = 0; i < 500; ++i) CHECK(copy->contains(numbered(i)));
}

TEST_CASE("an observer hears of a slot before it changes") {
  RedisTable table = made({});
  Listener listener(table);
  table.observe(&listener);
  const auto heard = [&] { return std::exchange(listener.text, {}); };
  REQUIRE(table.add("a", plenty) == Added::added);
  CHECK(heard() == "0:546+1 of 0 ");
  REQUIRE(table.add("a", plenty) == Added::added);
  CHECK(heard() == "0:547+1 of 0 ");
  REQUIRE(table.remove("a"));
  CHECK(heard() == "0:546+1 of 196 ");
  CHECK(!table.remove("b"));
  CHECK(heard().empty());
  const std::vector<std::byte> chunk(10);
  table.write({.layer = 0, .offset = 547, .byte_count = 10}, chunk);
  CHECK(heard() == "0:547+10 of 196 ");
  table.observe(nullptr);
  REQUIRE(table.add("a", plenty) == Added::added);
  CHECK(heard().empty());
}

// The figures are those of RedisBloom's own code (of June 2026), which did the same.
TEST_CASE("a long history leaves the bytes that it leaves in RedisBloom") {
  struct History {
    RedisOptions options;
    std::uint64_t item_kinds;
    std::uint64_t item_count;
    std::uint64_t delete_count;
    std::uint32_t layer_count;
    std::uint64_t slots_hash;
  };
  const std::vector<History> histories{
      {{.capacity = 64, .bucket_slots = 2, .kicks_max = 20, .expansion = 1},
       400,
       637,
       7,
       12,
       0x04a56b0512a244b4},
      {{.capacity = 64, .bucket_slots = 2, .kicks_max = 20, .expansion = 2},
       400,
       642,
       5,
       5,
       0x237e06ce9043c82a},
      {{.capacity = 100, .bucket_slots = 4, .kicks_max = 20, .expansion = 2},
       2000,
       1285,
       57,
       4,
       0xa459ace2d07fdf72},
      {{.capacity = 30, .bucket_slots = 3, .kicks_max = 5, .expansion = 4},
       600,
       782,
       72,
       4,
       0x436e55c02809bad7},
      {{.capacity = 16, .bucket_slots = 1, .kicks_max = 50, .expansion = 1},
       300,
       510,
       23,
       37,
       0xc26b301bfa0ab101},
      {{.capacity = 510, .bucket_slots = 255, .kicks_max = 1, .expansion = 1},
       5000,
       574,
       22,
       2,
       0x594e90a2e3bd713b},
      {{.capacity = 1000, .bucket_slots = 2, .kicks_max = 500, .expansion = 0},
       1500,
       793,
       40,
       1,
       0xebe457e51c5ee7bf},
      {{.capacity = 2, .bucket_slots = 1, .kicks_max = 20, .expansion = 1},
       40,
       102,
       5,
       54,
       0x43c1e4fb65cb6230},
  };
  for (const History& history : histories) {
    CAPTURE(history.options.capacity, history.options.bucket_slots, history.options.expansion);
    RedisTable table = made(history.options);
    const value::Limits limits{.bytes_max = 1 << 20, .layers_max = 200};
    std::uint64_t state = 1;
    const auto next = [&] { return (state = state * 6364136223846793005 + 1442695040888963407) >> 33; };
    for (int step = 0; step < 5000; ++step) {
      const std::string item = numbered(next() % history.item_kinds);
      const std::uint64_t roll = next() % 100;
      if (roll == 99) {
        table.compact();
      } else if (roll < (step / 500 % 2 == 0 ? 75 : 15)) {
        (void)table.add(item, limits);
      } else {
        table.remove(item);
      }
    }
    CHECK(table.header().item_count == history.item_count);
    CHECK(table.header().delete_count == history.delete_count);
    CHECK(table.header().layer_count == history.layer_count);
    std::string slots;
    for (std::uint32_t layer = 0; layer < table.header().layer_count; ++layer)
      for (const std::byte byte : table.slots(layer)) slots += static_cast<char>(byte);
    CHECK(hash64(slots, 0) == history.slots_hash);
  }
}

}  // namespace redis_table_test
