// Adds and look-ups in filters that forget, in and out of cache: rows beside those of filter.cpp.
#include <sepal/bloom/window/window_filter.hpp>

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>

#include "micro/count_items.hpp"
#include "support/items.hpp"
#include "support/settle.hpp"

namespace {

using namespace sepal::bloom;

constexpr std::size_t window_batch_items_max = 100;
constexpr std::uint64_t never_added_from = std::uint64_t{1} << 40;
constexpr std::uint64_t window_milliseconds = 4'000'000;
const sepal::WallTime window_begin{std::chrono::hours(24 * 365 * 50)};

// The time of look-ups: that of the last add. All items are known, and all lanes but one are full.
const sepal::WallTime look_up_time = window_begin + std::chrono::milliseconds(window_milliseconds - 1);
// The next generation has begun: there is room for all items that are added, and all are known.
const sepal::WallTime add_time = window_begin + std::chrono::milliseconds(window_milliseconds);

// Where adds renew, these are renewed already.
std::uint64_t renewed_items(std::uint64_t capacity) {
  return capacity / 8;
}

// A filter whose window has the items [0, capacity), evenly. It is made at the first call, and then kept.
WindowFilter& window_filter(std::uint64_t capacity, bool refresh) {
  static std::map<std::pair<std::uint64_t, bool>, WindowFilterPtr> filters;
  WindowFilterPtr& filter = filters[{capacity, refresh}];
  if (filter) return *filter;
  const WindowOptions options{.error_rate = 0.01,
                              .capacity = capacity,
                              .milliseconds = window_milliseconds,
                              .refresh = refresh,
                              .seed = 1};
  const auto plan = plan_window(options, std::uint64_t{1} << 40);
  if (!plan) std::abort();
  auto made = WindowFilter::create(options, *plan, window_begin);
  if (!made) std::abort();
  filter = *made;
  bench::ItemWindow window(window_batch_items_max);
  bench::Answers<window_batch_items_max> answers;
  for (std::uint64_t at = 0; at < capacity; at += window.size()) {
    const auto now = window_begin + std::chrono::milliseconds(at * window_milliseconds / capacity);
    if (!filter->try_add(window.from(at), now, answers.first(window.size()), nullptr)) std::abort();
  }
  for (std::uint64_t at = 0; refresh && at < renewed_items(capacity); at += window.size())
    if (!filter->try_add(window.from(at), add_time, answers.first(window.size()), nullptr)) std::abort();
  bench::settle(*filter);
  return *filter;
}

// With a factor of 2, half of the items are absent.
void window_lookup(benchmark::State& state, std::uint64_t range_factor) {
  const auto capacity = static_cast<std::uint64_t>(state.range(0));
  const WindowFilter& filter = window_filter(capacity, false);
  bench::ItemWindow window(static_cast<std::size_t>(state.range(1)));
  bench::Answers<window_batch_items_max> answers;
  std::uint64_t draw = 0;
  for (auto _ : state) {
    filter.contains(window.drawn(draw, range_factor * capacity), look_up_time, answers.first(window.size()));
    benchmark::DoNotOptimize(answers);
  }
  bench::count_items(state, window.size());
}
void window_present(benchmark::State& state) {
  window_lookup(state, 1);
}
void window_half(benchmark::State& state) {
  window_lookup(state, 2);
}

void window_absent(benchmark::State& state) {
  const WindowFilter& filter = window_filter(static_cast<std::uint64_t>(state.range(0)), false);
  bench::ItemWindow window(static_cast<std::size_t>(state.range(1)));
  bench::Answers<window_batch_items_max> answers;
  std::uint64_t next = never_added_from;
  for (auto _ : state) {
    filter.contains(window.from(next), look_up_time, answers.first(window.size()));
    benchmark::DoNotOptimize(answers);
    next += window.size();
  }
  bench::count_items(state, window.size());
}

// Adds of known items, which change nothing.
void window_add_known(benchmark::State& state, bool refresh) {
  const auto capacity = static_cast<std::uint64_t>(state.range(0));
  WindowFilter& filter = window_filter(capacity, refresh);
  bench::ItemWindow window(static_cast<std::size_t>(state.range(1)));
  bench::Answers<window_batch_items_max> answers;
  std::uint64_t draw = 0;
  for (auto _ : state) {
    const auto items = window.drawn(draw, refresh ? renewed_items(capacity) : capacity);
    benchmark::DoNotOptimize(filter.try_add(items, add_time, answers.first(window.size()), nullptr));
  }
  bench::count_items(state, window.size());
}

void window_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"capacity", "batch"})
      ->ArgsProduct({{1'000'000, 50'000'000}, {1, 2, 4, 8, 16, 32, 100}});
}
BENCHMARK(window_present)->Apply(window_sizes);
BENCHMARK(window_half)->Apply(window_sizes);
BENCHMARK(window_absent)->Apply(window_sizes);
BENCHMARK_CAPTURE(window_add_known, first_add, false)->Apply(window_sizes);
BENCHMARK_CAPTURE(window_add_known, refresh, true)->Apply(window_sizes);

}  // namespace
