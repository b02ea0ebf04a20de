// Look-ups in filters that delete, whose cells are as full as a reserved filter gets them.
#include <sepal/cuckoo/native/filter.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

#include "micro/count_items.hpp"
#include "support/items.hpp"

namespace {

using namespace sepal::cuckoo;

constexpr std::size_t batch_items_max = 100;
constexpr std::uint64_t absent_from = std::uint64_t{1} << 40;

// A filter that holds the items [0, item_count). It is made at the first call, and then kept.
const Filter& known_cells(std::uint64_t item_count) {
  static std::map<std::uint64_t, FilterPtr> filters;
  FilterPtr& filter = filters[item_count];
  if (filter) return *filter;
  const auto planned = plan({.capacity = item_count, .seed = 1}, std::uint64_t{1} << 40);
  if (!planned) std::abort();
  auto made = Filter::create(*planned);
  if (!made) std::abort();
  filter = *made;
  OwnMemory memory;
  std::vector<Filter::AddOutcome> outcomes;
  bench::ItemWindow window(batch_items_max);
  for (std::uint64_t at = 0; at < item_count; at += window.size())
    filter->add(window.from(at), Filter::AddIf::always, memory, outcomes, nullptr);
  return *filter;
}

template <class Draw>
void look_up(benchmark::State& state, Draw draw) {
  const Filter& filter = known_cells(static_cast<std::uint64_t>(state.range(0)));
  bench::ItemWindow window(static_cast<std::size_t>(state.range(1)));
  bench::Answers<batch_items_max> answers;
  for (auto _ : state) {
    filter.contains(draw(window), answers.first(window.size()));
    benchmark::DoNotOptimize(answers);
  }
  bench::count_items(state, window.size());
}

void cuckoo_present(benchmark::State& state) {
  std::uint64_t draw = 0;
  const auto range = static_cast<std::uint64_t>(state.range(0));
  look_up(state, [&](bench::ItemWindow& window) { return window.drawn(draw, range); });
}
void cuckoo_absent(benchmark::State& state) {
  std::uint64_t next = absent_from;
  look_up(state, [&](bench::ItemWindow& window) {
    const auto items = window.from(next);
    next += window.size();
    return items;
  });
}

void cuckoo_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"items", "batch"})->ArgsProduct({{1'000'000, 10'000'000}, {1, 8, 100}});
}
BENCHMARK(cuckoo_present)->Apply(cuckoo_sizes);
BENCHMARK(cuckoo_absent)->Apply(cuckoo_sizes);

}  // namespace
