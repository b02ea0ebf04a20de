#include <sepal/resp/reply.hpp>

#include <charconv>

#include "support/catch.hpp"

namespace reply_test {

using namespace std::literals;
using sepal::resp::Reply;
using sepal::resp::Version;

namespace {

std::vector<sepal::resp::Piece> pieces_of(std::string bytes) {
  std::vector<sepal::resp::Piece> pieces(1);
  pieces[0].bytes = std::move(bytes);
  return pieces;
}

// Digits, and how often they were read.
class Digits final : public sepal::resp::Source {
 public:
  explicit Digits(std::vector<std::size_t>& reads, bool& gone) : reads_(reads), gone_(gone) {}
  ~Digits() override { gone_ = true; }
  Digits(const Digits&) = delete;
  Digits& operator=(const Digits&) = delete;
  void read(std::uint64_t offset, std::span<char> to) const override {
    reads_.push_back(to.size());
    for (char& byte : to) byte = static_cast<char>('0' + offset++ % 10);
  }

 private:
  std::vector<std::size_t>& reads_;
  bool& gone_;
};

// The bytes that `append` encodes in a version of the protocol.
template <class Append>
std::string encoded(Version version, Append append) {
  Reply reply;
  reply.set_version(version);
  append(reply);
  return std::string(reply.bytes());
}

// The bytes that `append` encodes in both versions, which must be equal.
template <class Append>
std::string encoded(Append append) {
  const std::string bytes = encoded(Version::resp2, append);
  CHECK(encoded(Version::resp3, append) == bytes);
  return bytes;
}

}  // namespace

TEST_CASE("simple strings and errors are one line each") {
  CHECK(encoded([](Reply& reply) { reply.ok(); }) == "+OK\r\n");
  CHECK(encoded([](Reply& reply) { reply.simple("PONG"); }) == "+PONG\r\n");
  CHECK(encoded([](Reply& reply) { reply.simple(""); }) == "+\r\n");
  CHECK(encoded([](Reply& reply) { reply.simple("a\r\nb\n"); }) == "+a  b \r\n");
  CHECK(encoded([](Reply& reply) { reply.error("ERR a\r\n\nb\0c"sv); }) == "-ERR a   b\0c\r\n"s);
}

TEST_CASE("errors are counted and the last one is remembered") {
  Reply reply;
  CHECK(reply.error_count() == 0);
  CHECK(reply.last_error().empty());
  reply.error("ERR first");
  reply.error("WRONGTYPE second\n");
  CHECK(reply.error_count() == 2);
  std::string sent;
  reply.swap_out(sent);
  CHECK(reply.last_error() == "WRONGTYPE second ");
  reply.error(std::string(sepal::resp::last_error_bytes_max, 'x') + "y");
  CHECK(reply.last_error() == std::string(sepal::resp::last_error_bytes_max, 'x'));
}

TEST_CASE("integers are written in full") {
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{-1}, std::int64_t{1234567},
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    CHECK(encoded([&](Reply& reply) { reply.integer(value); }) == ":" + std::to_string(value) + "\r\n");
  }
}

TEST_CASE("an unsigned integer above 63 bits is written as a bulk") {
  CHECK(encoded([](Reply& reply) { reply.integer_unsigned(9223372036854775807u); }) ==
        ":9223372036854775807\r\n");
  CHECK(encoded([](Reply& reply) { reply.integer_unsigned(9223372036854775808u); }) ==
        "$19\r\n9223372036854775808\r\n");
  CHECK(encoded([](Reply& reply) { reply.integer_unsigned(UINT64_MAX); }) ==
        "$20\r\n18446744073709551615\r\n");
}

TEST_CASE("booleans are integers in RESP2") {
  const auto both = [](Reply& reply) {
    reply.boolean(true);
    reply.boolean(false);
  };
  CHECK(encoded(Version::resp2, both) == ":1\r\n:0\r\n");
  CHECK(encoded(Version::resp3, both) == "#t\r\n#f\r\n");
}

TEST_CASE("many booleans are encoded like single ones") {
  const auto version = GENERATE(Version::resp2, Version::resp3);
  std::array<bool, 4 * 16 + 3> values{};
  // Every combination of four booleans.
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (i / 4 >> (i % 4)) % 2 == 1;
  for (std::size_t count = 0; count <= values.size(); ++count) {
    const auto one_by_one = [&](Reply& reply) {
      reply.ok();
      for (std::size_t i = 0; i < count; ++i) reply.boolean(values[i]);
    };
    const auto in_bulk = [&](Reply& reply) {
      reply.ok();
      reply.booleans(std::span(values).first(count));
    };
    CHECK(encoded(version, in_bulk) == encoded(version, one_by_one));
  }
}

TEST_CASE("real numbers read back as the same value") {
  const auto real = [](double value) {
    return encoded(Version::resp3, [&](Reply& reply) { reply.real(value); });
  };
  CHECK(real(1.5) == ",1.5\r\n");
  CHECK(real(0.1) == ",0.1\r\n");
  CHECK(real(3) == ",3\r\n");
  // As the reference writes them.
  for (const auto& [value, digits] :
       std::vector<std::pair<double, std::string>>{{100000000, "100000000"},
                                                   {4503599627370496, "4503599627370496"},
                                                   {4503599627370497, "4503599627370497"},
                                                   {-4503599627370495, "-4503599627370495"},
                                                   {1e15, "1000000000000000"},
                                                   {1e16, "1e+16"},
                                                   {-1e16, "-1e+16"},
                                                   {123456789012345678, "123456789012345680"},
                                                   {1e300, "1e+300"},
                                                   {1.5e21, "1.5e+21"},
                                                   {1234.5, "1234.5"},
                                                   {-0.0001, "-0.0001"},
                                                   {1e-6, "0.000001"},
                                                   {1e-7, "1e-7"},
                                                   {1.25e-7, "1.25e-7"},
                                                   {0.00012345678, "1.2345678e-4"},
                                                   {0.0012345678, "0.0012345678"},
                                                   {5e-324, "5e-324"},
                                                   {0, "0"},
                                                   {-0.0, "-0"}})
    CHECK(real(value) == "," + digits + "\r\n");
  CHECK(real(std::numeric_limits<double>::infinity()) == ",inf\r\n");
  CHECK(real(-std::numeric_limits<double>::infinity()) == ",-inf\r\n");
  CHECK(real(-std::numeric_limits<double>::quiet_NaN()) == ",nan\r\n");
  for (const double value : {1.0 / 3, 1e-310, -1.7976931348623157e308, 2.2250738585072014e-308, 1e23}) {
    const std::string line = real(value);
    double read = 0;
    std::from_chars(line.data() + 1, line.data() + line.size(), read);
    CHECK(read == value);
  }
  CHECK(encoded(Version::resp2, [](Reply& reply) { reply.real(0.25); }) == "$4\r\n0.25\r\n");
}

TEST_CASE("bulks hold any bytes") {
  CHECK(encoded([](Reply& reply) { reply.bulk(""); }) == "$0\r\n\r\n");
  CHECK(encoded([](Reply& reply) { reply.bulk("a\r\n\0b"sv); }) == "$5\r\na\r\n\0b\r\n"s);
  const std::string large(123'456, 'x');
  CHECK(encoded([&](Reply& reply) { reply.bulk(large); }) == "$123456\r\n" + large + "\r\n");
}

TEST_CASE("types that RESP2 lacks become the nearest RESP2 type") {
  const auto check = [](auto append, std::string_view resp2, std::string_view resp3) {
    CHECK(encoded(Version::resp2, append) == resp2);
    CHECK(encoded(Version::resp3, append) == resp3);
  };
  check([](Reply& reply) { reply.verbatim("text\n"); }, "$5\r\ntext\n\r\n", "=9\r\ntxt:text\n\r\n");
  check([](Reply& reply) { reply.null(); }, "$-1\r\n", "_\r\n");
  check([](Reply& reply) { reply.null_array(); }, "*-1\r\n", "_\r\n");
  check([](Reply& reply) { reply.map(5); }, "*10\r\n", "%5\r\n");
  check([](Reply& reply) { reply.set(3); }, "*3\r\n", "~3\r\n");
  check([](Reply& reply) { reply.array(7); }, "*7\r\n", "*7\r\n");
}

TEST_CASE("appended bytes can be taken back") {
  Reply reply;
  reply.ok();
  const std::size_t size = reply.size();
  reply.array(3);
  reply.integer(7);
  reply.truncate(size);
  CHECK(reply.bytes() == "+OK\r\n");
}

TEST_CASE("two buffers serve a connection without allocating again") {
  Reply reply;
  std::string sent;
  for (int round = 0; round < 2; ++round) {
    reply.bulk(std::string(1000, 'x'));
    reply.swap_out(sent);
    CHECK(reply.size() == 0);
  }
  const std::size_t capacity = sent.capacity();
  const char* const buffer = sent.data();
  reply.bulk(std::string(1000, 'y'));
  reply.swap_out(sent);
  reply.bulk(std::string(1000, 'z'));
  reply.swap_out(sent);
  CHECK(sent.data() == buffer);
  CHECK(sent.capacity() == capacity);
}

TEST_CASE("a long bulk is appended piece by piece, behind what was there") {
  Reply reply;
  reply.ok();
  reply.bulk_later(std::vector<std::string>{"abc", "", "defg"});
  CHECK(reply.bytes() == "+OK\r\n$7\r\n");
  std::string all;
  int fills = 0;
  while (reply.has_later()) {
    reply.fill(reply.size() + 2);
    ++fills;
    std::string some;
    reply.swap_out(some);
    CHECK(some.size() <= std::string_view("+OK\r\n$7\r\n").size() + 2);
    all += some;
  }
  CHECK(all == "+OK\r\n$7\r\nabcdefg\r\n");
  CHECK(fills == 5);
  reply.integer(1);
  CHECK(reply.bytes() == ":1\r\n");
}

TEST_CASE("bytes of a source are read as they are needed, and the source goes behind them") {
  std::vector<std::size_t> reads;
  bool gone = false;
  Reply reply;
  std::vector<sepal::resp::Piece> pieces = pieces_of("ab");
  pieces.push_back({.source = std::make_unique<Digits>(reads, gone), .source_bytes = 25});
  reply.bulk_later(std::move(pieces));
  CHECK(reply.bytes() == "$27\r\n");
  CHECK(reply.bytes_later() == 29);
  CHECK(reads.empty());
  reply.fill(reply.size() + 12);
  CHECK(reply.bytes() == "$27\r\nab0123456789");
  CHECK(reply.bytes_later() == 17);
  CHECK(reads == std::vector<std::size_t>{10});
  CHECK_FALSE(gone);
  reply.fill_whole();
  CHECK(reply.bytes() == "$27\r\nab0123456789012345678901234\r\n");
  CHECK(reads == std::vector<std::size_t>{10, 15});
  CHECK(gone);
}

TEST_CASE("a reply that has as many bytes as asked for is not filled") {
  Reply reply;
  reply.array(2);
  reply.raw_later(pieces_of("+a\r\n+b\r\n"));
  reply.fill(reply.size());
  CHECK(reply.bytes() == "*2\r\n");
  CHECK(reply.has_later());
  reply.fill(1000);
  CHECK(reply.bytes() == "*2\r\n+a\r\n+b\r\n");
  CHECK_FALSE(reply.has_later());
  reply.raw_later({});
  CHECK_FALSE(reply.has_later());
}

}  // namespace reply_test
