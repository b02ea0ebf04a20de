// A key's bytes in the key table: sixteen bytes, without an allocation for the keys that most servers have.
//
//     short (up to inline_bytes_max)   | bytes of the key, zeros behind them ...        | length |
//     long                             | pointer to the bytes (8) | length, low 7 bytes | marker |
//
// The last byte tells which: no length of a short key reaches the marker.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/base/limbo.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sepal::keyspace {

// Neither moved nor copied as an object. A segment copies its bytes for another segment, so that readers may
// go on: then one of the two owns what they point to (segment.hpp).
class StoredKey {
 public:
  static constexpr std::size_t inline_bytes_max = 15;

  explicit StoredKey(std::string_view key) {
    if (key.size() <= inline_bytes_max) {
      // An empty view may have a null pointer, which memcpy must not get.
      if (!key.empty()) std::memcpy(bytes_.data(), key.data(), key.size());
      bytes_[last] = static_cast<char>(key.size());
      return;
    }
    SEPAL_ASSERT(key.size() >> length_bits == 0, "the length of a key reaches its marker");
    char* const copy = new char[key.size()];
    std::memcpy(copy, key.data(), key.size());
    std::memcpy(bytes_.data(), &copy, sizeof copy);
    store_little_endian<std::uint64_t>(bytes_.data() + sizeof copy, key.size() | marker << length_bits);
  }
  ~StoredKey() {
    if (is_long()) delete[] pointer();
  }
  StoredKey(const StoredKey&) = delete;
  StoredKey& operator=(const StoredKey&) = delete;

  // In the place of the destructor, when readers may still be in the bytes.
  void retire(Limbo& limbo) const {
    if (is_long()) limbo.retire(pointer(), [](void* bytes) { delete[] static_cast<char*>(bytes); });
  }

  // Valid until the key ends.
  [[nodiscard]] std::string_view view() const {
    if (!is_long()) return {bytes_.data(), static_cast<std::size_t>(bytes_[last])};
    return {pointer(), static_cast<std::size_t>(tail() & ~(marker << length_bits))};
  }

  // Asks for the bytes of a long key, before view() and a look at them.
  void prefetch() const {
    if (is_long()) __builtin_prefetch(pointer());
  }

  // What storing a key of this length takes beside these sixteen bytes.
  [[nodiscard]] static std::uint64_t heap_bytes(std::size_t key_bytes) {
    return key_bytes <= inline_bytes_max ? 0 : key_bytes + allocation_overhead_bytes;
  }

 private:
  static constexpr std::size_t last = 15;
  static constexpr std::uint64_t marker = 0xff;
  static constexpr int length_bits = 56;
  static constexpr std::uint64_t allocation_overhead_bytes = 16;  // an allocator's header and rounding, about

  [[nodiscard]] bool is_long() const { return static_cast<unsigned char>(bytes_[last]) == marker; }
  [[nodiscard]] std::uint64_t tail() const {
    return load_little_endian<std::uint64_t>(bytes_.data() + sizeof(char*));
  }
  // memcpy reads the pointer: a cast of the array of char to char** would break the aliasing rules.
  [[nodiscard]] char* pointer() const {
    char* pointer = nullptr;
    std::memcpy(&pointer, bytes_.data(), sizeof pointer);
    return pointer;
  }
  alignas(8) std::array<char, last + 1> bytes_{};
};

static_assert(sizeof(char*) == 8 && sizeof(StoredKey) == 16);

}  // namespace sepal::keyspace
