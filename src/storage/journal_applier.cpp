#include "journal_applier.hpp"

#include <sepal/filter/image.hpp>

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

// So many that what the first asks for has come when it is used.
constexpr std::size_t prefetched_adds = 64;

std::size_t fingerprint_count(std::span<const std::byte> fingerprints) {
  return fingerprints.size() / sizeof(Fingerprint);
}

// Operations of one frame often share the bytes of the key.
bool same_key(const DatabaseKey& a, const DatabaseKey& b) {
  return a.database == b.database && a.key == b.key;
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

void FilterPositions::move(const filter::Filter& filter, std::uint32_t to_database) {
  if (const auto noted = positions_.find(&filter); noted != positions_.end())
    noted->second.database = to_database;
}

void FilterPositions::swap_databases(std::uint32_t database, std::uint32_t other) {
  for (auto& [filter, noted] : positions_) {
    if (noted.database == database) {
      noted.database = other;
    } else if (noted.database == other) {
      noted.database = database;
    }
  }
}

void FilterPositions::forget_database(std::uint32_t database) {
  std::erase_if(positions_, [&](const auto& noted) { return noted.second.database == database; });
}

bool resumes(const JournalFrame& frame) {
  const std::uint8_t first = std::to_integer<std::uint8_t>(frame.body.front());
  return first == static_cast<std::uint8_t>(Operation::resumed);
}

std::optional<keyspace::ImageFile> file_of(const JournalFrame& frame) {
  const std::uint8_t first = std::to_integer<std::uint8_t>(frame.body.front());
  if (first != static_cast<std::uint8_t>(Operation::adopted)) return std::nullopt;
  OperationDecoder decoder(frame.body);
  const auto operation = decoder.next();
  if (!operation || (*operation)->file.number == 0) return std::nullopt;
  return (*operation)->file;
}

Result<void> JournalApplier::apply(const JournalFrame& frame) {
  OperationDecoder decoder(frame.body);
  while (!decoder.at_end()) {
    const auto operation = decoder.next();
    if (!operation) {
      auto settled = settle();
      return settled ? at_offset(frame.offset, operation.error()) : settled;
    }
    const bool changes_key = (*operation)->operation != Operation::added;
    if (changes_key) {
      if (auto settled = settle(); !settled) return settled;
      if (auto done = apply(frame, **operation); !done) return at_offset(frame.offset, done.error());
    }
    if (!changes_key || (*operation)->count != 0) {
      adds_.push_back({.key = key_of(**operation),
                       .fingerprints = (*operation)->fingerprints,
                       .position = frame.position,
                       .offset = frame.offset});
    }
    ++counts_.operations;
  }
  return {};
}

Result<void> JournalApplier::settle() {
  Result<void> done;
  for (std::span<const Add> adds = adds_; done && !adds.empty();) {
    const auto few = adds.first(std::min(adds.size(), prefetched_adds));
    prefetch(few);
    done = add(few);
    adds = adds.subspan(few.size());
  }
  adds_.clear();
  return done;
}

// Those of the first database; there is rarely another.
void JournalApplier::prefetch(std::span<const Add> adds) {
  keys_.clear();
  for (std::size_t i = 0; i < adds.size(); ++i) {
    if (i > 0 && same_key(adds[i].key, adds[i - 1].key)) continue;
    if (adds[i].key.database == adds[0].key.database) keys_.push_back(adds[i].key.key);
  }
  if (keys_.size() > 1) keyspace_.prefetch(adds[0].key.database, keys_);
}

Result<void> JournalApplier::add(std::span<const Add> adds) {
  while (!adds.empty()) {
    std::size_t count = 1;
    while (count < adds.size() && same_key(adds[count].key, adds[0].key)) ++count;
    if (auto added = add_to_one(adds.first(count)); !added) return added;
    adds = adds.subspan(count);
  }
  return {};
}

Result<void> JournalApplier::add_to_one(std::span<const Add> adds) {
  filter::Filter* const filter = keyspace_.find(adds[0].key);
  if (filter == nullptr) {
    for (const Add& add : adds) counts_.items_lost += fingerprint_count(add.fingerprints);
    const auto lost = missing("an item is added to a key that is not there");
    return lost ? lost : at_offset(adds[0].offset, lost.error());
  }
  collected_.clear();
  for (const Add& add : adds) {
    if (positions_.has(*filter, add.position)) {
      counts_.items_left_out += fingerprint_count(add.fingerprints);
    } else {
      append_fingerprints(add.fingerprints, collected_);
    }
  }
  if (!collected_.empty() && !filter->add_recorded(collected_))
    return damaged_at(adds[0].offset,
                      "from here on a filter gets more items than its newest layer has room for");
  counts_.items += collected_.size();
  return {};
}

Result<void> JournalApplier::apply(const JournalFrame& frame, const DecodedOperation& operation) {
  if (operation.operation == Operation::grown) return grow(frame, operation);
  return change_keys(operation);
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
    case Operation::expires:
      return expire(operation);
    case Operation::renamed:
      return rename(operation);
    case Operation::adopted:
      return adopt(operation);
    case Operation::moved:
      return move(operation);
    case Operation::swapped:
      positions_.swap_databases(operation.database, operation.other);
      keyspace_.swap(operation.database, operation.other);
      return {};
    case Operation::mirrored:
      return mirror(operation);
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

Result<void> JournalApplier::expire(const DecodedOperation& operation) {
  const DatabaseKey key = key_of(operation);
  if (keyspace_.find(key) == nullptr) return missing("a deadline is set for a key that is not there");
  static_cast<void>(keyspace_.set_deadline(key, operation.deadline));
  return {};
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

Result<void> JournalApplier::adopt(const DecodedOperation& operation) {
  const DatabaseKey key = key_of(operation);
  keyspace::FilterPtr filter = std::exchange(brought_, nullptr);
  if (operation.file.number == 0) {
    auto decoded = filter::filter_of(operation.image, keyspace_.machine_limits());
    if (!decoded && decoded.error().code == Errc::unsupported_version)
      return damaged("a filter that came whole is of a version that this build does not know");
    if (!decoded) return decoded.error();
    filter = std::move(*decoded);
  }
  positions_.forget(keyspace_.find(key));
  if (filter != nullptr) return keyspace_.readopt(key, std::move(filter), operation.deadline);
  if (auto lost = missing("a filter that is in a file does not begin a frame"); !lost) return lost;
  static_cast<void>(keyspace_.remove(key));
  return {};
}

Result<void> JournalApplier::move(const DecodedOperation& operation) {
  const DatabaseKey key = key_of(operation);
  const DatabaseKey target{.database = operation.other, .key = operation.key};
  if (keyspace_.find(target) != nullptr) {
    // What is lost may have been why it was free.
    if (auto lost = missing("a key is moved to where one is already"); !lost) return lost;
    static_cast<void>(remove(target));
  }
  if (const filter::Filter* const moved = keyspace_.find(key)) positions_.move(*moved, operation.other);
  return keyspace_.move(key, operation.other) ? Result<void>() : missing("a key is moved that is not there");
}

Result<void> JournalApplier::mirror(const DecodedOperation& operation) {
  using keyspace::MirrorState;
  const DatabaseKey source = key_of(operation);
  bool done = false;
  if (operation.mirror_state == MirrorState::off) {
    done = keyspace_.end_mirror(source);
  } else if (operation.mirror_state != MirrorState::whole) {
    done = keyspace_.set_mirror_state(source, operation.mirror_state);
  } else {
    done = keyspace_
               .begin_mirror({.database = source.database,
                              .source = std::string(source.key),
                              .target = std::string(operation.target),
                              .state = MirrorState::whole,
                              .items_before = operation.items_before})
               .ok();
  }
  return done ? Result<void>() : missing("a mirror changes that there cannot be");
}

Result<void> JournalApplier::missing(const char* what) const {
  return missing_keys_ == MissingKeys::lost ? Result<void>() : damaged(what);
}

}  // namespace sepal::storage
