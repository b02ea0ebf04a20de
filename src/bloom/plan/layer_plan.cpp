// The planner's choice. For T = capacity * textbook bits:
//
//     T <= classic_bits_max     one block, a classic filter: nothing is smaller
//     T <= one_block_bits_max   several blocks where they take little more than the textbook says, else one
//     above                     several blocks: the smallest of block_sizes that stays within
//                               size_tolerance of the textbook, else the largest
//
// For a given block size and number of probes the rate falls as blocks are added, so the block count is the
// root of rate(N) = asked. The secant method finds it on logarithms, where both are nearly straight. Real
// numbers of blocks keep the rate smooth for it; the result is rounded up at the end.
//
// A layer of few blocks loses up to a block by rounding N up, and more by the scatter below. Its blocks may
// have any multiple of 64 bits, down to half the size. Where nothing else stays within the tolerance (a rate
// of 1e-6 at ten thousand items), they may have twice the largest size.
//
// A layer of many blocks gets a little more of them, so that their number has a power of two as a factor:
// such a layer can be folded to half of its size, and again (filter/unite.hpp).
//
// What "holds the rate" means. One filter's own rate scatters around the mean of all filters of its shape,
// widely when the filter is small: by 1.7% of the rate at ten thousand items and 0.01, by 13% at a hundred. A
// measurement is always one of one filter. So a plan has room for `confidence` deviations of this scatter,
// which costs a twentieth of the size at a hundred items and nothing at a million. It gives up a part of that
// room only where the size would miss its tolerance.
#include <sepal/bloom/plan/layer_plan.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "bloom/plan/layer_rate.hpp"
#include "bloom/plan/probe.hpp"

namespace sepal::bloom {
namespace {

constexpr std::array<double, 4> block_sizes = {512, 1024, 2048, 4096};
constexpr double few_blocks = 256;
constexpr double size_of_few_blocks = block_bits_max;
static_assert(size_of_few_blocks == 2 * block_sizes.back());
constexpr double size_tolerance = 1.05;       // against the textbook's size, for layers of several blocks
constexpr double small_excess_bits = 8 * 64;  // over the textbook's size, for layers up to one_block_bits_max
constexpr double classic_bits_max = 8 * 512;
constexpr double one_block_bits_max = 8 * 4096;
constexpr double bit_count_max = 0x1p62;  // so that sizes in bits never wrap
// The first of these with which a layer keeps its size is taken; see above.
constexpr std::array<double, 3> confidences = {2.5, 1.25, 0};
// The formula's own error, and the root's error: a test finds both well below.
constexpr double model_margin = 1e-3;
constexpr double root_tolerance = 1e-5;
constexpr int root_steps_max = 60;
// A layer has at least so many times the blocks that rounding up may add: it grows by a thousandth at most.
constexpr double blocks_of_one_more = 1024;
constexpr double halvings_max = 12;

// What a plan must hold.
struct Promise {
  double item_count;
  double error_rate;
  double confidence;

  // Logarithm of the shape's rate over the rate that was asked: at most 0 where the promise holds.
  [[nodiscard]] double excess(const LayerShape& shape) const {
    const LayerRate rate = layer_rate(shape, item_count);
    return std::log((rate.mean * (1 + model_margin) + confidence * rate.deviation) / error_rate);
  }
};

double size_of(const LayerShape& shape) {
  return shape.block_count * shape.block_bits;
}

std::uint32_t probes_for(double bits_per_item) {
  const double best = std::round(bits_per_item * std::numbers::ln2);
  return static_cast<std::uint32_t>(std::clamp(best, 1.0, double{probe_count_max}));
}

// Finds the real block count, at least two, that just holds the promise. The shape gives the two other
// numbers, and a block count to begin with.
LayerShape with_enough_blocks(const Promise& promise, LayerShape shape) {
  double x = std::log(std::max(shape.block_count, 2.0));
  // Near the textbook's optimum: for each probe, the logarithm of the rate falls by ln 2 when that of the
  // block count grows by 1.
  double slope = -0.7 * shape.probe_count;
  double last_x = 0;
  double last_excess = 0;
  for (int step = 0; step < root_steps_max; ++step) {
    shape.block_count = std::max(std::exp(x), 2.0);
    x = std::log(shape.block_count);
    const double excess = promise.excess(shape);
    // Two blocks are the fewest: if they hold the promise with room to spare, there is no root to look for.
    if (std::abs(excess) < root_tolerance || (excess < 0 && shape.block_count <= 2)) break;
    // The bounds on slope and step keep a rounding error from sending the search the wrong way, or far out.
    if (step > 0 && x != last_x) slope = std::min((excess - last_excess) / (x - last_x), -0.1);
    last_x = x;
    last_excess = excess;
    x -= std::clamp(excess / slope, -1.0, 1.0);
  }
  return shape;
}

// The same for all numbers of probes from the shape's downwards: small blocks want fewer probes than the
// textbook says, never more.
LayerShape with_best_probes(const Promise& promise, LayerShape shape) {
  LayerShape best = with_enough_blocks(promise, shape);
  while (best.probe_count > 1) {
    shape = best;
    --shape.probe_count;
    shape = with_enough_blocks(promise, shape);
    if (shape.block_count >= best.block_count) break;
    best = shape;
  }
  return best;
}

// Rounds a real block count up to whole blocks.
LayerShape rounded_up(const Promise& promise, LayerShape shape) {
  shape.block_count = std::ceil(shape.block_count);
  // Among few blocks the tolerance of the root might hide a whole one; among many the model's margin covers
  // it.
  if (shape.block_count < few_blocks && promise.excess(shape) > 0) ++shape.block_count;
  return shape;
}

// A block count of many blocks, rounded up to a multiple of the largest power of two that costs little.
double foldable(double block_count) {
  if (block_count < blocks_of_one_more) return block_count;
  const double halvings = std::min(std::floor(std::log2(block_count / blocks_of_one_more)), halvings_max);
  const double parts = std::exp2(halvings);
  return std::ceil(block_count / parts) * parts;
}

// The smallest layer of `wide` blocks or somewhat narrower ones; nothing when none is within `bits_max`. The
// narrower the blocks, the more bits they need, so the search ends where even a real number of them is too
// large.
std::optional<LayerShape> of_blocks_up_to(const Promise& promise, const LayerShape& wide, double bits_max) {
  std::optional<LayerShape> best;
  LayerShape real = wide;
  while (size_of(real) <= bits_max) {
    const LayerShape whole = rounded_up(promise, real);
    if (size_of(whole) <= bits_max && (!best || size_of(whole) < size_of(*best))) best = whole;
    const double narrower = real.block_bits - word_bits;
    // With many blocks, rounding up to a whole one costs too little to search on.
    if (real.block_count > few_blocks || narrower <= wide.block_bits / 2) break;
    real.block_count *= real.block_bits / narrower;
    real.block_bits = narrower;
    real = with_enough_blocks(promise, real);
  }
  return best;
}

LayerShape guess(const Promise& promise, double block_bits) {
  const double bits_per_item = textbook_bits_per_item(promise.error_rate);
  return {.block_count = std::max(2.0, promise.item_count * bits_per_item / block_bits),
          .block_bits = block_bits,
          .probe_count = probes_for(bits_per_item)};
}

bool few_blocks_suffice(const Promise& promise) {
  return guess(promise, block_sizes.back()).block_count <= few_blocks;
}

std::optional<LayerShape> of_several_blocks(const Promise& promise, double bits_max) {
  for (const double block_bits : block_sizes) {
    const LayerShape wide = with_best_probes(promise, guess(promise, block_bits));
    if (const auto fitting = of_blocks_up_to(promise, wide, bits_max)) return fitting;
  }
  if (!few_blocks_suffice(promise)) return std::nullopt;
  return of_blocks_up_to(promise, with_best_probes(promise, guess(promise, size_of_few_blocks)), bits_max);
}

// The fewest words, and with them the fewest probes, that hold the rate: each is work for every request.
LayerShape of_one_block(const Promise& promise) {
  const double words = std::ceil(promise.item_count * textbook_bits_per_item(promise.error_rate) / word_bits);
  LayerShape shape{.block_bits = std::max(1.0, words) * word_bits};
  // The textbook's size is too small for the exact formula, so the search begins there and goes up. It ends:
  // with more bits the rate tends to 0.
  for (;; shape.block_bits += word_bits) {
    shape.probe_count = probes_for(shape.block_bits / promise.item_count);
    if (promise.excess(shape) <= 0) break;
  }
  for (LayerShape fewer = shape; fewer.probe_count > 1; shape = fewer) {
    --fewer.probe_count;
    if (promise.excess(fewer) > 0) break;
  }
  return shape;
}

LayerShape choose(double item_count, double error_rate) {
  const double textbook = item_count * textbook_bits_per_item(error_rate);
  Promise promise{.item_count = item_count, .error_rate = error_rate, .confidence = confidences.front()};
  if (textbook <= classic_bits_max) return of_one_block(promise);
  if (textbook <= one_block_bits_max) {
    const double bits_max = std::min(textbook * size_tolerance, textbook + small_excess_bits);
    const auto several = of_several_blocks(promise, bits_max);
    return several ? *several : of_one_block(promise);
  }
  for (const double confidence : confidences) {
    promise.confidence = confidence;
    if (const auto several = of_several_blocks(promise, textbook * size_tolerance)) return *several;
  }
  promise.confidence = confidences.front();
  const double largest = few_blocks_suffice(promise) ? size_of_few_blocks : block_sizes.back();
  return rounded_up(promise, with_best_probes(promise, guess(promise, largest)));
}

}  // namespace

namespace {

// Plans with the shape that `choose` takes for a number of items and a rate.
template <class Choose>
Result<LayerPlan> plan_with(const LayerRequest& request, std::uint64_t bytes_max,
                            const Choose& choose_shape) {
  if (request.capacity == 0) return fail(Errc::out_of_range, "the capacity is at least 1");
  // Written so that NaN is refused, too.
  if (!(request.error_rate > 0 && request.error_rate < 1))
    return fail(Errc::out_of_range, "the error rate lies between 0 and 1");
  const double error_rate = std::clamp(request.error_rate, error_rate_min, error_rate_max);
  const auto item_count = static_cast<double>(request.capacity);
  const double bits_max = std::min(bit_count_max, 8.0 * static_cast<double>(bytes_max));
  const auto too_large = [] {
    return fail(Errc::too_large, "the layer would exceed the memory it may take");
  };
  // The textbook's size is a lower bound, and far cheaper to compute than a plan.
  if (item_count * textbook_bits_per_item(error_rate) > bits_max) return too_large();

  const LayerShape shape = choose_shape(item_count, error_rate);
  if (size_of(shape) > bits_max) return too_large();
  return LayerPlan{.capacity = request.capacity,
                   .error_rate = error_rate,
                   .block_count = static_cast<std::uint64_t>(shape.block_count),
                   .block_bits = static_cast<std::uint32_t>(shape.block_bits),
                   .probe_count = shape.probe_count,
                   .layout = Layout::blocked};
}

}  // namespace

Result<LayerPlan> plan_layer(const LayerRequest& request, std::uint64_t bytes_max) {
  return plan_with(request, bytes_max, [](double item_count, double error_rate) {
    LayerShape shape = choose(item_count, error_rate);
    shape.block_count = foldable(shape.block_count);
    return shape;
  });
}

Result<LayerPlan> plan_layer_of(const LayerRequest& request, std::uint32_t block_bits,
                                std::uint32_t probes_max, std::uint64_t bytes_max) {
  return plan_with(request, bytes_max, [&](double item_count, double error_rate) {
    const Promise promise{
        .item_count = item_count, .error_rate = error_rate, .confidence = confidences.front()};
    // One block needs the fewest probes that hold the rate: each is work for every request.
    for (LayerShape one{.block_bits = static_cast<double>(block_bits)}; one.probe_count <= probes_max;
         ++one.probe_count)
      if (promise.excess(one) <= 0) return one;
    LayerShape several = guess(promise, block_bits);
    several.probe_count = std::min(several.probe_count, probes_max);
    return rounded_up(promise, with_best_probes(promise, several));
  });
}

double textbook_bits_per_item(double error_rate) {
  return -std::log(error_rate) / (std::numbers::ln2 * std::numbers::ln2);
}

double expected_error_rate(const LayerPlan& plan, std::uint64_t item_count) {
  if (plan.layout != Layout::blocked) {
    const double probes = plan.probe_count;
    const double set_per_bit =
        probes * static_cast<double>(item_count) / static_cast<double>(plan.bit_count());
    return std::pow(-std::expm1(-set_per_bit), probes);
  }
  return layer_rate({.block_count = static_cast<double>(plan.block_count),
                     .block_bits = static_cast<double>(plan.block_bits),
                     .probe_count = plan.probe_count},
                    static_cast<double>(item_count))
      .mean;
}

double layer_rate_share(std::uint32_t layer_index) {
  const double ordinal = layer_index + 1.0;
  return 6 / (std::numbers::pi * std::numbers::pi) / (ordinal * ordinal);
}

}  // namespace sepal::bloom
