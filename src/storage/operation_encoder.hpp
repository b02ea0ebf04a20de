// Writes operations of the journal behind each other, as the body of one frame.
#pragma once

#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/journal_format.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sepal::storage {

// What each operation takes at most, as it may have to name its key.
[[nodiscard]] constexpr std::uint64_t added_bytes_max(std::size_t key_bytes, std::size_t count) {
  return sizeof(format::OperationHead) + key_bytes + count * sizeof(Fingerprint);
}
[[nodiscard]] constexpr std::uint64_t created_bytes_max(std::size_t key_bytes) {
  return sizeof(format::OperationHead) + key_bytes + sizeof(format::FilterShape) + sizeof(format::LayerShape);
}
[[nodiscard]] constexpr std::uint64_t grown_bytes_max(std::size_t key_bytes) {
  return sizeof(format::OperationHead) + key_bytes + sizeof(format::LayerShape);
}
[[nodiscard]] constexpr std::uint64_t removed_bytes_max(std::size_t key_bytes) {
  return sizeof(format::OperationHead) + key_bytes;
}
[[nodiscard]] constexpr std::uint64_t expires_bytes_max(std::size_t key_bytes) {
  return sizeof(format::OperationHead) + key_bytes + sizeof(format::DeadlineShape);
}
[[nodiscard]] constexpr std::uint64_t adopted_bytes_max(std::size_t key_bytes, std::size_t image_bytes) {
  return sizeof(format::OperationHead) + key_bytes + sizeof(format::AdoptedShape) + image_bytes;
}
[[nodiscard]] constexpr std::uint64_t renamed_bytes_max(std::size_t from_bytes, std::size_t to_bytes) {
  return sizeof(format::OperationHead) + from_bytes + sizeof(format::TargetHead) + to_bytes;
}
[[nodiscard]] constexpr std::uint64_t moved_bytes_max(std::size_t key_bytes) {
  return sizeof(format::OperationHead) + key_bytes + sizeof(format::OtherDatabase);
}
inline constexpr std::uint64_t swapped_bytes = sizeof(format::OperationHead) + sizeof(format::OtherDatabase);
[[nodiscard]] constexpr std::uint64_t mirrored_bytes_max(std::size_t source_bytes, std::size_t target_bytes) {
  return sizeof(format::OperationHead) + source_bytes + sizeof(format::MirrorShape) +
         sizeof(format::TargetHead) + target_bytes;
}
inline constexpr std::uint64_t keyless_bytes = sizeof(format::OperationHead);

// Confined. The caller keeps the sum within format::frame_body_bytes_max.
class OperationEncoder {
 public:
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  // Begins a frame anew; the memory stays.
  void clear();

  // Behind an `added` or the `created` of the same key, they become part of it.
  void added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints);
  void created(keyspace::DatabaseKey key, const filter::FilterOptions& options,
               const filter::LayerPlan& first_layer);
  void grown(keyspace::DatabaseKey key, const filter::LayerPlan& layer);
  void removed(keyspace::DatabaseKey key);
  void expires(keyspace::DatabaseKey key, keyspace::Deadline deadline);
  void renamed(std::uint32_t database, std::string_view from, std::string_view to);
  void adopted(keyspace::DatabaseKey key, const keyspace::AdoptedFilter& filter);
  void moved(keyspace::DatabaseKey from, std::uint32_t to_database);
  void swapped(std::uint32_t database, std::uint32_t other);
  void mirrored(const keyspace::Mirror& mirror);
  void flushed(std::uint32_t database);
  void flushed_all();
  void resumed();

 private:
  [[nodiscard]] bool names_last_key(keyspace::DatabaseKey key) const;
  void begin(format::Operation operation, keyspace::DatabaseKey key, std::size_t count = 0,
             unsigned char flags = 0);
  void begin_keyless(format::Operation operation, std::uint32_t database);
  void append(std::span<const std::byte> bytes) {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void append_target(std::string_view key);
  void append(std::span<const Fingerprint> fingerprints);
  void append_other(std::uint32_t database);

  std::string bytes_;            // Takes a few bytes at its end faster than a vector does.
  format::OperationHead last_;   // The newest operation,
  std::size_t last_offset_ = 0;  // which stands here.
  std::size_t key_offset_ = 0;   // Its key, where named last;
  std::size_t key_bytes_ = 0;
  bool has_key_ = false;          // not behind an operation without a key, or one with two.
  format::CreatedShape created_;  // Of the newest `created` of the frame,
  bool has_created_ = false;      // if there is any.
};

}  // namespace sepal::storage
