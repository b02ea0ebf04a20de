#include "journal_applier.hpp"

#include <algorithm>
#include <utility>

#include "damage.hpp"

namespace sepal::storage {
namespace {

using format::Operation;
using keyspace::DatabaseKey;

Error damaged(const char* what) {
  return fail(Errc::damaged, what);
}

DatabaseKey key_of(const DecodedOperation& operation) {
  return {.database = operation.database, .key = operation.key};
}

// What a keyspace says of a filter that was recorded.
Error refused(const Error& error) {
  switch (error.code) {
    case Errc::key_exists:
      return damaged("a key is created that is there already");
    case Errc::out_of_range:
      return damaged("a filter or a layer is created that there cannot be");
    default:
      return error;
  }
}

// The sentence that begins behind the file's name.
Error at_offset(std::uint64_t offset, const Error& error) {
  if (error.code == Errc::damaged) return damaged_at(offset, error.detail);
  return fail(error.code, "has a change at offset " + std::to_string(offset) +
                              " that this machine's memory is too small for: " + error.detail);
}

}  // namespace

void FilterPositions::note(const LoadedFilter& loaded, const filter::Filter& filter) {
  if (loaded.journal_position <= loaded.cut_position) return;
  positions_[&filter] = {.position = loaded.journal_position, .database = loaded.database};
  highest_ = std::max(highest_, loaded.journal_position);
}

bool FilterPositions::has(const filter::Filter& filter, std::uint64_t position) const {
  if (position >= highest_) return false;
  const auto noted = positions_.find(&filter);
  return noted != positions_.end() && position < noted->second.position;
}

void FilterPositions::forget(const filter::Filter* filter) {
  if (!positions_.empty()) positions_.erase(filter);
}

void FilterPositions::forget_database(std::uint32_t database) {
  std::erase_if(positions_, [&](const auto& noted) { return noted.second.database == database; });
}

bool resumes(const JournalFrame& frame) {
  const std::uint8_t first = std::to_integer<std::uint8_t>(frame.body.front());
  return first == static_cast<std::uint8_t>(Operation::resumed);
}

Result<void> JournalApplier::apply(const JournalFrame& frame) {
  OperationDecoder decoder(frame.body);
  while (!decoder.at_end()) {
    const auto operation = decoder.next();
    if (!operation) return at_offset(frame.offset, operation.error());
    if (!continues(*operation)) {
      if (auto settled = settle(); !settled) return settled;
    }
    if (auto done = apply(frame, *operation); !done) return at_offset(frame.offset, done.error());
    ++counts_.operations;
  }
  return {};
}

// Whether it adds to the filter for which items are being collected.
bool JournalApplier::continues(const DecodedOperation& operation) const {
  return operation.operation == Operation::added && filter_ != nullptr && database_ == operation.database &&
         key_ == operation.key;
}

Result<void> JournalApplier::settle() {
  filter::Filter* const filter = std::exchange(filter_, nullptr);
  if (collected_.empty()) return {};
  const bool added = filter->add_recorded(collected_);
  counts_.items += collected_.size();
  collected_.clear();
  if (added) return {};
  return damaged_at(collected_from_,
                    "from here on a filter gets more items than its newest layer has room for");
}

Result<void> JournalApplier::apply(const JournalFrame& frame, const DecodedOperation& operation) {
  switch (operation.operation) {
    case Operation::added:
      return add(frame, operation);
    case Operation::grown:
      return grow(frame, operation);
    default:
      return change_keys(operation);
  }
}

Result<void> JournalApplier::add(const JournalFrame& frame, const DecodedOperation& operation) {
  if (filter_ == nullptr) {
    filter_ = keyspace_.find(key_of(operation));
    if (filter_ == nullptr) {
      counts_.items_lost += operation.count;
      return missing("an item is added to a key that is not there");
    }
    database_ = operation.database;
    key_ = operation.key;
  }
  if (positions_.has(*filter_, frame.position)) {
    counts_.items_left_out += operation.count;
    return {};
  }
  if (collected_.empty()) collected_from_ = frame.offset;
  append_fingerprints(operation, collected_);
  return {};
}

Result<void> JournalApplier::grow(const JournalFrame& frame, const DecodedOperation& operation) {
  filter::Filter* const filter = keyspace_.find(key_of(operation));
  if (filter == nullptr) return missing("a filter grows that is not there");
  if (positions_.has(*filter, frame.position)) return {};
  const auto appended = keyspace_.append_layer(*filter, operation.layer);
  return appended ? appended : refused(appended.error());
}

Result<void> JournalApplier::change_keys(const DecodedOperation& operation) {
  const DatabaseKey key = key_of(operation);
  switch (operation.operation) {
    case Operation::created: {
      const auto created = keyspace_.recreate(key, operation.options, operation.layer);
      return created ? created : refused(created.error());
    }
    case Operation::removed:
      return remove(key);
    case Operation::renamed:
      return rename(operation);
    case Operation::flushed:
      positions_.forget_database(operation.database);
      keyspace_.flush(operation.database);
      return {};
    case Operation::flushed_all:
      positions_.clear();
      keyspace_.flush_all();
      return {};
    default:
      return damaged("the journal was off before this, and it does not begin a frame");
  }
}

Result<void> JournalApplier::remove(DatabaseKey key) {
  positions_.forget(keyspace_.find(key));
  return keyspace_.remove(key) ? Result<void>() : missing("a key is removed that is not there");
}

Result<void> JournalApplier::rename(const DecodedOperation& operation) {
  const DatabaseKey target{.database = operation.database, .key = operation.target};
  if (operation.key != operation.target) positions_.forget(keyspace_.find(target));
  if (keyspace_.rename(operation.database, operation.key, operation.target)) return {};
  if (auto lost = missing("a key is renamed that is not there"); !lost) return lost;
  // What is lost has taken its place.
  static_cast<void>(keyspace_.remove(target));
  return {};
}

Result<void> JournalApplier::missing(const char* what) const {
  return missing_keys_ == MissingKeys::lost ? Result<void>() : damaged(what);
}

}  // namespace sepal::storage
