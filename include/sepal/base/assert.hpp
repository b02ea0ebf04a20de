// Assertions about our own invariants. They stay on in every build: a broken invariant stops the process,
// and recovery does its work. Never for bytes from a client or a disk.
#pragma once

namespace sepal {

// Writes the claim, the message, the file and the line to standard error, then aborts.
[[noreturn]] void assertion_failed(const char* claim, const char* message, const char* file, int line);

}  // namespace sepal

#define SEPAL_ASSERT(claim, message)                                  \
  do {                                                                \
    if (!(claim)) [[unlikely]]                                        \
      ::sepal::assertion_failed(#claim, message, __FILE__, __LINE__); \
  } while (false)
