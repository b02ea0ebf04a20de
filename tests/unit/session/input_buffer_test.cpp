#include <sepal/session/input_buffer.hpp>

#include "support/catch.hpp"

namespace sepal::session::input_buffer_test {
namespace {

void receive(InputBuffer& buffer, std::string_view bytes, std::size_t expected = 0) {
  const std::span<char> space = buffer.space(expected);
  REQUIRE(space.size() >= bytes.size());
  std::memcpy(space.data(), bytes.data(), bytes.size());
  buffer.arrived(bytes.size());
}

TEST_CASE("the rest of a client's input survives when other clients use the shared buffer") {
  std::vector<char> memory(16 * 1024);
  SharedInput shared(memory);
  InputBuffer one(shared);
  InputBuffer other(shared);
  receive(one, "done,left");
  one.consume(5);
  REQUIRE(one.stash());
  receive(other, "0123456789");
  REQUIRE(other.stash());
  CHECK(one.unparsed() == "left");
  receive(one, "over");
  CHECK(one.unparsed() == "leftover");
  CHECK(other.unparsed() == "0123456789");
}

TEST_CASE("a rest up to the limit is copied in front of new bytes; a larger rest stays where it is") {
  std::vector<char> memory(64 * 1024);
  SharedInput shared(memory);
  for (const std::size_t tail : {copied_tail_bytes_max, copied_tail_bytes_max + 1}) {
    InputBuffer buffer(shared);
    receive(buffer, std::string(tail, 't'));
    REQUIRE(buffer.stash());
    const bool in_shared = buffer.space(0).data() == memory.data() + tail;
    CHECK(in_shared == (tail <= copied_tail_bytes_max));
    receive(buffer, "n");
    CHECK(buffer.unparsed() == std::string(tail, 't') + "n");
  }
}

TEST_CASE("several clients receive into the shared buffer one behind the other, then it starts again") {
  std::vector<char> memory(16 * 1024);
  SharedInput shared(memory);
  InputBuffer one(shared);
  InputBuffer other(shared);
  receive(other, "tail");
  REQUIRE(other.stash());
  receive(one, "first");
  {
    InputBuffer gone(shared);
    receive(gone, "lost");
  }
  receive(other, "second");
  CHECK(shared.free().data() == memory.data() + 5 + 4 + 10);
  CHECK(shared.free().size() == memory.size() - (5 + 4 + 10));
  CHECK(one.unparsed() == "first");
  CHECK(other.unparsed() == "tailsecond");
  one.consume(5);
  REQUIRE(one.stash());
  CHECK(other.unparsed() == "tailsecond");
  CHECK(shared.free().data() != memory.data());
  REQUIRE(other.stash());
  CHECK(shared.free().data() == memory.data());
  CHECK(other.unparsed() == "tailsecond");
}

TEST_CASE("a receive without bytes changes nothing") {
  std::vector<char> memory(16 * 1024);
  SharedInput shared(memory);
  InputBuffer buffer(shared);
  receive(buffer, "tail");
  REQUIRE(buffer.stash());
  static_cast<void>(buffer.space(0));
  std::fill(memory.begin(), memory.end(), '!');
  static_cast<void>(buffer.space(0));
  CHECK(buffer.unparsed() == "tail");
}

TEST_CASE("memory grows by doubling, and is given back when only a small rest is left") {
  std::vector<char> memory(64 * 1024);
  SharedInput shared(memory);
  InputBuffer buffer(shared);
  std::size_t arrived = 0;
  while (arrived < 1'000'000) {
    const std::size_t piece = std::min<std::size_t>(buffer.space(0).size(), 50'000);
    receive(buffer, std::string(piece, 'x'));
    REQUIRE(buffer.stash());
    arrived += piece;
    REQUIRE(buffer.bytes_held() <= 2 * arrived + read_bytes_min);
  }
  buffer.consume(arrived - 10);
  REQUIRE(buffer.stash());
  CHECK(buffer.bytes_held() == 10);
  CHECK(buffer.unparsed() == "xxxxxxxxxx");
  buffer.consume(10);
  REQUIRE(buffer.stash());
  CHECK(buffer.bytes_held() == 0);
}

TEST_CASE("the last growth for a request of known size is as large as the request") {
  std::vector<char> memory(64 * 1024);
  SharedInput shared(memory);
  InputBuffer buffer(shared);
  receive(buffer, std::string(60'000, 'x'));
  REQUIRE(buffer.stash());
  CHECK(buffer.space(100'000).size() == 40'000);
}

TEST_CASE("one receive takes a bounded part of a large request") {
  std::vector<char> memory(64 * 1024);
  SharedInput shared(memory);
  InputBuffer buffer(shared);
  for (std::size_t arrived = 0; arrived < 8 * read_bytes_max;) {
    const std::size_t space = buffer.space(100 * read_bytes_max).size();
    REQUIRE(space <= read_bytes_max);
    receive(buffer, std::string(space, 'x'));
    REQUIRE(buffer.stash());
    arrived += space;
  }
}

TEST_CASE("large memory is given back a part at a time, also when a few bytes are left") {
  const std::size_t left = GENERATE(std::size_t{0}, std::size_t{3});
  std::vector<char> memory(64 * 1024);
  SharedInput shared(memory);
  InputBuffer buffer(shared);
  constexpr std::size_t large = std::size_t{100} << 20;
  std::size_t arrived = 0;
  while (arrived < large) {
    const std::size_t space = buffer.space(large).size();
    buffer.arrived(space);
    REQUIRE(buffer.stash());
    arrived += space;
  }
  buffer.consume(arrived - left);
  std::size_t held = buffer.bytes_held();
  int steps = 0;
  do {
    REQUIRE(buffer.stash());
    REQUIRE(held - buffer.bytes_held() <= std::size_t{16} << 20);
    REQUIRE(buffer.bytes_held() < held);
    held = buffer.bytes_held();
    ++steps;
  } while (buffer.gives_back());
  CHECK(steps >= 6);
  CHECK(buffer.bytes_held() == left);
}

}  // namespace
}  // namespace sepal::session::input_buffer_test
