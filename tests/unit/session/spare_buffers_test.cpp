#include "session/spare_buffers.hpp"

#include "support/catch.hpp"

namespace sepal::session::spare_buffers_test {

TEST_CASE("spare memory is lent to buffers without memory, and is bounded") {
  SpareBuffers spares;
  std::string text;
  spares.lend(text);
  CHECK(text.capacity() == std::string().capacity());
  const auto take_back = [&](std::size_t bytes) {
    std::string full(bytes, 'x');
    spares.take_back(full);
    CHECK(full.empty());
    CHECK(full.capacity() == std::string().capacity());
  };
  take_back(1);
  take_back(SpareBuffers::spare_bytes_max + 1);
  spares.lend(text);
  CHECK(text.capacity() == std::string().capacity());
  take_back(SpareBuffers::spare_bytes_max);
  spares.lend(text);
  CHECK(text.capacity() == SpareBuffers::spare_bytes_max);
  for (std::size_t i = 0; i <= SpareBuffers::spares_max; ++i) take_back(1000);
  std::size_t lent = 0;
  while (true) {
    std::string each;
    spares.lend(each);
    if (each.capacity() < 1000) break;
    CHECK(each.empty());
    ++lent;
  }
  CHECK(lent == SpareBuffers::spares_max);
  take_back(1000);
  std::string has_memory(5000, 'x');
  spares.lend(has_memory);
  CHECK(has_memory.size() == 5000);
}

}  // namespace sepal::session::spare_buffers_test
