// Many threads use one filter with a gate, as in the server: a thread that must grow the filter locks its
// key, or closes the gate.
#include <sepal/base/gate.hpp>
#include <sepal/base/limbo.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/bloom/filter/filter.hpp>

#include <numeric>
#include <thread>

#include "support/catch.hpp"
#include "support/redisbloom_filter.hpp"

namespace threads_property {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};
constexpr std::size_t thread_count = 4;

// The data that all threads of a run share.
struct Run {
  Run(const FilterOptions& options, std::size_t item_total, std::size_t batch_items_max)
      : Run(*Filter::create(options, plenty), item_total, batch_items_max) {}
  Run(bloom::FilterPtr empty, std::size_t item_total, std::size_t batch_items_max)
      : gate(thread_count), batch_max(batch_items_max), filter(std::move(empty)) {
    for (std::size_t i = 0; i < item_total; ++i) items.push_back("shared item " + std::to_string(i));
    firsts = std::make_unique<std::atomic<int>[]>(item_total);
  }

  Gate gate;
  std::size_t batch_max;
  bloom::FilterPtr filter;
  std::vector<std::string> items;
  std::unique_ptr<std::atomic<int>[]> firsts;  // how often each item was answered "new"
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> forgotten{0};  // items that a thread added and then did not find
  std::atomic<std::uint64_t> over_capacity{0};
  bool closes = false;  // the gate, to grow
  Mutex key;
};

// One worker. It adds all items, in its own order and batches, and looks each batch up afterwards.
class Worker {
 public:
  Worker(Run& run, std::size_t side)
      : run_(run), side_(side), limbo_(&run.gate), random_(side), order_(run.items.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    // Threads start close together, so that they meet at the same items.
    for (std::size_t i = 0; i + 8 < order_.size(); ++i) std::swap(order_[i], order_[i + random_() % 8]);
  }

  void work() {
    for (std::size_t at = 0; at < order_.size();) {
      const std::size_t count = std::min(1 + random_() % run_.batch_max, order_.size() - at);
      batch(std::span(order_).subspan(at, count));
      at += count;
    }
  }

 private:
  void batch(std::span<const std::size_t> numbers) {
    views_.clear();
    for (const std::size_t number : numbers) views_.push_back(run_.items[number]);
    const std::span<bool> answers(answers_, views_.size());

    run_.gate.enter(side_);
    const bool done = run_.filter->try_add(views_, answers);
    if (run_.filter->item_count() > run_.filter->capacity()) ++run_.over_capacity;
    std::vector<bool> refused(views_.size(), false);
    if (!done && !run_.closes) {
      const MutexLock lock(run_.key);
      for (std::size_t i = 0; i < views_.size(); ++i) refused[i] = !add_growing(views_[i], answers[i]);
    }
    run_.gate.leave(side_);
    limbo_.end_some();
    if (!done && run_.closes) {
      const GateClosed closed(run_.gate);
      for (std::size_t i = 0; i < views_.size(); ++i) {
        const auto outcome = run_.filter->add_alone(views_[i], plenty);
        answers[i] = outcome.added;
        refused[i] = outcome.refusal != Filter::Refusal::none;
      }
    }
    for (std::size_t i = 0; i < views_.size(); ++i) {
      if (refused[i])
        ++run_.refused;
      else
        run_.firsts[numbers[i]] += answers[i] ? 1 : 0;
    }

    run_.gate.enter(side_);
    run_.filter->contains(views_, answers);
    run_.gate.leave(side_);
    for (std::size_t i = 0; i < views_.size(); ++i)
      if (!answers[i] && !refused[i]) ++run_.forgotten;
  }

  // With the lock of the key. False: the filter is full.
  bool add_growing(std::string_view item, bool& added) {
    Filter& filter = *run_.filter;
    while (!filter.try_add({&item, 1}, {&added, 1})) {
      switch (filter.find_room()) {
        case Filter::Room::some: break;
        case Filter::Room::claimed: std::this_thread::yield(); break;
        case Filter::Room::none:
          if (filter.grow(plenty, nullptr, limbo_) != Filter::Refusal::none) return false;
      }
    }
    return true;
  }

  static constexpr std::size_t answers_max = 64;
  Run& run_;
  std::size_t side_;
  Limbo limbo_;
  std::mt19937_64 random_;
  std::vector<std::size_t> order_;
  std::vector<std::string_view> views_;
  bool answers_[answers_max] = {};
};

void run_threads(Run& run) {
  std::vector<std::thread> threads;
  for (std::size_t side = 0; side < thread_count; ++side)
    threads.emplace_back([&run, side] { Worker(run, side).work(); });
  for (std::thread& thread : threads) thread.join();
}

// No layer has come before the one below it was full.
void require_full_layers(const Filter& filter) {
  for (std::uint32_t index = 0; index + 1 < filter.layer_count(); ++index)
    REQUIRE(filter.layer(index).item_count() == filter.layer(index).plan().capacity);
}

std::uint64_t items_answered_new(const Run& run) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < run.items.size(); ++i) {
    REQUIRE(run.firsts[i] <= 1);
    count += static_cast<std::uint64_t>(run.firsts[i]);
  }
  return count;
}

TEST_CASE("when many threads add one item, exactly one of them is told that it was new", "[threads]") {
  const std::size_t batch_max = GENERATE(1, 40);
  // The first layer is one allocation, has one shard, or several shards. Some filters grow, some do not.
  const FilterOptions options = GENERATE(FilterOptions{.error_rate = 1e-13, .capacity = 10},
                                         FilterOptions{.error_rate = 1e-13, .capacity = 2000},
                                         FilterOptions{.error_rate = 1e-13, .capacity = 200'000});
  const bool closes = GENERATE(false, true);
  CAPTURE(batch_max, options.capacity, closes);
  constexpr std::size_t item_total = 20'000;
  Run run(options, item_total, batch_max);
  run.closes = closes;
  run_threads(run);
  require_full_layers(*run.filter);
  CHECK(run.forgotten == 0);
  CHECK(run.refused == 0);
  CHECK(run.over_capacity == 0);
  // At this rate no new item is a false positive.
  CHECK(items_answered_new(run) == item_total);
  CHECK(run.filter->item_count() == item_total);
}

TEST_CASE("in RedisBloom's layout, too, exactly one thread is told that an item was new, and no bit is lost",
          "[threads]") {
  const std::size_t batch_max = GENERATE(1, 40);
  const std::uint64_t capacity = GENERATE(10, 2000, 200'000);
  CAPTURE(batch_max, capacity);
  constexpr std::size_t item_total = 20'000;
  // At this rate even a layer for ten items has no false positives.
  Run run(test::redisbloom_filter({.error_rate = 1e-30, .capacity = capacity}), item_total, batch_max);
  run_threads(run);
  require_full_layers(*run.filter);
  CHECK(run.forgotten == 0);
  CHECK(run.refused == 0);
  CHECK(run.over_capacity == 0);
  CHECK(items_answered_new(run) == item_total);
  CHECK(run.filter->item_count() == item_total);
}

TEST_CASE("threads never fill a filter beyond its capacity, and fill it to the last item", "[threads]") {
  const std::size_t batch_max = GENERATE(1, 40);
  const std::uint64_t capacity = GENERATE(1000, 60'000);
  CAPTURE(batch_max, capacity);
  Run run({.error_rate = 1e-12, .capacity = capacity, .expansion = 0}, capacity + 500, batch_max);
  run_threads(run);
  CHECK(run.forgotten == 0);
  CHECK(run.over_capacity == 0);
  CHECK(items_answered_new(run) == capacity);
  CHECK(run.filter->item_count() == capacity);
  CHECK(run.refused == 500 * thread_count);
}

TEST_CASE("a copy of the bits holds all items that were added before the copy began", "[threads]") {
  constexpr std::uint64_t capacity = 100'000;
  Run run({.error_rate = 0.01, .capacity = capacity, .expansion = 0}, 20'000, 16);
  std::atomic<bool> done{false};
  std::thread adding([&] {
    run_threads(run);
    done = true;
  });
  const LayerView layer = run.filter->layers().front();
  std::vector<std::byte> earlier(layer.plan().byte_count()), later(earlier.size());
  bool lost = false;
  while (!done) {
    layer.copy_bits(0, earlier);
    layer.copy_bits(0, later);
    for (std::size_t i = 0; i < earlier.size(); ++i) lost = lost || (earlier[i] & ~later[i]) != std::byte{0};
  }
  adding.join();
  CHECK_FALSE(lost);
}

}  // namespace

}  // namespace threads_property
