// Requests as lines of text.
#include <sepal/resp/request_parser.hpp>

#include "support/catch.hpp"
#include "support/request_stream.hpp"

namespace inline_request_test {

using namespace std::literals;
using namespace sepal;
using resp::Progress;

namespace {

using Requests = std::vector<std::vector<std::string>>;

void check_requests(std::string_view stream, const Requests& expected, std::size_t unconsumed = 0) {
  INFO(stream);
  for (const auto& parsed : {test::parse_whole(stream), test::parse_in_pieces(stream)}) {
    CHECK(parsed.error.empty());
    CHECK(parsed.requests == expected);
    CHECK(parsed.unconsumed == unconsumed);
  }
}

void check_unbalanced(std::string_view stream) {
  INFO(stream);
  for (const auto& parsed : {test::parse_whole(stream), test::parse_in_pieces(stream)}) {
    CHECK(parsed.error == "ERR Protocol error: unbalanced quotes in request");
    CHECK(parsed.requests.empty());
  }
}

}  // namespace

TEST_CASE("an inline request is a line of words between blanks") {
  check_requests("PING\r\n", {{"PING"}});
  check_requests("PING\n", {{"PING"}});
  check_requests("ECHO     hello\r\n", {{"ECHO", "hello"}});
  check_requests(" \t\v\fECHO\thello \t\r\n", {{"ECHO", "hello"}});
  check_requests("a\vb\fc\r\n", {{"a\vb\fc"}});
  check_requests("PING\r\r\n", {{"PING"}});
  check_requests("PING\rPONG\r\n", {{"PING", "PONG"}});
  check_requests("PING\r\nPING\r\nECHO a\r\n", {{"PING"}, {"PING"}, {"ECHO", "a"}});
  check_requests("PIN", {}, 3);
  check_requests("ECHO \xff\xfe\r\n", {{"ECHO", "\xff\xfe"}});
  check_requests("%1\r\n$4\r\n:1\r\n", {{"%1"}, {"$4"}, {":1"}});
}

TEST_CASE("a client that speaks TLS is refused at its first byte") {
  for (const std::string_view stream : {"\x16"sv, "\x16\x03\x01\x02\x00\x01"sv, "PING\r\n\x16"sv}) {
    const auto parsed = test::parse_whole(stream);
    CHECK(parsed.error == "ERR Protocol error: this is TLS, and the port takes plain requests");
    CHECK(parsed.requests.size() == (stream.starts_with('P') ? 1 : 0));
  }
}

TEST_CASE("empty lines are skipped") {
  check_requests("\r\n", {});
  check_requests("\n", {});
  check_requests("\r\n\r\n\n\r\nPING\r\n", {{"PING"}});
  check_requests("    \r\nPING\r\n", {{"PING"}});
  check_requests("\r\n*1\r\n$4\r\nPING\r\n\r\n\r\n*1\r\n$4\r\nPING\r\n", {{"PING"}, {"PING"}});
}

TEST_CASE("double quotes understand escapes") {
  check_requests("ECHO \"hello world\"\r\n", {{"ECHO", "hello world"}});
  check_requests(R"(ECHO "\x41\x00\xff\xFf")"
                 "\r\n",
                 {{"ECHO", "A\0\xff\xff"s}});
  check_requests(R"(ECHO "a\r\n\t\a\b\\\"z")"
                 "\r\n",
                 {{"ECHO", "a\r\n\t\a\b\\\"z"}});
  check_requests("ECHO \"\\xzz\\x4\"\r\n", {{"ECHO", "xzzx4"}});
  check_requests("ECHO \"it's\"\r\n", {{"ECHO", "it's"}});
}

TEST_CASE("single quotes understand only an escaped quote") {
  check_requests("ECHO 'it\\'s'\r\n", {{"ECHO", "it's"}});
  check_requests("ECHO 'a\\n\\x41'\r\n", {{"ECHO", "a\\n\\x41"}});
  check_requests("ECHO '\"'\r\n", {{"ECHO", "\""}});
}

TEST_CASE("a quote may open inside a word and quoted words may be empty") {
  check_requests("ECHO a\"b\"\r\n", {{"ECHO", "ab"}});
  check_requests("SET '' \"\"\r\n", {{"SET", "", ""}});
  check_requests("\"\"\r\n", {{""}});
  check_requests("a \"b c\"\vd 'e'\r\n", {{"a", "b c", "d", "e"}});
}

TEST_CASE("a request without its closing quote, or with the quote inside a word, is refused") {
  check_unbalanced("ECHO \"hello\"world\r\n");
  check_unbalanced("ECHO 'hello'world\r\n");
  check_unbalanced("ECHO \"x\r\nPING\r\n");
  check_unbalanced("ECHO 'x\r\n");
  check_unbalanced("ECHO \"x\\\"\r\n");
  check_unbalanced("ECHO \"x\\\r\n");
  check_unbalanced("ECHO \"a\"\"b\"\r\n");
}

TEST_CASE("a NUL is a byte like any other") {
  check_requests("ECHO a\0b\r\n"sv, {{"ECHO", "a\0b"s}});
  check_requests("\0\0\0\r\nPING\r\n"sv, {{"\0\0\0"s}, {"PING"}});
}

TEST_CASE("quoted words stay where they are while further words are read") {
  std::string line;
  Requests expected(1);
  for (int i = 0; i < 2000; ++i) {
    const std::string number = std::to_string(i);
    line += i % 3 == 0 ? " " + number : " \"" + number + "\\x21\"";
    expected[0].push_back(i % 3 == 0 ? number : number + "!");
  }
  check_requests(line + "\r\n", expected);
}

TEST_CASE("an inline request of the largest size is accepted, and one byte more is refused") {
  const resp::ParserLimits limits{.line_bytes_max = 100};
  const std::string fits = std::string(99, 'x') + "\r\n";  // the CR counts
  for (const auto& parsed : {test::parse_whole(fits, limits), test::parse_in_pieces(fits, limits)}) {
    CHECK(parsed.requests == Requests{{std::string(99, 'x')}});
  }
  for (const std::string& ending : {"x\r\n"s, "xx"s, "x\r"s}) {
    const std::string too_long = std::string(99, 'x') + ending;
    for (const auto& parsed :
         {test::parse_whole(too_long, limits), test::parse_in_pieces(too_long, limits)}) {
      CHECK(parsed.error == "ERR Protocol error: too big inline request");
    }
  }
}

TEST_CASE("by default, the largest inline request has 64 KiB") {
  CHECK(test::parse_whole("ECHO " + std::string(60'000, 'x') + "\r\n").requests.size() == 1);
  CHECK(test::parse_whole(std::string(65'536, 'x')).unconsumed == 65'536);
  CHECK(test::parse_whole(std::string(65'537, 'x')).error == "ERR Protocol error: too big inline request");
  CHECK(test::parse_whole("ECHO " + std::string(65'532, 'x')).error ==
        "ERR Protocol error: too big inline request");
}

TEST_CASE("a long line that arrives byte by byte is not scanned again for each byte") {
  const resp::ParserLimits limits{.line_bytes_max = 1 << 20};
  const std::string line(limits.line_bytes_max, 'x');
  const std::string_view input = line;
  resp::RequestParser parser(limits);
  for (std::size_t bytes = 1; bytes <= input.size(); ++bytes) {
    if (parser.next(input.substr(0, bytes)) != Progress::need_more) FAIL("done after " << bytes);
  }
  const std::string ended = line + "\n";
  CHECK(parser.next(ended) == Progress::complete);
  CHECK(parser.words() == resp::Words{line});
}

TEST_CASE("an inline request holds no more words than a request may") {
  const resp::ParserLimits limits{.argument_count_max = 3};
  CHECK(test::parse_whole("a b c\r\n", limits).requests.size() == 1);
  CHECK(test::parse_whole("a b c d\r\n", limits).error == "ERR Protocol error: too big inline request");
}

}  // namespace inline_request_test
