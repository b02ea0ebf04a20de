// The row of Bloom filters (value/kind_row.hpp), and the bytes of their records.
#pragma once

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>
#include <sepal/bloom/plan/plan_memo.hpp>
#include <sepal/value/kind_row.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sepal::bloom {

extern const value::KindRow bloom_row;
extern const value::Payload filter_payload;

// --- records ----------------------------------------------------------------------------
//
//     made      8 seed, 8 error rate (double), 8 capacity, 4 expansion, 4 zero; the first layer as in `grown`
//     grown     8 capacity, 8 error rate (double), 8 block count, 4 block bits, 4 probe count
//     added     the fingerprints of new items, which the newest layer counts

inline constexpr std::uint8_t grown_change = 0;

inline constexpr std::size_t grown_bytes = 32;
inline constexpr std::size_t made_bytes = 32 + grown_bytes;

// For a filter with Sepal's own hash.
[[nodiscard]] std::array<std::byte, made_bytes> made_record(const FilterPlan& plan);
[[nodiscard]] std::array<std::byte, grown_bytes> grown_record(const LayerPlan& plan);

// Plans that were made for the filters of a keyspace.
class SharedPlans final : public value::KindState {
 public:
  PlanMemo memo;  // synchronised
};

}  // namespace sepal::bloom
