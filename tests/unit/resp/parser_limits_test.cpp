// Every limit of a parser, at the limit and one past it, on the fast path and on the resuming path.
#include <sepal/resp/request_parser.hpp>

#include "support/catch.hpp"
#include "support/request_stream.hpp"

namespace parser_limits_test {

using namespace sepal;
using resp::ParserLimits;
using resp::Progress;

namespace {

void check_taken(const std::string& stream, const ParserLimits& limits, bool authenticated = true) {
  INFO(stream.substr(0, 100));
  for (const auto& parsed : {test::parse_whole(stream, limits, authenticated),
                             test::parse_in_pieces(stream, limits, authenticated)}) {
    CHECK(parsed.error.empty());
    CHECK(parsed.requests.size() == 1);
    CHECK(parsed.contract_kept);
  }
}

void check_refused(const std::string& stream, const ParserLimits& limits, const std::string& what,
                   bool authenticated = true) {
  INFO(stream.substr(0, 100));
  for (const auto& parsed : {test::parse_whole(stream, limits, authenticated),
                             test::parse_in_pieces(stream, limits, authenticated)}) {
    CHECK(parsed.error == "ERR Protocol error: " + what);
    CHECK(parsed.requests.empty());
    CHECK(parsed.contract_kept);
  }
}

std::string request_of(std::size_t word_count, std::size_t word_bytes) {
  return test::encode_request(std::vector<std::string>(word_count, std::string(word_bytes, 'w')));
}

}  // namespace

TEST_CASE("a bulk of the largest size is accepted, and one byte more is refused") {
  const ParserLimits limits{.bulk_bytes_max = 1000};
  check_taken(request_of(2, 1000), limits);
  check_refused(request_of(1, 1001), limits, "invalid bulk length");
  check_refused("*1\r\n$1001\r\n", limits, "invalid bulk length");
}

TEST_CASE("the default bulk limit is that of the reference") {
  CHECK(test::parse_whole("*1\r\n$536870912\r\n").error.empty());
  CHECK(test::parse_whole("*1\r\n$536870913\r\n").error == "ERR Protocol error: invalid bulk length");
}

TEST_CASE("a request with the largest number of words is accepted, and one word more is refused") {
  const ParserLimits limits{.argument_count_max = 12};
  check_taken(request_of(12, 3), limits);
  check_refused(request_of(13, 3), limits, "invalid multibulk length");
  check_refused("*13\r\n", limits, "invalid multibulk length");
}

TEST_CASE("an array never has more elements than an int can count, whatever the limit is") {
  const ParserLimits limits{.argument_count_max = UINT64_MAX};
  CHECK(test::parse_whole("*2147483647\r\n", limits).error.empty());
  check_refused("*2147483648\r\n", limits, "invalid multibulk length");
}

TEST_CASE("a request of the largest size is accepted; for one byte more the error names the limit") {
  const std::string request = request_of(7, 20);
  check_taken(request, {.request_bytes_max = request.size()});
  const std::uint64_t less = request.size() - 1;
  check_refused(
      request, {.request_bytes_max = less},
      "request exceeds the limit of " + std::to_string(less) + " bytes (client-query-buffer-limit)");
}

TEST_CASE("a request whose header announces too much is refused before its bytes arrive") {
  const ParserLimits limits{.request_bytes_max = 1000};
  const std::string what = "request exceeds the limit of 1000 bytes (client-query-buffer-limit)";
  check_refused("*1\r\n$990\r\n", limits, what);
  CHECK(test::parse_whole("*1\r\n$988\r\n", limits).error.empty());
  // No sum overflows when all limits have their largest values.
  const ParserLimits none{.bulk_bytes_max = UINT64_MAX,
                          .request_bytes_max = UINT64_MAX,
                          .argument_count_max = UINT64_MAX,
                          .line_bytes_max = UINT64_MAX};
  CHECK(test::parse_whole("*1\r\n$9223372036854775807\r\n", none).error.empty());
  CHECK(test::parse_in_pieces("*2\r\n$9223372036854775807\r\nxx", none).error.empty());
  CHECK(test::parse_in_pieces("xx", none).unconsumed == 2);
}

TEST_CASE("an inline request counts as a request") {
  const ParserLimits limits{.request_bytes_max = 50};
  check_taken(std::string(48, 'x') + "\r\n", limits);
  const std::string what = "request exceeds the limit of 50 bytes (client-query-buffer-limit)";
  check_refused(std::string(49, 'x') + "\r\n", limits, what);
  check_refused(std::string(50, 'x'), limits, what);
}

TEST_CASE("a length line of the largest size is accepted, and one byte more is refused") {
  const ParserLimits limits{.line_bytes_max = 40};
  check_refused("*" + std::string(39, '1') + "\r\n", limits, "invalid multibulk length");
  check_refused("*" + std::string(40, '1') + "\r\n", limits, "too big mbulk count string");
  check_refused("*1\r\n$" + std::string(39, '1') + "\r\n", limits, "invalid bulk length");
  check_refused("*1\r\n$" + std::string(40, '1') + "\r\n", limits, "too big bulk count string");
  CHECK(test::parse_whole("*" + std::string(65'535, '1')).unconsumed == 65'536);
  CHECK(test::parse_whole("*" + std::string(65'537, '1')).error ==
        "ERR Protocol error: too big mbulk count string");
}

TEST_CASE("a line limit too small for a length is raised so that every length fits") {
  check_taken("*1\r\n$10\r\n0123456789\r\n", {.line_bytes_max = 0});
  check_refused("*" + std::string(32, '1') + "\r\n", {.line_bytes_max = 0}, "too big mbulk count string");
}

TEST_CASE("a connection that has not authenticated sends small requests") {
  check_taken(request_of(10, 5), {}, false);
  check_refused(request_of(11, 5), {}, "unauthenticated multibulk length", false);
  check_taken(request_of(2, 16384), {}, false);
  check_refused(request_of(1, 16385), {}, "unauthenticated bulk length", false);
  check_refused("*2\r\n$4\r\nECHO\r\n$16385\r\n", {}, "unauthenticated bulk length", false);
  check_taken("a b c d e f g h i j k l m\r\n", {}, false);
  // The limits for all clients are checked before those without authentication.
  check_refused("*2000000\r\n", {}, "invalid multibulk length", false);
  check_refused("*1\r\n$536870913\r\n", {}, "invalid bulk length", false);
}

TEST_CASE("limits may change between requests") {
  resp::RequestParser parser{ParserLimits{}};
  const std::string request = request_of(1, 100);
  REQUIRE(parser.next(request) == Progress::complete);
  parser.set_limits({.bulk_bytes_max = 99});
  REQUIRE(parser.next(request) == Progress::malformed);
}

TEST_CASE("the size of a large bulk is known as soon as its header is read") {
  resp::RequestParser parser{ParserLimits{}};
  const std::string header = "*2\r\n$4\r\nECHO\r\n$1000000\r\n";
  REQUIRE(parser.next("*2\r\n") == Progress::need_more);
  CHECK(parser.bytes_expected() == 0);
  REQUIRE(parser.next(header) == Progress::need_more);
  CHECK(parser.bytes_expected() == header.size() + 1'000'000 + 2);
  REQUIRE(parser.next(header + std::string(1'000'002, 'x')) == Progress::complete);
  CHECK(parser.bytes_expected() == 0);
}

}  // namespace parser_limits_test
