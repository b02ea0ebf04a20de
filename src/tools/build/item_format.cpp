#include "tools/build/item_format.hpp"

namespace sepal::tools {

std::size_t whole_items_bytes(ItemFormat format, std::string_view bytes, std::size_t item_bytes_max) {
  if (format != ItemFormat::length_prefixed) {
    const std::size_t last = bytes.rfind(is_lines(format) ? '\n' : '\0');
    return last == std::string_view::npos ? 0 : last + 1;
  }
  std::size_t at = 0;
  while (bytes.size() - at >= sizeof(ItemLength)) {
    const auto length = load_little_endian<ItemLength>(bytes.data() + at);
    // A length above the limit is no reason to gather more bytes: ItemStream::refusal() reports it.
    if (length > item_bytes_max || length > bytes.size() - at - sizeof length) break;
    at += sizeof length + length;
  }
  return at;
}

}  // namespace sepal::tools
