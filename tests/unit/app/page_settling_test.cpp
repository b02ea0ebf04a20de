#include "app/threads/page_settling.hpp"

#include <sepal/base/mutex.hpp>
#include <sepal/base/thread.hpp>
#include <sepal/bloom/filter/filter.hpp>

#include <sys/resource.h>

#include "support/catch.hpp"

namespace sepal::app::page_settling_test {
namespace {

using namespace std::chrono_literals;
using bloom::Filter;
using bloom::FilterPtr;
using bloom::LayerView;

constexpr std::chrono::seconds patience = 300s;
constexpr bloom::FilterLimits plenty{.bytes_max = std::uint64_t{1} << 32, .layers_max = 64};

// Counts the calls of the thread.
class Told {
 public:
  void tell() {
    const MutexLock lock(mutex_);
    ++times_;
    changed_.notify_all();
  }
  // False if it takes too long.
  [[nodiscard]] bool await(int times) {
    const auto end = std::chrono::steady_clock::now() + patience;
    const MutexLock lock(mutex_);
    while (times_ < times)
      if (changed_.wait_until(mutex_, end) == std::cv_status::timeout) return false;
    return true;
  }
  [[nodiscard]] int times() {
    const MutexLock lock(mutex_);
    return times_;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  int times_ SEPAL_GUARDED_BY(mutex_) = 0;
};

struct SettlingWorld {
  Told told;
  PageSettling settling{[this] { told.tell(); }};
};

// A filter with so many big layers, all of whose pages are in use.
FilterPtr used_filter(std::uint32_t layer_count) {
  const bloom::FilterOptions options{.error_rate = 1e-9, .capacity = 400'000, .expansion = 1};
  auto made = Filter::create(options, plenty);
  REQUIRE(made);
  const FilterPtr filter = *made;
  for (std::uint64_t i = 0; filter->layer_count() < layer_count || !filter->newest_layer().in_use(0); ++i)
    filter->add_alone(std::to_string(i), plenty);
  REQUIRE(filter->layer_count() == layer_count);
  for (const LayerView& layer : filter->layers()) REQUIRE(layer.piece_count() > 0);
  return filter;
}

void add_all(PageSettling& settling, const FilterPtr& filter) {
  std::vector<value::SmallPages> found;
  value::row_of(*filter).small_pages(*filter, found);
  REQUIRE(found.size() == filter->layer_count());
  for (const value::SmallPages& pages : found) settling.add(filter, pages);
}

TEST_CASE("layers in use are settled, and then the filter is released") {
  SettlingWorld world;
  const FilterPtr filter = used_filter(2);
  const std::vector<LayerView> layers = filter->layers();
  for (const LayerView& layer : layers) REQUIRE(layer.fresh());
  add_all(world.settling, filter);
  const auto end = std::chrono::steady_clock::now() + patience;
  int told = 0;
  while (filter->use_count() > 1 && std::chrono::steady_clock::now() < end) {
    REQUIRE(world.told.await(told + 1));
    told = world.told.times();
    world.settling.free_given_up();
  }
  CHECK(filter->use_count() == 1);
  for (const LayerView& layer : layers) CHECK_FALSE(layer.fresh());
}

TEST_CASE("a dropped filter is freed without waiting for its layers") {
  SettlingWorld world;
  auto made = Filter::create({.error_rate = 1e-9, .capacity = 4'000'000}, plenty);
  REQUIRE(made);
  FilterPtr filter = std::move(*made);
  // Like two layers that wait: the thread holds the filter once for both, and notices when it has the only
  // reference.
  add_all(world.settling, filter);
  add_all(world.settling, filter);
  REQUIRE(world.told.await(1));
  world.settling.free_given_up();
  CHECK(filter->use_count() == 2);
  Filter* const dropped = filter.get();
  filter.reset();
  world.settling.look_for_dropped();
  REQUIRE(world.told.await(2));
  // The thread has given the filter up, and not freed it yet.
  CHECK(dropped->use_count() == 1);
  world.settling.free_given_up();
}

TEST_CASE("the thread gives way to the others", "[scheduling]") {
  SettlingWorld world;
  const auto nice_of_pages = [&]() -> std::optional<int> {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      if (name != "pages") continue;
      return ::getpriority(PRIO_PROCESS, static_cast<id_t>(std::stoul(task.path().filename().string())));
    }
    return std::nullopt;
  };
  const FilterPtr filter = used_filter(1);
  add_all(world.settling, filter);
  REQUIRE(world.told.await(1));
  const auto nice = nice_of_pages();
  REQUIRE(nice);
  // A thread of this test asks for the same: the system may refuse both.
  sepal::Result<void> asked;
  std::thread([&] { asked = ask_to_run_behind(); }).join();
  if (!asked) {
    CHECK(*nice == ::getpriority(PRIO_PROCESS, 0));
    WARN("SKIPPED: refused here: " << asked.error().detail);
    return;
  }
  CHECK(*nice == std::min(::getpriority(PRIO_PROCESS, 0) + 10, 19));
}

}  // namespace
}  // namespace sepal::app::page_settling_test
