// Adds and look-ups in filters of one layer, in and out of cache, and in one that has grown.
#include <sepal/bloom/filter/filter.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>

#include "micro/count_items.hpp"
#include "support/items.hpp"
#include "support/settle.hpp"

namespace {

using namespace sepal::bloom;

constexpr std::size_t batch_items_max = 100;
constexpr std::uint64_t absent_from = std::uint64_t{1} << 40;  // only `add` adds items from here on
constexpr std::uint64_t grown_first_capacity = 100;
constexpr FilterLimits limits{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

enum class Kind { whole, grown };

FilterPtr create(const FilterOptions& options) {
  const auto filter = Filter::create(options, limits);
  if (!filter) std::abort();
  return *filter;
}

void add_first(Filter& filter, std::uint64_t item_count) {
  bench::ItemWindow window(batch_items_max);
  bench::Answers<batch_items_max> answers;
  for (std::uint64_t at = 0; at < item_count; at += window.size()) {
    const auto items = window.from(at);
    if (filter.try_add(items, answers.first(items.size()))) continue;
    for (const auto& item : items) filter.add_alone(item, limits);
  }
}

// A filter that holds the items [0, known_items(capacity)). It is made at the first call, and then kept.
std::uint64_t known_items(std::uint64_t capacity) {
  return capacity / 2;
}

Filter& known_filter(Kind kind, std::uint64_t capacity) {
  static std::map<std::pair<Kind, std::uint64_t>, FilterPtr> filters;
  FilterPtr& filter = filters[{kind, capacity}];
  if (!filter) {
    const bool grown = kind == Kind::grown;
    filter = create({.error_rate = 0.01,
                     .capacity = grown ? grown_first_capacity : capacity,
                     .expansion = grown ? 2u : 0u,
                     .seed = 1});
    add_first(*filter, known_items(capacity));
    bench::settle(*filter);
  }
  return *filter;
}

// All benchmarks here have these arguments: capacity, items of a batch.
void present(benchmark::State& state, Kind kind) {
  const auto capacity = static_cast<std::uint64_t>(state.range(0));
  const Filter& filter = known_filter(kind, capacity);
  bench::ItemWindow window(static_cast<std::size_t>(state.range(1)));
  bench::Answers<batch_items_max> answers;
  std::uint64_t draw = 0;
  for (auto _ : state) {
    filter.contains(window.drawn(draw, known_items(capacity)), answers.first(window.size()));
    benchmark::DoNotOptimize(answers);
  }
  bench::count_items(state, window.size());
}

void absent(benchmark::State& state, Kind kind) {
  const Filter& filter = known_filter(kind, static_cast<std::uint64_t>(state.range(0)));
  bench::ItemWindow window(static_cast<std::size_t>(state.range(1)));
  bench::Answers<batch_items_max> answers;
  std::uint64_t next = absent_from;
  for (auto _ : state) {
    filter.contains(window.from(next), answers.first(window.size()));
    benchmark::DoNotOptimize(answers);
    next += window.size();
  }
  bench::count_items(state, window.size());
}

// Adds new items to a filter of its own. When it is half full, a new filter replaces it, which is not timed.
void add(benchmark::State& state) {
  const FilterOptions options{
      .error_rate = 0.01, .capacity = static_cast<std::uint64_t>(state.range(0)), .expansion = 0, .seed = 1};
  FilterPtr filter;
  bench::ItemWindow window(static_cast<std::size_t>(state.range(1)));
  bench::Answers<batch_items_max> answers;
  std::uint64_t next = 0;
  std::uint64_t room = 0;
  for (auto _ : state) {
    if (room < window.size()) {
      state.PauseTiming();
      filter = create(options);
      // Fills the filter a little, so that no page is touched for the first time while the clock runs.
      add_first(*filter, options.capacity / 10);
      bench::settle(*filter);
      room = options.capacity / 2;
      next = absent_from;
      state.ResumeTiming();
    }
    benchmark::DoNotOptimize(filter->try_add(window.from(next), answers.first(window.size())));
    next += window.size();
    room -= window.size();
  }
  bench::count_items(state, window.size());
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"capacity", "batch"})
      ->ArgsProduct({{1'000'000, 100'000'000}, {1, 2, 4, 8, 16, 32, 100}});
}
BENCHMARK(add)->Apply(sizes);
BENCHMARK_CAPTURE(present, one_layer, Kind::whole)->Apply(sizes);
BENCHMARK_CAPTURE(absent, one_layer, Kind::whole)->Apply(sizes);

void grown_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"items", "batch"})->ArgsProduct({{1'000'000, 10'000'000}, {1, 2, 4, 8, 16, 32, 100}});
}
BENCHMARK_CAPTURE(present, grown, Kind::grown)->Apply(grown_sizes);
BENCHMARK_CAPTURE(absent, grown, Kind::grown)->Apply(grown_sizes);

}  // namespace
