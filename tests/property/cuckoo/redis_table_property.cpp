// Random adds and removals of a cuckoo filter of RedisBloom: against a model that counts copies, and beside a
// reader that wants the bytes of an instant.
#include <sepal/cuckoo/foreign/redis_table.hpp>

#include <mutex>

#include "support/catch.hpp"

namespace redis_table_property {

namespace {

using namespace sepal;
using namespace sepal::cuckoo;
using Added = RedisTable::Added;

constexpr value::Limits limits{.bytes_max = 1 << 20, .layers_max = 200};

RedisTable made(const RedisOptions& options) {
  auto table = RedisTable::make(redis_header_of(options), limits);
  REQUIRE(table);
  return std::move(*table);
}

std::string numbered(std::uint64_t number) {
  return "item:" + std::to_string(number);
}

std::vector<std::byte> slots_of(const RedisTable& table) {
  std::vector<std::byte> all;
  for (std::uint32_t layer = 0; layer < table.header().layer_count; ++layer) {
    const auto slots = table.slots(layer);
    all.insert(all.end(), slots.begin(), slots.end());
  }
  return all;
}

using Model = std::map<std::string, std::uint64_t>;

void check_has_all(const RedisTable& table, const Model& model) {
  std::uint64_t copies = 0;
  for (const auto& [item, count] : model) {
    copies += count;
    if (count == 0) continue;
    REQUIRE(table.contains(item));
    REQUIRE(table.count(item) >= count);
  }
  REQUIRE(table.header().item_count == copies);
}

// The slots of an instant, by pages. The thread that changes the filter puts a page aside before it changes
// it for the first time; another thread reads.
class PagesOfInstant final : public RedisTable::Observer {
 public:
  explicit PagesOfInstant(const RedisTable& table) : header_(table.header()) {
    for (std::uint32_t layer = 0; layer < header_.layer_count; ++layer)
      memory_.push_back(table.memory(layer));
  }

  void about_to_change(std::uint32_t layer, std::uint64_t offset, std::uint64_t byte_count) override {
    if (layer >= memory_.size()) return;  // of a layer that came later
    const std::scoped_lock lock(mutex_);
    for (std::uint64_t page = offset / page_bytes; page <= (offset + byte_count - 1) / page_bytes; ++page) {
      if (!kept_.contains({layer, page})) kept_[{layer, page}] = live(layer, page);
    }
  }

  // The slots of all layers. Any thread.
  [[nodiscard]] std::vector<std::byte> slots() {
    std::vector<std::byte> all;
    for (std::uint32_t layer = 0; layer < header_.layer_count; ++layer) {
      for (std::uint64_t page = 0; page * page_bytes < header_.layer_slots(layer); ++page) {
        const std::scoped_lock lock(mutex_);
        const auto kept = kept_.find({layer, page});
        const auto bytes = kept != kept_.end() ? kept->second : live(layer, page);
        all.insert(all.end(), bytes.begin(), bytes.end());
      }
    }
    return all;
  }

 private:
  static constexpr std::uint64_t page_bytes = 64;

  [[nodiscard]] std::vector<std::byte> live(std::uint32_t layer, std::uint64_t page) const {
    const auto* const begin = reinterpret_cast<const std::byte*>(memory_[layer]->bytes()) + page * page_bytes;
    return {begin, begin + std::min(page_bytes, header_.layer_slots(layer) - page * page_bytes)};
  }

  RedisHeader header_;
  std::vector<RedisSlotsPtr> memory_;
  std::mutex mutex_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<std::byte>> kept_;
};

// Changes of all kinds. Removes only items that are there.
class Changes {
 public:
  Changes(RedisTable& table, std::uint64_t seed) : table_(table), random_(seed) {}

  void step() {
    const std::uint64_t roll = random_() % 200;
    if (roll == 0) return table_.compact();
    if (roll < 100 || items_.empty()) {
      const std::string item = numbered(next_++);
      if (table_.add(item, limits) == Added::added) items_.push_back(item);
      return;
    }
    std::swap(items_[random_() % items_.size()], items_.back());
    REQUIRE(table_.remove(items_.back()));
    items_.pop_back();
  }

 private:
  RedisTable& table_;
  std::mt19937_64 random_;
  std::vector<std::string> items_;
  std::uint64_t next_ = 0;
};

}  // namespace

TEST_CASE("no item that was added and not removed is denied") {
  const std::vector<RedisOptions> shapes{
      {.capacity = 64},
      {.capacity = 16, .bucket_slots = 1, .expansion = 2},
      {.capacity = 64, .bucket_slots = 4, .kicks_max = 500, .expansion = 2},
      {.capacity = 30, .bucket_slots = 3, .kicks_max = 1, .expansion = 4},
      {.capacity = 2, .bucket_slots = 1},
      {.capacity = 100, .bucket_slots = 7, .expansion = 1},
      {.capacity = 200, .bucket_slots = 2, .expansion = 0},
  };
  const std::uint64_t seed = GENERATE(1, 2, 3);
  for (const RedisOptions& shape : shapes) {
    CAPTURE(seed, shape.capacity, shape.bucket_slots, shape.expansion);
    std::mt19937_64 random(seed);
    RedisTable table = made(shape);
    Model model;
    for (int step = 0; step < 4000; ++step) {
      const std::string item = numbered(random() % 150);
      if (random() % 100 < 55) {
        if (table.add(item, limits) == Added::added) ++model[item];
      } else if (model[item] > 0) {
        REQUIRE(table.remove(item));
        --model[item];
      }
      if (step % 997 == 0) table.compact();
      if (step % 97 == 0) check_has_all(table, model);
    }
    for (const auto& [item, count] : model)
      for (std::uint64_t i = 0; i < count; ++i) REQUIRE(table.remove(item));
    table.compact();
    CHECK(table.header().item_count == 0);
    CHECK(table.header().layer_count == 1);
    CHECK(std::ranges::count(table.slots(0), std::byte{0}) ==
          static_cast<std::ptrdiff_t>(table.slots(0).size()));
  }
}

TEST_CASE("a reader gets the slots of an instant while another thread changes the filter") {
  const std::uint64_t seed = GENERATE(range(1, 20));
  CAPTURE(seed);
  RedisTable table = made({.capacity = 64, .expansion = static_cast<std::uint16_t>(1 + seed % 2)});
  Changes changes(table, seed);
  for (int i = 0; i < 1000; ++i) changes.step();
  const auto before = slots_of(table);
  PagesOfInstant pages(table);
  table.observe(&pages);
  std::vector<std::byte> read;
  std::thread reader([&] { read = pages.slots(); });
  for (int i = 0; i < 2000; ++i) changes.step();
  reader.join();
  // Once more, when nearly all pages have changed.
  const auto read_later = pages.slots();
  const std::vector<std::byte> zeros(table.slots(0).size());
  table.write({.layer = 0, .offset = 0, .byte_count = zeros.size()}, zeros);
  const auto read_last = pages.slots();
  table.observe(nullptr);
  CHECK((read == before));
  CHECK((read_later == before));
  CHECK((read_last == before));
}

}  // namespace redis_table_property
