// Asking for memory ahead of its use.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace sepal {

// Confined. Addresses that are known one by one, with work between, and whose lines are to be asked for in a
// row: asking waits until the address is translated, which takes a look or two into memory, and only of
// neighbours do these waits overlap.
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
  // Those not asked for yet.
  [[nodiscard]] std::span<const void* const> addresses() const { return std::span(addresses_).first(count_); }

 private:
  std::array<const void*, 64> addresses_;
  std::size_t count_ = 0;
};

// The line is about to be written to. Any address will do.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  // The compiler would ask for it to read, as for the oldest processors, and the write would wait for another
  // core to let go of it. Where the instruction is not known it does nothing.
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// All lines of so many bytes, and the one behind them.
inline void prefetch_to_write(const std::byte* first, std::size_t byte_count) {
  constexpr std::size_t line_bytes = 64;
  for (std::size_t at = 0; at <= byte_count; at += line_bytes) prefetch_to_write(first + at);
}

}  // namespace sepal
