#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/value/image.hpp>
#include <sepal/value/kept_bytes.hpp>

#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace stills_test {

namespace {

using namespace sepal;
using namespace sepal::cuckoo;

constexpr std::uint64_t roomy = std::uint64_t{1} << 40;
constexpr value::Limits no_limits{.bytes_max = roomy};

FilterPtr made() {
  return *Filter::create(*plan({.capacity = 2048, .capacity_given = false, .seed = 7}, roomy));
}

// Gives what is left, and no more.
class Purse final : public Memory {
 public:
  explicit Purse(std::uint64_t bytes) : left_(bytes) {}
  bool may_take(std::uint64_t bytes) override { return bytes <= left_; }
  void took(std::int64_t bytes) override { left_ -= static_cast<std::uint64_t>(bytes); }
  void retire(void* object, void (*end)(void*)) override { end(object); }

 private:
  std::uint64_t left_;
};

Filter::AddOutcome add(Filter& filter, const std::string& text, Memory& memory) {
  std::vector<Filter::AddOutcome> outcomes;
  const std::string_view view = text;
  REQUIRE(filter.add({&view, 1}, Filter::AddIf::always, memory, outcomes, nullptr));
  return outcomes.front();
}
void add_many(Filter& filter, int first, int count) {
  OwnMemory memory;
  for (int number = first; number < first + count; ++number)
    REQUIRE(add(filter, std::to_string(number), memory).added);
}
bool remove(Filter& filter, const std::string& text, Memory& memory) {
  const std::string_view view = text;
  bool removed = false;
  REQUIRE(filter.remove({&view, 1}, memory, {&removed, 1}, nullptr));
  return removed;
}

// What a copy has: a cell that was kept is as it was at the freeze, or later.
value::ValuePtr copied(const value::Frozen& frozen) {
  auto copy = frozen.copy(no_limits, {});
  INFO((copy ? "" : copy.error().detail));
  REQUIRE(copy);
  return *copy;
}

}  // namespace

TEST_CASE("copies under way share what is kept, and it is freed as they read it") {
  constexpr int items = 150'000;
  const FilterPtr filter = made();
  add_many(*filter, 0, items);
  std::optional<value::Frozen> first(std::in_place, filter);
  std::optional<value::Frozen> second(std::in_place, filter);
  std::optional<value::Frozen> third(std::in_place, filter);
  CHECK(value::KeptBytes::total() == 0);
  const std::uint64_t bytes = first->body_bytes();
  add_many(*filter, items, 2 * items);
  const std::uint64_t kept = value::KeptBytes::total();
  CHECK(kept >= bytes);
  CHECK(kept <= bytes + bytes / 4);
  // A second growth of the same cells keeps nothing more.
  add_many(*filter, 3 * items, 3 * items);
  CHECK(value::KeptBytes::total() == kept);
  for (const value::Frozen* frozen : {&*first, &*second}) {
    const auto copy = copied(*frozen);
    for (int number = 0; number < items; ++number)
      REQUIRE(value::as<Filter>(*copy).count(std::to_string(number)) >= 1);
  }
  CHECK(value::KeptBytes::total() == kept);
  first.reset();
  second.reset();
  const auto copy = copied(*third);
  // The record that was read last.
  CHECK(value::KeptBytes::total() <= kept / 3);
  third.reset();
  CHECK(value::KeptBytes::total() == 0);
  CHECK(value::as<Filter>(*copy).item_count() >= items);
  CHECK(value::as<Filter>(*copy).item_count() < 2 * items);
}

TEST_CASE("a cell grows only if there is memory for what a copy keeps of it") {
  const FilterPtr filter = made();
  add_many(*filter, 0, 2000);
  const value::Frozen frozen(filter);
  const std::uint64_t bytes = filter->byte_count();
  Purse nothing(0);
  int number = 2000;
  while (add(*filter, std::to_string(number), nothing).added) ++number;
  CHECK(value::KeptBytes::total() == 0);
  CHECK(filter->byte_count() == bytes);
  // Enough for what grows, but not for what is kept.
  Purse little(bytes * 3 / 2);
  CHECK(add(*filter, "one more", little).refusal == Refusal::no_memory);
  Purse enough(bytes * 4);
  CHECK(add(*filter, "one more", enough).added);
  CHECK(value::KeptBytes::total() > 0);
  CHECK(value::as<Filter>(*copied(frozen)).item_count() == static_cast<std::uint64_t>(number));
}

TEST_CASE("a removal takes no memory, whatever copies are under way") {
  const FilterPtr filter = made();
  add_many(*filter, 0, 100);
  OwnMemory memory;
  for (int copy = 0; copy < 5; ++copy) REQUIRE(add(*filter, "many", memory).added);
  const value::Frozen frozen(filter);
  Purse nothing(0);
  for (int copy = 0; copy < 3; ++copy) CHECK(remove(*filter, "many", nothing));
  CHECK(filter->count("many") == 2);
  CHECK(value::KeptBytes::total() == 0);
  {
    const auto copy = copied(frozen);
    auto& other = value::as<Filter>(*copy);
    CHECK(other.count("many") == 2);
    CHECK(other.item_count() == 102);
    // Further copies are counted again.
    for (int more = 0; more < 5; ++more) REQUIRE(add(other, "many", memory).added);
    CHECK(other.count("many") == 7);
  }
  for (int more = 0; more < 5; ++more) REQUIRE(add(*filter, "many", nothing).added);
  CHECK(filter->count("many") == 7);
  for (int copy = 0; copy < 7; ++copy) CHECK(remove(*filter, "many", nothing));
  CHECK_FALSE(remove(*filter, "many", nothing));
}

TEST_CASE("a copy of a filter that is empty, or that has got another layer since, has the old ones") {
  const FilterPtr empty = made();
  const value::Frozen of_empty(empty);
  add_many(*empty, 0, 100);
  CHECK(value::as<Filter>(*copied(of_empty)).item_count() == 0);

  const auto options = Options{.capacity = 500, .seed = 7};
  const FilterPtr filter = *Filter::create(*plan(options, roomy));
  add_many(*filter, 0, 400);
  const value::Frozen frozen(filter);
  add_many(*filter, 400, 2000);
  REQUIRE(filter->layer_count() > 1);
  const auto copy = copied(frozen);
  CHECK(value::as<Filter>(*copy).layer_count() == 1);
  for (int number = 0; number < 400; ++number)
    REQUIRE(value::as<Filter>(*copy).count(std::to_string(number)) >= 1);
}

TEST_CASE("a copy takes no more memory than its filter, so a full server starts again") {
  OwnMemory memory;
  for (const bool capacity_given : {true, false})
    for (const std::uint32_t expansion : {0U, 1U})
      for (const std::uint64_t capacity : {10U, 1024U, 100'000U}) {
        const auto planned =
            plan({.capacity = capacity, .expansion = expansion, .capacity_given = capacity_given}, roomy);
        const FilterPtr filter = *Filter::create(*planned);
        const auto check = [&] {
          CAPTURE(capacity_given, expansion, capacity, filter->item_count());
          const value::ValuePtr copy = copied(value::Frozen(filter));
          CHECK(static_cast<const Filter&>(*copy).byte_count() <= filter->byte_count());
        };
        check();
        const std::uint64_t items = expansion == 0 ? capacity : 100 * capacity;
        for (std::uint64_t number = 0; number < std::min<std::uint64_t>(items, 200'000); ++number) {
          const auto outcome = add(*filter, std::to_string(number), memory);
          if (outcome.refusal == Refusal::full) break;
          REQUIRE(outcome.added);
          if (number == capacity || number == 10 * capacity) check();
        }
        check();
      }
}

TEST_CASE("a filter gives back the memory of copies that were removed") {
  OwnMemory memory;
  const FilterPtr filter = made();
  const auto emptied = [&](int copies) {
    for (int copy = 0; copy < copies; ++copy) add_many(*filter, 0, 10'000);
    for (int copy = 0; copy < copies; ++copy)
      for (int number = 0; number < 10'000; ++number)
        REQUIRE(remove(*filter, std::to_string(number), memory));
    CHECK(filter->item_count() == 0);
    return filter->byte_count();
  };
  const std::uint64_t of_single_items = emptied(1);
  CHECK(emptied(8) < 2 * of_single_items);
}

}  // namespace stills_test
