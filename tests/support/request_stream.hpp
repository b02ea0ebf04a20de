// What a parser makes of a stream of bytes that arrives in pieces, for the tests that compare cuts.
#pragma once

#include <sepal/resp/request_parser.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::test {

struct ParsedStream {
  std::vector<std::vector<std::string>> requests;
  std::string error;           // empty while the stream is well-formed
  std::size_t unconsumed = 0;  // bytes of a request that was cut off; 0 after an error
  bool contract_kept = true;   // consumed() and bytes_expected() stayed within their bounds

  friend bool operator==(const ParsedStream&, const ParsedStream&) = default;
};

// The ways to take what follows a complete request.
enum class Neighbours : std::uint8_t { one_by_one, together };

// Takes from the start of `rest` what is like or similar to the request that was complete just now, and
// returns how many bytes that took. In small portions, since a session's are bounded as well.
inline std::size_t take_neighbours(resp::RequestParser& parser, std::string_view rest, ParsedStream& parsed) {
  const std::vector<std::string> first(parser.words().begin(), parser.words().end());
  std::array<std::string_view, 3> alike;
  const std::size_t alike_count = parser.next_alike(rest, alike);
  std::size_t taken = parser.consumed();
  for (std::size_t i = 0; i < alike_count; ++i) {
    parsed.requests.push_back(first);
    parsed.requests.back().back() = alike[i];
  }
  // Both compare with that request, so those that are similar may stand behind those that are alike.
  std::array<resp::RequestParser::LastTwoWords, 3> similar;
  const std::size_t similar_count = parser.next_similar(rest.substr(taken), similar);
  taken += parser.consumed();
  for (std::size_t i = 0; i < similar_count; ++i)
    parsed.requests.push_back({first[0], std::string(similar[i].second), std::string(similar[i].last)});
  parsed.contract_kept &= taken <= rest.size() && std::ranges::equal(parser.words(), first);
  return taken;
}

// Does what a session does: each piece arrives behind what is not consumed yet. The input of every call lies
// in memory of its own, of just its size, so that a sanitizer sees a look behind it or at bytes of an earlier
// call. `piece_bytes` is called for the size of the next piece; 0 counts as 1.
template <class PieceBytes>
ParsedStream parse_stream(std::string_view stream, const resp::ParserLimits& limits, bool authenticated,
                          PieceBytes&& piece_bytes, Neighbours neighbours = Neighbours::one_by_one) {
  ParsedStream parsed;
  resp::RequestParser parser(limits);
  std::string waiting;
  while (!stream.empty()) {
    const std::size_t piece = std::clamp<std::size_t>(piece_bytes(), 1, stream.size());
    waiting.append(stream.substr(0, piece));
    stream.remove_prefix(piece);
    for (auto progress = resp::Progress::complete; progress == resp::Progress::complete;) {
      const std::vector<char> input(waiting.begin(), waiting.end());
      progress = parser.next({input.data(), input.size()}, authenticated);
      std::size_t consumed = parser.consumed();
      parsed.contract_kept &= consumed <= input.size();
      parsed.contract_kept &= parser.bytes_expected() <= limits.request_bytes_max;
      if (progress == resp::Progress::malformed) {
        parsed.error = parser.error_text();
        return parsed;
      }
      if (progress == resp::Progress::complete) {
        parsed.contract_kept &= !parser.words().empty() && consumed > 0;
        parsed.requests.emplace_back(parser.words().begin(), parser.words().end());
        if (neighbours == Neighbours::together)
          consumed += take_neighbours(parser, {input.data() + consumed, input.size() - consumed}, parsed);
      }
      waiting.erase(0, consumed);
    }
  }
  parsed.unconsumed = waiting.size();
  return parsed;
}

inline ParsedStream parse_whole(std::string_view stream, const resp::ParserLimits& limits = {},
                                bool authenticated = true) {
  return parse_stream(stream, limits, authenticated, [&] { return stream.size(); });
}

// Byte by byte; a long stream in some thousand pieces, since every piece copies what waits.
inline ParsedStream parse_in_pieces(std::string_view stream, const resp::ParserLimits& limits = {},
                                    bool authenticated = true) {
  constexpr std::size_t piece_count_max = 4096;
  return parse_stream(stream, limits, authenticated,
                      [piece = 1 + stream.size() / piece_count_max] { return piece; });
}

// A request as clients encode it.
template <class Words>
std::string encode_request(const Words& words) {
  std::string encoded = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words) {
    encoded += "$" + std::to_string(word.size()) + "\r\n";
    encoded += word;
    encoded += "\r\n";
  }
  return encoded;
}

}  // namespace sepal::test
