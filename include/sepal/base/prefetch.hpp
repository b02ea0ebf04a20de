// Asks for memory ahead of its use.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace sepal {

// Collects addresses that become known one by one, with work between, and then asks for their lines in a row.
// Asking waits until the address is translated, which takes one or two memory reads, and only requests that
// stand side by side overlap these waits. Confined.
class LinesAhead {
 public:
  void add(const void* address) {
    if (count_ == addresses_.size()) ask();
    addresses_[count_++] = address;
  }
  void ask() {
    for (const void* const address : addresses()) __builtin_prefetch(address);
    count_ = 0;
  }
  // The addresses that were not asked for yet.
  [[nodiscard]] std::span<const void* const> addresses() const { return std::span(addresses_).first(count_); }

 private:
  std::array<const void*, 64> addresses_;
  std::size_t count_ = 0;
};

// Asks for a line that is about to be written. The address need not be valid.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  // To suit the oldest processors, the compiler would ask for the line to read it, and the write would still
  // wait for another core to let go of it. A processor that does not know this instruction does nothing.
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// Asks for all lines of `byte_count` bytes, and for the line behind them: `first` may stand inside a line.
inline void prefetch_to_write(const std::byte* first, std::size_t byte_count) {
  constexpr std::size_t line_bytes = 64;
  for (std::size_t at = 0; at <= byte_count; at += line_bytes) prefetch_to_write(first + at);
}

}  // namespace sepal
