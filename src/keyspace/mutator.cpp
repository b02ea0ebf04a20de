#include <sepal/base/assert.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <utility>

#include "keyspace/key_table.hpp"

namespace sepal::keyspace {

Mutator::KeyLock::KeyLock(const Mutator& changes, const KeyPlace& place) SEPAL_NO_THREAD_SAFETY_ANALYSIS
    : mutex_(place.table->mutex()) {
  mutex_.lock();
  if (!changes.shared() || changes.log_ == nullptr) return;
  MutationLog*& last = place.table->last_log();
  if (last != changes.log_ && last != nullptr) last->append();
  last = changes.log_;
}

Mutator::KeyLock::~KeyLock() SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.unlock();
}

value::Value& Mutator::insert(const KeyPlace& place, ValuePtr value, Deadline deadline) noexcept {
  const value::Kind kind = value->kind();
  if (shared() && log_ != nullptr) log_->gathered_all(*value);
  Limbo at_once(nullptr);
  value::Value& inserted = keyspace_.insert(place, std::move(value), deadline, shared() ? *limbo_ : at_once);
  touch(Made{.key = place.key, .kind = kind});
  return inserted;
}

bool Mutator::remove(DatabaseKey key, WallTime now, std::optional<Deadline> expected) noexcept {
  if (!shared()) return !expire(key, now) && told(keyspace_.remove(key), Removed{.key = key});
  KeyPlace place = keyspace_.place_of(key);
  if (place.table == nullptr) return false;
  const KeyLock lock(*this, place);
  Keyspace::look(place);
  if (place.value == nullptr || place.deadline != expected.value_or(place.deadline)) return false;
  const bool expired = is_past(place.deadline, now);
  if (expired) keyspace_.count_expired();
  remove_shared(place);
  return !expired;
}

bool Mutator::expire(DatabaseKey key, WallTime now) noexcept {
  if (!shared()) return told(keyspace_.expire(key, now), Removed{.key = key});
  if (!keyspace_.is_due(key, now)) return false;
  KeyPlace place = keyspace_.place_of(key);
  const KeyLock lock(*this, place);
  Keyspace::look(place);
  if (!is_past(place.deadline, now)) return false;
  keyspace_.count_expired();
  remove_shared(place);
  return true;
}

void Mutator::expire(KeyPlace& place, WallTime now) noexcept {
  Keyspace::look(place);
  if (!is_past(place.deadline, now)) return;
  if (shared()) {
    keyspace_.count_expired();
    remove_shared(place);
  } else {
    expire(place.key, now);
  }
  Keyspace::look(place);
}

// The records of adds to the value come before that of its removal: a replay would find nothing to add to, or
// another value. So adds that are under way end first, and others find the value held.
void Mutator::remove_shared(const KeyPlace& place) {
  const Removed change{.key = place.key};
  if (log_ != nullptr) {
    place.value->hold();
    log_->wait_for_adds();
  }
  tell_ahead(change);
  keyspace_.remove(place, *limbo_);
  touch(change);
}

bool Mutator::set_deadline(DatabaseKey key, Deadline deadline, std::optional<Deadline> expected) noexcept {
  const Expires change{.key = key, .deadline = deadline};
  if (!shared()) {
    if (expected && keyspace_.deadline(key) != *expected) return false;
    return told(keyspace_.set_deadline(key, deadline), change);
  }
  KeyPlace place = keyspace_.place_of(key);
  if (place.table == nullptr) return false;
  const KeyLock lock(*this, place);
  Keyspace::look(place);
  if (place.value == nullptr || place.deadline == deadline) return false;
  if (expected && place.deadline != *expected) return false;
  tell_ahead(change);
  keyspace_.set_deadline(place, deadline, *limbo_);
  touch(change);
  return true;
}

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

Result<void> Mutator::remake(DatabaseKey key, ValuePtr value, std::span<const std::byte> head,
                             std::span<const Part> parts, bool takes_long) noexcept {
  const std::vector<std::byte> names = encode_parts(parts);
  SEPAL_ASSERT(head.size() <= remade_head_bytes_max && names.size() <= remade_parts_bytes_max,
               "a value is made of too many to be recorded");
  const bool of_itself = std::ranges::find(parts, key.key, &Part::key) != parts.end();
  return told(keyspace_.put_remade(key, std::move(value), of_itself),
              Remade{.key = key, .head = head, .parts = names, .takes_long = takes_long});
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

std::uint64_t record_bytes_of_remaking(std::size_t key_bytes) {
  return 2 * (record_bytes_max + key_bytes) + remade_head_bytes_max + remade_parts_bytes_max;
}

std::uint64_t record_bytes_of_keys(std::span<const std::string_view> keys) {
  std::uint64_t bytes = record_bytes_max;
  // A longer word is no key. Each key may be named twice.
  for (const std::string_view key : keys)
    bytes += 2 * (record_bytes_max + std::min(key.size(), key_bytes_max));
  return bytes;
}

}  // namespace sepal::keyspace
