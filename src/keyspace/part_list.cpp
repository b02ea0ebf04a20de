#include <sepal/base/endian.hpp>
#include <sepal/keyspace/part_list.hpp>

#include <cstring>

namespace sepal::keyspace {

std::vector<std::byte> encode_parts(std::span<const Part> parts) {
  std::size_t byte_count = 0;
  for (const Part& part : parts) byte_count += part_head_bytes + part.key.size();
  std::vector<std::byte> bytes(byte_count);
  std::byte* at = bytes.data();
  for (const Part& part : parts) {
    store_little_endian(at, static_cast<std::uint32_t>(part.key.size()));
    store_little_endian(at + sizeof(std::uint32_t), part.extent);
    at += part_head_bytes;
    if (!part.key.empty()) std::memcpy(at, part.key.data(), part.key.size());
    at += part.key.size();
  }
  return bytes;
}

std::optional<std::vector<Part>> decode_parts(std::span<const std::byte> bytes) {
  std::vector<Part> parts;
  while (!bytes.empty()) {
    if (bytes.size() < part_head_bytes) return std::nullopt;
    const auto length = load_little_endian<std::uint32_t>(bytes.data());
    const auto extent = load_little_endian<std::uint32_t>(bytes.data() + sizeof length);
    bytes = bytes.subspan(part_head_bytes);
    if (length > bytes.size()) return std::nullopt;
    parts.push_back({.key = {reinterpret_cast<const char*>(bytes.data()), length}, .extent = extent});
    bytes = bytes.subspan(length);
  }
  return parts;
}

}  // namespace sepal::keyspace
