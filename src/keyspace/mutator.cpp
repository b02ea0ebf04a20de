#include <sepal/base/assert.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <utility>

namespace sepal::keyspace {

Result<void> Mutator::rename(std::uint32_t database, std::string_view from, std::string_view to) noexcept {
  auto renamed = keyspace_.rename(database, from, to);
  // Nothing has changed: no record, and no watch is touched. An error is returned all the same.
  if (from == to) return renamed;
  return told(std::move(renamed), Renamed{.key = {.database = database, .key = from}, .target = to});
}

Result<void> Mutator::adopt(DatabaseKey key, ValuePtr value, Deadline deadline,
                            const ImageFile& file) noexcept {
  SEPAL_ASSERT(value != nullptr, "a key would adopt no value");
  std::vector<std::byte> image;
  if (log_ != nullptr && file.number == 0) {
    // Before put(), which takes the value away. The record only views these bytes, so they live until
    // told() has returned.
    image = value::image_of(*value);
    SEPAL_ASSERT(image.size() <= recorded_image_bytes_max, "a value that is too large for a record");
  }
  return told(keyspace_.put(key, std::move(value), deadline),
              Adopted{.key = key, .value = {.image = image, .file = file, .deadline = deadline}});
}

void Mutator::swap_databases(std::uint32_t database, std::uint32_t other) noexcept {
  if (database == other) return;
  keyspace_.swap(database, other);
  told(true, Swapped{.database = database, .other = other});
}

void Mutator::flush(std::uint32_t database) noexcept {
  // A flush of an empty database needs no record. The keyspace hears of it all the same: it renews the
  // number of the contents (Keyspace::contents_of).
  const bool empty = keyspace_.size(database) == 0;
  keyspace_.flush(database);
  told(!empty, Flushed{.database = database});
}

void Mutator::flush_all() noexcept {
  const bool empty = keyspace_.total_size() == 0;
  keyspace_.flush_all();
  told(!empty, FlushedAll{});
}

Result<void> Mutator::begin_mirror(std::uint32_t database, std::string_view source,
                                   std::string_view target) noexcept {
  const DatabaseKey key{.database = database, .key = source};
  const value::Value* const value = keyspace_.find(key);
  const std::uint64_t items_before = value == nullptr ? 0 : value::row_of(*value).item_count(*value);
  return told(keyspace_.begin_mirror({.database = database,
                                      .source = std::string(source),
                                      .target = std::string(target),
                                      .state = MirrorState::whole,
                                      .items_before = items_before}),
              Mirrored{.key = key, .target = target, .items_before = items_before});
}

bool Mutator::end_mirror(DatabaseKey source) noexcept {
  return told(keyspace_.end_mirror(source), Mirrored{.key = source, .state = MirrorState::off});
}

std::uint64_t record_bytes_of_adoption(std::size_t key_bytes) {
  // The key that is expired, and the filter that is adopted.
  return 2 * (record_bytes_max + key_bytes) + recorded_image_bytes_max;
}

std::uint64_t record_bytes_of_keys(std::span<const std::string_view> keys) {
  std::uint64_t bytes = record_bytes_max;
  // A longer word is no key. Each key may be named twice.
  for (const std::string_view key : keys)
    bytes += 2 * (record_bytes_max + std::min(key.size(), key_bytes_max));
  return bytes;
}

}  // namespace sepal::keyspace
