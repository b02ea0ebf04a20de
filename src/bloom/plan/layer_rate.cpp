// The error rate of n items in N blocks of B bits with k probes.
//
// One block. i items have made m = i*k probes into B bits. With e1 = (1 - 1/B)^m and e2 = (1 - 2/B)^m the
// number X of bits set has exactly
//
//     mean      mu  = B (1 - e1)
//     variance  s^2 = B^2 (e2 - e1^2) + B (e1 - e2)
//
// and an absent item is answered "maybe" with E[(X/B)^k]. X is close to normal around mu, so with v = s^2 /
// mu^2
//
//     E[(X/B)^k] = (mu/B)^k (1 + C(k,2) v + 3 C(k,4) v^2)
//
// The first term is the textbook's (too low). The second is exact for k <= 2. The third is the fourth moment
// of the normal distribution. A test holds the sum against the exact distribution of X.
//
// Many blocks. A block holds i items with binomial probability, P(i+1) / P(i) = (n-i) / ((i+1) (N-1)). The
// sum starts at the likeliest i with weight 1, runs both ways by recurrence until the terms vanish, and is
// divided by the sum of its weights. So no logarithm of a factorial is taken, which would lose all digits for
// large n. Few blocks and many need the same code: the recurrence tends to that of the Poisson distribution
// by itself.
//
// One filter's own rate is the average of its blocks' rates R = (X/B)^k. Its variance is (1/N) (Var R - what
// the fixed total of items explains). That is (1/N) (Var R - Cov(R, i)^2 / Var i).
#include "bloom/plan/layer_rate.hpp"

#include <algorithm>
#include <cmath>

namespace sepal::bloom {
namespace {

// Terms below this share of the sum are left out. Terms fall faster than geometrically, so the sum of the
// rest is as small.
constexpr double negligible = 1e-9;
// With this many items for each bit, all bits of a block are set, and no sum is needed.
constexpr double saturating_items_per_bit = 64;

double power(double base, std::uint32_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base)
    if (exponent % 2 != 0) result *= base;
  return result;
}

// One block's rate for a number of items, moved up and down one item at a time.
class BlockRate {
 public:
  BlockRate(const LayerShape& shape, double item_count)
      : bits_(shape.block_bits),
        probe_count_(shape.probe_count),
        step_one_(std::pow(1 - 1 / bits_, shape.probe_count)),
        step_two_(std::pow(1 - 2 / bits_, shape.probe_count)),
        empty_one_(std::pow(1 - 1 / bits_, shape.probe_count * item_count)),
        empty_two_(std::pow(1 - 2 / bits_, shape.probe_count * item_count)) {
    const double k = probe_count_;
    pairs_ = k * (k - 1) / 2;
    quadruples_ = pairs_ * (k - 2) * (k - 3) / 12;
  }

  void more_items() {
    empty_one_ *= step_one_;
    empty_two_ *= step_two_;
  }
  void fewer_items() {
    empty_one_ /= step_one_;
    empty_two_ /= step_two_;
  }

  struct Moments {
    double mean;
    double variance;
  };
  [[nodiscard]] Moments moments() const {
    const double mean_bits = bits_ * (1 - empty_one_);
    if (mean_bits <= 0) return {.mean = 0, .variance = 0};
    const double variance_bits =
        bits_ * bits_ * (empty_two_ - empty_one_ * empty_one_) + bits_ * (empty_one_ - empty_two_);
    const double v = std::max(0.0, variance_bits) / (mean_bits * mean_bits);
    const double textbook = power(1 - empty_one_, probe_count_);
    const double mean = std::min(1.0, textbook * (1 + pairs_ * v + 3 * quadruples_ * v * v));
    return {.mean = mean, .variance = v * probe_count_ * probe_count_ * mean * mean};
  }

 private:
  double bits_;
  std::uint32_t probe_count_;
  double step_one_, step_two_;    // what one item does to the two below
  double empty_one_, empty_two_;  // probabilities that one given bit, two given bits are not set
  double pairs_, quadruples_;     // how many such groups the probes form
};

// Sums over the number of items in a block, of weights that need not add up to 1.
struct Mixture {
  double origin = 0;  // items are counted from here, so that squares lose no digits
  double weight = 0;
  double rate = 0;
  double rate_square = 0;
  double items = 0;
  double items_square = 0;
  double rate_items = 0;

  void add(double term_weight, double item_count, const BlockRate::Moments& block) {
    const double offset = item_count - origin;
    weight += term_weight;
    rate += term_weight * block.mean;
    rate_square += term_weight * (block.mean * block.mean + block.variance);
    items += term_weight * offset;
    items_square += term_weight * offset * offset;
    rate_items += term_weight * offset * block.mean;
  }

  [[nodiscard]] LayerRate over(double block_count) const {
    const double mean = rate / weight;
    const double mean_items = items / weight;
    const double covariance = rate_items / weight - mean * mean_items;
    const double variance_items = items_square / weight - mean_items * mean_items;
    double variance = rate_square / weight - mean * mean;
    if (variance_items > 0) variance -= covariance * covariance / variance_items;
    return {.mean = mean, .deviation = std::sqrt(std::max(0.0, variance) / block_count)};
  }
};

}  // namespace

LayerRate layer_rate(const LayerShape& shape, double item_count) {
  const double mean_items = item_count / shape.block_count;
  if (shape.block_count <= 1 || mean_items > saturating_items_per_bit * shape.block_bits) {
    const auto block = BlockRate(shape, mean_items).moments();
    return {.mean = block.mean, .deviation = std::sqrt(block.variance)};
  }
  const double odds = 1 / (shape.block_count - 1);
  const double mode = std::min(item_count, std::floor((item_count + 1) / shape.block_count));
  Mixture mixture{.origin = mode};

  double weight = 1;
  BlockRate up(shape, mode);
  // Upwards the blocks' rates grow, up to 1. So a term is negligible only when its weight is small beside the
  // sum of the rates.
  for (double i = mode; i <= item_count; ++i, up.more_items()) {
    mixture.add(weight, i, up.moments());
    if (mixture.rate > 0 && weight < negligible * mixture.rate) break;
    weight *= (item_count - i) / (i + 1) * odds;
  }
  weight = 1;
  BlockRate down(shape, mode);
  // Downwards the rates fall, so it is enough that the weight is small beside the sum of the weights.
  for (double i = mode; i >= 1; --i) {
    weight *= i / ((item_count - i + 1) * odds);
    down.fewer_items();
    mixture.add(weight, i - 1, down.moments());
    if (weight < negligible * mixture.weight) break;
  }
  return mixture.over(shape.block_count);
}

}  // namespace sepal::bloom
