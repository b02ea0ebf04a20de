#include "golden_cuckoo.hpp"

#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/writers/cuckoo_writer.hpp>
#include <sepal/writers/redis_cuckoo_writer.hpp>

#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/storage_fixture.hpp"

namespace formats_test {

using namespace sepal;

namespace {

constexpr std::uint64_t copies_of_often = 5;

cuckoo::Filter* cuckoo_at(const keyspace::Keyspace& keyspace, const std::string& key) {
  return keyspace.find_as<cuckoo::Filter>({.database = 3, .key = key});
}
cuckoo::RedisFilter* redis_cuckoo_at(const keyspace::Keyspace& keyspace, const std::string& key) {
  return keyspace.find_as<cuckoo::RedisFilter>({.database = 3, .key = key});
}

// Adds the items `from` to `to` - 1 of this name to a filter of either kind, or removes them.
void add_cuckoo(keyspace::Mutator& mutator, const std::string& key, std::uint64_t from, std::uint64_t to) {
  const keyspace::DatabaseKey at{.database = 3, .key = key};
  constexpr auto always = cuckoo::Filter::AddIf::always;
  std::vector<cuckoo::Filter::AddOutcome> outcomes;
  for (std::uint64_t i = from; i < to; ++i) {
    const std::string item = item_of("cuckoo", i);
    const std::string_view view = item;
    if (auto* const filter = redis_cuckoo_at(mutator.keyspace(), key)) {
      sepal::writers::add(mutator, at, *filter, {&view, 1}, always, outcomes);
    } else {
      REQUIRE(sepal::writers::add(mutator, at, *cuckoo_at(mutator.keyspace(), key), {&view, 1}, always,
                                  outcomes));
    }
    REQUIRE(outcomes.front().added);
  }
}

void remove_cuckoo(keyspace::Mutator& mutator, const std::string& key, std::uint64_t from, std::uint64_t to) {
  const keyspace::DatabaseKey at{.database = 3, .key = key};
  for (std::uint64_t i = from; i < to; ++i) {
    const std::string item = item_of("cuckoo", i);
    const std::string_view view = item;
    bool removed = false;
    if (auto* const filter = redis_cuckoo_at(mutator.keyspace(), key)) {
      sepal::writers::remove(mutator, at, *filter, {&view, 1}, {&removed, 1});
    } else {
      REQUIRE(sepal::writers::remove(mutator, at, *cuckoo_at(mutator.keyspace(), key), {&view, 1},
                                     {&removed, 1}));
    }
    REQUIRE(removed);
  }
}

void create_cuckoo(keyspace::Mutator& mutator, const std::string& key, const cuckoo::Options& options,
                   keyspace::Deadline deadline = keyspace::no_deadline) {
  std::vector<cuckoo::Filter::AddOutcome> outcomes;
  REQUIRE(sepal::writers::create(mutator, {.database = 3, .key = key},
                                 {.options = options, .deadline = deadline}, outcomes));
}

// What both the cut and the journal have: two layers, items that have left, and copies beside the lines.
void make_cuckoo(keyspace::Mutator& mutator, const std::string& key) {
  create_cuckoo(mutator, key, {.capacity = 4, .error_rate = 0.5, .expansion = 2, .seed = 5});
  add_cuckoo(mutator, key, 0, 100);
  for (std::uint64_t copy = 1; copy < copies_of_often; ++copy) add_cuckoo(mutator, key, 0, 1);
  remove_cuckoo(mutator, key, 90, 100);
}

// A filter of RedisBloom with items 0 to 19 in two layers. It comes as a header and a chunk of empty slots.
void make_redis_cuckoo(keyspace::Mutator& mutator, const std::string& key) {
  const keyspace::DatabaseKey at{.database = 3, .key = key};
  REQUIRE(sepal::writers::create(mutator, at,
                                 cuckoo::RedisHeader{.bucket_count = 8, .bucket_slots = 2, .expansion = 1},
                                 test::some_time));
  const std::vector<std::byte> empty(4);
  sepal::writers::write(mutator, at, *redis_cuckoo_at(mutator.keyspace(), key), 4, empty);
  add_cuckoo(mutator, key, 0, 20);
}

struct ExpectedCuckoo {
  std::string key;
  std::uint64_t from = 0;  // items of which it has a copy
  std::uint64_t to = 0;
  std::uint64_t items = 0;
  std::uint64_t removed = 0;
  std::uint32_t layers = 1;
};

}  // namespace

void add_cuckoo_of_the_cut(keyspace::Keyspace& keyspace) {
  keyspace::Mutator without_journal(keyspace, nullptr);
  make_cuckoo(without_journal, "saved");
  create_cuckoo(without_journal, "full", {.capacity = 3, .error_rate = 0.01, .expansion = 0, .seed = 5},
                33'177'117'420'000);
  add_cuckoo(without_journal, "full", 0, 3);
  make_redis_cuckoo(without_journal, "theirs saved");
}

void change_as_in_version_12(keyspace::Mutator& mutator) {
  add_cuckoo(mutator, "saved", 100, 110);
  remove_cuckoo(mutator, "saved", 80, 90);
  make_cuckoo(mutator, "recorded");
  const keyspace::DatabaseKey compacted{.database = 3, .key = "recorded"};
  sepal::writers::compact(mutator, compacted, *cuckoo_at(mutator.keyspace(), "recorded"));
  remove_cuckoo(mutator, "recorded", 89, 90);
  remove_cuckoo(mutator, "full", 0, 1);
  add_cuckoo(mutator, "full", 3, 4);
  remove_cuckoo(mutator, "theirs saved", 0, 1);
  make_redis_cuckoo(mutator, "theirs recorded");
  remove_cuckoo(mutator, "theirs recorded", 0, 14);
  const keyspace::DatabaseKey theirs{.database = 3, .key = "theirs recorded"};
  sepal::writers::compact(mutator, theirs, *redis_cuckoo_at(mutator.keyspace(), "theirs recorded"));
}

void require_cuckoo_filters(const keyspace::Keyspace& keyspace) {
  const ExpectedCuckoo own[] = {
      {"saved", 1, 80, 94, 20, 2}, {"recorded", 1, 89, 93, 1, 2}, {"full", 1, 4, 3, 1}};
  for (const ExpectedCuckoo& expected : own) {
    INFO(expected.key);
    const auto* const filter = cuckoo_at(keyspace, expected.key);
    REQUIRE(filter != nullptr);
    const auto count = [&](const std::string& item) { return filter->count(item); };
    for (std::uint64_t i = expected.from; i < expected.to; ++i) CHECK(count(item_of("cuckoo", i)) >= 1);
    CHECK(filter->item_count() == expected.items);
    CHECK(filter->removed_count() == expected.removed);
    CHECK(filter->layer_count() == expected.layers);
  }
  for (std::uint64_t i = 100; i < 110; ++i)
    CHECK(cuckoo_at(keyspace, "saved")->count(item_of("cuckoo", i)) >= 1);
  for (const char* key : {"saved", "recorded"})
    CHECK(cuckoo_at(keyspace, key)->count("cuckoo/0") >= copies_of_often);
  CHECK(cuckoo_at(keyspace, "full")->plan().options ==
        cuckoo::Options{.capacity = 3, .error_rate = 0.01, .expansion = 0, .seed = 5});
  CHECK(keyspace.deadline({.database = 3, .key = "full"}) == 33'177'117'420'000);
  const ExpectedCuckoo theirs[] = {{"theirs saved", 1, 20, 19, 1, 2}, {"theirs recorded", 14, 20, 6, 0, 1}};
  for (const ExpectedCuckoo& expected : theirs) {
    INFO(expected.key);
    const auto* const filter = redis_cuckoo_at(keyspace, expected.key);
    REQUIRE(filter != nullptr);
    for (std::uint64_t i = expected.from; i < expected.to; ++i)
      CHECK(filter->table().contains(item_of("cuckoo", i)));
    CHECK(filter->header().item_count == expected.items);
    CHECK(filter->header().delete_count == expected.removed);
    CHECK(filter->header().layer_count == expected.layers);
  }
  CHECK(keyspace.size(3) == std::size(own) + std::size(theirs));
}

}  // namespace formats_test
