// What the changes of a JournaledWorld share: keys, databases_used and lengths.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

namespace sepal::test {

// The head of a filter that is made of others, and their names.
inline constexpr std::uint64_t remade_bytes_max = 600;

// Small enough that a workload fills several segments.
inline constexpr std::uint64_t segment_bytes = 16 << 10;
// An image of such a string fits into a frame of a small segment.
inline constexpr std::size_t shorter_bytes_max = 600;
inline constexpr std::size_t longer_bytes_max = 400'000;
// The most items of a change of a filter that deletes.
inline constexpr std::uint32_t cuckoo_batch_items_max = 24;
inline constexpr std::uint32_t databases_used = 2;
inline constexpr std::array<const char*, 6> key_names{"a", "b", "users", "users:next", "c", "bits"};

inline std::uint32_t below(std::mt19937_64& random, std::uint32_t bound) {
  return static_cast<std::uint32_t>(random() % bound);
}

}  // namespace sepal::test
