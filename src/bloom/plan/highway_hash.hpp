// HighwayHash with 128 bits, as published in https://arxiv.org/abs/1612.06257 and
// https://github.com/google/highwayhash (Alakuijala, Cox, Wassenberg: Fast keyed hash/pseudo-random function
// using SIMD multiply and permute, 2016).
//
// Not the library of this name in Debian: with optimisation, its plain implementation makes other hashes of
// items of 33 bytes and more, because it reads words through pointers of another type.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sepal::bloom {

using HighwayKey = std::array<std::uint64_t, 4>;

[[nodiscard]] std::array<std::uint64_t, 2> highway_hash_128(std::string_view bytes, const HighwayKey& key);

}  // namespace sepal::bloom
