// Laws of the request parser, over random streams. Every case is made from a seed that a failure prints; the
// seeds are the same in every run.
#include <sepal/resp/request_parser.hpp>

#include "support/catch.hpp"
#include "support/request_stream.hpp"

namespace parser_laws {

using namespace sepal;
using namespace test;

namespace {

constexpr std::uint64_t seed_count = 1500;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // Evenly distributed from 0 to `max`, inclusive.
  std::size_t up_to(std::size_t max) { return std::uniform_int_distribution<std::size_t>(0, max)(engine_); }
  bool one_in(std::size_t n) { return up_to(n - 1) == 0; }

  template <class T, std::size_t n>
  const T& one_of(const T (&choices)[n]) {
    return choices[up_to(n - 1)];
  }

  std::string bytes(std::size_t length_max) {
    std::string made(up_to(length_max), '\0');
    for (char& byte : made) byte = static_cast<char>(up_to(255));
    return made;
  }

  // Bytes that have a meaning in the protocol, so that the parser reads far into garbage.
  std::string telling_bytes(std::size_t length_max) {
    static constexpr char alphabet[] = {'*', '$',  '\r', '\n', '0', '1', '2',  '3',  '-',  '+',
                                        '"', '\'', '\\', 'x',  ' ', 'a', '\0', '\t', '\v', '9'};
    std::string made(up_to(length_max), '\0');
    for (char& byte : made) byte = one_of(alphabet);
    return made;
  }

 private:
  std::mt19937_64 engine_;
};

std::vector<std::string> random_words(Random& random) {
  std::vector<std::string> words(1 + random.up_to(random.one_in(10) ? 40 : 4));
  for (std::string& word : words) word = random.bytes(random.one_in(10) ? 300 : 12);
  return words;
}

std::string random_element(Random& random) {
  static const std::string fragments[] = {"*0\r\n",        "*-1\r\n", "\r\n",          "\n",
                                          "  \r\n",        "*",       "*2\r\n",        "$3\r\n",
                                          "*1\r\n+x\r\n",  "*01\r\n", "*1\r\n$-1\r\n", "*99999999999\r\n",
                                          "*1\r\n$00\r\n", "\r"};
  switch (random.up_to(11)) {
    case 0: return "ECHO  'a b' \"\\x41\\n\"\r\n";
    case 1: return "PING " + std::string(random.up_to(80), 'x') + (random.one_in(2) ? "\r\n" : "\n");
    case 2: return random.telling_bytes(20) + "\n";
    case 3: return random.one_of(fragments);
    default: return encode_request(random_words(random));
  }
}

// Mostly well-formed requests, sometimes with a byte changed, dropped or doubled.
std::string random_stream(Random& random) {
  std::string stream;
  for (std::size_t elements = random.up_to(8); elements > 0; --elements) stream += random_element(random);
  while (!stream.empty() && random.one_in(3)) {
    const std::size_t at = random.up_to(stream.size() - 1);
    switch (random.up_to(3)) {
      case 0: stream.erase(at, 1); break;
      case 1: stream.insert(at, 1, stream[at]); break;
      case 2: stream[at] = static_cast<char>(random.up_to(255)); break;
      default: stream.resize(at);
    }
  }
  return stream;
}

resp::ParserLimits random_limits(Random& random) {
  if (random.one_in(2)) return {};
  return {.bulk_bytes_max = random.up_to(300),
          .request_bytes_max = random.up_to(400),
          .argument_count_max = random.up_to(40),
          .line_bytes_max = random.up_to(100)};
}

}  // namespace

TEST_CASE("a parser gives the same requests wherever its input is cut") {
  for (std::uint64_t seed = 0; seed < seed_count; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const std::string stream = random.one_in(6) ? random.telling_bytes(200) : random_stream(random);
    const resp::ParserLimits limits = random_limits(random);
    const bool authenticated = !random.one_in(4);
    const auto whole = parse_whole(stream, limits, authenticated);
    CHECK(whole.contract_kept);
    CHECK(parse_in_pieces(stream, limits, authenticated) == whole);
    for (int cuts = 0; cuts < 4; ++cuts) {
      const std::size_t piece_max = 1 + random.up_to(60);
      const auto cut = parse_stream(stream, limits, authenticated, [&] { return random.up_to(piece_max); });
      CHECK(cut == whole);
    }
  }
}

TEST_CASE("neighbours that are taken together are the same requests as one by one") {
  for (std::uint64_t seed = 0; seed < seed_count; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    static constexpr std::string_view names[] = {"BF.ADD", "bf.add", "BF.EXISTS"};
    const std::size_t word_bytes_max = random.one_in(4) ? 120 : 12;
    const std::string keys[] = {random.bytes(word_bytes_max), random.bytes(word_bytes_max), "key"};
    std::string stream;
    for (std::size_t count = random.up_to(12); count > 0; --count) {
      const std::string_view name = random.one_in(8) ? random.one_of(names) : names[0];
      stream += encode_request(
          std::vector<std::string>{std::string(name), random.one_of(keys), random.bytes(word_bytes_max)});
    }
    stream.resize(stream.size() - std::min(stream.size(), random.one_in(2) ? random.up_to(9) : 0));
    const resp::ParserLimits limits = random_limits(random);
    const bool authenticated = !random.one_in(4);
    const std::size_t piece_max = 1 + random.up_to(400);
    const auto together = parse_stream(
        stream, limits, authenticated, [&] { return random.up_to(piece_max); }, Neighbours::together);
    CHECK(together.contract_kept);
    CHECK(together == parse_whole(stream, limits, authenticated));
  }
}

TEST_CASE("the words of a request are the words that were encoded") {
  for (std::uint64_t seed = 0; seed < seed_count; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::vector<std::vector<std::string>> requests(random.up_to(6));
    std::string stream;
    for (auto& words : requests) {
      words = random_words(random);
      stream += encode_request(words);
    }
    const std::size_t piece_max = 1 + random.up_to(100);
    const auto parsed = parse_stream(stream, {}, true, [&] { return random.up_to(piece_max); });
    CHECK(parsed.error.empty());
    CHECK(parsed.requests == requests);
    CHECK(parsed.unconsumed == 0);
  }
}

TEST_CASE("an inline word in quotes with every byte escaped is read as the original word") {
  static constexpr char digits[] = "0123456789abcdef";
  for (std::uint64_t seed = 0; seed < seed_count; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const std::vector<std::string> words = random_words(random);
    std::string line;
    for (const std::string& word : words) {
      line += line.empty() ? "\"" : " \"";
      for (const char byte : word) {
        const auto value = static_cast<unsigned char>(byte);
        line += {'\\', 'x', digits[value >> 4], digits[value & 15]};
      }
      line += '"';
    }
    const auto parsed = parse_whole(line + "\r\n");
    CHECK(parsed.error.empty());
    CHECK(parsed.requests == std::vector<std::vector<std::string>>{words});
  }
}

TEST_CASE("random bytes end in requests, an error or a wait") {
  for (std::uint64_t seed = 0; seed < seed_count; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const std::string stream = random.one_in(2) ? random.bytes(400) : random.telling_bytes(400);
    const auto parsed = parse_whole(stream, random_limits(random));
    CHECK(parsed.contract_kept);
    CHECK(parsed.unconsumed <= stream.size());
  }
}

}  // namespace parser_laws
