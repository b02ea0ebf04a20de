// Requests out of bytes: RESP arrays of bulk strings, and inline lines.
// https://redis.io/docs/reference/protocol-spec/
//
// The parser does not own the bytes. It is fed a view that begins at the first byte not yet consumed and is
// told nothing else: fed the same bytes again with more behind them, it goes on where it stopped and looks at
// no byte more than twice, so a request of n bytes costs O(n) however it is cut. All positions it keeps are
// offsets, so the caller may move its buffer between calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::resp {

struct ParserLimits {
  std::uint64_t bulk_bytes_max = 512ull << 20;   // one argument
  std::uint64_t request_bytes_max = 1ull << 30;  // one request
  std::uint64_t argument_count_max = 1'048'576;  // words of one request
  // An inline request, or a line that holds a length. What is below line_bytes_max_min counts as that: every
  // valid length fits.
  std::uint64_t line_bytes_max = 64ull << 10;
};
inline constexpr std::uint64_t line_bytes_max_min = 32;
// What a connection that has not authenticated may send: enough for HELLO and AUTH.
inline constexpr std::uint64_t unauthenticated_argument_count_max = 10;
inline constexpr std::uint64_t unauthenticated_bulk_bytes_max = 16384;

// The words of a request: the command's name and its arguments. Views into the parsed bytes, or into the
// parser (inline requests with quotes); valid until the next call of the parser or the end of the bytes.
using Words = std::vector<std::string_view>;

enum class Progress : std::uint8_t {
  complete,   // words() is a request; consumed() bytes belong to it
  need_more,  // feed the same bytes with more behind them; consumed() bytes may be dropped first (empty
              // requests)
  malformed,  // error_text() is what to answer before closing; nothing behind it will be read
};

// Confined to its session. Allocates nothing in the steady state; what it keeps for an unusually large
// request is given back by the call that finds no further complete request.
class RequestParser {
 public:
  explicit RequestParser(const ParserLimits& limits) { set_limits(limits); }

  // Parses the next request at the start of `input`. After `complete`, feed the rest: input without the first
  // consumed() bytes. Empty arrays, null arrays and empty lines are skipped on the way. `authenticated`
  // selects the limits. `limits` may change between requests by set_limits.
  Progress next(std::string_view input, bool authenticated = true);

  // After `complete`, and before any other call: `input` is what follows that request's bytes in the same
  // memory. Takes from its start the requests that are, byte for byte, that request up to the last word: a
  // pipeline of one command on one key. Puts their last words into `last_words`, as many as fit, and returns
  // how many; consumed() is what they took. words() stays. Takes nothing behind a request that was out of the
  // ordinary: next() knows.
  std::size_t next_alike(std::string_view input, std::span<std::string_view> last_words);

  // The same for a request of three words, of which those taken share the first only: a pipeline of one
  // command on many keys. Ends where two neighbours share their second word too: next_alike() takes those.
  struct LastTwoWords {
    std::string_view second, last;
  };
  std::size_t next_similar(std::string_view input, std::span<LastTwoWords> last_words);

  [[nodiscard]] std::size_t consumed() const { return consumed_; }
  [[nodiscard]] const Words& words() const { return words_; }
  // "ERR Protocol error: ..." of the last malformed; without the leading '-' and the line end. May hold a CR
  // or LF that the client sent.
  [[nodiscard]] const std::string& error_text() const { return error_text_; }
  // How many bytes from the start of the input the request in progress is known to need at least (0:
  // unknown); lets the caller size its buffer once for a large bulk. Never above request_bytes_max.
  [[nodiscard]] std::size_t bytes_expected() const { return bytes_expected_; }

  void set_limits(const ParserLimits& limits) {
    limits_ = limits;
    limits_.line_bytes_max = std::max(limits.line_bytes_max, line_bytes_max_min);
  }

 private:
  // What the next byte that was not looked at belongs to.
  enum class Stage : std::uint8_t { first_line, bulk_header, bulk_body, malformed };

  struct WordPosition {
    std::size_t offset;
    std::size_t length;
  };

  bool take_whole(std::string_view input, bool authenticated);
  [[nodiscard]] bool fits(const char* begin, const char* end) const;
  Progress resume(std::string_view input, bool authenticated);
  Progress proceed(std::string_view input, bool authenticated);
  Progress read_inline(std::string_view input);
  Progress read_array_header(std::string_view input, bool authenticated);
  Progress read_bulk_header(std::string_view input, bool authenticated);
  Progress find_length_line(std::string_view input, std::string_view too_long);
  Progress finish_array(std::string_view input);
  Progress refuse(std::string_view what);
  Progress refuse_size();
  void restart();
  void give_back_memory();

  ParserLimits limits_;
  Words words_;
  // The last request up to its last word's length line, where it was taken whole; as long-lived as words_.
  std::string_view head_;
  std::uint64_t bulk_bytes_max_ = 0;  // what that request's words were held to
  std::size_t consumed_ = 0;
  std::size_t bytes_expected_ = 0;
  Stage stage_ = Stage::first_line;

  // The request in progress; offsets from its first byte.
  std::size_t at_ = 0;       // where the current line or bulk begins
  std::size_t scanned_ = 0;  // no end of the current line stands before
  std::size_t line_end_ = 0;
  std::uint64_t words_left_ = 0;
  std::uint64_t bulk_bytes_ = 0;
  std::vector<WordPosition> positions_;

  std::string unquoted_;  // the bytes of the quoted words of an inline request
  std::string error_text_;
};

}  // namespace sepal::resp
