#include "rdb_reader.hpp"

#include <sepal/base/endian.hpp>

#include <bit>

namespace sepal::filter {
namespace {

// What the two highest bits of a length's first byte say, and what the whole byte says.
constexpr std::uint8_t kind_mask = 0xc0;
constexpr std::uint8_t kind_6_bits = 0x00;
constexpr std::uint8_t kind_14_bits = 0x40;
constexpr std::uint8_t first_of_32_bits = 0x80;
constexpr std::uint8_t first_of_64_bits = 0x81;
constexpr std::uint8_t first_of_numbers = 0xc0;
constexpr std::uint8_t last_of_numbers = 0xc2;

}  // namespace

std::span<const std::byte> RdbReader::take(std::uint64_t byte_count) {
  failed_ = failed_ || byte_count > bytes_.size();
  if (failed_) return {};
  const auto taken = bytes_.first(static_cast<std::size_t>(byte_count));
  bytes_ = bytes_.subspan(taken.size());
  return taken;
}

std::uint64_t RdbReader::big_endian(std::uint64_t byte_count) {
  std::uint64_t value = 0;
  for (const std::byte byte : take(byte_count)) value = value << 8 | std::to_integer<std::uint64_t>(byte);
  return value;
}

std::uint8_t RdbReader::byte() {
  return static_cast<std::uint8_t>(big_endian(1));
}

std::uint64_t RdbReader::length() {
  const std::uint8_t first = byte();
  if (first == first_of_32_bits) return big_endian(4);
  if (first == first_of_64_bits) return big_endian(8);
  const std::uint64_t rest = first & ~kind_mask;
  if ((first & kind_mask) == kind_6_bits) return rest;
  if ((first & kind_mask) == kind_14_bits) return rest << 8 | byte();
  failed_ = true;
  return 0;
}

void RdbReader::expect(Opcode opcode) {
  if (length() != static_cast<std::uint64_t>(opcode)) failed_ = true;
}

std::uint64_t RdbReader::number() {
  expect(Opcode::number);
  return length();
}

double RdbReader::real() {
  expect(Opcode::real);
  const auto bytes = take(sizeof(double));
  return failed_ ? 0 : std::bit_cast<double>(load_little_endian<std::uint64_t>(bytes.data()));
}

RdbBits RdbReader::bits() {
  expect(Opcode::string);
  return plain_or_packed();
}

RdbBits RdbReader::string(std::string& digits) {
  const std::uint8_t first = bytes_.empty() ? 0 : std::to_integer<std::uint8_t>(bytes_[0]);
  if (first < first_of_numbers || first > last_of_numbers) return plain_or_packed();
  byte();
  const std::uint64_t byte_count = std::uint64_t{1} << (first - first_of_numbers);
  std::uint32_t number = 0;
  int shift = 32;
  for (const std::byte each : take(byte_count)) {
    number = number >> 8 | std::to_integer<std::uint32_t>(each) << 24;
    shift -= 8;
  }
  if (failed_) return {};
  digits = std::to_string(static_cast<std::int32_t>(number) >> shift);
  return {.bytes = std::as_bytes(std::span(digits)), .unpacked_bytes = digits.size()};
}

RdbBits RdbReader::plain_or_packed() {
  RdbBits bits;
  bits.packed = !failed_ && !bytes_.empty() && std::to_integer<std::uint8_t>(bytes_[0]) == first_of_packed;
  if (bits.packed) byte();
  const std::uint64_t byte_count = length();
  bits.unpacked_bytes = bits.packed ? length() : byte_count;
  bits.bytes = take(byte_count);
  // A length that the packed bytes cannot unpack to is not worth an allocation.
  if (bits.unpacked_bytes / rdb_growth_max > bits.bytes.size()) failed_ = true;
  return bits;
}

void RdbReader::end() {
  expect(Opcode::end);
}

}  // namespace sepal::filter
