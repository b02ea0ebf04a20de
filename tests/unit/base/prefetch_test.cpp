#include <sepal/base/prefetch.hpp>

#include "support/catch.hpp"

namespace sepal::prefetch_test {
namespace {

TEST_CASE("addresses are gathered, and prefetched on request or when there are many") {
  std::array<char, 100> memory{};
  LinesAhead lines;
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(lines.addresses().size() == i);
    lines.add(&memory[i]);
    CHECK(lines.addresses().back() == &memory[i]);
  }
  lines.add(&memory[64]);
  REQUIRE(lines.addresses().size() == 1);
  CHECK(lines.addresses().front() == &memory[64]);
  lines.add(nullptr);
  lines.ask();
  CHECK(lines.addresses().empty());
}

}  // namespace
}  // namespace sepal::prefetch_test
