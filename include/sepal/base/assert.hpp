// Assertions about our own invariants. They stay on in every build: a broken invariant stops the process,
// and recovery does its work. Never for bytes from a client or a disk.
#pragma once

namespace sepal {

// Writes the claim, the message, the file and the line to standard error, notes them for failed_assertion(),
// then aborts.
[[noreturn]] void assertion_failed(const char* claim, const char* message, const char* file, int line);

// The text of the assertion that ends this process; empty if none does. For a handler of SIGABRT.
[[nodiscard]] const char* failed_assertion();

}  // namespace sepal

#define SEPAL_ASSERT(claim, message)                                  \
  do {                                                                \
    if (!(claim)) [[unlikely]]                                        \
      ::sepal::assertion_failed(#claim, message, __FILE__, __LINE__); \
  } while (false)
