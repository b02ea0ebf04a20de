// The shape of a filter that deletes: how an item becomes entries of cells, in which layers.
//
// An item's hash is 64 bits. Its identity in a layer is floor(hash * N / 2^64), where the layer has N
// identities. Two items with the same identity cannot be told apart; at n items the layer errs at n / N.
//
//     hash * roots           high 64 bits: the root; low 64 bits: the fraction, the place within it
//     fraction               its highest d bits choose the cell, for a root that was split d times
//     (rest) * (Q0 << b >> d) / 2^64    the entry within the cell: quotient and remainder of r bits
//
// A cell grows by moving a bit from the remainder to the quotient: it gets twice the quotients, or, once it
// would be longer than 64 KiB, it becomes two cells. N stays, so nothing is lost, and shrinking is the
// inverse. At r = remainder_bits_min a cell grows no more; what does not fit goes to the next layer. So a
// layer errs at most at full_load / 2^remainder_bits_min.
//
// Layers share the roots, and each has 2^k times the identities of the one before. So items that are the same
// in a newer layer are the same in an older one. A removal begins at the newest layer: then it never takes an
// entry that another identity needs.
#pragma once

#include <sepal/base/result.hpp>

#include <array>
#include <cstdint>
#include <span>

namespace sepal::cuckoo {

// As a client gives them. The limits are those of the commands (docs/protocol.md).
struct Options {
  std::uint64_t capacity = 1024;
  double error_rate = 0.01;          // in (0, 1)
  std::uint32_t expansion = 1;       // 0: the filter does not grow; else the number is only told
  std::uint16_t bucket_size = 2;     // only told
  std::uint16_t iteration_max = 20;  // only told
  // Whether a client has said the capacity. If not, the first layer has room for growth a thousandfold.
  bool capacity_given = true;
  std::uint64_t seed = 0;

  [[nodiscard]] bool scaling() const { return expansion != 0; }
  friend bool operator==(const Options&, const Options&) = default;
};

inline constexpr std::uint64_t capacity_max = std::uint64_t{1} << 30;
// Below it, identities would need more bits than a cell has for them.
inline constexpr double error_rate_min = 1.1e-13;
inline constexpr std::uint32_t expansion_max = 32768;
inline constexpr std::uint16_t bucket_size_max = 255;  // at least 1, as iteration_max
inline constexpr std::size_t layer_count_max = 4;

struct LayerPlan {
  std::uint8_t identity_bits = 0;         // b: a root has Q0 << b identities
  std::uint8_t remainder_bits_min = 0;    // of a full layer
  std::uint8_t remainder_bits_first = 0;  // of a cell that has just begun

  // The cells have their full size from the beginning.
  [[nodiscard]] bool fixed() const { return remainder_bits_min == remainder_bits_first; }
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};

struct Plan {
  Options options;
  std::uint32_t root_count = 0;
  std::uint32_t root_quotients = 0;  // Q0
  std::uint32_t layer_count = 0;     // at most layer_count_max; those behind the first are made when needed
  std::array<LayerPlan, layer_count_max> layers{};

  // All memory that the filter takes when it is made.
  [[nodiscard]] std::uint64_t byte_count() const;
  // The most items of a filter that does not scale.
  [[nodiscard]] std::uint64_t item_count_max() const { return options.capacity; }
  friend bool operator==(const Plan&, const Plan&) = default;
};

// A layer that cannot grow is planned for this load, and takes entries up to the full one.
inline constexpr double planned_load = 0.90;
inline constexpr double full_load = 0.92;

// Errors: out_of_range (the options), too_large (`bytes_max`).
[[nodiscard]] Result<Plan> plan(const Options& options, std::uint64_t bytes_max);

inline constexpr std::uint32_t root_count_max = std::uint32_t{1} << 20;

// The bytes of a plan, in records and images.
inline constexpr std::size_t plan_bytes = 56;
void encode(const Plan& plan, std::span<std::byte> into);
// Believes nothing. Errors: damaged.
[[nodiscard]] Result<Plan> decode_plan(std::span<const std::byte> bytes);

}  // namespace sepal::cuckoo
