#include <sepal/bloom/filter/filter.hpp>

#include <functional>

#include "support/catch.hpp"

namespace add_recorder_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr std::uint64_t seed = 5;

class Told final : public AddRecorder {
 public:
  [[nodiscard]] bool begin() override {
    REQUIRE_FALSE(begun_);
    begun_ = !refuses;
    ++begins;
    if (when_begun) when_begun();
    return begun_;
  }
  void end(std::span<const Fingerprint> added) override {
    tell(added);
    begun_ = false;
  }
  void tell(std::span<const Fingerprint> added) override {
    REQUIRE(begun_);
    ++pieces;
    longest = std::max(longest, added.size());
    fingerprints.insert(fingerprints.end(), added.begin(), added.end());
  }
  [[nodiscard]] bool ended() const { return !begun_; }

  bool refuses = false;
  std::function<void()> when_begun;
  int begins = 0;
  int pieces = 0;
  std::size_t longest = 0;
  std::vector<Fingerprint> fingerprints;

 private:
  bool begun_ = false;
};

FilterPtr filter_of(std::uint64_t capacity) {
  auto filter = Filter::create({.error_rate = 1e-9, .capacity = capacity, .expansion = 0, .seed = seed},
                               {.bytes_max = std::uint64_t{1} << 30});
  REQUIRE(filter);
  return *filter;
}

std::vector<std::string> numbered(std::size_t count) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < count; ++i) items.push_back("item " + std::to_string(i));
  return items;
}

bool try_add(Filter& filter, const std::vector<std::string>& items, Told& told) {
  const std::vector<std::string_view> views(items.begin(), items.end());
  const auto answers = std::make_unique<bool[]>(items.size());
  const bool done = filter.try_add(views, {answers.get(), items.size()}, &told);
  CHECK(told.ended());
  return done;
}

TEST_CASE("a recorder gets the fingerprints of new items, in order, each once") {
  // Filters without shards and with shards.
  const auto filter = filter_of(GENERATE(100, 100'000));
  Told told;
  REQUIRE(try_add(*filter, {"b", "a", "b", "c", "a"}, told));
  CHECK(told.begins == 1);
  CHECK(told.fingerprints ==
        std::vector{fingerprint_of("b", seed), fingerprint_of("a", seed), fingerprint_of("c", seed)});
  REQUIRE(try_add(*filter, {"d"}, told));
  CHECK(told.begins == 2);
  CHECK(told.fingerprints.size() == 4);
  CHECK(told.fingerprints.back() == fingerprint_of("d", seed));
  REQUIRE(try_add(*filter, {"c", "e"}, told));
  CHECK(told.begins == 3);
  CHECK(told.fingerprints.size() == 5);
}

TEST_CASE("a recorder gets nothing for known items") {
  const auto filter = filter_of(GENERATE(100, 100'000));
  Told first;
  REQUIRE(try_add(*filter, numbered(90), first));
  Told told;
  CHECK(try_add(*filter, numbered(90), told));
  CHECK(try_add(*filter, numbered(1), told));
  CHECK(try_add(*filter, {}, told));
  CHECK(told.begins == 0);
}

TEST_CASE("a recorder gets a large batch in pieces") {
  const auto filter = filter_of(10'000);
  Told told;
  REQUIRE(try_add(*filter, numbered(5'000), told));
  CHECK(told.begins == 1);
  CHECK(told.pieces >= 5);
  CHECK(told.pieces <= 6);
  CHECK(told.longest <= recorded_items_max);
  CHECK(told.fingerprints.size() == filter->item_count());
  CHECK(told.fingerprints.front() == fingerprint_of("item 0", seed));
  CHECK(told.fingerprints.back() == fingerprint_of("item 4999", seed));
}

TEST_CASE("a recorder gets no item of a batch that found no room") {
  const auto filter = filter_of(GENERATE(10, 100'000));
  Told first;
  REQUIRE(try_add(*filter, numbered(filter->capacity()), first));
  REQUIRE(filter->item_count() == filter->capacity());
  Told told;
  CHECK_FALSE(try_add(*filter, {"new"}, told));
  CHECK_FALSE(try_add(*filter, {"new", "newer"}, told));
  CHECK(told.fingerprints.empty());
}

TEST_CASE("a recorder that refuses an add leaves the filter as it was, with all of its room") {
  const auto filter = filter_of(GENERATE(300, 100'000));
  Told told;
  told.refuses = true;
  CHECK_FALSE(try_add(*filter, {"a"}, told));
  CHECK_FALSE(try_add(*filter, numbered(200), told));
  CHECK(told.begins == 2);
  CHECK(told.pieces == 0);
  CHECK(filter->item_count() == 0);
  const std::vector<std::string_view> one{"a"};
  bool present = true;
  filter->contains(one, std::span(&present, 1));
  CHECK_FALSE(present);
  told.refuses = false;
  CHECK(try_add(*filter, numbered(filter->capacity()), told));
}

TEST_CASE("a filter with room that an add has claimed does not grow yet, and a full one does") {
  const auto filter = filter_of(GENERATE(100, 100'000));
  Told told;
  REQUIRE(try_add(*filter, numbered(filter->capacity() - 2), told));
  CHECK(filter->find_room() == Filter::Room::some);
  told.when_begun = [&] {
    // The add holds the last room, and has not counted an item.
    CHECK(filter->room() == 0);
    CHECK(filter->find_room() == Filter::Room::claimed);
  };
  REQUIRE(try_add(*filter, {"a", "item 1"}, told));
  CHECK(filter->room() == 1);
  CHECK(filter->find_room() == Filter::Room::some);
  told.when_begun = nullptr;
  REQUIRE(try_add(*filter, {"b"}, told));
  CHECK(filter->find_room() == Filter::Room::none);
}

}  // namespace

}  // namespace add_recorder_test
