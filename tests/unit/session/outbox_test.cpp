#include "../../../src/session/outbox.hpp"

#include <algorithm>
#include <string>

#include "support/catch.hpp"

namespace sepal::session::outbox_test {
namespace {

TEST_CASE("an outbox gives out its bytes in order, block by block", "[session]") {
  Outbox outbox;
  std::string expected;
  for (const std::size_t size : {std::size_t{1}, Outbox::block_bytes_max, std::size_t{100}}) {
    const std::string some(size, static_cast<char>('a' + expected.size() % 26));
    outbox.append(some);
    expected += some;
  }
  CHECK(outbox.byte_count() == expected.size());
  std::string got;
  while (!outbox.empty()) {
    const auto front = outbox.front();
    CHECK(front.size() <= Outbox::block_bytes_max);
    const std::size_t taken = std::min(front.size(), std::size_t{1'000'000});
    got += front.substr(0, taken);
    outbox.sent(taken);
    if (got.size() == 1'000'000) outbox.append("!");
  }
  CHECK((got == expected + "!"));
}

}  // namespace
}  // namespace sepal::session::outbox_test
