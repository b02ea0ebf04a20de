// Arrays of bulk strings: which bytes are a request, which are skipped, and which are refused with which
// error.
#include <sepal/resp/request_parser.hpp>

#include "support/catch.hpp"
#include "support/request_stream.hpp"

namespace request_parser_test {

using namespace std::literals;
using namespace sepal;
using resp::Progress;
using namespace test;

namespace {

using Requests = std::vector<std::vector<std::string>>;

const std::string ping = "*1\r\n$4\r\nPING\r\n";

// Checks the result for the stream in one piece and in many pieces: the fast path and the resuming path.
void check_requests(std::string_view stream, const Requests& expected, std::size_t unconsumed = 0) {
  INFO(stream);
  for (const auto& parsed : {parse_whole(stream), parse_in_pieces(stream)}) {
    CHECK(parsed.error.empty());
    CHECK(parsed.requests == expected);
    CHECK(parsed.unconsumed == unconsumed);
    CHECK(parsed.contract_kept);
  }
}

void check_refused(std::string_view stream, std::string_view what, const Requests& before = {}) {
  INFO(stream.substr(0, 100));
  for (const auto& parsed : {parse_whole(stream), parse_in_pieces(stream)}) {
    CHECK(parsed.error == "ERR Protocol error: " + std::string(what));
    CHECK(parsed.requests == before);
    CHECK(parsed.contract_kept);
  }
}

}  // namespace

TEST_CASE("a request is an array of bulk strings of any bytes") {
  check_requests(ping, {{"PING"}});
  check_requests("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", {{"ECHO", ""}});
  check_requests("*3\r\n$6\r\nBF.ADD\r\n$3\r\nkey\r\n$6\r\nit\r\nem\r\n" + ping,
                 {{"BF.ADD", "key", "it\r\nem"}, {"PING"}});
  check_requests("*1\r\n$5\r\n\0*$\r\n\r\n"sv, {{"\0*$\r\n"s}});
  const std::vector<std::string> words{"ECHO", std::string(123'456, 'x')};
  check_requests(test::encode_request(words), {words});
}

TEST_CASE("a request says how many bytes belong to it") {
  resp::RequestParser parser{resp::ParserLimits{}};
  const std::string stream = ping + "\r\n" + ping + "*1\r\n$4\r\nPI";
  std::string_view rest = stream;
  REQUIRE(parser.next(rest) == Progress::complete);
  CHECK(parser.consumed() == ping.size());
  rest.remove_prefix(parser.consumed());
  REQUIRE(parser.next(rest) == Progress::complete);
  CHECK(parser.consumed() == ping.size() + 2);
  rest.remove_prefix(parser.consumed());
  CHECK(parser.next(rest) == Progress::need_more);
  CHECK(parser.consumed() == 0);
  CHECK(parser.bytes_expected() == ping.size());
}

TEST_CASE("words are views into the input of the call that completed the request") {
  resp::RequestParser parser{resp::ParserLimits{}};
  const std::string first = "*2\r\n$4\r\nECHO\r\n$5\r\nhel";
  REQUIRE(parser.next(first) == Progress::need_more);
  const std::string moved = first + "lo\r\n";
  REQUIRE(parser.next(moved) == Progress::complete);
  REQUIRE(parser.words().size() == 2);
  CHECK(parser.words()[0].data() == moved.data() + 8);
  CHECK(parser.words()[1] == "hello");
}

TEST_CASE("arrays with a length of zero or less are skipped") {
  check_requests("*0\r\n", {});
  check_requests("*-1\r\n", {});
  check_requests("*0\r\n" + ping, {{"PING"}});
  check_requests("*-1\r\n" + ping, {{"PING"}});
  check_requests("*-10\r\n*-9223372036854775808\r\n" + ping, {{"PING"}});
}

TEST_CASE("a request after skipped bytes is found, whether the caller drops the bytes or feeds them again") {
  const bool dropped = GENERATE(false, true);
  resp::RequestParser parser{resp::ParserLimits{}};
  const std::string cut = "\r\n*0\r\n*1\r\n$4\r\nPI";
  REQUIRE(parser.next(cut) == Progress::need_more);
  CHECK(parser.consumed() == 6);
  const std::string all = cut + "NG\r\n";
  REQUIRE(parser.next(std::string_view(all).substr(dropped ? 6 : 0)) == Progress::complete);
  CHECK(parser.words() == resp::Words{"PING"});
  CHECK(parser.consumed() == all.size() - (dropped ? 6 : 0));
}

TEST_CASE("an array's length is a plain number") {
  for (const char* length :
       {"abc", "", "1.5", "+1", " 1", "1 ", "01", "-0", "-", "--1", "00", "0x1", "99999999999999999999",
        "18446744073709551617", "9223372036854775808", "-9223372036854775809", "2147483648", "1\n$4"}) {
    check_refused("*" + std::string(length) + "\r\n$4\r\nPING\r\n", "invalid multibulk length");
  }
}

TEST_CASE("a bulk's length is a plain number that is not negative") {
  for (const char* length : {"abc", "", "4.0", "+4", " 4", "4 ", "04", "-0", "-1", "-2", "00",
                             "99999999999999999999", "9223372036854775808", "9223372036854775807", "4\n"}) {
    check_refused("*1\r\n$" + std::string(length) + "\r\nPING\r\n", "invalid bulk length");
  }
}

TEST_CASE("only bulk strings are elements of a request") {
  check_refused("*1\r\n+PING\r\n", "expected '$', got '+'");
  check_refused("*2\r\n$4\r\nECHO\r\n:1\r\n", "expected '$', got ':'");
  check_refused("*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'");
  check_refused("*1\r\nPING\r\n", "expected '$', got 'P'");
  check_refused("*1\r\n|1\r\n", "expected '$', got '|'");
  check_refused("*1\r\n\0\r\n"sv, "expected '$', got '\\x00'");
  check_refused("*1\r\n\r\n", "expected '$', got '\r'");
  check_requests("*1\r\nPING", {}, 8);
}

TEST_CASE("requests before a malformed one are delivered, and none after it") {
  check_refused(ping + "*1\r\n$abc\r\n" + ping, "invalid bulk length", {{"PING"}});
  resp::RequestParser parser{resp::ParserLimits{}};
  REQUIRE(parser.next("*x\r\n") == Progress::malformed);
  CHECK(parser.next(ping) == Progress::malformed);
  CHECK(parser.consumed() == 0);
  CHECK(parser.error_text() == "ERR Protocol error: invalid multibulk length");
}

TEST_CASE("the two bytes after a bulk are skipped, whatever they are") {
  check_requests("*1\r\n$4\r\nPINGxx" + ping, {{"PING"}, {"PING"}});
  check_requests("*1\r\n$6\r\nPING\r\n\r\n", {{"PING\r\n"}});
  check_requests("*1\r\n$4\r\nPINGPONG\r\n" + ping, {{"PING"}, {"NG"}, {"PING"}});
}

TEST_CASE("a length line without CR waits for one") {
  check_requests("*1\n$4\nPING\n", {}, 11);
  check_requests("*1\r\n$4\nPING\n", {}, 12);
  check_requests("*1\r", {}, 3);
}

TEST_CASE("a request may be cut at any byte") {
  const std::string stream = "*3\r\n$6\r\nBF.ADD\r\n$3\r\nkey\r\n$12\r\nit\r\nem345678\r\n" + ping;
  const auto whole = parse_whole(stream);
  REQUIRE(whole.requests.size() == 2);
  for (std::size_t cut = 1; cut < stream.size(); ++cut) {
    INFO("cut at " << cut);
    bool first = true;
    CHECK(whole == test::parse_stream(stream, {}, true,
                                      [&] { return std::exchange(first, false) ? cut : stream.size(); }));
  }
}

TEST_CASE("a request whose first line was cut does not affect the next request") {
  resp::RequestParser parser{resp::ParserLimits{}};
  REQUIRE(parser.next("*1\r") == Progress::need_more);
  REQUIRE(parser.next(ping) == Progress::complete);
  CHECK(parser.next("\n") == Progress::need_more);
  CHECK(parser.consumed() == 1);
}

TEST_CASE("a large bulk that arrives byte by byte is not scanned again for each byte") {
  // A parser that scanned the bulk again for every byte would read half a million million bytes here.
  const std::vector<std::string> words{"ECHO", std::string(1 << 20, '\r')};
  const std::string request = test::encode_request(words);
  resp::RequestParser parser{resp::ParserLimits{}};
  const std::string_view input = request;
  for (std::size_t bytes = 0; bytes < input.size(); ++bytes) {
    if (parser.next(input.substr(0, bytes)) != Progress::need_more) FAIL("complete after " << bytes);
    if (bytes > 100 && parser.bytes_expected() != request.size()) FAIL("the end is not foreseen");
  }
  REQUIRE(parser.next(input) == Progress::complete);
  CHECK(parser.words()[1] == words[1]);
}

std::string request_of(const std::vector<std::string>& words) {
  return test::encode_request(words);
}

struct Alike {
  std::vector<std::string> last_words;
  std::size_t consumed = 0;
};

// The requests behind `first` that are like it.
Alike taken_alike(const std::string& first, const std::string& rest, std::size_t count_max = 8,
                  const resp::ParserLimits& limits = {}) {
  const std::string bytes = first + rest;
  resp::RequestParser parser{limits};
  REQUIRE(parser.next(bytes) == Progress::complete);
  REQUIRE(parser.consumed() == first.size());
  std::vector<std::string_view> last_words(count_max);
  last_words.resize(parser.next_alike(std::string_view(bytes).substr(first.size()), last_words));
  return {.last_words = {last_words.begin(), last_words.end()}, .consumed = parser.consumed()};
}

TEST_CASE("neighbours that differ only in their last word are taken together") {
  const std::string first = request_of({"BF.ADD", "key", "a"});
  const std::string second = request_of({"BF.ADD", "key", ""});
  const std::string third = request_of({"BF.ADD", "key", "a longer item"});
  const Alike all = taken_alike(first, second + third);
  CHECK(all.last_words == std::vector<std::string>{"", "a longer item"});
  CHECK(all.consumed == second.size() + third.size());

  CHECK(taken_alike(first, second + third, 1).consumed == second.size());
  for (const std::vector<std::string>& other : std::vector<std::vector<std::string>>{
           {"BF.ADD", "kez", "a"}, {"bf.add", "key", "a"}, {"BF.ADD", "key", "a", "b"}, {"BF.ADD", "key"}}) {
    CHECK(taken_alike(first, second + request_of(other)).consumed == second.size());
  }
  for (std::size_t cut = 0; cut < third.size(); ++cut)
    CHECK(taken_alike(first, second + third.substr(0, cut)).consumed == second.size());
  CHECK(taken_alike("PING x\r\n", "PING y\r\n").consumed == 0);
}

TEST_CASE("neighbours that differ only in the word before the last are taken together") {
  const std::string first = request_of({"SETBIT", "key", "1", "1"});
  const std::string second = request_of({"SETBIT", "key", "4294967295", "1"});
  const auto taken = [&](const std::string& rest) {
    const std::string bytes = first + rest;
    resp::RequestParser parser{resp::ParserLimits{}};
    REQUIRE(parser.next(bytes) == Progress::complete);
    std::vector<std::string_view> words(8);
    words.resize(parser.next_alike_before(1, std::string_view(bytes).substr(first.size()), words));
    return Alike{.last_words = {words.begin(), words.end()}, .consumed = parser.consumed()};
  };
  CHECK(taken(second + first).last_words == std::vector<std::string>{"4294967295", "1"});
  CHECK(taken(second + first).consumed == second.size() + first.size());
  for (const std::vector<std::string>& other : std::vector<std::vector<std::string>>{
           {"SETBIT", "key", "1", "0"}, {"SETBIT", "kez", "1", "1"}, {"SETBIT", "key", "1"}})
    CHECK(taken(second + request_of(other)).consumed == second.size());
  for (std::size_t cut = 0; cut < second.size(); ++cut) CHECK(taken(second.substr(0, cut)).consumed == 0);
}

TEST_CASE("a neighbour beyond a limit is left to the full parser, which reports the error") {
  const std::string first = request_of({"BF.ADD", "key", "item"});
  const std::string equal = request_of({"BF.ADD", "key", "1234"});
  const std::string longer = request_of({"BF.ADD", "key", "12345"});
  const resp::ParserLimits tight_word{.bulk_bytes_max = 6};
  const std::string fits = request_of({"BF.ADD", "key", "123456"});
  const std::string over = request_of({"BF.ADD", "key", "1234567"});
  CHECK(taken_alike(first, fits + over, 8, tight_word).consumed == fits.size());
  const resp::ParserLimits tight_request{.request_bytes_max = first.size()};
  CHECK(taken_alike(first, equal + longer, 8, tight_request).consumed == equal.size());
}

// The requests behind `first` that are similar: "<second word> <last word>" of each.
Alike taken_similar(const std::string& first, const std::string& rest, std::size_t count_max = 8,
                    const resp::ParserLimits& limits = {}) {
  const std::string bytes = first + rest;
  resp::RequestParser parser{limits};
  REQUIRE(parser.next(bytes) == Progress::complete);
  std::vector<resp::RequestParser::LastTwoWords> words(count_max);
  words.resize(parser.next_similar(std::string_view(bytes).substr(first.size()), words));
  Alike taken{.last_words = {}, .consumed = parser.consumed()};
  for (const auto& [second, last] : words)
    taken.last_words.push_back(std::string(second) + " " + std::string(last));
  return taken;
}

TEST_CASE("neighbours with one command and different keys are taken together") {
  const std::string first = request_of({"BF.ADD", "key", "a"});
  const std::string second = request_of({"BF.ADD", "other key", ""});
  const std::string third = request_of({"BF.ADD", "key", "a longer item"});
  const Alike all = taken_similar(first, second + third);
  CHECK(all.last_words == std::vector<std::string>{"other key ", "key a longer item"});
  CHECK(all.consumed == second.size() + third.size());

  CHECK(taken_similar(first, second + third, 1).consumed == second.size());
  for (const std::vector<std::string>& other :
       std::vector<std::vector<std::string>>{{"bf.add", "k", "a"},
                                             {"BF.ADD", "k", "a", "b"},
                                             {"BF.ADD", "k"},
                                             {"BF.ADD", "other key", "same key as before"}}) {
    CHECK(taken_similar(first, second + request_of(other)).consumed == second.size());
  }
  for (std::size_t cut = 0; cut < third.size(); ++cut)
    CHECK(taken_similar(first, second + third.substr(0, cut)).consumed == second.size());
  CHECK(taken_similar(first, third).consumed == 0);
  CHECK(taken_similar("BF.ADD key x\r\n", "BF.ADD k y\r\n").consumed == 0);
  const std::string two = request_of({"DEL", "other key"});
  CHECK(taken_similar(request_of({"DEL", "key"}), two + third).consumed == two.size());
  CHECK(taken_similar(request_of({"DEL", "key"}), two).last_words ==
        std::vector<std::string>{"other key other key"});
  CHECK(taken_similar(request_of({"DEL"}), request_of({"DEL"})).consumed == 0);
}

TEST_CASE("a neighbour with another key has the same limits") {
  const std::string first = request_of({"BF.ADD", "key", "item"});
  const std::string equal = request_of({"BF.ADD", "kez", "1234"});
  const resp::ParserLimits tight_word{.bulk_bytes_max = 6};
  const std::string fits = request_of({"BF.ADD", "123456", "1"});
  CHECK(taken_similar(first, fits + request_of({"BF.ADD", "1234567", ""}), 8, tight_word).consumed ==
        fits.size());
  CHECK(taken_similar(first, fits + request_of({"BF.ADD", "k", "1234567"}), 8, tight_word).consumed ==
        fits.size());
  const resp::ParserLimits tight_request{.request_bytes_max = first.size()};
  CHECK(taken_similar(first, equal + request_of({"BF.ADD", "kez2", "1234"}), 8, tight_request).consumed ==
        equal.size());
}

TEST_CASE("the digits of a neighbour's lengths count towards the limit of a request") {
  const auto add = [](std::size_t key_bytes, std::size_t item_bytes) {
    return request_of({"BF.ADD", std::string(key_bytes, 'k'), std::string(item_bytes, 'x')});
  };
  const std::string first = add(9, 11);
  const std::string a_digit_more = add(10, 10);
  REQUIRE(a_digit_more.size() == first.size() + 1);
  CHECK(taken_similar(first, a_digit_more, 8, {.request_bytes_max = first.size()}).consumed == 0);
  CHECK(taken_similar(first, a_digit_more, 8, {.request_bytes_max = a_digit_more.size()}).consumed ==
        a_digit_more.size());

  const std::string one_digit = add(3, 9);
  const std::string two_digits = add(3, 10);
  REQUIRE(two_digits.size() == one_digit.size() + 2);
  CHECK(taken_alike(one_digit, two_digits, 8, {.request_bytes_max = two_digits.size() - 1}).consumed == 0);
  CHECK(taken_alike(one_digit, two_digits, 8, {.request_bytes_max = two_digits.size()}).consumed ==
        two_digits.size());
}

TEST_CASE("a request of many words in small pieces is not read again for each piece") {
  const std::vector<std::string> words(100'000, "word");
  const std::string request = test::encode_request(words);
  const std::string elsewhere = request;  // the caller's buffer moves with every piece
  resp::RequestParser parser{resp::ParserLimits{}};
  constexpr std::size_t piece_bytes = 3;
  std::size_t calls = 0;
  for (std::size_t bytes = 0; bytes < request.size(); bytes += piece_bytes, ++calls) {
    const std::string_view buffer = calls % 2 == 0 ? request : elsewhere;
    if (parser.next(buffer.substr(0, bytes)) != Progress::need_more) FAIL("complete after " << bytes);
  }
  REQUIRE(parser.next(request) == Progress::complete);
  REQUIRE(parser.words().size() == words.size());
  CHECK(parser.words().back().data() == request.data() + request.size() - words.back().size() - 2);
}

TEST_CASE("memory for words grows with the bytes that arrived, and is given back") {
  for (const char* announced : {"*1000\r\n$1\r\n", "*1048576\r\n$1\r\n"}) {
    resp::RequestParser parser{resp::ParserLimits{}};
    REQUIRE(parser.next(announced) == Progress::need_more);
    CHECK(parser.words().capacity() < 100);
  }

  resp::RequestParser other{resp::ParserLimits{}};
  const std::string request = test::encode_request(std::vector<std::string>(50'000, "w"));
  REQUIRE(other.next(request) == Progress::complete);
  REQUIRE(other.words().size() == 50'000);
  REQUIRE(other.next("") == Progress::need_more);
  CHECK(other.words().capacity() <= 4096);
}

}  // namespace request_parser_test
