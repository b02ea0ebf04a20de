// How a request is read.
//
//   *3 CRLF  $9 CRLF BF.EXISTS CRLF  $3 CRLF key CRLF  $4 CRLF item CRLF
//   |        |       |
//   |        |       bulk_body: skipped by its length, its bytes are never looked at
//   |        bulk_header
//   first_line: an array header, or an inline request when it does not begin with '*'
//
// Two readers have the same grammar. `take_whole` is the fast path: it takes a well-formed array whose bytes
// are all there, and makes views at once. At the first thing out of the ordinary (bytes end, a sign, a long
// number, a limit) it gives up without a trace. The second reader then starts the request anew: `proceed`
// keeps offsets, stops at any byte, goes on from there, and knows every error. The fast path runs only where
// no request is in progress, so each byte is read at most twice.
//
// As in the reference: of the two bytes that end a length line or a bulk, only a line's CR is looked at; a
// length line without CR waits; an error in a length line is told when the line has ended. Unlike the
// reference: a NUL is an ordinary byte, and whether a line is too long does not depend on how it arrived.
//
// Memory: the words grow with the bytes that arrived, never with a number that a client announced. The fast
// path may size `words_` by the announced count, because it has checked that the bytes at hand can hold so
// many words.
#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/resp/request_parser.hpp>

#include <cstring>
#include <limits>
#include <optional>

#include "resp/inline_request.hpp"

namespace sepal::resp {
namespace {

constexpr std::size_t line_end_bytes = 2;  // CR LF
// "$0 CRLF CRLF": no word takes less.
constexpr std::size_t word_bytes_min = 6;
// A number of so many digits cannot wrap, and word_bytes_min times such a number cannot either.
constexpr int short_length_digits_max = 9;
// The reference keeps an array's count in an int: no setting goes beyond.
constexpr std::uint64_t array_count_max = std::numeric_limits<std::int32_t>::max();
// What a parser keeps between bursts of requests: words, and bytes of inline words.
constexpr std::size_t words_kept_max = 4096;
constexpr std::size_t unquoted_bytes_kept_max = 4096;
static_assert(unauthenticated_argument_count_max <= array_count_max);

// The first byte of a client that speaks TLS.
constexpr char tls_handshake = 0x16;

// Reads digits, a CR and one more byte; returns what follows, or null for anything else, including a leading
// zero or a number that goes on behind short_length_digits_max or `end`.
// The bound of the loop keeps `sum` from wrapping without a test for each digit.
inline const char* read_short_length(const char* at, const char* end, std::uint64_t& value) {
  const char* const last = end - at > short_length_digits_max ? at + short_length_digits_max : end;
  const char* const first = at;
  std::uint64_t sum = 0;
  for (; at != last; ++at) {
    const auto digit = static_cast<std::uint8_t>(static_cast<std::uint8_t>(*at) - std::uint8_t{'0'});
    if (digit > 9) break;
    sum = 10 * sum + digit;
  }
  if (end - at < static_cast<std::ptrdiff_t>(line_end_bytes) || *at != '\r' || at == first) return nullptr;
  if (*first == '0' && at - first > 1) return nullptr;
  value = sum;
  return at + line_end_bytes;
}

// Returns the place behind `head`; null when `at` does not begin with it.
inline const char* skip(std::string_view head, const char* at, const char* end) {
  if (static_cast<std::size_t>(end - at) < head.size()) return nullptr;
  return std::memcmp(at, head.data(), head.size()) == 0 ? at + head.size() : nullptr;
}

// Takes a word whose header was read. Returns the place behind it, or null when the word is not whole.
inline const char* take_word(const char* bytes, const char* end, std::uint64_t length,
                             std::string_view& word) {
  if (static_cast<std::size_t>(end - bytes) < length + line_end_bytes) return nullptr;
  word = std::string_view(bytes, length);
  return bytes + length + line_end_bytes;
}

// Reads a word of at most `bytes_max`, whole and spelled in the ordinary way, with its header. Returns the
// place behind it, or null.
inline const char* read_short_word(const char* at, const char* end, std::uint64_t bytes_max,
                                   std::string_view& word) {
  if (at == nullptr || at == end || *at != '$') return nullptr;
  std::uint64_t length = 0;
  const char* const bytes = read_short_length(at + 1, end, length);
  if (bytes == nullptr || length > bytes_max) return nullptr;
  return take_word(bytes, end, length, word);
}

// A command, a key and a first item seldom have the same length: only the words behind them go to WordReader.
constexpr std::size_t words_before_items = 3;

// Reads words in a row as read_short_word does. An item often has the length of the one before, so a header
// is first compared, as a whole, with the last one.
class WordReader {
 public:
  const char* read(const char* at, const char* end, std::uint64_t bytes_max, std::string_view& word) {
    // Eight bytes are loaded at once: near the end of the input there may be fewer.
    const bool comparable = end - at >= static_cast<std::ptrdiff_t>(sizeof header_);
    if (comparable && (load_little_endian<std::uint64_t>(at) & mask_) == header_)
      return take_word(at + header_bytes_, end, length_, word);
    const char* const after = read_short_word(at, end, bytes_max, word);
    if (after != nullptr && comparable) remember(at, static_cast<std::size_t>(word.data() - at), word.size());
    return after;
  }

 private:
  void remember(const char* at, std::size_t header_bytes, std::size_t length) {
    // A longer header does not fit into the comparison. The one that is remembered stays valid.
    if (header_bytes >= sizeof header_) return;
    header_bytes_ = header_bytes;
    length_ = length;
    mask_ = (std::uint64_t{1} << (8 * header_bytes)) - 1;
    header_ = load_little_endian<std::uint64_t>(at) & mask_;
  }

  std::uint64_t header_ = 1;  // Equals no header while the mask is 0.
  std::uint64_t mask_ = 0;
  std::size_t header_bytes_ = 0;
  std::size_t length_ = 0;
};

// Reads all of `words`, at least one. Returns where the header of the last one begins, or null.
const char* read_items(const char* at, const char* end, std::uint64_t bytes_max,
                       std::span<std::string_view> words) {
  WordReader reader;
  const char* last_word_at = at;
  for (std::string_view& word : words) {
    last_word_at = at;
    at = reader.read(at, end, bytes_max, word);
    if (at == nullptr) return nullptr;
  }
  return last_word_at;
}

// A word of a request whose first byte was at `begin` once. The bytes may be elsewhere by now, so the address
// is only a number until move_words().
std::string_view word_at(const char* begin, std::size_t offset, std::size_t length) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return {reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(begin) + offset), length};
}

// Words in the `byte_count` bytes from `from` on are moved to the same place behind `to`. The old bytes may
// be gone: their addresses are only numbers here.
void move_words(std::span<std::string_view> words, const char* from, std::size_t byte_count, const char* to) {
  if (from == to) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(from);
  for (std::string_view& word : words) {
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(word.data()) - begin;
    if (offset <= byte_count) word = {to + offset, word.size()};
  }
}

// A number as length lines spell it: no '+', no leading zero, no blank, within 64 bits signed.
std::optional<std::int64_t> parse_length(std::string_view digits) {
  const bool negative = !digits.empty() && digits.front() == '-';
  if (negative) digits.remove_prefix(1);
  if (digits.empty()) return std::nullopt;
  if (digits.front() == '0')
    return digits.size() == 1 && !negative ? std::optional<std::int64_t>(0) : std::nullopt;
  constexpr std::uint64_t positive_max = std::numeric_limits<std::int64_t>::max();
  const std::uint64_t max = positive_max + (negative ? 1 : 0);
  std::uint64_t sum = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (sum > (max - digit) / 10) return std::nullopt;
    sum = 10 * sum + digit;
  }
  return negative ? static_cast<std::int64_t>(0 - sum) : static_cast<std::int64_t>(sum);
}

}  // namespace

Progress RequestParser::next(std::string_view input, bool authenticated) {
  // A request in progress has been read in part, and its second reader goes on.
  if (stage_ == Stage::first_line && take_whole(input, authenticated)) return Progress::complete;
  return resume(input, authenticated);
}

bool RequestParser::take_whole(std::string_view input, bool authenticated) {
  const char* at = input.data();
  const char* const end = at + input.size();
  if (at == end || *at != '*') return false;
  std::uint64_t count = 0;
  at = read_short_length(at + 1, end, count);
  if (at == nullptr || count == 0) return false;
  // Before words_ gets its size: a client may announce far more words than it sends.
  if (static_cast<std::size_t>(end - at) < count * word_bytes_min) return false;

  std::uint64_t count_max = limits_.argument_count_max;
  std::uint64_t bulk_bytes_max = limits_.bulk_bytes_max;
  if (!authenticated) {
    count_max = std::min(count_max, unauthenticated_argument_count_max);
    bulk_bytes_max = std::min(bulk_bytes_max, unauthenticated_bulk_bytes_max);
  }
  if (count > count_max) return false;

  // From here on words_ may be half filled when this returns false. resume() then starts the request anew.
  words_.resize(count);
  const char* last_word_at = at;
  // A pipeline of short requests pays nothing for WordReader: its words are all among the first.
  const std::size_t first_words = std::min<std::size_t>(count, words_before_items);
  for (std::size_t index = 0; index < first_words; ++index) {
    last_word_at = at;
    at = read_short_word(at, end, bulk_bytes_max, words_[index]);
    if (at == nullptr) return false;
  }
  if (count > first_words) {
    last_word_at = read_items(at, end, bulk_bytes_max, std::span(words_).subspan(first_words));
    if (last_word_at == nullptr) return false;
    at = words_.back().data() + words_.back().size() + line_end_bytes;
  }
  const auto taken = static_cast<std::size_t>(at - input.data());
  // The second reader refuses such a request, and knows the error.
  if (taken > limits_.request_bytes_max) return false;
  // Remembered for next_alike() and its like, which compare bytes: so they need not parse what is equal.
  head_ = std::string_view(input.data(), static_cast<std::size_t>(last_word_at - input.data()));
  bulk_bytes_max_ = bulk_bytes_max;
  consumed_ = taken;
  scanned_ = 0;  // an earlier call may have seen a part of the first line
  return true;
}

bool RequestParser::fits(const char* begin, const char* end) const {
  return static_cast<std::size_t>(end - begin) <= limits_.request_bytes_max;
}

std::size_t RequestParser::next_alike(std::string_view input, std::span<std::string_view> last_words) {
  const char* at = input.data();
  const char* const end = at + input.size();
  std::size_t taken = 0;
  // The head has the first line as well, so an equal head means an equal number of words.
  while (!head_.empty() && taken < last_words.size()) {
    const char* const after = read_short_word(skip(head_, at, end), end, bulk_bytes_max_, last_words[taken]);
    if (after == nullptr || !fits(at, after)) break;
    ++taken;
    at = after;
  }
  consumed_ = static_cast<std::size_t>(at - input.data());
  return taken;
}

std::size_t RequestParser::next_alike_before(std::size_t tail_words, std::string_view input,
                                             std::span<std::string_view> words) {
  SEPAL_ASSERT(tail_words > 0 && words_.size() >= tail_words + 3, "there is a word before the last ones");
  const std::string_view differs = words_[words_.size() - tail_words - 1];
  const std::string_view before = words_[words_.size() - tail_words - 2];
  const char* at = input.data();
  const char* const end = at + input.size();
  std::size_t taken = 0;
  if (!head_.empty()) {
    const std::string_view head(head_.data(),
                                static_cast<std::size_t>(before.end() + line_end_bytes - head_.data()));
    const std::string_view tail(
        differs.end() + line_end_bytes,
        static_cast<std::size_t>(words_.back().end() - differs.end()));  // with the last line's end
    for (; taken < words.size(); ++taken) {
      const char* after = read_short_word(skip(head, at, end), end, bulk_bytes_max_, words[taken]);
      if (after != nullptr) after = skip(tail, after, end);
      if (after == nullptr || !fits(at, after)) break;
      at = after;
    }
  }
  consumed_ = static_cast<std::size_t>(at - input.data());
  return taken;
}

std::size_t RequestParser::next_similar(std::string_view input, std::span<LastTwoWords> last_words) {
  const char* at = input.data();
  const char* const end = at + input.size();
  std::size_t taken = 0;
  if (!head_.empty() && (words_.size() == 2 || words_.size() == 3)) {
    const bool has_last = words_.size() == 3;
    const std::string_view head(head_.data(),
                                static_cast<std::size_t>(words_[0].end() + line_end_bytes - head_.data()));
    std::string_view second_before = words_[1];
    WordReader seconds;
    WordReader lasts;
    for (; taken < last_words.size(); ++taken) {
      auto& [second, last] = last_words[taken];
      const char* after = skip(head, at, end);
      if (after != nullptr) after = seconds.read(after, end, bulk_bytes_max_, second);
      if (after == nullptr || second == second_before) break;
      last = second;
      if (has_last) after = lasts.read(after, end, bulk_bytes_max_, last);
      if (after == nullptr || !fits(at, after)) break;
      second_before = second;
      at = after;
    }
  }
  consumed_ = static_cast<std::size_t>(at - input.data());
  return taken;
}

// Words of an inline request with quotes may lie in text_, which has not moved.
void RequestParser::input_moved(std::string_view input, const char* now) {
  SEPAL_ASSERT(stage_ == Stage::first_line, "the words of a request that is not whole are moved");
  // The head is a view of bytes that are gone. Neighbours are not looked for behind such a request.
  head_ = {};
  move_words(words_, input.data(), input.size(), now);
}

// A long list grows by more than twice: to copy it takes long, and memory that is not used yet costs nothing.
void RequestParser::make_room_for_word() {
  const std::size_t count = words_.size();
  if (count < words_.capacity()) return;
  const std::size_t factor = count < words_kept_max ? 2 : 8;
  words_.reserve(count + std::min<std::size_t>(words_left_, std::max<std::size_t>(count * (factor - 1), 4)));
}

// Skips empty requests until one is complete, cut off or malformed.
Progress RequestParser::resume(std::string_view input, bool authenticated) {
  consumed_ = 0;
  head_ = {};
  if (stage_ == Stage::malformed) return Progress::malformed;
  // Only between requests: a request in progress has its words there. A client that keeps sending whole
  // requests does not come here, so its words keep their memory.
  if (stage_ == Stage::first_line) give_back_memory();
  for (std::size_t skipped = 0;;) {
    const Progress progress = proceed(input.substr(skipped), authenticated);
    if (progress == Progress::complete && words_.empty()) {
      skipped += consumed_;
      continue;
    }
    // The caller may drop the skipped bytes or feed them again. Starting the cut request anew serves both. It
    // happens once for the skipped bytes, since the next input begins with the request.
    if (progress == Progress::need_more && skipped > 0) restart();
    consumed_ = progress == Progress::complete ? skipped + consumed_ : skipped;
    return progress;
  }
}

// Reads one request, which begins where `input` does. When complete, words_ may be empty and consumed_ is
// set.
Progress RequestParser::proceed(std::string_view input, bool authenticated) {
  SEPAL_ASSERT(input.size() >= at_, "a request in progress is fed again with all its bytes");
  if (stage_ == Stage::first_line) {
    if (input.empty()) return Progress::need_more;
    if (input.front() != '*') return read_inline(input);
    const Progress header = read_array_header(input, authenticated);
    if (header != Progress::complete) return header;
  }
  while (words_left_ > 0) {
    if (stage_ == Stage::bulk_header) {
      const Progress header = read_bulk_header(input, authenticated);
      if (header != Progress::complete) return header;
    }
    // The header was checked against the limits, which keep this sum from wrapping.
    if (input.size() - at_ < bulk_bytes_ + line_end_bytes) return Progress::need_more;
    // Room for the words that have arrived, never for those that were announced.
    make_room_for_word();
    words_.push_back(word_at(words_in_, at_, bulk_bytes_));
    at_ += bulk_bytes_ + line_end_bytes;
    scanned_ = at_;
    --words_left_;
    stage_ = Stage::bulk_header;
  }
  SEPAL_ASSERT(at_ <= input.size(), "a request ends behind the bytes that have arrived");
  // The buffer may have moved between the calls. All words move at once, at the end, so a request that
  // arrives in many pieces costs no more for that.
  move_words(words_, words_in_, at_, input.data());
  // restart() clears at_.
  const std::size_t taken = at_;
  restart();
  consumed_ = taken;
  return Progress::complete;
}

Progress RequestParser::read_inline(std::string_view input) {
  SEPAL_ASSERT(stage_ == Stage::first_line && at_ == 0, "an inline request begins inside another request");
  // Such a client would wait for an answer for ever.
  if (input.front() == tls_handshake) return refuse("this is TLS, and the port takes plain requests");
  // The line ends within so many bytes, or it breaks one of the limits.
  const bool line_limit_is_lower = limits_.line_bytes_max < limits_.request_bytes_max;
  const std::uint64_t bytes_max =
      line_limit_is_lower ? limits_.line_bytes_max + 1 : limits_.request_bytes_max;
  // The search goes no further than the limit, and begins where the last one ended: a line that comes byte
  // by byte is searched once.
  const std::string_view window = input.substr(0, bytes_max);
  const std::size_t found = window.find('\n', scanned_);
  if (found == std::string_view::npos) {
    scanned_ = window.size();
    if (window.size() < bytes_max) return Progress::need_more;
    return line_limit_is_lower ? refuse("too big inline request") : refuse_size();
  }
  std::string_view line = input.substr(0, found);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!split_inline(line, words_, text_)) return refuse("unbalanced quotes in request");
  if (words_.size() > limits_.argument_count_max) return refuse("too big inline request");
  restart();
  consumed_ = found + 1;
  return Progress::complete;
}

Progress RequestParser::read_array_header(std::string_view input, bool authenticated) {
  const Progress line = find_length_line(input, "too big mbulk count string");
  if (line != Progress::complete) return line;
  const auto count = parse_length(input.substr(1, line_end_ - 1));
  if (!count) return refuse("invalid multibulk length");
  // A negative count is a null array, which is skipped like an empty one.
  const auto words = static_cast<std::uint64_t>(std::max<std::int64_t>(*count, 0));
  if (words > std::min(limits_.argument_count_max, array_count_max))
    return refuse("invalid multibulk length");
  if (!authenticated && words > unauthenticated_argument_count_max) {
    return refuse("unauthenticated multibulk length");
  }
  words_.clear();
  words_in_ = input.data();
  words_left_ = words;
  at_ = scanned_ = line_end_ + line_end_bytes;
  stage_ = Stage::bulk_header;
  return Progress::complete;
}

Progress RequestParser::read_bulk_header(std::string_view input, bool authenticated) {
  const Progress line = find_length_line(input, "too big bulk count string");
  if (line != Progress::complete) return line;
  if (input[at_] != '$') {
    // A NUL is spelled out: a client that takes the error for a C string would see half a sentence.
    const std::string got = input[at_] == '\0' ? "\\x00" : std::string(1, input[at_]);
    return refuse("expected '$', got '" + got + "'");
  }
  const auto length = parse_length(input.substr(at_ + 1, line_end_ - at_ - 1));
  if (!length || *length < 0) return refuse("invalid bulk length");
  const auto bytes = static_cast<std::uint64_t>(*length);
  if (bytes > limits_.bulk_bytes_max) return refuse("invalid bulk length");
  if (!authenticated && bytes > unauthenticated_bulk_bytes_max) return refuse("unauthenticated bulk length");
  const std::size_t body_at = line_end_ + line_end_bytes;
  // Subtracted from the limit, since a sum of lengths might wrap.
  if (body_at > limits_.request_bytes_max || limits_.request_bytes_max - body_at < bytes + line_end_bytes) {
    return refuse_size();
  }
  at_ = scanned_ = body_at;
  bulk_bytes_ = bytes;
  bytes_expected_ = body_at + bytes + line_end_bytes;
  stage_ = Stage::bulk_body;
  return Progress::complete;
}

// Finds the CR of the line that begins at at_, and waits for the byte behind it.
Progress RequestParser::find_length_line(std::string_view input, std::string_view too_long) {
  const std::uint64_t available = input.size() - at_;
  const bool may_be_too_long = available > limits_.line_bytes_max;
  const std::size_t window_end = may_be_too_long ? at_ + limits_.line_bytes_max + 1 : input.size();
  const std::size_t found = input.substr(0, window_end).find('\r', scanned_);
  if (found == std::string_view::npos) {
    scanned_ = window_end;
    return may_be_too_long ? refuse(too_long) : Progress::need_more;
  }
  scanned_ = line_end_ = found;
  return input.size() - found < line_end_bytes ? Progress::need_more : Progress::complete;
}

Progress RequestParser::refuse(std::string_view what) {
  SEPAL_ASSERT(stage_ != Stage::malformed, "a request is refused twice");
  text_ = "ERR Protocol error: ";
  text_ += what;
  stage_ = Stage::malformed;
  // The caller makes no room for more bytes: the connection closes.
  bytes_expected_ = 0;
  return Progress::malformed;
}

Progress RequestParser::refuse_size() {
  is_too_long_ = true;
  return refuse("request exceeds the limit of " + std::to_string(limits_.request_bytes_max) +
                " bytes (client-query-buffer-limit)");
}

void RequestParser::restart() {
  stage_ = Stage::first_line;
  at_ = scanned_ = 0;
  words_left_ = 0;
  bytes_expected_ = 0;
}

void RequestParser::give_back_memory() {
  // Swapped, since an assignment of {} keeps the capacity.
  if (words_.capacity() > words_kept_max) Words().swap(words_);
  if (text_.capacity() > unquoted_bytes_kept_max) std::string().swap(text_);
}

}  // namespace sepal::resp
