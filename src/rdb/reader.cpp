// Three things are kept apart here. bytes_ is what is left of the piece at hand. unsummed_ begins where the
// checksum ends, and ends with bytes_: so a piece is summed at once when it is used up, and not field by
// field. offset_ counts everything that was read or skipped, also what the source skipped itself.
//
// A field that is wrong sets failed_, and then all reads give 0. So a caller reads a whole value without a
// test behind each field, and no field that came after an error is believed.
#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/rdb/reader.hpp>

#include <boost/crc.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace sepal::rdb {
namespace {

using Crc64 = boost::crc_optimal<64, 0xad93d23594c935a9, 0, 0, true, true>;

// What the two highest bits of a length's first byte say, and what the whole byte says.
constexpr std::uint8_t kind_mask = 0xc0;
constexpr std::uint8_t kind_6_bits = 0x00;
constexpr std::uint8_t kind_14_bits = 0x40;
constexpr std::uint8_t first_of_32_bits = 0x80;
constexpr std::uint8_t first_of_64_bits = 0x81;
constexpr std::uint8_t first_of_numbers = 0xc0;
constexpr std::uint8_t last_of_numbers = 0xc2;
constexpr std::uint8_t first_of_packed = 0xc3;

// The most that LZF makes of three bytes.
static_assert(growth_max == (0xff + 7 + 2) / 3);

// The digits of a signed number of so many bytes, which stand in the low bits.
std::string decimal(std::uint64_t bits, std::uint64_t byte_count) {
  const auto unused = static_cast<int>(8 * (sizeof bits - byte_count));
  return std::to_string(static_cast<std::int64_t>(bits << unused) >> unused);
}

}  // namespace

void Checksum::update(std::span<const std::byte> bytes) {
  // The interim remainder is what a computation can go on from; value() is in another order of bits.
  Crc64 checksum(remainder_);
  checksum.process_bytes(bytes.data(), bytes.size());
  remainder_ = checksum.get_interim_remainder();
}

std::uint64_t Checksum::value() const {
  return Crc64(remainder_).checksum();
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.update(bytes);
  return checksum.value();
}

Result<void> BytesInMemory::read_at(std::uint64_t offset, std::span<std::byte> into) {
  if (offset > bytes_.size() || into.size() > bytes_.size() - offset)
    return fail(Errc::damaged, "a string ends behind the last byte");
  std::ranges::copy(bytes_.subspan(static_cast<std::size_t>(offset), into.size()), into.begin());
  return {};
}

bool Reader::refill() {
  if (!bytes_.empty()) return true;
  if (source_ == nullptr) return false;
  // The source may reuse these bytes for its next piece, so they are summed before it is asked.
  if (sums_) checksum_.update(unsummed_);
  bytes_ = source_->more();
  unsummed_ = bytes_;
  return !bytes_.empty();
}

bool Reader::at_end() {
  return !refill();
}

std::uint64_t Reader::checksum() {
  checksum_.update(unsummed_.first(unsummed_.size() - bytes_.size()));
  unsummed_ = bytes_;
  return checksum_.value();
}

void Reader::advance(std::size_t byte_count) {
  bytes_ = bytes_.subspan(byte_count);
  offset_ += byte_count;
}

void Reader::read(std::span<std::byte> into) {
  while (!into.empty()) {
    failed_ = failed_ || !refill();
    if (failed_) {
      std::ranges::fill(into, std::byte{0});
      return;
    }
    const std::size_t count = std::min(into.size(), bytes_.size());
    std::ranges::copy(bytes_.first(count), into.begin());
    advance(count);
    into = into.subspan(count);
  }
}

void Reader::skip(std::uint64_t byte_count) {
  while (!failed_ && byte_count != 0) {
    // What the piece at hand has is skipped first. The rest need not be read, unless it is summed.
    if (bytes_.empty() && source_ != nullptr && !sums_) {
      failed_ = !source_->skip(byte_count);
      if (!failed_) offset_ += byte_count;
      return;
    }
    if (!refill()) {
      failed_ = true;
      return;
    }
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(byte_count, bytes_.size()));
    advance(count);
    byte_count -= count;
  }
}

std::uint64_t Reader::big_endian(std::size_t byte_count) {
  std::uint64_t value = 0;
  for (; byte_count != 0; --byte_count) value = value << 8 | byte();
  return failed_ ? 0 : value;
}

std::uint64_t Reader::integer(std::size_t byte_count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < byte_count; ++i) value |= std::uint64_t{byte()} << (8 * i);
  return failed_ ? 0 : value;
}

std::uint8_t Reader::byte() {
  std::byte value{0};
  read({&value, 1});
  return std::to_integer<std::uint8_t>(value);
}

std::uint64_t Reader::length() {
  const std::uint8_t first = byte();
  if (first == first_of_32_bits) return big_endian(4);
  if (first == first_of_64_bits) return big_endian(8);
  const std::uint64_t rest = first & ~kind_mask;
  if ((first & kind_mask) == kind_6_bits) return rest;
  if ((first & kind_mask) == kind_14_bits) return rest << 8 | byte();
  failed_ = true;
  return 0;
}

// Reads up to the string's bytes.
String Reader::string_head() {
  String string;
  failed_ = failed_ || !refill();
  if (failed_) return string;
  // Looked at and not taken: in a plain string this byte belongs to the length.
  const auto first = std::to_integer<std::uint8_t>(bytes_[0]);
  if (first >= first_of_numbers && first <= first_of_packed) byte();
  if (first >= first_of_numbers && first <= last_of_numbers) {
    string.kind = String::Kind::number;
    string.byte_count = std::uint64_t{1} << (first - first_of_numbers);
  } else {
    string.byte_count = length();
    if (first == first_of_packed) string.kind = String::Kind::packed;
    string.unpacked_bytes = first == first_of_packed ? length() : string.byte_count;
    // A length that the packed bytes cannot unpack to is not worth an allocation.
    if (string.unpacked_bytes / growth_max > string.byte_count) failed_ = true;
  }
  string.offset = offset_;
  return string;
}

String Reader::string() {
  const String string = string_head();
  skip(string.byte_count);
  return string;
}

std::optional<std::string> Reader::text(std::size_t bytes_max) {
  String string = string_head();
  if (failed_ || string.unpacked_bytes > bytes_max || string.byte_count > bytes_max) {
    skip(string.byte_count);
    return std::nullopt;
  }
  if (string.kind == String::Kind::number)
    return decimal(integer(static_cast<std::size_t>(string.byte_count)), string.byte_count);
  std::vector<std::byte> stored(static_cast<std::size_t>(string.byte_count));
  read(stored);
  std::string text(static_cast<std::size_t>(string.unpacked_bytes), '\0');
  BytesInMemory bytes(stored);
  // The offset was that in the input; here the bytes begin at `stored`.
  string.offset = 0;
  if (!failed_ && !StringReader(string, bytes).read(std::as_writable_bytes(std::span(text)))) failed_ = true;
  return text;
}

Result<std::string> digits_of(const String& number, Bytes& bytes) {
  SEPAL_ASSERT(number.kind == String::Kind::number, "digits are made of a string that is no number");
  std::array<std::byte, sizeof(std::uint64_t)> stored{};
  const auto part = std::span(stored).first(static_cast<std::size_t>(number.byte_count));
  if (auto done = bytes.read_at(number.offset, part); !done) return done.error();
  return decimal(load_little_endian<std::uint64_t>(stored.data()), number.byte_count);
}

void Reader::expect(Opcode opcode) {
  if (length() != static_cast<std::uint64_t>(opcode)) failed_ = true;
}

std::uint64_t Reader::number() {
  expect(Opcode::number);
  return length();
}

double Reader::real() {
  expect(Opcode::real);
  return std::bit_cast<double>(integer(sizeof(double)));
}

String Reader::string_field() {
  expect(Opcode::string);
  return string();
}

String Reader::bits() {
  const String bits = string_field();
  if (bits.kind == String::Kind::number) failed_ = true;
  return bits;
}

std::optional<std::string> Reader::text_field(std::size_t bytes_max) {
  expect(Opcode::string);
  return text(bytes_max);
}

void Reader::end() {
  expect(Opcode::end);
}

void Reader::skip_field(std::uint64_t opcode) {
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::signed_number:
    case Opcode::number: length(); return;
    case Opcode::single: return skip(sizeof(float));
    case Opcode::real: return skip(sizeof(double));
    case Opcode::string: string(); return;
    default: failed_ = true;
  }
}

void Reader::skip_fields() {
  for (;;) {
    const std::uint64_t opcode = length();
    if (failed_ || opcode == static_cast<std::uint64_t>(Opcode::end)) return;
    // Only small numbers are opcodes, and a byte must not be made of a larger one.
    skip_field(opcode <= static_cast<std::uint64_t>(Opcode::string)
                   ? opcode
                   : std::numeric_limits<std::uint8_t>::max());
  }
}

}  // namespace sepal::rdb
