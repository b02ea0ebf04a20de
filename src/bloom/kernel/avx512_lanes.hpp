// Vectors of eight words, for the kernels of processors with AVX-512. Include it behind vectors.hpp, where
// SEPAL_VECTORS is 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

// Only functions with this mark may use the instructions, so the rest of the program runs on any processor.
#define SEPAL_TARGET __attribute__((target("avx512f,avx512dq,avx512vl,bmi2")))

namespace sepal::bloom::avx512 {

using Lanes = __m512i;

inline constexpr std::size_t lane_count = 8;
// scaled_lanes puts the product of a lane and a count together from halves of 32 bits, so a count has at most
// 32 bits. A layer of more blocks takes at least 32 GB, and waits for memory whatever the kernel.
inline constexpr std::uint64_t block_count_max = 0xffffffff;

SEPAL_TARGET inline Lanes in_all_lanes(std::uint64_t value) {
  return _mm512_set1_epi64(static_cast<long long>(value));
}

SEPAL_TARGET inline __mmask8 lanes_of(std::size_t count) {
  return static_cast<__mmask8>(count >= lane_count ? 0xff : (1U << count) - 1);
}

// scaled() of probe.hpp, for counts up to block_count_max.
SEPAL_TARGET inline Lanes scaled_lanes(Lanes fraction, Lanes count) {
  // The sum is the whole product, of 64 and 32 bits, without its lowest 32 bits. So it fits into a lane.
  const Lanes upper = _mm512_mul_epu32(_mm512_srli_epi64(fraction, 32), count);
  const Lanes lower = _mm512_srli_epi64(_mm512_mul_epu32(fraction, count), 32);
  return _mm512_srli_epi64(_mm512_add_epi64(upper, lower), 32);
}

// Whether this processor has the instructions.
[[nodiscard]] inline bool supported() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");
}

}  // namespace sepal::bloom::avx512
