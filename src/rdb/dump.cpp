#include <sepal/base/endian.hpp>
#include <sepal/rdb/dump.hpp>

#include <limits>

namespace sepal::rdb {
namespace {

// The RDB version of the dumps that are made here: every Redis since 5.0 reads them.
constexpr std::uint16_t made_version = 9;

template <class Integer>
void append_little_endian(std::string& to, Integer value) {
  to.resize(to.size() + sizeof value);
  store_little_endian(to.data() + to.size() - sizeof value, value);
}

}  // namespace

bool begins(std::span<const std::byte> dump, std::uint8_t type) {
  return !dump.empty() && std::to_integer<std::uint8_t>(dump[0]) == type;
}

Result<std::span<const std::byte>> value_of(std::span<const std::byte> dump) {
  if (dump.size() < footer_bytes) return fail(Errc::damaged);
  const auto sealed = dump.first(dump.size() - sizeof(std::uint64_t));
  if (load_little_endian<std::uint64_t>(dump.data() + sealed.size()) != checksum(sealed))
    return fail(Errc::damaged);
  return dump.first(dump.size() - footer_bytes);
}

void append_length(std::string& to, std::uint64_t length) {
  constexpr std::uint64_t lengths_of_6_bits = 64;
  constexpr std::uint64_t lengths_of_14_bits = 16384;
  const auto append = [&](std::uint64_t bits) { to += static_cast<char>(bits & 0xff); };
  if (length < lengths_of_6_bits) return append(length);
  if (length < lengths_of_14_bits) {
    append(length >> 8 | 0x40);
    return append(length);
  }
  const bool is_short = length <= std::numeric_limits<std::uint32_t>::max();
  append(is_short ? 0x80 : 0x81);
  for (int shift = is_short ? 24 : 56; shift >= 0; shift -= 8) append(length >> shift);
}

void append_footer(std::string& last, Checksum checksum) {
  append_little_endian(last, made_version);
  checksum.update(std::as_bytes(std::span(last)));
  append_little_endian(last, checksum.value());
}

}  // namespace sepal::rdb
