// Plans a layer: how many bits, in which blocks, with how many probes, for a capacity and an error rate.
//
// A layer is `block_count` blocks of `block_bits` bits. An item picks one block and `probe_count` bits in it.
// With n items in N blocks of B bits and k probes, a block holds i items with the binomial probability
// P(i; n, 1/N), which for many blocks is the Poisson one with mean n/N, and the layer answers "maybe" for an
// absent item with
//
//     rate = sum over i of P(i) * E[(X_i / B)^k],     X_i = distinct bits set by i*k probes into B bits
//
// (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2009; the usual formula replaces
// E[X^k] by E[X]^k, which is too low for small B; Bose et al., On the false-positive rate of Bloom filters,
// 2008. The plan keeps the terms up to the fourth order, so that the rate asked for is a promise.)
//
// n counts the different items that are given to the layer. An item that the layer takes for a known one by
// mistake changes no bit, and the layer does not count it. So a layer that is filled until its *count* is n
// was given more than n items: hardly more at rates of 1% and below, 4% more at a rate of 10%, 13% more at
// 25%.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/plan/schemes.hpp>

#include <cstdint>

namespace sepal::bloom {

inline constexpr std::uint32_t block_bits_min = 64;
inline constexpr std::uint32_t block_bits_max = 8192;  // for several blocks; a single one may be larger
inline constexpr std::uint32_t probe_count_max = 40;
inline constexpr double error_rate_max = 0.25;  // a higher rate asked for means this one, as in the reference
inline constexpr double error_rate_min = 1e-15;  // below it the arithmetic of doubles carries no meaning

// Where in a layer an item's bits are.
enum class Layout : std::uint8_t {
  // In blocks, as above: what is planned here.
  blocked = 0,
  // Anywhere, as RedisBloom has them: (low + j * high mod 2^64) mod bits. The "blocks" of the plan are words.
  double_hashing = 1,
  // 2 is in the heads of strings (strings/kind.cpp).
  // Where a client program has put them (schemes.hpp). The "blocks" of the plan are words. Nothing is added
  // to such a layer, and only the item itself, not its fingerprint, finds bits in it.
  client = 3,
};
// The probes that double hashing takes for the smallest rate a double can be.
inline constexpr std::uint32_t double_hashing_probe_count_max = 1075;

// A layer's shape. Immutable once in use: it is part of every image.
struct LayerPlan {
  std::uint64_t capacity = 0;     // items, at least 1
  double error_rate = 0;          // asked of this layer, when it holds `capacity` items
  std::uint64_t block_count = 0;  // at least 1
  std::uint32_t block_bits = 0;   // a multiple of 64
  std::uint32_t probe_count = 0;  // 1 .. probe_count_max
  Layout layout = Layout::blocked;
  // For Layout::client; else 0.
  Scheme scheme = Scheme::go_zero;
  std::uint8_t unused_bits = 0;  // at the end of the last word; below 64
  std::uint32_t first_seed = 0;

  [[nodiscard]] std::uint64_t bit_count() const { return block_count * block_bits; }
  [[nodiscard]] std::uint64_t byte_count() const { return bit_count() / 8; }
  // For Layout::client.
  [[nodiscard]] ClientBits client_bits() const {
    return {.scheme = scheme,
            .bit_count = bit_count() - unused_bits,
            .probe_count = probe_count,
            .first_seed = first_seed};
  }
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};

struct LayerRequest {
  std::uint64_t capacity = 0;  // items, at least 1
  double error_rate = 0;       // in (0, 1); brought into error_rate_min .. error_rate_max

  friend bool operator==(const LayerRequest&, const LayerRequest&) = default;
};

// Plans the smallest layer that keeps the promise. It takes the smallest of the block sizes 64, 128, 256 and
// 512 bytes with which the layer stays within 5% of the textbook optimum, and the number of probes that is
// best for it. A layer too small for several blocks is one block of just the bits it needs. A layer of few
// blocks may have blocks of another size, up to block_bits_max. Errors: out_of_range for either argument;
// too_large when the bitmap would exceed `bytes_max`. Allocates nothing; any thread; up to about a
// millisecond.
Result<LayerPlan> plan_layer(const LayerRequest& request, std::uint64_t bytes_max);

// The same with one block of `block_bits` bits, or several, and at most `probes_max` probes. Errors: as
// plan_layer().
Result<LayerPlan> plan_layer_of(const LayerRequest& request, std::uint32_t block_bits,
                                std::uint32_t probes_max, std::uint64_t bytes_max);

// The optimum of an unblocked filter: -ln(rate) / ln(2)^2 bits an item.
double textbook_bits_per_item(double error_rate);

// The rate of a layer of this shape when it holds `item_count` items. Blocks follow the formula above. Double
// hashing and bitmaps of client programs follow the textbook's formula, which small layers exceed by far.
double expected_error_rate(const LayerPlan& plan, std::uint64_t item_count);

// The share of a scaling filter's rate that its layer `layer_index` (0 is the oldest) is planned with: (6 /
// pi^2) / (layer_index + 1)^2. The shares sum to 1, so a filter's rate holds however often it grows. They
// fall with the square of the index; in the reference each is half of the one before. A halving costs 1.4
// bits an item, so the layers that hold most of a large filter take less here.
double layer_rate_share(std::uint32_t layer_index);

}  // namespace sepal::bloom
