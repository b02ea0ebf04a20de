#include "support/catch.hpp"
#include "support/memory_source.hpp"

namespace item_stream_test {

using namespace sepal;
using namespace sepal::tools;
using namespace test;
using Items = std::vector<std::string>;

namespace {

constexpr std::size_t limit = 100;

test::ReadItems read(ItemFormat format, const std::string& bytes, std::optional<Error> failure = {}) {
  auto source = std::make_unique<MemorySource>(
      bytes, [] { return std::size_t{7}; }, std::move(failure));
  return read_all(std::move(source), {.format = format, .block_bytes = 16, .item_bytes_max = limit});
}

}  // namespace

TEST_CASE("the last line needs no line feed, and an empty line is an item") {
  CHECK(read(ItemFormat::lines, "").items == Items{});
  CHECK(read(ItemFormat::lines, "a").items == Items{"a"});
  CHECK(read(ItemFormat::lines, "a\n").items == Items{"a"});
  CHECK(read(ItemFormat::lines, "\n").items == Items{""});
  CHECK(read(ItemFormat::lines, "a\n\nb\r\n").items == Items{"a", "", "b\r"});
  CHECK(read(ItemFormat::nul, std::string("a\nb\0c", 5)).items == Items{"a\nb", "c"});
}

TEST_CASE("a carriage return belongs to a line, and not to a line of the format crlf") {
  CHECK(read(ItemFormat::crlf, "a\r\nb\n\r\n\r\r\nc\rd\r\ne\r").items ==
        Items{"a", "b", "", "\r", "c\rd", "e"});
}

TEST_CASE("a line with a zero byte is refused behind the lines before it") {
  const std::string text("one\ntwo\nth\0ree\nfour\n", 20);
  for (const ItemFormat format : {ItemFormat::lines, ItemFormat::crlf}) {
    const auto refused = read(format, text);
    REQUIRE(refused.error);
    CHECK(refused.error->code == Errc::damaged);
    CHECK(refused.error->detail.find("--format nul") != std::string::npos);
    CHECK(refused.items == Items{"one", "two"});
  }
  CHECK(read(ItemFormat::lines, std::string("\0", 1)).error);
  CHECK(read(ItemFormat::nul, text).items == Items{"one\ntwo\nth", "ree\nfour\n"});
}

TEST_CASE("an item may have the greatest length, and one byte more is refused") {
  for (const ItemFormat format : {ItemFormat::lines, ItemFormat::nul, ItemFormat::length_prefixed}) {
    const Items longest = {"first", std::string(limit, 'x'), "last"};
    const auto whole = read(format, joined(format, longest));
    CHECK_FALSE(whole.error);
    CHECK(whole.items == longest);
    const auto beyond =
        read(format, joined(format, {"first", "second", std::string(limit + 1, 'x'), "last"}));
    REQUIRE(beyond.error);
    CHECK(beyond.error->code == Errc::too_large);
    CHECK(beyond.items == Items{"first", "second"});
  }
  // Also without a delimiter at its end.
  CHECK(read(ItemFormat::lines, std::string(limit, 'x')).items == Items{std::string(limit, 'x')});
  CHECK(read(ItemFormat::lines, std::string(limit + 1, 'x')).error);
}

TEST_CASE("an input that ends within a length-prefixed item is refused after its whole items") {
  const std::string bytes = joined(ItemFormat::length_prefixed, {"one", "two"});
  const std::size_t second = sizeof(ItemLength) + 3;
  for (std::size_t length = second + 1; length < bytes.size(); ++length) {
    const auto cut = read(ItemFormat::length_prefixed, bytes.substr(0, length));
    REQUIRE(cut.error);
    CHECK(cut.error->code == Errc::damaged);
    CHECK(cut.items == Items{"one"});
  }
  CHECK_FALSE(read(ItemFormat::length_prefixed, bytes.substr(0, second)).error);
}

TEST_CASE("a source that fails gives its whole items first, and no incomplete item") {
  const auto failed = read(ItemFormat::lines, "one\ntwo\nthr", fail(Errc::io, "the disk is gone"));
  REQUIRE(failed.error);
  CHECK(failed.error->detail == "the disk is gone");
  CHECK(failed.items == Items{"one", "two"});
}

}  // namespace item_stream_test
