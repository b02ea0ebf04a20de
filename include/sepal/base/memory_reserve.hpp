// Memory that is kept for the moment in which the system refuses more.
//
// A request that has begun to change something must end whole, and that takes a few small allocations more:
// an entry of a table, a record, a reply. So when operator new finds no memory, it takes a piece of the
// reserve and tries again. While a piece is missing, the server begins nothing that takes memory. An
// allocation that does not fit even then throws std::bad_alloc (decisions/0042).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace sepal::memory_reserve {

inline constexpr std::size_t piece_bytes = std::size_t{1} << 20;
inline constexpr std::size_t piece_count = 16;

// A piece is missing. Relaxed: a hint for what begins next.
inline std::atomic<bool> broken{false};

// Takes all pieces, and has operator new use them from now on. The pieces are not touched, so they take room
// only where the system counts what is promised (ulimit -v, vm.overcommit_memory = 2). Once, before other
// threads run.
void begin();
// Takes the missing pieces again. False: the system still refuses. Any thread.
bool renew();
// Whether what takes memory may begin.
[[nodiscard]] inline bool permits() {
  return !broken.load(std::memory_order_relaxed) || renew();
}
// How often a piece was taken from the reserve. Any thread.
[[nodiscard]] std::uint64_t uses();

// Does the work. False: it ended because there was no memory.
template <class Work>
[[nodiscard]] bool suffices_for(Work&& work) {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    static_cast<void>(renew());
    return false;
  }
}

}  // namespace sepal::memory_reserve
