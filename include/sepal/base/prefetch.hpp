// Asking for memory ahead of its use.
#pragma once

namespace sepal {

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

}  // namespace sepal
