// Compares the key table with an ordered map of its hashes, for hash functions from good to hostile.
#include <sepal/base/hash.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include "keyspace/key_table.hpp"
#include "support/catch.hpp"

namespace key_table_property {

namespace {

using sepal::hash64;
using sepal::keyspace::Deadline;
using sepal::keyspace::Entry;
using sepal::keyspace::KeyTable;
using sepal::keyspace::Segment;
using sepal::keyspace::ValuePtr;

struct NamedHash {
  const char* name;
  KeyTable::Hash hash;
};

std::uint64_t few_values(std::string_view key, std::uint64_t seed) {
  return hash64(key, seed) % 7 << 61;
}
std::uint64_t low_bits_only(std::string_view key, std::uint64_t seed) {
  return hash64(key, seed) >> 40;
}
std::uint64_t high_bits_all_one(std::string_view key, std::uint64_t seed) {
  return ~(hash64(key, seed) >> 30);
}
// Puts half of the keys into a thousandth of the range.
std::uint64_t skewed(std::string_view key, std::uint64_t seed) {
  const std::uint64_t hash = hash64(key, seed);
  return hash % 2 == 0 ? hash : hash >> 10;
}

using Model = std::set<std::pair<std::uint64_t, std::string>>;

void check_same(const KeyTable& table, const Model& model, std::uint64_t from) {
  // Keys with equal hashes may come in any order. So hashes are compared in order, and keys as a set.
  auto expected = model.lower_bound({from, ""});
  Model visited;
  table.visit_from(from, [&](std::uint64_t hash, const Entry& entry, Deadline) {
    REQUIRE(expected != model.end());
    REQUIRE(expected->first == hash);
    ++expected;
    visited.emplace(hash, entry.key.view());
    return true;
  });
  REQUIRE(expected == model.end());
  REQUIRE(visited == Model(model.lower_bound({from, ""}), model.end()));
}

void check_all_visited(const KeyTable& table, const Model& model) {
  std::multiset<std::string> visited;
  table.visit_all(
      [&](const Entry& entry, const sepal::value::Value&, Deadline) { visited.emplace(entry.key.view()); });
  std::multiset<std::string> expected;
  for (const auto& [hash, key] : model) expected.insert(key);
  REQUIRE(visited == expected);
}

void check_bytes(const KeyTable& table, std::uint64_t empty_bytes) {
  // The memory of a segment that is empty or nearly empty.
  constexpr std::uint64_t segment_bytes = sizeof(Segment) + 24 * Segment::entry_bytes;
  REQUIRE(table.byte_count() >= table.entries_bytes());
  REQUIRE(table.byte_count() <= empty_bytes + table.entries_bytes() +
                                    table.size() * Segment::entry_bytes / 4 +
                                    table.directory_slots() * (segment_bytes + sizeof(void*)));
}

}  // namespace

TEST_CASE("a key table behaves like an ordered map, for any hashes") {
  const NamedHash named =
      GENERATE(NamedHash{"even", &hash64}, NamedHash{"few values", &few_values},
               NamedHash{"low bits only", &low_bits_only}, NamedHash{"high bits all one", &high_bits_all_one},
               NamedHash{"skewed", &skewed});
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(1, 4));
  INFO("hash " << named.name << ", seed " << seed);
  constexpr int round_count = 12;
  constexpr int steps_per_round = 3000;
  constexpr std::uint64_t name_count = 12'000;
  constexpr std::size_t slots_always_allowed = 16;

  std::mt19937_64 random(seed);
  KeyTable table(seed, named.hash);
  sepal::Limbo at_once(nullptr);
  const std::uint64_t empty_bytes = table.byte_count();
  auto filter = sepal::bloom::Filter::create({.capacity = 1}, {.bytes_max = 1 << 20});
  REQUIRE(filter);
  Model model;
  std::uint64_t size_peak = 0;
  for (int round = 0; round < round_count; ++round) {
    // Rounds that mostly insert, then rounds that mostly remove.
    const std::uint64_t inserts_in_ten = round < round_count / 2 ? 8 : 2;
    for (int i = 0; i < steps_per_round; ++i) {
      const std::uint64_t number = random() % name_count;
      const std::string key = std::to_string(number);
      const std::uint64_t hash = named.hash(key, seed);
      const bool there = model.count({hash, key}) != 0;
      REQUIRE((table.find(key) != nullptr) == there);
      if (random() % 10 < inserts_in_ten) {
        if (!there) table.insert(table.hashed(key), *filter, at_once);
        model.emplace(hash, key);
      } else {
        REQUIRE((table.take(table.hashed(key), at_once) != nullptr) == there);
        model.erase({hash, key});
      }
      size_peak = std::max(size_peak, table.size());
    }
    REQUIRE(table.size() == model.size());
    REQUIRE(
        table.directory_slots() <=
        std::max(slots_always_allowed, static_cast<std::size_t>(size_peak / (Segment::capacity_max / 8))));
    for (const std::uint64_t from : {std::uint64_t{0}, std::uint64_t{random()}, ~std::uint64_t{0}})
      check_same(table, model, from);
    check_all_visited(table, model);
    check_bytes(table, empty_bytes);
  }
  for (const auto& [hash, key] : model) REQUIRE(table.take(table.hashed(key), at_once) != nullptr);
  REQUIRE(table.size() == 0);
  REQUIRE(table.byte_count() == empty_bytes);
}

}  // namespace key_table_property
