// How items follow each other in a stream of bytes.
#pragma once

#include <sepal/base/endian.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sepal::tools {

enum class ItemFormat : std::uint8_t {
  lines,            // each ends with a line feed, which is not part of it; the last may lack it
  crlf,             // the same; a carriage return before the line feed is no part of it either
  nul,              // the same with a zero byte
  length_prefixed,  // each begins with its length in bytes: 32 bits, little endian
};

using ItemLength = std::uint32_t;

[[nodiscard]] constexpr bool is_lines(ItemFormat format) {
  return format == ItemFormat::lines || format == ItemFormat::crlf;
}

// How many bytes of framing an item has, without the carriage return.
[[nodiscard]] inline std::size_t framing_bytes(ItemFormat format) {
  return format == ItemFormat::length_prefixed ? sizeof(ItemLength) : 1;
}

// How many bytes at the beginning are whole items, with their framing. Counting stops at a length above
// `item_bytes_max`.
[[nodiscard]] std::size_t whole_items_bytes(ItemFormat format, std::string_view bytes,
                                            std::size_t item_bytes_max);

// Calls visit(item) for each item. The last one may lack its delimiter.
//
// The loop takes eight bytes at a time. In `differing`, a byte is 0 if it is the delimiter. The sum sets the
// highest bit of every other byte, and never carries into the next byte.
template <class Visit>
void split_at(char delimiter, std::string_view bytes, const Visit& visit) {
  constexpr std::uint64_t lowest_bits = 0x0101010101010101;
  constexpr std::uint64_t other_bits = 0x7f7f7f7f7f7f7f7f;
  const std::uint64_t pattern = lowest_bits * static_cast<unsigned char>(delimiter);
  const char* item = bytes.data();
  const char* at = item;
  const char* const end = item + bytes.size();
  const auto end_item = [&](const char* found) {
    visit(std::string_view(item, static_cast<std::size_t>(found - item)));
    item = found + 1;
  };
  for (; end - at >= 8; at += 8) {
    const std::uint64_t differing = load_little_endian<std::uint64_t>(at) ^ pattern;
    std::uint64_t found = ~(((differing & other_bits) + other_bits) | differing | other_bits);
    for (; found != 0; found &= found - 1) end_item(at + std::countr_zero(found) / 8);
  }
  for (; at < end; ++at)
    if (*at == delimiter) end_item(at);
  if (item < end) end_item(end);
}

// Calls visit(item) for each item. `bytes` holds whole items only.
template <class Visit>
void for_each_item(ItemFormat format, std::string_view bytes, const Visit& visit) {
  if (format == ItemFormat::crlf)
    return split_at('\n', bytes, [&](std::string_view item) {
      visit(item.substr(0, item.size() - static_cast<std::size_t>(item.ends_with('\r'))));
    });
  if (format != ItemFormat::length_prefixed)
    return split_at(format == ItemFormat::lines ? '\n' : '\0', bytes, visit);
  while (!bytes.empty()) {
    const auto length = load_little_endian<ItemLength>(bytes.data());
    visit(bytes.substr(sizeof length, length));
    bytes.remove_prefix(sizeof length + length);
  }
}

}  // namespace sepal::tools
