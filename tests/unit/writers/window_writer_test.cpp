#include <sepal/writers/window_writer.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"

namespace window_writer_test {

namespace {

using namespace sepal;
using keyspace::DatabaseKey;
using keyspace::Keyspace;
using keyspace::Mutator;
using Outcomes = std::vector<bloom::WindowFilter::AddOutcome>;

class PageGiver final : public test::FreeingHousekeeper {
 public:
  void give_pages(value::ValuePtr) override { ++given; }
  int given = 0;
};

WallTime at_hour(int hour) {
  return WallTime(std::chrono::hours(500'000 + hour));
}

}  // namespace

TEST_CASE("a layer that comes in the place of one of the same size is a change, and gets its pages") {
  PageGiver housekeeper;
  Keyspace keys{{}, housekeeper};
  Mutator changes{keys, nullptr};
  const DatabaseKey key{.database = 0, .key = "bursts"};
  // So large that layers have huge pages.
  constexpr std::uint64_t generation_items = 300'000;
  Outcomes outcomes;
  const auto made = writers::create(changes, key,
                                    {.options = {.error_rate = 0.01,
                                                 .capacity = 4 * generation_items,
                                                 .expansion = 1,
                                                 .milliseconds = 4000},
                                     .now = at_hour(0)},
                                    outcomes);
  REQUIRE(made);
  bloom::WindowFilter& filter = **made;
  // Each hour there is a burst, which begins when all items of the last one are over.
  std::vector<std::string> items;
  for (std::uint64_t i = 0; i < generation_items + generation_items / 4; ++i)
    items.push_back(std::to_string(i));
  const std::vector<std::string_view> views(items.begin(), items.end());
  int replaced_alike = 0;
  for (int hour = 1; hour < 8; ++hour) {
    const std::uint64_t bytes_before = filter.byte_count();
    const std::uint64_t made_before = filter.layers_made();
    const std::uint64_t changes_before = keys.structure_changes();
    const int given_before = housekeeper.given;
    // A request that finds no room, or an old layer, comes again with the gate closed.
    bool added = false;
    (void)writers::try_add(changes, key, filter, {views.data(), 1}, at_hour(hour), {&added, 1});
    writers::add_growing(changes, key, filter, views, at_hour(hour), outcomes);
    REQUIRE(filter.layers_made() == made_before + 1);
    CHECK(keys.structure_changes() > changes_before);
    CHECK(housekeeper.given > given_before);
    if (filter.byte_count() == bytes_before) ++replaced_alike;
  }
  CHECK(replaced_alike > 0);
}

}  // namespace window_writer_test
