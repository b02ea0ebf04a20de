// Parses bytes into requests: RESP arrays of bulk strings, and inline lines.
// https://redis.io/docs/reference/protocol-spec/
//
// The parser does not own the bytes. It is fed a view that begins at the first byte not yet consumed, and is
// told nothing else. When it is fed the same bytes again with more behind them, it goes on where it stopped.
// It looks at no byte more than twice, so a request of n bytes costs O(n) however it is cut. The caller may
// move its buffer between calls.
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
  // An inline request, or a line that holds a length. A value below line_bytes_max_min counts as
  // line_bytes_max_min, so every valid length fits.
  std::uint64_t line_bytes_max = 64ull << 10;
};
inline constexpr std::uint64_t line_bytes_max_min = 32;
// What a connection that has not authenticated may send: enough for HELLO and AUTH.
inline constexpr std::uint64_t unauthenticated_argument_count_max = 10;
inline constexpr std::uint64_t unauthenticated_bulk_bytes_max = 16384;

// The words of a request: the command's name and its arguments. They are views into the parsed bytes, or into
// the parser (inline requests with quotes). Valid until the next call of the parser or the end of the bytes.
using Words = std::vector<std::string_view>;

enum class Progress : std::uint8_t {
  complete,   // words() is a request; consumed() bytes belong to it
  need_more,  // feed the same bytes with more behind them; consumed() bytes may be dropped first (empty
              // requests)
  malformed,  // answer error_text(), then close; the parser reads nothing behind it
};

// Confined to its session. Allocates nothing in the steady state. It gives back the memory of an unusually
// large request in the first call that finds no further complete request.
class RequestParser {
 public:
  explicit RequestParser(const ParserLimits& limits) { set_limits(limits); }

  // Parses the next request at the start of `input`. After `complete`, feed the rest: input without the first
  // consumed() bytes. Empty arrays, null arrays and empty lines are skipped on the way. `authenticated`
  // selects the limits. set_limits() may change the limits between requests.
  Progress next(std::string_view input, bool authenticated = true);

  // After `complete`, and before any other call: `input` is what follows that request's bytes in the same
  // memory. Takes from its start all requests that equal that request byte for byte up to the last word: a
  // pipeline of one command on one key. Puts their last words into `last_words`, as many as fit, and returns
  // how many; consumed() is the bytes they took. words() stays. Takes nothing behind a request that was
  // spelled or cut in an unusual way: the caller feeds what follows to next().
  std::size_t next_alike(std::string_view input, std::span<std::string_view> last_words);
  // The same for requests that differ in the word before their last `tail_words` only; there are at least two
  // words before it. `words` gets the words in which they differ.
  std::size_t next_alike_before(std::size_t tail_words, std::string_view input,
                                std::span<std::string_view> words);

  // The same for a request of two or three words, where the requests taken share only the first word: a
  // pipeline of one command on many keys. Of two words, the second is the last. Ends before two neighbours
  // that share their second word as well: next_alike() takes such a run.
  struct LastTwoWords {
    std::string_view second, last;
  };
  std::size_t next_similar(std::string_view input, std::span<LastTwoWords> last_words);

  // After `complete`: the caller has moved the bytes of `input` to `now`. words() follow them.
  void input_moved(std::string_view input, const char* now);

  [[nodiscard]] std::size_t consumed() const { return consumed_; }
  [[nodiscard]] const Words& words() const { return words_; }
  // Whether the last malformed request is one that is longer than request_bytes_max.
  [[nodiscard]] bool is_too_long() const { return is_too_long_; }
  // "ERR Protocol error: ..." of the last malformed request; without the leading '-' and the line end. May
  // hold a CR or LF that the client sent.
  [[nodiscard]] const std::string& error_text() const { return text_; }
  // The least number of bytes, from the start of the input, that the request in progress is known to need (0:
  // unknown). It lets the caller size its buffer once for a large bulk. Never above request_bytes_max.
  [[nodiscard]] std::size_t bytes_expected() const { return bytes_expected_; }

  // The memory that the parser keeps beside itself: for the words of a request, and between requests.
  [[nodiscard]] std::size_t bytes_held() const {
    return words_.capacity() * sizeof(Words::value_type) + text_.capacity();
  }
  // Gives all of it back. Nothing is parsed any more.
  void close() {
    Words().swap(words_);
    std::string().swap(text_);
  }

  void set_limits(const ParserLimits& limits) {
    limits_ = limits;
    limits_.line_bytes_max = std::max(limits.line_bytes_max, line_bytes_max_min);
  }

 private:
  // What the next byte to be looked at belongs to.
  enum class Stage : std::uint8_t { first_line, bulk_header, bulk_body, malformed };

  bool take_whole(std::string_view input, bool authenticated);
  [[nodiscard]] bool fits(const char* begin, const char* end) const;
  Progress resume(std::string_view input, bool authenticated);
  Progress proceed(std::string_view input, bool authenticated);
  Progress read_inline(std::string_view input);
  Progress read_array_header(std::string_view input, bool authenticated);
  Progress read_bulk_header(std::string_view input, bool authenticated);
  Progress find_length_line(std::string_view input, std::string_view too_long);
  void make_room_for_word();
  Progress refuse(std::string_view what);
  Progress refuse_size();
  void restart();
  void give_back_memory();

  ParserLimits limits_;
  Words words_;
  // The last request up to the length line of its last word. Empty unless take_whole() took it. Valid as long
  // as words_.
  std::string_view head_;
  std::uint64_t bulk_bytes_max_ = 0;  // the limit that applied to that request's words
  std::size_t consumed_ = 0;
  std::size_t bytes_expected_ = 0;
  Stage stage_ = Stage::first_line;
  bool is_too_long_ = false;

  // The request in progress; offsets from its first byte.
  std::size_t at_ = 0;       // where the current line or bulk begins
  std::size_t scanned_ = 0;  // the current line does not end before this offset
  std::size_t line_end_ = 0;
  std::uint64_t words_left_ = 0;
  std::uint64_t bulk_bytes_ = 0;
  // Where the request began when its first line was read: words_ are moved from there when it is complete.
  const char* words_in_ = nullptr;

  // The bytes of the quoted words of an inline request; after `malformed`, the text of the error.
  std::string text_;
};

}  // namespace sepal::resp
