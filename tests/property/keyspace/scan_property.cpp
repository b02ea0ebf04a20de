// The promise of SCAN: a key that exists during the whole iteration is returned exactly once, whatever
// happens to other keys between the steps.
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"

namespace scan_property {

namespace {

using namespace sepal;
using keyspace::Keyspace;
using sepal::bloom::FilterPtr;
using sepal::test::FreeingHousekeeper;

// Keys that stay, and others that come and go.
class Scene {
 public:
  explicit Scene(std::uint64_t seed) : random_(seed), keys_({.seed = seed}, housekeeper_) {
    auto filter = bloom::Filter::create({.capacity = 1}, {.bytes_max = 1 << 20});
    REQUIRE(filter);
    filter_ = *filter;
  }

  void put(const std::string& key) { REQUIRE(keys_.put({.key = key}, filter_)); }
  void come_and_go(std::uint64_t name_count, int change_count) {
    for (int i = 0; i < change_count; ++i) {
      const std::string name = passing(random_() % name_count);
      switch (random_() % 3) {
        case 0: put(name); break;
        case 1: keys_.remove({.key = name}); break;
        default: static_cast<void>(keys_.rename(0, name, passing(random_() % name_count)).ok());
      }
    }
  }
  void add_all_passing(std::uint64_t name_count) {
    for (std::uint64_t i = 0; i < name_count; ++i) put(passing(i));
  }
  void remove_all_passing(std::uint64_t name_count) {
    for (std::uint64_t i = 0; i < name_count; ++i) keys_.remove({.key = passing(i)});
  }

  // Iterates from start to end, and calls `between` after each step. Returns how often each key was returned.
  template <class Between>
  std::map<std::string, int> iterate(Between between) {
    std::map<std::string, int> times_returned;
    std::uint64_t cursor = 0;
    int step_index = 0;
    do {
      const auto step = keys_.scan(0, cursor, any_count());
      for (const auto& key : step.keys) ++times_returned[key];
      cursor = step.cursor;
      between(step_index++);
    } while (cursor != 0);
    return times_returned;
  }

 private:
  // From 1 to 1000; small steps are as frequent as large ones.
  std::uint64_t any_count() {
    constexpr std::uint64_t bounds[] = {1, 10, 100, 1000};
    const std::uint64_t bound = bounds[random_() % std::size(bounds)];
    return 1 + random_() % bound;
  }
  static std::string passing(std::uint64_t number) { return "passing " + std::to_string(number); }

  std::mt19937_64 random_;
  FreeingHousekeeper housekeeper_;
  Keyspace keys_;
  FilterPtr filter_;
};

void check_promise(const std::map<std::string, int>& times_returned, int staying_count) {
  for (int i = 0; i < staying_count; ++i) {
    const auto found = times_returned.find(std::to_string(i));
    REQUIRE(found != times_returned.end());
  }
  // Stronger than the promise: not even a key that came and went is returned twice.
  for (const auto& [key, times] : times_returned) {
    INFO("key " << key);
    REQUIRE(times == 1);
  }
}

}  // namespace

TEST_CASE("a scan returns each key that stays exactly once, while other keys come and go") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(1, 11));
  const int staying_count = GENERATE(1, 100, 5000);
  INFO("seed " << seed << ", staying " << staying_count);
  Scene scene(seed);
  for (int i = 0; i < staying_count; ++i) scene.put(std::to_string(i));
  const auto times_returned = scene.iterate([&](int) { scene.come_and_go(3000, 500); });
  check_promise(times_returned, staying_count);
}

TEST_CASE("a scan returns each key that stays exactly once, while the table grows and shrinks") {
  constexpr int staying_count = 3000;
  constexpr std::uint64_t passing_count = 20'000;
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(1, 4));
  INFO("seed " << seed);
  Scene scene(seed);
  for (int i = 0; i < staying_count; ++i) scene.put(std::to_string(i));
  const auto times_returned = scene.iterate([&](int step_index) {
    if (step_index % 2 == 0)
      scene.add_all_passing(passing_count);
    else
      scene.remove_all_passing(passing_count);
  });
  check_promise(times_returned, staying_count);
}

}  // namespace scan_property
