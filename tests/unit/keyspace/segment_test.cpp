#include "keyspace/segment.hpp"

#include <sepal/base/hash.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include "support/catch.hpp"

namespace segment_test {

namespace {

using sepal::keyspace::Entry;
using sepal::keyspace::Segment;
using sepal::keyspace::ValuePtr;

sepal::Limbo at_once{nullptr};

std::uint64_t hash_of(std::string_view key) {
  return sepal::hash64(key, 11);
}

std::string key_of(std::size_t i) {
  return (i % 3 == 0 ? "a key that needs more than its sixteen bytes " : "k") + std::to_string(i);
}

// All entries share one filter, because a segment does not look at it.
ValuePtr filter() {
  static const ValuePtr made = *sepal::bloom::Filter::create({.capacity = 1}, {.bytes_max = 1 << 20});
  return made;
}

std::unique_ptr<Segment> filled(std::size_t count) {
  auto segment = Segment::create(0, count);
  for (std::size_t i = 0; i < count; ++i) segment->insert(hash_of(key_of(i)), key_of(i), filter());
  return segment;
}

bool holds(const Segment& segment, std::size_t i) {
  const Segment::Found found = segment.find(hash_of(key_of(i)), key_of(i));
  return found.value != nullptr && segment.at(found.index).key.view() == key_of(i);
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
    REQUIRE(segment->take(segment->find(hash_of(key_of(victim)), key_of(victim)).index, at_once) == filter());
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
    REQUIRE(segment->take(static_cast<std::size_t>(i), at_once) != nullptr);
    CHECK_FALSE(segment->is_sparse());
  }
}

TEST_CASE("readers of a segment whose entries have moved still find them") {
  const std::size_t count = GENERATE(1, 64, 1000);
  auto old = filled(count);
  REQUIRE(old->take(old->find(hash_of(key_of(0)), key_of(0)).index, at_once) != nullptr);
  const auto fresh = Segment::create(0, count);
  for (std::size_t index = 0; index < old->used(); ++index)
    if (old->at(index).value.load() != nullptr) fresh->copy_from(*old, index);
  old->moved_out();
  CHECK(fresh->size() == count - 1);
  for (std::size_t i = 1; i < count; ++i) {
    REQUIRE(holds(*old, i));
    REQUIRE(holds(*fresh, i));
  }
  // The old segment frees nothing that has moved.
  old.reset();
  CHECK_FALSE(holds(*fresh, 0));
  for (std::size_t i = 1; i < count; ++i) REQUIRE(holds(*fresh, i));
}

TEST_CASE("a key that was removed and came back is found behind its dead place") {
  const auto segment = Segment::create(0, 4);
  for (int i = 0; i < 3; ++i) {
    segment->insert(7, "k", filter());
    const Segment::Found found = segment->find(7, "k");
    REQUIRE(found.value == filter().get());
    REQUIRE(segment->take(found.index, at_once) != nullptr);
    REQUIRE(segment->find(7, "k").value == nullptr);
  }
  CHECK(segment->size() == 0);
  CHECK(segment->used() == 3);
}

TEST_CASE("keys with the same tag are distinguished") {
  constexpr std::uint64_t hash = 0xab;
  const auto segment = Segment::create(0, 200);
  for (std::size_t i = 0; i < 200; ++i) segment->insert(hash, key_of(i), filter());
  for (std::size_t i = 0; i < 200; ++i) {
    const Segment::Found found = segment->find(hash, key_of(i));
    REQUIRE(found.value != nullptr);
    REQUIRE(segment->at(found.index).key.view() == key_of(i));
  }
  CHECK(segment->find(hash, "none of them").value == nullptr);
}

TEST_CASE("a prefetch returns an entry with the hash's tag, or none") {
  const auto segment = Segment::create(0, 10);
  segment->prefetch_tags();
  CHECK(segment->prefetch_entry(1) == nullptr);
  segment->insert(0x101, "one", filter());
  const Entry* const entry = segment->prefetch_entry(0x101);
  REQUIRE(entry != nullptr);
  CHECK(entry->key.view() == "one");
  CHECK(segment->prefetch_entry(0x102) == nullptr);
}

}  // namespace segment_test
