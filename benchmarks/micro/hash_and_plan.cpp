// The first step of an item, its hash, and of a filter, its plan.
#include <sepal/base/hash.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <limits>
#include <string>

namespace {

// The argument is the item's length.
void fingerprint(benchmark::State& state) {
  std::string item(static_cast<std::size_t>(state.range(0)), 'i');
  for (auto _ : state) {
    // The first byte changes, so that each round computes another hash.
    ++item[0];
    benchmark::DoNotOptimize(sepal::fingerprint_of(item, 1));
  }
}
BENCHMARK(fingerprint)->ArgName("bytes")->Arg(16)->Arg(64)->Arg(1024);

// The arguments are the capacity and x of the error rate 10^-x.
void plan(benchmark::State& state) {
  double error_rate = 1;
  for (std::int64_t i = 0; i < state.range(1); ++i) error_rate /= 10;
  const sepal::bloom::LayerRequest request{.capacity = static_cast<std::uint64_t>(state.range(0)),
                                           .error_rate = error_rate};
  for (auto _ : state) {
    benchmark::DoNotOptimize(sepal::bloom::plan_layer(request, std::numeric_limits<std::uint64_t>::max()));
  }
}
BENCHMARK(plan)
    ->ArgNames({"capacity", "rate_e-"})
    ->ArgsProduct({{100, 1'000'000, 100'000'000}, {2, 6}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
