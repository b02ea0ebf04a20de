#include <sepal/base/endian.hpp>
#include <sepal/base/whole_number.hpp>
#include <sepal/resp/reply.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

namespace sepal::resp {
namespace {

constexpr std::string_view line_end = "\r\n";
// The size of one boolean in every encoding: ":1", "#t" and so on with their line end.
constexpr std::size_t boolean_bytes = 4;
// Room for the longest 64-bit number or the shortest spelling of any double.
constexpr std::size_t number_bytes_max = 32;

template <class Number>
std::string_view digits_of(Number value, char (&room)[number_bytes_max]) {
  const auto written = std::to_chars(room, room + number_bytes_max, value);
  return {room, static_cast<std::size_t>(written.ptr - room)};
}

static_assert(sizeof(bool) == 1, "four booleans are four bytes");
// Four booleans in a row, indexed by a number of four bits whose highest bit is the first boolean.
using FourBooleans = std::array<std::array<char, 4 * boolean_bytes>, 16>;

constexpr FourBooleans encode_four(std::string_view no, std::string_view yes) {
  FourBooleans encoded{};
  for (std::size_t chosen = 0; chosen < encoded.size(); ++chosen)
    for (std::size_t at = 0; at < 4; ++at)
      std::ranges::copy((chosen >> (3 - at)) % 2 == 1 ? yes : no,
                        encoded[chosen].begin() + static_cast<std::ptrdiff_t>(at * boolean_bytes));
  return encoded;
}
constexpr FourBooleans four_in_resp2 = encode_four(":0\r\n", ":1\r\n");
constexpr FourBooleans four_in_resp3 = encode_four("#f\r\n", "#t\r\n");

// One append for a type byte, a number and the line end.
template <class Number>
void append_number(std::string& buffer, char type, Number value) {
  char room[1 + number_bytes_max + line_end.size()];
  room[0] = type;
  char* end = std::to_chars(room + 1, room + 1 + number_bytes_max, value).ptr;
  *end++ = '\r';
  *end++ = '\n';
  buffer.append(room, static_cast<std::size_t>(end - room));
}

// The digits of d.ddd times ten to the power of `exponent`.
std::string placed(std::string digits, int exponent) {
  constexpr int zeros_behind_max = 7;
  constexpr int zeros_before_max = 7;
  const int count = static_cast<int>(digits.size());
  const int last_power = exponent - count + 1;
  if (last_power >= 0 && exponent < count + zeros_behind_max)
    return digits + std::string(static_cast<std::size_t>(last_power), '0');
  if (last_power < 0 && (last_power > -zeros_before_max || std::abs(exponent) < 4)) {
    const int whole = exponent + 1;
    if (whole <= 0) return "0." + std::string(static_cast<std::size_t>(-whole), '0') + digits;
    return digits.insert(static_cast<std::size_t>(whole), ".");
  }
  std::string text = digits.substr(0, 1);
  if (count > 1) text += "." + digits.substr(1);
  return text + (exponent < 0 ? "e-" : "e+") + std::to_string(std::abs(exponent));
}

// A double as the reference writes it: integers of up to 52 bits whole; of others the shortest digits, plain
// with up to seven zeros behind them or up to six in front, else with an exponent that has no zero in front.
std::string real_text(double value) {
  constexpr double whole_max = 4503599627370496;  // 2^52
  // The sign of a NaN means nothing, and RESP has only one spelling for it.
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (value == 0) return std::signbit(value) ? "-0" : "0";
  char room[number_bytes_max];
  if (value > -whole_max && value <= whole_max && std::nearbyint(value) == value)
    return std::string(digits_of(static_cast<std::int64_t>(value), room));
  const auto written =
      std::to_chars(room, room + number_bytes_max, std::abs(value), std::chars_format::scientific);
  const std::string_view text(room, static_cast<std::size_t>(written.ptr - room));
  const std::size_t e = text.find('e');
  // d.ddd: the digits without the point, and the power of ten of the last of them.
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  const int exponent = parse_whole<int>(text.substr(text[e + 1] == '+' ? e + 2 : e + 1)).value_or(0);
  return (value < 0 ? "-" : "") + placed(std::move(digits), exponent);
}

}  // namespace

// The text may repeat bytes of a client. A CR LF among them would end the line early, and the client would
// take the rest for another reply.
void Reply::line(char type, std::string_view text) {
  // The buffer grows once. These lines are short, so a look at each byte costs less than a search.
  const std::size_t begin = buffer_.size();
  buffer_.resize(begin + 1 + text.size() + line_end.size());
  char* to = buffer_.data() + begin;
  *to++ = type;
  for (const char byte : text) *to++ = byte == '\r' || byte == '\n' ? ' ' : byte;
  line_end.copy(to, line_end.size());
}

void Reply::number(char type, std::int64_t value) {
  append_number(buffer_, type, value);
}

void Reply::count(char type, std::size_t value) {
  append_number(buffer_, type, value);
}

void Reply::simple(std::string_view text) {
  line('+', text);
}

void Reply::error(std::string_view text) {
  SEPAL_ASSERT(!text.empty(), "an error without a text");
  // The bytes that fill() appends later belong before whatever is appended now.
  SEPAL_ASSERT(!has_later(), "an error would stand within a long value");
  const std::size_t begin = buffer_.size() + 1;
  line('-', text);
  // Copied from the buffer, where CR and LF are spaces already. A copy, since the buffer may be sent and
  // emptied before the statistics read it.
  last_error_.assign(buffer_, begin, std::min(text.size(), last_error_bytes_max));
  ++error_count_;
}

void Reply::integer_unsigned(std::uint64_t value) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return integer(static_cast<std::int64_t>(value));
  }
  char room[number_bytes_max];
  bulk(digits_of(value, room));
}

// Four at a time: a choice for each one costs three times as much.
void Reply::booleans(std::span<const bool> values) {
  const FourBooleans& four = version_ == Version::resp2 ? four_in_resp2 : four_in_resp3;
  const std::size_t begin = buffer_.size();
  // The size is known, so the buffer grows once, and the bytes are stored without a test of its room.
  buffer_.resize(begin + boolean_bytes * values.size());
  char* to = buffer_.data() + begin;
  for (; values.size() >= 4; values = values.subspan(4)) {
    std::array<std::byte, 4> bytes;
    std::memcpy(bytes.data(), values.data(), bytes.size());
    // The factor gathers the lowest bits of the four bytes in the highest byte of the product.
    const std::uint32_t chosen = (load_little_endian<std::uint32_t>(bytes.data()) * 0x08040201U) >> 24 & 0xf;
    std::memcpy(to, four[chosen].data(), 4 * boolean_bytes);
    to += 4 * boolean_bytes;
  }
  for (const bool value : values) {
    std::memcpy(to, four[value ? 0xf : 0].data(), boolean_bytes);
    to += boolean_bytes;
  }
}

void Reply::real(double value) {
  const std::string digits = real_text(value);
  if (version_ == Version::resp2) return bulk(digits);
  line(',', digits);
}

void Reply::bulk_later(std::vector<Piece> pieces) {
  SEPAL_ASSERT(!has_later(), "a long value ends before the next one begins");
  std::uint64_t size = 0;
  for (const Piece& piece : pieces) size += piece.size();
  if (!takes(size)) return;
  count('$', size);
  // The line end of the bulk comes behind its bytes, so it is a piece of its own.
  pieces.push_back({.bytes = std::string(line_end)});
  raw_later(std::move(pieces));
}

void Reply::bulk_later(std::vector<std::string> pieces) {
  std::vector<Piece> held(pieces.size());
  for (std::size_t at = 0; at < pieces.size(); ++at) held[at].bytes = std::move(pieces[at]);
  bulk_later(std::move(held));
}

void Reply::raw_later(std::vector<Piece> pieces) {
  SEPAL_ASSERT(!has_later(), "a long value ends before the next one begins");
  if (pieces.empty()) return;
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.size();
  if (!takes(bytes)) return;
  later_ = std::make_unique<Later>(Later{.pieces = std::move(pieces), .bytes_left = bytes});
}

void Reply::append_part(const Piece& piece, std::uint64_t offset, std::size_t byte_count) {
  const std::size_t begin = buffer_.size();
  if (piece.source == nullptr) {
    buffer_.append(piece.bytes, offset, byte_count);
  } else {
    buffer_.resize(begin + byte_count);
    piece.source->read(offset, std::span(buffer_).subspan(begin));
  }
}

void Reply::fill(std::size_t size_max) {
  SEPAL_ASSERT(size_max > 0, "a reply is filled up to no bytes, and would never end");
  // A piece is freed as soon as it is copied: a long value and its copy are never in memory together as a
  // whole.
  while (has_later() && buffer_.size() < size_max) {
    Piece& piece = later_->pieces[later_->piece];
    const std::uint64_t part_bytes =
        std::min<std::uint64_t>(piece.size() - later_->offset, size_max - buffer_.size());
    append_part(piece, later_->offset, static_cast<std::size_t>(part_bytes));
    later_->offset += part_bytes;
    SEPAL_ASSERT(part_bytes <= later_->bytes_left, "a long value has more bytes than were counted");
    later_->bytes_left -= part_bytes;
    if (later_->offset < piece.size()) continue;
    piece = {};
    later_->offset = 0;
    if (++later_->piece < later_->pieces.size()) continue;
    SEPAL_ASSERT(later_->bytes_left == 0, "a long value ends before all bytes that were counted");
    later_.reset();
  }
}

void Reply::bulk(std::string_view bytes) {
  if (!takes(bytes.size())) return;
  count('$', bytes.size());
  buffer_.append(bytes);
  buffer_.append(line_end);
}

void Reply::verbatim(std::string_view text) {
  if (version_ == Version::resp2) return bulk(text);
  constexpr std::string_view format = "txt:";
  count('=', format.size() + text.size());
  buffer_.append(format);
  buffer_.append(text);
  buffer_.append(line_end);
}

void Reply::array(std::size_t length) {
  count('*', length);
}

void Reply::map(std::size_t pairs) {
  if (version_ == Version::resp2) return count('*', 2 * pairs);
  count('%', pairs);
}

void Reply::set(std::size_t length) {
  count(version_ == Version::resp2 ? '*' : '~', length);
}

}  // namespace sepal::resp
