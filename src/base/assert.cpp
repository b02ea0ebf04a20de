#include <sepal/base/assert.hpp>

#include <cstdio>
#include <cstdlib>

namespace sepal {

void assertion_failed(const char* claim, const char* message, const char* file, int line) {
  std::fprintf(stderr, "sepal: broken invariant at %s:%d: %s (%s)\n", file, line, message, claim);
  std::fflush(stderr);
  std::abort();
}

}  // namespace sepal
