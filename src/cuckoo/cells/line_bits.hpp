// Fields of bits in a line of eight 64-bit words.
//
// Readers take no lock, so each word is read and written as a relaxed atomic. A reader that was too early or
// too late sees a mixture of old and new words, and finds that out by the version of the cell.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace sepal::cuckoo {

inline constexpr std::size_t line_words = 8;
inline constexpr std::size_t line_bytes = line_words * sizeof(std::uint64_t);
inline constexpr unsigned line_bit_count = 512;
inline constexpr unsigned word_bits = 64;

using Line = std::uint64_t*;

// The lowest `count` bits, at most 64.
[[nodiscard]] constexpr std::uint64_t low_bits(unsigned count) {
  return count >= word_bits ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

[[nodiscard]] inline std::uint64_t load_word(const std::uint64_t* word) {
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(*word)).load(std::memory_order_relaxed);
}
inline void store_word(std::uint64_t* word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(*word).store(value, std::memory_order_relaxed);
}

// A word of bits from any place of the line on. What lies behind the line is anything.
[[nodiscard, gnu::always_inline]] inline std::uint64_t load_from(const std::uint64_t* line, unsigned at) {
  const unsigned word = at / word_bits % line_words;
  const std::uint64_t above = load_word(line + (word + 1) % line_words);
  return load_word(line + word) >> (at % word_bits) | (above << 1) << (~at % word_bits);
}
// `count` is 1 to 64; the field ends within the line. Without a branch: whether a field lies in one word or
// in two is as good as random.
[[nodiscard, gnu::always_inline]] inline std::uint64_t load_bits(const std::uint64_t* line, unsigned at,
                                                                 unsigned count) {
  return load_from(line, at) & low_bits(count);
}
[[gnu::always_inline]] inline void store_bits(Line line, unsigned at, unsigned count, std::uint64_t value) {
  std::uint64_t* const word = line + at / word_bits;
  const unsigned shift = at % word_bits;
  store_word(word, (load_word(word) & ~(low_bits(count) << shift)) | (value << shift));
  if (shift + count <= word_bits) return;
  const unsigned rest = shift + count - word_bits;
  store_word(word + 1, (load_word(word + 1) & ~low_bits(rest)) | (value >> (count - rest)));
}

// For fields of so many bits, as many as a word has room for, from its lowest bit on: a word with the lowest
// bit of each, one with the highest, and one with all below the highest.
struct WordOfFields {
  std::uint64_t lowest = 0;
  std::uint64_t highest = 0;
  std::uint64_t rest = 0;
  std::int32_t bits = 0;  // of all these fields
};
inline constexpr auto words_of_fields = [] {
  std::array<WordOfFields, word_bits + 1> all{};
  for (unsigned bits = 1; bits <= word_bits; ++bits) {
    WordOfFields& word = all[bits];
    for (unsigned end = bits; end <= word_bits; end += bits) {
      word.lowest |= std::uint64_t{1} << (end - bits);
      word.bits = static_cast<std::int32_t>(end);
    }
    word.highest = word.lowest << (bits - 1);
    word.rest = word.highest - word.lowest;
  }
  return all;
}();

// Moves the bits [from, to) up by `by` (1 to 63), to [from + by, to + by), which ends within the line. The
// bits [from, from + by) become zeros.
inline void move_bits_up(Line line, unsigned from, unsigned to, unsigned by) {
  const unsigned end = to + by;
  const unsigned first = from / word_bits;
  const unsigned last = (end - 1) / word_bits;
  for (unsigned at = last;; --at) {
    const std::uint64_t old = load_word(line + at);
    std::uint64_t moved = old;
    std::uint64_t below = 0;
    if (at == first) {
      moved &= ~low_bits(from % word_bits);
    } else {
      below = load_word(line + at - 1);
      if (at - 1 == first) below &= ~low_bits(from % word_bits);
    }
    std::uint64_t mask = ~std::uint64_t{0};
    if (at == first) mask &= ~low_bits(from % word_bits);
    if (at == last) mask &= low_bits((end - 1) % word_bits + 1);
    const std::uint64_t shifted = (moved << by) | (below >> (word_bits - by));
    store_word(line + at, (old & ~mask) | (shifted & mask));
    if (at == first) return;
  }
}

// Moves the bits [from + by, to + by) down to [from, to). The bits [to, to + by) become zeros.
inline void move_bits_down(Line line, unsigned from, unsigned to, unsigned by) {
  const unsigned end = to + by;
  const unsigned first = from / word_bits;
  const unsigned last = (end - 1) / word_bits;
  for (unsigned at = first; at <= last; ++at) {
    const std::uint64_t old = load_word(line + at);
    const std::uint64_t last_mask = low_bits((end - 1) % word_bits + 1);
    std::uint64_t moved = old;
    std::uint64_t above = 0;
    if (at == last) {
      moved &= last_mask;
    } else {
      above = load_word(line + at + 1);
      if (at + 1 == last) above &= last_mask;
    }
    std::uint64_t mask = ~std::uint64_t{0};
    if (at == first) mask &= ~low_bits(from % word_bits);
    if (at == last) mask &= last_mask;
    const std::uint64_t shifted = (moved >> by) | (above << (word_bits - by));
    store_word(line + at, (old & ~mask) | (shifted & mask));
  }
}

// What an operation does with the bits of a word:
//
//     count      counts those that are set
//     nth        the bit that has `rank` set bits below it, at its place; 0: there is none. `rank` is at
//                most 63
//     lowest     the lowest `count` bits; `count` is at most 255, and from 64 on it means all
//     width      how many bits there are up to the highest that is set
//     trailing   the place of the lowest bit that is set; 64: there is none
struct PlainBits {
  [[nodiscard]] static unsigned count(std::uint64_t bits) {
    return static_cast<unsigned>(std::popcount(bits));
  }
  [[nodiscard]] static std::uint64_t nth(std::uint64_t bits, unsigned rank) {
    if (rank >= count(bits)) return 0;
    // Steps of halves: how many bits are set in the lower half tells in which half the place is.
    unsigned at = 0;
    for (unsigned half = word_bits / 2; half != 0; half /= 2) {
      const unsigned below = count((bits >> at) & low_bits(half));
      if (rank < below) continue;
      rank -= below;
      at += half;
    }
    return std::uint64_t{1} << at;
  }
  [[nodiscard]] static std::uint64_t lowest(std::uint64_t bits, unsigned count) {
    return bits & low_bits(count);
  }
  [[nodiscard]] static unsigned width(std::uint64_t bits) {
    return static_cast<unsigned>(std::bit_width(bits));
  }
  [[nodiscard]] static unsigned trailing(std::uint64_t bits) {
    return static_cast<unsigned>(std::countr_zero(bits));
  }
};

#if defined(__x86_64__)
#define SEPAL_BMI2 __attribute__((target("bmi,bmi2,lzcnt,popcnt")))

// For processors that have BMI2: most of the last ten years. Each operation is one instruction.
struct Bmi2Bits {
  [[nodiscard]] SEPAL_BMI2 static unsigned count(std::uint64_t bits) {
    return static_cast<unsigned>(std::popcount(bits));
  }
  [[nodiscard]] SEPAL_BMI2 static std::uint64_t nth(std::uint64_t bits, unsigned rank) {
    return _pdep_u64(std::uint64_t{1} << rank, bits);
  }
  [[nodiscard]] SEPAL_BMI2 static std::uint64_t lowest(std::uint64_t bits, unsigned count) {
    return _bzhi_u64(bits, count);
  }
  [[nodiscard]] SEPAL_BMI2 static unsigned width(std::uint64_t bits) {
    return word_bits - static_cast<unsigned>(_lzcnt_u64(bits));
  }
  [[nodiscard]] SEPAL_BMI2 static unsigned trailing(std::uint64_t bits) {
    return static_cast<unsigned>(_tzcnt_u64(bits));
  }
  [[nodiscard]] static bool available() {
    // Not all compilers know this one by its name.
    constexpr unsigned extended_features = 0x80000001;
    constexpr unsigned has_lzcnt = 1U << 5;
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid(extended_features, &a, &b, &c, &d) == 0 || (c & has_lzcnt) == 0) return false;
    return __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
  }
};
#endif

}  // namespace sepal::cuckoo
