// The row of filters that forget (value/kind_row.hpp), and the bytes of their records.
#pragma once

#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/value/kind_row.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace sepal::bloom {

extern const value::KindRow window_row;

// Nine letters: what TYPE answers, and the type of sepal.so.
inline constexpr const char* window_type_name = "SPbloomWF";

// --- records ----------------------------------------------------------------------------------------------
//
//     made      options, 8 first generation, shape of the first layer
//     options   8 seed, 8 error rate (double), 8 capacity, 8 milliseconds, 2 expansion, 1 generations, 1: 1
//     if
//               adds renew
//     grown     8 generation, 8 capacity, shape
//     shape     8 error rate (double), 8 blocks, 1 lines of a zone, 1 zones, 1 probes of a zone, 1 zero
//     added     entries (window/window_filter.hpp)

inline constexpr std::uint8_t window_grown_change = 0;

inline constexpr std::size_t window_options_bytes = 36;
inline constexpr std::size_t window_shape_bytes = 20;
inline constexpr std::size_t window_grown_bytes = 16 + window_shape_bytes;
inline constexpr std::size_t window_made_bytes = window_options_bytes + 8 + window_shape_bytes;

// The filter has just been made.
[[nodiscard]] std::array<std::byte, window_made_bytes> made_record(const WindowFilter& filter);
[[nodiscard]] std::array<std::byte, window_grown_bytes> grown_record(std::uint64_t generation,
                                                                     const LanePlan& plan);

}  // namespace sepal::bloom
