#include "keyspace/segment.hpp"

#include <sepal/base/hash.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include "support/catch.hpp"

namespace segment_test {

namespace {

using sepal::keyspace::Entry;
using sepal::keyspace::Segment;
using sepal::keyspace::ValuePtr;

std::uint64_t hash_of(std::string_view key) {
  return sepal::hash64(key, 11);
}

std::string key_of(std::size_t i) {
  return (i % 3 == 0 ? "a key that needs more than its sixteen bytes " : "k") + std::to_string(i);
}

// The entries have no filters, because a segment does not look at them.
std::unique_ptr<Segment> filled(std::size_t count) {
  auto segment = Segment::create(0, count);
  for (std::size_t i = 0; i < count; ++i) segment->insert(hash_of(key_of(i)), key_of(i), nullptr);
  return segment;
}

bool holds(const Segment& segment, std::size_t i) {
  const std::size_t index = segment.find(hash_of(key_of(i)), key_of(i));
  return index != Segment::not_found && segment.at(index).key.view() == key_of(i);
}

// The number of free places, computed from the segment's bytes. The tags are filled up to a multiple of 8.
std::size_t free_count(const Segment& segment) {
  return (segment.byte_count() - sizeof(Segment)) / Segment::entry_bytes - segment.size();
}

}  // namespace

TEST_CASE("a segment has room for the requested number of entries, and for few more") {
  for (const std::size_t count : {0, 1, 2, 7, 8, 9, 63, 64, 65, 255, 256, 257, 5000}) {
    const auto segment = filled(count);
    CHECK(segment->size() == count);
    CHECK(free_count(*segment) <= count / 3 + 4);
    CHECK(segment->is_full() == (free_count(*segment) == 0));
    CHECK_FALSE(segment->is_sparse());
    for (std::size_t i = 0; i < count; ++i) REQUIRE(holds(*segment, i));
    CHECK_FALSE(holds(*segment, count));
  }
}

TEST_CASE("a segment without entries takes only its header") {
  const auto segment = Segment::create(3, 0);
  CHECK(segment->depth() == 3);
  CHECK(segment->is_full());
  CHECK(segment->byte_count() == sizeof(Segment));
  CHECK_FALSE(holds(*segment, 0));
}

TEST_CASE("after an entry was taken, all others are still found") {
  constexpr std::size_t count = 300;
  const std::size_t step = GENERATE(1, 7, 299);
  const auto segment = filled(count);
  for (std::size_t taken = 0; taken < count; ++taken) {
    const std::size_t victim = taken * step % count;
    segment->take(segment->find(hash_of(key_of(victim)), key_of(victim)));
    REQUIRE_FALSE(holds(*segment, victim));
    REQUIRE(segment->size() == count - taken - 1);
    for (std::size_t later = taken + 1; later < count; ++later)
      REQUIRE(holds(*segment, later * step % count));
  }
  CHECK(segment->is_sparse());
}

TEST_CASE("a segment is not sparse at once when it was full") {
  const auto segment = filled(Segment::capacity_max);
  for (int i = 0; i < 8; ++i) {
    segment->take(0);
    CHECK_FALSE(segment->is_sparse());
  }
}

TEST_CASE("partitioned entries move to another segment with their tags") {
  const std::size_t count = GENERATE(0, 1, 64, 1000);
  const std::uint64_t bit = GENERATE(0, 1, 63);
  const auto lower = filled(count);
  const auto is_lower = [&](std::string_view key) { return (hash_of(key) >> bit & 1) == 0; };
  const std::size_t lower_count = lower->partition(is_lower);
  const auto upper = Segment::create(1, count - lower_count);
  upper->take_from(*lower, lower_count);
  CHECK(lower->size() == lower_count);
  CHECK(upper->size() == count - lower_count);
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(holds(*lower, i) == is_lower(key_of(i)));
    REQUIRE(holds(*upper, i) != is_lower(key_of(i)));
  }
}

TEST_CASE("keys with the same tag are distinguished") {
  constexpr std::uint64_t hash = 0xab;
  const auto segment = Segment::create(0, 200);
  for (std::size_t i = 0; i < 200; ++i) segment->insert(hash, key_of(i), nullptr);
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t index = segment->find(hash, key_of(i));
    REQUIRE(index != Segment::not_found);
    REQUIRE(segment->at(index).key.view() == key_of(i));
  }
  CHECK(segment->find(hash, "none of them") == Segment::not_found);
}

TEST_CASE("a prefetch returns an entry with the hash's tag, or none") {
  const auto segment = Segment::create(0, 10);
  segment->prefetch_tags();
  CHECK(segment->prefetch_entry(1) == nullptr);
  segment->insert(0x101, "one", nullptr);
  const Entry* const entry = segment->prefetch_entry(0x101);
  REQUIRE(entry != nullptr);
  CHECK(entry->key.view() == "one");
  CHECK(segment->prefetch_entry(0x102) == nullptr);
}

}  // namespace segment_test
