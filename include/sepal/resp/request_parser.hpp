// Requests out of bytes: RESP arrays of bulk strings, and inline lines. https://redis.io/docs/reference/protocol-spec/
//
// The parser does not own the bytes. It is fed a view that begins at the first byte not yet consumed and is told
// nothing else: fed the same bytes again with more behind them, it goes on where it stopped and looks at no byte
// twice, so a request of n bytes costs O(n) however it is cut. All positions it keeps are offsets, so the
// caller may move its buffer between calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sepal/base/result.hpp>

namespace sepal::resp {

struct ParserLimits {
  std::uint64_t bulk_bytes_max = 512ull << 20;       // one argument
  std::uint64_t request_bytes_max = 1ull << 30;      // one request
  std::uint64_t argument_count_max = 1'048'576;      // words of one request
  std::uint64_t line_bytes_max = 64ull << 10;        // an inline request, or a line that holds a length
};
// What a connection that has not authenticated may send: enough for HELLO and AUTH.
inline constexpr std::uint64_t unauthenticated_argument_count_max = 10;
inline constexpr std::uint64_t unauthenticated_bulk_bytes_max = 16384;

// The words of a request: the command's name and its arguments. Views into the parsed bytes, or into the parser
// (inline requests with quotes); valid until the next call of the parser or the end of the bytes.
using Words = std::vector<std::string_view>;

enum class Progress : std::uint8_t {
  complete,   // words() is a request; consumed() bytes belong to it
  need_more,  // feed the same bytes with more behind them; consumed() bytes may be dropped first (empty requests)
  malformed,  // error_text() is what to answer before closing; nothing behind it will be read
};

// Confined to its session.
class RequestParser {
 public:
  explicit RequestParser(const ParserLimits& limits) : limits_(limits) {}

  // Parses the next request at the start of `input`. After `complete`, feed the rest: input without the first
  // consumed() bytes. Empty arrays, null arrays and empty lines are skipped on the way. `authenticated`
  // selects the limits. `limits` may change between requests by set_limits.
  Progress next(std::string_view input, bool authenticated = true);

  [[nodiscard]] std::size_t consumed() const { return consumed_; }
  [[nodiscard]] const Words& words() const { return words_; }
  // "ERR Protocol error: ..." of the last malformed; without the leading '-' and the line end.
  [[nodiscard]] const std::string& error_text() const { return error_text_; }
  // How many bytes from the start of the input the request in progress is known to need at least (0: unknown);
  // lets the caller size its buffer once for a large bulk. Never above request_bytes_max.
  [[nodiscard]] std::size_t bytes_expected() const { return bytes_expected_; }

  void set_limits(const ParserLimits& limits) { limits_ = limits; }

 private:
  // The owner of this module completes this list.
  ParserLimits limits_;
  Words words_;
  std::size_t consumed_ = 0;
  std::size_t bytes_expected_ = 0;
  std::string error_text_;
};

}  // namespace sepal::resp
