// Writes operations of the journal one after the other, as the body of one frame.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/keyspace/mutation.hpp>
#include <sepal/storage/format/journal_format.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace sepal::storage {

// The most bytes that an operation can take, its key included.
[[nodiscard]] constexpr std::uint64_t added_bytes_max(std::size_t key_bytes, std::size_t count) {
  return sizeof(format::OperationHead) + key_bytes + count * sizeof(Fingerprint);
}
[[nodiscard]] std::uint64_t operation_bytes_max(const keyspace::Mutation& change);

// Whether the operation begins a frame. An `adopted` that names a file does, and a `remade` that takes long:
// so that the replay can read the file, or make the value, before it closes the gate.
[[nodiscard]] bool begins_frame(const keyspace::Mutation& change);

// Confined. The caller keeps the sum within format::frame_body_bytes_max.
class OperationEncoder {
 public:
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  // Begins a new frame; the memory stays allocated.
  void clear();

  // Entries right behind an `added` or `made` of the same key become part of that operation.
  void added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints);
  // Whether items of this key would become part of the last operation.
  [[nodiscard]] bool joins(keyspace::DatabaseKey key) const;
  void record(const keyspace::Mutation& change);
  void resumed();

 private:
  [[nodiscard]] bool names_last_key(keyspace::DatabaseKey key) const;
  template <class Change>
  void put(const Change& change);
  // What the head of an operation says beside its key.
  struct Told {
    std::uint8_t kind = 0;
    std::uint8_t what = 0;
    std::uint8_t flags = 0;
    std::size_t count = 0;
  };
  void begin(format::Operation operation, keyspace::DatabaseKey key, const Told& told);
  void begin_keyless(format::Operation operation, std::uint32_t database);
  void put_made(const keyspace::Made& made);
  void put_changed(const keyspace::Changed& changed);
  void append_bytes_head(std::size_t byte_count);
  void append(std::span<const std::byte> bytes) {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void append(std::span<const Fingerprint> fingerprints);
  void store_last_head();

  std::string bytes_;            // A string appends a few bytes faster than a vector does.
  format::OperationHead last_;   // The head of the newest operation
  std::size_t last_offset_ = 0;  // and its offset in bytes_.
  std::size_t key_offset_ = 0;   // Where the key of the newest operation is named.
  std::size_t key_bytes_ = 0;
  bool has_key_ = false;  // False behind an operation that lends no key.
  // The head of the frame's newest `made` that has one, if there is any.
  std::optional<value::Kind> made_kind_;
  std::size_t made_offset_ = 0;
  std::size_t made_bytes_ = 0;
};

}  // namespace sepal::storage
