#include "session/outbox.hpp"

#include "support/catch.hpp"

namespace sepal::session::outbox_test {
namespace {

TEST_CASE("an outbox gives out its bytes in order, block by block") {
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

TEST_CASE("an outbox counts its blocks until they are sent whole") {
  Outbox outbox;
  outbox.append("abc");
  CHECK(outbox.memory() == 3);  // a few bytes more are in no account
  outbox.sent(3);
  CHECK(outbox.memory() == 0);
  outbox.append(std::string(Outbox::block_bytes_max, 'x'));
  outbox.append("y");
  outbox.sent(Outbox::block_bytes_max - 1);
  CHECK(outbox.byte_count() == 2);
  CHECK(outbox.memory() > Outbox::block_bytes_max);
  outbox.sent(1);
  CHECK(outbox.memory() == 1);
}

}  // namespace
}  // namespace sepal::session::outbox_test
