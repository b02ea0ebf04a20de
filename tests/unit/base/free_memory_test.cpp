#include <sepal/base/free_memory.hpp>

#include <string>

#include "support/catch.hpp"

TEST_CASE("a text whose memory is freed has none of it left", "[base]") {
  std::string text(100'000, 'x');
  sepal::free_memory(text);
  CHECK(text.empty());
  CHECK(text.capacity() < 100);
}
