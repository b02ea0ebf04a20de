#include <sepal/base/gate.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include "keyspace/database.hpp"
#include "support/catch.hpp"

namespace key_table_test {

namespace {

using sepal::keyspace::Database;
using sepal::keyspace::Deadline;
using sepal::keyspace::Entry;
using sepal::keyspace::KeyTable;
using sepal::keyspace::Segment;
using sepal::keyspace::StoredKey;
using sepal::keyspace::ValuePtr;

ValuePtr make_filter() {
  auto created = sepal::bloom::Filter::create({.capacity = 1}, {.bytes_max = 1 << 20});
  REQUIRE(created);
  return *created;
}

// Lets a test choose the hash: the key begins with the hash in decimal digits, and a blank ends it.
std::uint64_t spelled_hash(std::string_view key, std::uint64_t) {
  std::uint64_t hash = 0;
  for (const char digit : key.substr(0, key.find(' ')))
    hash = hash * 10 + static_cast<std::uint64_t>(digit - '0');
  return hash;
}

sepal::Limbo at_once{nullptr};

KeyTable& part_for(Database& database, std::string_view key) {
  std::uint64_t made = 0;
  return database.part_for(database.hashed(key), made);
}

void insert_into(Database& database, std::string_view key, const ValuePtr& value) {
  part_for(database, key).insert(database.hashed(key), value, at_once);
}

ValuePtr take_from(Database& database, std::string_view key) {
  return part_for(database, key).take(database.hashed(key), at_once);
}

void insert(KeyTable& table, std::string_view key, const ValuePtr& value) {
  table.insert(table.hashed(key), value, at_once);
}

ValuePtr take(KeyTable& table, std::string_view key) {
  return table.take(table.hashed(key), at_once);
}

template <class Table>
std::vector<std::string> keys_of(const Table& table) {
  std::vector<std::string> keys;
  table.visit_from(0, [&](std::uint64_t, const Entry& entry, Deadline) {
    keys.emplace_back(entry.key.view());
    return true;
  });
  return keys;
}

bool in_order(const KeyTable& table) {
  std::uint64_t last = 0;
  bool ordered = true;
  table.visit_from(0, [&](std::uint64_t hash, const Entry&, Deadline) {
    ordered = ordered && hash >= last;
    last = hash;
    return true;
  });
  return ordered;
}

}  // namespace

TEST_CASE("a stored key keeps any bytes of any length") {
  for (const std::size_t length : {0, 1, 7, 8, 14, 15, 16, 17, 255, 256, 70000}) {
    std::string key(length, '\xff');
    if (length > 2) key[1] = '\0';
    CHECK(StoredKey(key).view() == key);
  }
}

TEST_CASE("a stored key allocates from one past the inline length on") {
  CHECK(StoredKey::heap_bytes(StoredKey::inline_bytes_max) == 0);
  CHECK(StoredKey::heap_bytes(StoredKey::inline_bytes_max + 1) > StoredKey::inline_bytes_max);
}

TEST_CASE("a segment splits when it would exceed its capacity by one") {
  KeyTable table(1);
  const ValuePtr filter = make_filter();
  for (std::size_t i = 0; i < Segment::capacity_max; ++i) insert(table, std::to_string(i), filter);
  CHECK(table.directory_slots() == 1);
  insert(table, "one more", filter);
  CHECK(table.directory_slots() == 2);
  CHECK(keys_of(table).size() == Segment::capacity_max + 1);
  CHECK(in_order(table));
}

TEST_CASE("segments that were split merge only when half a segment holds both") {
  KeyTable table(1);
  const ValuePtr filter = make_filter();
  for (std::size_t i = 0; i <= Segment::capacity_max; ++i) insert(table, std::to_string(i), filter);
  std::size_t left = table.size();
  for (; left > Segment::capacity_max / 2 + 1; --left)
    REQUIRE(take(table, std::to_string(left - 1)) != nullptr);
  CHECK(table.directory_slots() == 2);
  REQUIRE(take(table, std::to_string(left - 1)) != nullptr);
  CHECK(table.directory_slots() == 1);
  CHECK(in_order(table));
}

TEST_CASE("a segment gives back the memory of removed keys") {
  KeyTable table(1);
  const std::uint64_t empty_bytes = table.byte_count();
  const ValuePtr filter = make_filter();
  for (std::size_t i = 0; i < Segment::capacity_max; ++i) insert(table, std::to_string(i), filter);
  const std::uint64_t full_bytes = table.byte_count() - empty_bytes;
  for (std::size_t i = Segment::capacity_max / 8; i < Segment::capacity_max; ++i)
    REQUIRE(take(table, std::to_string(i)) != nullptr);
  CHECK(table.byte_count() - empty_bytes < full_bytes / 3);
}

TEST_CASE("a table that was emptied takes as much memory as a new one") {
  constexpr int key_count = 20'000;
  KeyTable table(7);
  const std::uint64_t empty_bytes = table.byte_count();
  const ValuePtr filter = make_filter();
  const auto key_of = [](int i) { return "a key long enough to be allocated " + std::to_string(i); };
  for (int i = 0; i < key_count; ++i) insert(table, key_of(i), filter);
  const std::size_t full_slots = table.directory_slots();
  CHECK(full_slots > 32);
  for (int i = 0; i < key_count; ++i) REQUIRE(take(table, key_of(i)) != nullptr);
  CHECK(table.size() == 0);
  CHECK(table.directory_slots() == 1);
  CHECK(table.byte_count() == empty_bytes);
  CHECK(filter->use_count() == 1);
}

TEST_CASE(
    "the bytes of a long key that was removed end with its last readers, whatever becomes of the block") {
  const ValuePtr filter = make_filter();
  sepal::Gate gate(1);
  sepal::Limbo limbo(&gate);
  KeyTable table(1);
  const std::string long_key(65536, 'k');
  for (int i = 0; i < 20; ++i) insert(table, std::to_string(i), filter);
  insert(table, long_key, filter);
  {
    const sepal::GateEntered reading(gate, 0);
    REQUIRE(table.take(table.hashed("7"), limbo) != nullptr);
    CHECK(limbo.empty());
    REQUIRE(table.take(table.hashed(long_key), limbo) != nullptr);
    CHECK(table.find(long_key) == nullptr);
    limbo.end_some();
    CHECK_FALSE(limbo.empty());
  }
  limbo.end_some();
  CHECK(limbo.empty());
  CHECK(table.find(long_key) == nullptr);
  insert(table, long_key, filter);
  CHECK(table.find(long_key) == filter.get());
}

TEST_CASE("memory follows the number of keys when a table shrinks") {
  constexpr int key_count = 50'000;
  constexpr int left_count = 500;
  KeyTable table(7);
  const ValuePtr filter = make_filter();
  for (int i = 0; i < key_count; ++i) insert(table, std::to_string(i), filter);
  const std::uint64_t full_bytes = table.byte_count();
  for (int i = left_count; i < key_count; ++i) REQUIRE(take(table, std::to_string(i)) != nullptr);
  CHECK(table.byte_count() < full_bytes / 30);
  for (int i = 0; i < left_count; ++i) CHECK(table.find(std::to_string(i)) != nullptr);
}

TEST_CASE("keys with the same hash are all found and all visited") {
  KeyTable table(0, &spelled_hash);
  const ValuePtr filter = make_filter();
  constexpr int key_count = 3000;
  const auto key_of = [](int i) { return "12345678901234567890 " + std::to_string(i); };
  for (int i = 0; i < key_count; ++i) insert(table, key_of(i), filter);
  for (int i = 0; i < key_count; ++i) REQUIRE(table.find(key_of(i)) != nullptr);
  CHECK(table.find("12345678901234567890 x") == nullptr);
  CHECK(keys_of(table).size() == key_count);
  for (int i = 0; i < key_count; i += 2) REQUIRE(take(table, key_of(i)) != nullptr);
  for (int i = 0; i < key_count; ++i) CHECK((table.find(key_of(i)) != nullptr) == (i % 2 == 1));
}

TEST_CASE("hashes that begin with the same bits do not make the directory large") {
  KeyTable table(0, &spelled_hash);
  const ValuePtr filter = make_filter();
  constexpr std::uint64_t key_count = 20'000;
  const std::uint64_t prefix = GENERATE(0ull, 0x8000'0000'0000'0000ull, 0xffff'ffff'ff00'0000ull);
  const auto key_of = [&](std::uint64_t i) { return std::to_string(prefix + i * 7919 % key_count); };
  for (std::uint64_t i = 0; i < key_count; ++i) insert(table, key_of(i), filter);
  CHECK(table.directory_slots() <= key_count / (Segment::capacity_max / 8));
  CHECK(keys_of(table).size() == key_count);
  CHECK(in_order(table));
  for (std::uint64_t i = 0; i < key_count; ++i) REQUIRE(table.find(key_of(i)) != nullptr);
  for (std::uint64_t random = 0; random < 100; ++random) REQUIRE(table.any(random) != nullptr);
  for (std::uint64_t i = 0; i < key_count; ++i) REQUIRE(take(table, key_of(i)) != nullptr);
  CHECK(table.directory_slots() == 1);
}

TEST_CASE("keys with the largest and the smallest hash work like others") {
  KeyTable table(0, &spelled_hash);
  const ValuePtr filter = make_filter();
  const std::string smallest = "0";
  const std::string largest = std::to_string(~std::uint64_t{0});
  insert(table, smallest, filter);
  insert(table, largest, filter);
  for (std::uint64_t i = 1; i < 2000; ++i)
    insert(table, std::to_string(i * 0x0020'0000'0000'0000ull), filter);
  CHECK(table.find(smallest) != nullptr);
  CHECK(table.find(largest) != nullptr);
  CHECK(keys_of(table).front() == smallest);
  CHECK(keys_of(table).back() == largest);
}

TEST_CASE("keys that share a position are returned together by a scan") {
  Database table(0, &spelled_hash);
  const ValuePtr filter = make_filter();
  constexpr std::uint64_t position_width = std::uint64_t{1} << (64 - KeyTable::position_bits);
  constexpr std::uint64_t last_position = (std::uint64_t{1} << KeyTable::position_bits) - 1;
  // Five keys at each of these positions, some with the same hash.
  for (const std::uint64_t position :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40, last_position})
    for (const int offset : {0, 0, 1, 2, 2}) {
      const std::string hash = std::to_string(position * position_width + static_cast<std::uint64_t>(offset));
      insert_into(table, hash + " " + std::to_string(table.size()), filter);
    }
  std::vector<std::string> visited;
  std::uint64_t cursor = 0;
  int step_count = 0;
  do {
    const auto step = table.scan({.cursor = cursor, .count_min = 2});
    CHECK(step.keys.size() == 5);
    visited.insert(visited.end(), step.keys.begin(), step.keys.end());
    cursor = step.cursor;
  } while (cursor != 0 && ++step_count < 10);
  CHECK(visited == keys_of(table));
}

TEST_CASE("all entries are visited once in any order, and in the order of hashes") {
  KeyTable table(3);
  const ValuePtr filter = make_filter();
  constexpr int key_count = 5000;
  for (int i = 0; i < key_count; ++i) insert(table, "a key that may be long " + std::to_string(i), filter);
  std::vector<std::string> visited;
  table.visit_all([&](const Entry& entry, const sepal::value::Value&, Deadline) {
    visited.emplace_back(entry.key.view());
  });
  std::vector<std::string> ordered = keys_of(table);
  CHECK(in_order(table));
  std::sort(visited.begin(), visited.end());
  std::sort(ordered.begin(), ordered.end());
  CHECK(visited.size() == key_count);
  CHECK(visited == ordered);
  CHECK(std::adjacent_find(visited.begin(), visited.end()) == visited.end());
}

TEST_CASE("a prefetch of any keys has no effect on the table") {
  const int key_count = GENERATE(0, 1, 70, 20'000);
  Database table(5);
  const ValuePtr filter = make_filter();
  const auto key_of = [](int i) { return (i % 2 == 0 ? "" : "longer than what fits ") + std::to_string(i); };
  for (int i = 0; i < key_count; ++i) insert_into(table, key_of(i), filter);
  const std::uint64_t bytes = table.byte_count();
  const std::vector<std::string> before = keys_of(table);

  std::vector<std::string> names{"", std::string(100'000, 'x'), std::string("\0", 1)};
  for (int i = 0; i < 300; ++i) names.push_back(key_of(i));      // in the table if i < key_count
  for (int i = 0; i < 300; ++i) names.push_back(key_of(i / 9));  // names that occur several times
  for (int i = 0; i < 300; ++i) names.push_back("absent " + std::to_string(i));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  for (const std::size_t count : {0, 1, 2, 31, 32, 33, 64, 65, 900})
    for (const std::size_t first : {0, 3}) table.prefetch(std::span(keys).subspan(first, count));

  CHECK(table.byte_count() == bytes);
  CHECK(keys_of(table) == before);
  for (int i = 0; i < key_count; ++i) REQUIRE(table.find(key_of(i)) != nullptr);
  CHECK(table.find("absent 1") == nullptr);
}

TEST_CASE("a prefetch is harmless where all hashes are equal and where all keys are gone") {
  Database table(0, &spelled_hash);
  const ValuePtr filter = make_filter();
  std::vector<std::string> names;
  for (int i = 0; i < 500; ++i) names.push_back("77 " + std::to_string(i));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  for (const auto key : keys) insert_into(table, key, filter);
  table.prefetch(keys);
  for (const auto key : keys) REQUIRE(table.find(key) != nullptr);
  for (const auto key : keys) REQUIRE(take_from(table, key) != nullptr);
  table.prefetch(keys);
  CHECK(table.size() == 0);
}

}  // namespace key_table_test
