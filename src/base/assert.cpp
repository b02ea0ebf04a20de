#include <sepal/base/assert.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace sepal {

namespace {

// Threads whose assertions fail at the same time may mix their texts; the process ends anyway.
std::array<char, 512> failed_text{};

}  // namespace

void assertion_failed(const char* claim, const char* message, const char* file, int line) {
  // The text goes into memory of the program, not of the heap, which may be broken. The handler of SIGABRT
  // reads it there for the crash report.
  static_cast<void>(std::snprintf(failed_text.data(), failed_text.size(),
                                  "broken invariant at %s:%d: %s (%s)", file, line, message, claim));
  std::fprintf(stderr, "sepal: %s\n", failed_text.data());
  std::fflush(stderr);
  std::abort();
}

const char* failed_assertion() {
  return failed_text.data();
}

}  // namespace sepal
