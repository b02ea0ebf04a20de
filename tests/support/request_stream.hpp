// Parses a stream of bytes that arrives in pieces, for tests that compare different cuts.
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
  std::string error;           // empty if the stream is well-formed
  std::size_t unconsumed = 0;  // bytes of an unfinished request; 0 after an error
  bool contract_kept = true;   // consumed() and bytes_expected() stayed within their bounds

  friend bool operator==(const ParsedStream&, const ParsedStream&) = default;
};

// How the requests behind a complete request are taken.
enum class Neighbours : std::uint8_t { one_by_one, together };

// Takes from the start of `rest` the requests that are like or similar to the request just completed, and
// returns how many bytes they took. Takes few at a time, because a session's portions are bounded as well.
inline std::size_t take_neighbours(resp::RequestParser& parser, std::string_view rest, ParsedStream& parsed) {
  const std::vector<std::string> first(parser.words().begin(), parser.words().end());
  std::array<std::string_view, 3> alike;
  const std::size_t alike_count = parser.next_alike(rest, alike);
  std::size_t taken = parser.consumed();
  for (std::size_t i = 0; i < alike_count; ++i) {
    parsed.requests.push_back(first);
    parsed.requests.back().back() = alike[i];
  }
  if (first.size() > 3) {
    std::array<std::string_view, 3> before_last;
    const std::size_t count = parser.next_alike_before(1, rest.substr(taken), before_last);
    taken += parser.consumed();
    for (std::size_t i = 0; i < count; ++i) {
      parsed.requests.push_back(first);
      parsed.requests.back()[first.size() - 2] = before_last[i];
    }
  }
  // All calls compare with that request, so similar requests may follow like requests.
  std::array<resp::RequestParser::LastTwoWords, 3> similar;
  const std::size_t similar_count = parser.next_similar(rest.substr(taken), similar);
  taken += parser.consumed();
  for (std::size_t i = 0; i < similar_count; ++i)
    parsed.requests.push_back({first[0], std::string(similar[i].second)});
  if (first.size() == 3)
    for (std::size_t i = 0; i < similar_count; ++i)
      parsed.requests[parsed.requests.size() - similar_count + i].emplace_back(similar[i].last);
  parsed.contract_kept &= taken <= rest.size() && std::ranges::equal(parser.words(), first);
  return taken;
}

// Does what a session does: each piece arrives behind the unconsumed bytes. The input of every call has its
// own memory of exactly its size, so a sanitizer notices a read beyond it or of an earlier call's bytes.
// `piece_bytes` is called for the size of the next piece; 0 counts as 1.
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

// Cuts byte by byte. Cuts a long stream into some thousand pieces, because each piece copies the unread
// bytes.
inline ParsedStream parse_in_pieces(std::string_view stream, const resp::ParserLimits& limits = {},
                                    bool authenticated = true) {
  constexpr std::size_t piece_count_max = 4096;
  return parse_stream(stream, limits, authenticated,
                      [piece = 1 + stream.size() / piece_count_max] { return piece; });
}

// Encodes a request as clients do.
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
