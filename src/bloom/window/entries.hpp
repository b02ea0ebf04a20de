// The entries of adds in the journal (window_filter.hpp).
#pragma once

#include <sepal/base/hash.hpp>

#include <cstdint>

namespace sepal::bloom {

struct WindowEntry {
  std::uint64_t hash = 0;
  std::uint64_t generation = 0;
  std::uint64_t layer = 0;   // the low bits of its number
  std::uint64_t renews = 0;  // generations
};

inline constexpr unsigned entry_generation_bits = 40;
inline constexpr unsigned entry_layer_bits = 16;

[[nodiscard]] constexpr std::uint64_t layer_number_of(std::uint64_t number) {
  return number & ((std::uint64_t{1} << entry_layer_bits) - 1);
}

[[nodiscard]] inline Fingerprint entry_of(const WindowEntry& entry) {
  constexpr std::uint64_t generations = (std::uint64_t{1} << entry_generation_bits) - 1;
  return {.low = entry.hash,
          .high = (entry.generation & generations) | layer_number_of(entry.layer) << entry_generation_bits |
                  entry.renews << (entry_generation_bits + entry_layer_bits)};
}

// The whole number of the generation is the one that is nearest to `newest`.
[[nodiscard]] inline WindowEntry entry_in(const Fingerprint& record, std::uint64_t newest) {
  constexpr unsigned above = 64 - entry_generation_bits;
  const auto ahead = static_cast<std::int64_t>((record.high - newest) << above) >> above;
  return {.hash = record.low,
          .generation = newest + static_cast<std::uint64_t>(ahead),
          .layer = layer_number_of(record.high >> entry_generation_bits),
          .renews = record.high >> (entry_generation_bits + entry_layer_bits)};
}

}  // namespace sepal::bloom
