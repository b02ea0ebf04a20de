#include "storage/replay/journal_applier.hpp"

#include <sepal/value/image.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <variant>

#include "storage/disk/damage.hpp"

namespace sepal::storage {
namespace {

using format::Operation;
using keyspace::DatabaseKey;

// Enough that the memory of the first add has arrived when it is used.
constexpr std::size_t prefetched_adds = 64;

std::size_t fingerprint_count(std::span<const std::byte> fingerprints) {
  return fingerprints.size() / sizeof(Fingerprint);
}

// Compares keys. Operations of one frame often share the bytes of the key.
bool same_key(const DatabaseKey& a, const DatabaseKey& b) {
  return a.database == b.database && a.key == b.key;
}

// Turns the keyspace's refusal of a recorded value into an error of the journal.
Error refused(const Error& error) {
  switch (error.code) {
    case Errc::key_exists: return damaged("a key is made that is there already");
    case Errc::out_of_range: return damaged("a value is made, or changes, as there cannot be one");
    default: return error;
  }
}

}  // namespace

// A file that a save has linked may have a position before the cut. From there to the cut the journal has
// nothing of its value (docs/formats.md), so there is nothing to leave out.
void ValuePositions::note(const LoadedValue& loaded, const value::Value& value) {
  const value::Repeat repeat = value::row_of(value).repeat;
  highest_.note(repeat, loaded.cut_position, loaded.journal_position);
  // Nothing is left out for a value whose records are applied again: its bytes may have been read later than
  // at its position (decisions/0027).
  if (repeat == value::Repeat::again || loaded.journal_position <= loaded.cut_position) return;
  positions_[&value] = {.position = loaded.journal_position, .database = loaded.database};
}

bool ValuePositions::has(const value::Value& value, std::uint64_t position) const {
  // For most frames this spares the look-up: behind this position no value has anything.
  if (position >= highest_.once) return false;
  const auto noted = positions_.find(&value);
  return noted != positions_.end() && position < noted->second.position;
}

void ValuePositions::forget(const value::Value* value) {
  if (!positions_.empty()) positions_.erase(value);
}

// The databases of the values are kept for forget_database(): a flush frees many values and names none.
void ValuePositions::move(const value::Value& value, std::uint32_t to_database) {
  if (const auto noted = positions_.find(&value); noted != positions_.end())
    noted->second.database = to_database;
}

void ValuePositions::swap_databases(std::uint32_t database, std::uint32_t other) {
  for (auto& [value, noted] : positions_) {
    if (noted.database == database) {
      noted.database = other;
    } else if (noted.database == other) {
      noted.database = database;
    }
  }
}

void ValuePositions::forget_database(std::uint32_t database) {
  std::erase_if(positions_, [&](const auto& noted) { return noted.second.database == database; });
}

std::optional<keyspace::Adopted> adopted_file(const JournalFrame& frame) {
  SEPAL_ASSERT(!frame.body.empty(), "a frame without operations brings a filter");
  const auto first = std::to_integer<std::uint8_t>(frame.body.front());
  if (first != static_cast<std::uint8_t>(Operation::adopted)) return std::nullopt;
  OperationDecoder decoder(frame.body);
  const auto operation = decoder.next();
  const auto* const adopted = operation ? std::get_if<keyspace::Adopted>(&(*operation)->change) : nullptr;
  if (adopted == nullptr || adopted->value.file.number == 0) return std::nullopt;
  return *adopted;
}

std::optional<keyspace::Remade> remade_first(const JournalFrame& frame) {
  const auto first = std::to_integer<std::uint8_t>(frame.body.front());
  if (first != static_cast<std::uint8_t>(Operation::remade)) return std::nullopt;
  OperationDecoder decoder(frame.body);
  const auto operation = decoder.next();
  const auto* const remade = operation ? std::get_if<keyspace::Remade>(&(*operation)->change) : nullptr;
  return remade == nullptr ? std::nullopt : std::optional(*remade);
}

Result<void> JournalApplier::make_ahead(const keyspace::Remade& remade, const value::GoOn& go_on) {
  SEPAL_ASSERT(adds_.empty() && !made_ahead_, "a value is made ahead of what comes before it");
  made_ahead_ = keyspace_.make_recorded(remade, go_on);
  if (!*made_ahead_ && made_ahead_->error().code == Errc::io) return made_ahead_->error();
  return {};
}

Result<void> JournalApplier::missing(const char* what) const {
  return missing_keys_ == MissingKeys::lost ? Result<void>() : damaged(what);
}

// An operation that makes a filter go first forgets the filter's position: a new filter may get its address,
// and would then lack what was recorded before that position.
class JournalApplier::Applied {
 public:
  // `position` is the position of the operation's frame.
  Applied(JournalApplier& applier, std::uint64_t position)
      : applier_(applier),
        keyspace_(applier.keyspace_),
        positions_(applier.positions_),
        position_(position) {}

  Result<void> missing_value(const keyspace::Changed& changed) const {
    auto lost = missing("a value changes that is not there");
    if (lost && value::row_of(changed.kind).add == nullptr)
      ++applier_.counts_
            .changes_lost[{.database = changed.key.database, .key = std::string(changed.key.key)}];
    return lost;
  }

  // Adds wait in adds_.
  Result<void> operator()(const format::Added& /*added*/) const { return {}; }

  Result<void> operator()(const keyspace::Made& made) const {
    const auto done = keyspace_.make_recorded(made.key, made.kind, made.head);
    return done ? done : refused(done.error());
  }

  Result<void> operator()(const keyspace::Changed& changed) const {
    const value::Value* const value = keyspace_.find(changed.key);
    if (value == nullptr && !value::row_of(changed.kind).made_by_change) return missing_value(changed);
    // The generation took the value behind this frame, so the value has this change.
    if (value != nullptr && positions_.has(*value, position_)) return {};
    const auto done = keyspace_.change_recorded(changed.key, changed.kind, changed.what, changed.bytes);
    return done ? done : refused(done.error());
  }

  Result<void> operator()(const keyspace::Removed& removed) const {
    return remove(removed.key) ? Result<void>() : missing("a key is removed that is not there");
  }

  Result<void> operator()(const keyspace::Expires& expires) const {
    if (keyspace_.find(expires.key) == nullptr)
      return missing("a deadline is set for a key that is not there");
    // A deadline that has passed is set as well. The key expires after the load, because later frames may
    // change it.
    static_cast<void>(keyspace_.set_deadline(expires.key, expires.deadline));
    return {};
  }

  Result<void> operator()(const keyspace::Renamed& renamed) const {
    const DatabaseKey target{.database = renamed.key.database, .key = renamed.target};
    if (renamed.key.key != renamed.target) positions_.forget(keyspace_.find(target));
    if (keyspace_.rename(target.database, renamed.key.key, renamed.target)) return {};
    if (auto lost = missing("a key is renamed that is not there"); !lost) return lost;
    // The lost filter has taken the place of the target, so the target is gone.
    static_cast<void>(keyspace_.remove(target));
    return {};
  }

  Result<void> operator()(const keyspace::Adopted& adopted) const {
    // Taken in any case, so that no filter is left over for a later operation.
    value::ValuePtr filter = std::exchange(applier_.brought_, nullptr);
    if (adopted.value.file.number == 0) {
      auto decoded = value::value_of(adopted.value.image, keyspace_.machine_limits());
      if (!decoded && decoded.error().code == Errc::unsupported_version)
        return fail(Errc::unsupported_version, "a newer version of Sepal wrote the filter");
      if (!decoded) return decoded.error();
      filter = std::move(*decoded);
    }
    positions_.forget(keyspace_.find(adopted.key));
    if (filter != nullptr) return keyspace_.readopt(adopted.key, std::move(filter), adopted.value.deadline);
    if (auto lost = missing("a filter that is in a file does not begin a frame"); !lost) return lost;
    // What was under the key is gone even if the filter that replaced it is lost.
    static_cast<void>(keyspace_.remove(adopted.key));
    return {};
  }

  // The new value has what its parts have now, also what was recorded behind this frame.
  Result<void> operator()(const keyspace::Remade& remade) const {
    positions_.forget(keyspace_.find(remade.key));
    Result<value::ValuePtr> made = applier_.made_ahead_ ? *std::exchange(applier_.made_ahead_, std::nullopt)
                                                        : keyspace_.make_recorded(remade, {});
    const auto done = keyspace_.put_remade_recorded(remade, std::move(made));
    if (done) return {};
    if (done.error().code == Errc::no_such_key) return missing("a filter is made of one that is not there");
    return refused(done.error());
  }

  Result<void> operator()(const keyspace::Moved& moved) const {
    const DatabaseKey target{.database = moved.to_database, .key = moved.key.key};
    if (keyspace_.find(target) != nullptr) {
      // A change that involved a lost filter may have freed the target.
      if (auto lost = missing("a key is moved to where one is already"); !lost) return lost;
      static_cast<void>(remove(target));
    }
    if (const value::Value* const filter = keyspace_.find(moved.key))
      positions_.move(*filter, moved.to_database);
    return keyspace_.move(moved.key, moved.to_database) ? Result<void>()
                                                        : missing("a key is moved that is not there");
  }

  Result<void> operator()(const keyspace::Swapped& swapped) const {
    positions_.swap_databases(swapped.database, swapped.other);
    keyspace_.swap(swapped.database, swapped.other);
    return {};
  }

  Result<void> operator()(const keyspace::Mirrored& mirrored) const {
    return mirror(mirrored) ? Result<void>() : missing("a mirror changes that there cannot be");
  }

  Result<void> operator()(const keyspace::Flushed& flushed) const {
    positions_.forget_database(flushed.database);
    keyspace_.flush(flushed.database);
    return {};
  }

  Result<void> operator()(const keyspace::FlushedAll& /*flushed*/) const {
    positions_.clear();
    keyspace_.flush_all();
    return {};
  }

  Result<void> operator()(const format::Resumed& /*resumed*/) const {
    // One that begins a frame does not come here: the replay ends before it (resumes()).
    return damaged("the journal was off before this, and it does not begin a frame");
  }

 private:
  [[nodiscard]] Result<void> missing(const char* what) const { return applier_.missing(what); }

  // False when the key names nothing.
  [[nodiscard]] bool remove(DatabaseKey key) const {
    positions_.forget(keyspace_.find(key));
    return keyspace_.remove(key);
  }

  [[nodiscard]] bool mirror(const keyspace::Mirrored& mirrored) const {
    using keyspace::MirrorState;
    if (mirrored.state == MirrorState::off) return keyspace_.end_mirror(mirrored.key);
    if (mirrored.state != MirrorState::whole) return keyspace_.set_mirror_state(mirrored.key, mirrored.state);
    return keyspace_
        .begin_mirror({.database = mirrored.key.database,
                       .source = std::string(mirrored.key.key),
                       .target = std::string(mirrored.target),
                       .state = MirrorState::whole,
                       .items_before = mirrored.items_before})
        .ok();
  }

  JournalApplier& applier_;
  keyspace::Keyspace& keyspace_;
  ValuePositions& positions_;
  std::uint64_t position_;
};

Result<void> JournalApplier::apply(const JournalFrame& frame) {
  OperationDecoder decoder(frame.body);
  while (!decoder.at_end()) {
    const auto operation = decoder.next();
    if (!operation) {
      // The operations before the wrong one are whole, and salvage keeps them.
      auto applied = apply_adds();
      return applied ? at_offset(frame.offset, operation.error()) : applied;
    }
    const bool changes_key = !std::holds_alternative<format::Added>((*operation)->change);
    if (changes_key) {
      // Adds do not commute with other operations: this one may be the creation, the growth or the end of
      // their filter.
      if (auto applied = apply_adds(); !applied) return applied;
      const Applied applied(*this, frame.position);
      if (auto done = std::visit(applied, (*operation)->change); !done)
        return at_offset(frame.offset, done.error());
    }
    // A `made` may bring the first entries of its value. They wait like adds, behind the making.
    if (!changes_key || (*operation)->count != 0) {
      adds_.push_back({.key = (*operation)->key,
                       .fingerprints = (*operation)->fingerprints,
                       .position = frame.position,
                       .offset = frame.offset});
    }
    ++counts_.operations;
  }
  return {};
}

Result<void> JournalApplier::apply_adds() {
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

// Prefetches the keys of the first database only; a second one is rare.
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
  value::Value* const filter = keyspace_.find(adds[0].key);
  if (filter == nullptr) {
    // Salvage counts what it loses for each key.
    const auto lost = missing("an item is added to a key that is not there");
    if (!lost) return at_offset(adds[0].offset, lost.error());
    std::uint64_t& items =
        counts_.items_lost[{.database = adds[0].key.database, .key = std::string(adds[0].key.key)}];
    for (const Add& add : adds) items += fingerprint_count(add.fingerprints);
    return {};
  }
  collected_.clear();
  for (const Add& add : adds) {
    if (positions_.has(*filter, add.position)) {
      counts_.items_left_out += fingerprint_count(add.fingerprints);
    } else {
      append_fingerprints(add.fingerprints, collected_);
    }
  }
  if (!collected_.empty() && !keyspace_.add_recorded(adds[0].key.database, *filter, collected_))
    return damaged_at(adds[0].offset, value::row_of(*filter).add_refused);
  counts_.items += collected_.size();
  return {};
}

}  // namespace sepal::storage
