// The row of filters that forget (value/kind_row.hpp), and the bytes of their records.
#pragma once

#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/value/kind_row.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace sepal::bloom {

extern const value::KindRow window_row;

// --- records ----------------------------------------------------------------------------------------------
//
//     made      the options (32 + 8 bytes), 8 first generation, the first layer as in `grown`
//     grown     8 generation, 8 capacity, 8 error rate (double), 8 blocks,
//               4 lines of a zone, 2 zones, 2 probes of a zone
//     added     entries (window/window_filter.hpp)

inline constexpr std::uint8_t window_grown_change = 0;

inline constexpr std::size_t window_options_bytes = 40;
inline constexpr std::size_t window_layer_bytes = 32;
inline constexpr std::size_t window_grown_bytes = 8 + window_layer_bytes;
inline constexpr std::size_t window_made_bytes = window_options_bytes + window_grown_bytes;

// Of a filter that has just been made.
[[nodiscard]] std::array<std::byte, window_made_bytes> made_record(const WindowFilter& filter);
[[nodiscard]] std::array<std::byte, window_grown_bytes> grown_record(std::uint64_t generation,
                                                                     const LanePlan& plan);

}  // namespace sepal::bloom
