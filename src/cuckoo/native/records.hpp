// The records of changes (filter.hpp).
#pragma once

#include <sepal/base/hash.hpp>

#include <cstdint>

#include "cuckoo/cells/cell_lines.hpp"

namespace sepal::cuckoo {

inline constexpr unsigned number_bits = 32;
inline constexpr unsigned removed_bit = 40;

[[nodiscard]] inline Fingerprint record_of(std::uint64_t hash, std::uint64_t number, std::uint32_t layer,
                                           bool removed) {
  return {.low = hash,
          .high = (number & low_bits(number_bits)) | std::uint64_t{layer} << number_bits |
                  std::uint64_t{removed ? 1U : 0U} << removed_bit};
}

[[nodiscard]] inline std::uint32_t layer_of(const Fingerprint& record) {
  return static_cast<std::uint32_t>(record.high >> number_bits) & 0xff;
}
[[nodiscard]] inline bool is_removal(const Fingerprint& record) {
  return (record.high >> removed_bit & 1) != 0;
}

}  // namespace sepal::cuckoo
