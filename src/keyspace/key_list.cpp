#include <sepal/base/endian.hpp>
#include <sepal/keyspace/key_list.hpp>

#include <cstdint>
#include <cstring>

namespace sepal::keyspace {

std::size_t key_list_bytes(std::span<const std::string_view> keys) {
  std::size_t bytes = 0;
  for (const std::string_view key : keys) bytes += sizeof(std::uint32_t) + key.size();
  return bytes;
}

std::vector<std::byte> encode_keys(std::span<const std::string_view> keys) {
  std::vector<std::byte> bytes(key_list_bytes(keys));
  std::byte* at = bytes.data();
  for (const std::string_view key : keys) {
    store_little_endian(at, static_cast<std::uint32_t>(key.size()));
    at += sizeof(std::uint32_t);
    if (!key.empty()) std::memcpy(at, key.data(), key.size());
    at += key.size();
  }
  return bytes;
}

std::optional<std::vector<std::string_view>> decode_keys(std::span<const std::byte> bytes) {
  std::vector<std::string_view> keys;
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(std::uint32_t)) return std::nullopt;
    const auto length = load_little_endian<std::uint32_t>(bytes.data());
    bytes = bytes.subspan(sizeof length);
    if (length > bytes.size()) return std::nullopt;
    keys.emplace_back(reinterpret_cast<const char*>(bytes.data()), length);
    bytes = bytes.subspan(length);
  }
  return keys;
}

}  // namespace sepal::keyspace
