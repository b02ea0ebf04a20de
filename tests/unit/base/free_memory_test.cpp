#include <sepal/base/free_memory.hpp>

#include "support/catch.hpp"

namespace free_memory_test {

TEST_CASE("after free_memory a text holds no memory") {
  std::string text(100'000, 'x');
  sepal::free_memory(text);
  CHECK(text.empty());
  CHECK(text.capacity() < 100);
}

}  // namespace free_memory_test
