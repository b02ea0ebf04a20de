#include <sepal/base/assert.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/watches.hpp>

#include <algorithm>
#include <type_traits>

// How a change is noticed. Changes of structure pass the Mutator, which calls touch(): the watches of the key
// are marked. Adds are not told, since they run under the shared gate. Instead, EXEC compares the changes
// that each watched value has counted (KindRow::changes) with those at WATCH. An add of known items changes
// nothing, and is no change here (decisions/0023).
//
// The text of a name stands once, in the table, however many clients watch it. It goes with the last watch of
// the key.
namespace sepal::keyspace {

Watch::Watch(Watches& watches) : watches_(watches) {
  // Relaxed: WATCH runs with the gate closed, and that orders the count before what workers read inside the
  // gate.
  watches_.client_count_.fetch_add(1, std::memory_order_relaxed);
}

Watch::~Watch() {
  watches_.end(*this);
  const std::uint64_t clients = watches_.client_count_.fetch_sub(1, std::memory_order_relaxed);
  const std::uint64_t keys = watches_.key_count_.fetch_sub(keys_.size(), std::memory_order_relaxed);
  SEPAL_ASSERT(clients > 0 && keys >= keys_.size(), "more clients or keys go than are watched");
}

std::size_t Watch::byte_count() const {
  // A name in the table: its node has a pointer, a hash, the text and the list of one watcher.
  constexpr std::size_t name_overhead =
      2 * sizeof(void*) + sizeof(std::string) + sizeof(Watches::Watching) + sizeof(Watches::Watcher);
  return keys_.capacity() * sizeof(Key) + keys_.size() * name_overhead + name_bytes_;
}

bool Watch::changed(const Keyspace& keyspace, WallTime now) const {
  if (touched_) return true;
  return std::ranges::any_of(keys_, [&](const Key& watched) {
    const value::Value* const value = keyspace.find({.database = watched.database, .key = watched.key}, now);
    // The time is that of EXEC: a key that has reached its deadline meanwhile is not found, and counts as
    // changed.
    if (value == nullptr) return watched.existed;
    return !watched.existed || value::row_of(*value).changes(*value) != watched.changes;
  });
}

void Watches::add(Watch& watch, DatabaseKey key, const Keyspace& keyspace, WallTime now) {
  const MutexLock lock(mutex_);
  auto& [name, watching] = *by_key_.try_emplace(std::string(key.key)).first;
  const bool known = std::ranges::any_of(watching, [&](const Watcher& each) {
    return each.watch == &watch && watch.keys_[each.index].database == key.database;
  });
  if (known) return;
  const value::Value* const value = keyspace.find(key, now);
  // Room for the watcher comes first: without memory, neither list has anything of the key.
  if (watching.size() == watching.capacity()) watching.reserve(2 * watching.size() + 1);
  watch.keys_.push_back({.database = key.database,
                         .key = name,
                         .existed = value != nullptr,
                         .changes = value == nullptr ? 0 : value::row_of(*value).changes(*value)});
  watch.name_bytes_ += name.size();
  watching.push_back({.watch = &watch, .index = watch.keys_.size() - 1});
  key_count_.fetch_add(1, std::memory_order_relaxed);
}

// The client has ended its watch, or is gone.
void Watches::end(const Watch& watch) {
  const MutexLock lock(mutex_);
  for (std::size_t index = 0; index < watch.keys_.size(); ++index) {
    const auto found = by_key_.find(std::string(watch.keys_[index].key));
    SEPAL_ASSERT(found != by_key_.end(), "a watched name is in the table");
    // One by one: a key that is watched in two databases stands in the watch twice, with one text.
    std::erase_if(found->second,
                  [&](const Watcher& each) { return each.watch == &watch && each.index == index; });
    if (found->second.empty()) by_key_.erase(found);
  }
}

void Watches::touch_watched(const Mutation& change, const Keyspace& keyspace) {
  const MutexLock lock(mutex_);
  std::visit(
      [&]<class Change>(const Change& made) SEPAL_REQUIRES(mutex_) {
        // A mirror that begins or ends changes no key.
        if constexpr (std::is_same_v<Change, FlushedAll>) {
          for (std::uint32_t database = 0; database < database_count; ++database)
            touch_database(database, database, keyspace);
        } else if constexpr (std::is_same_v<Change, Flushed>) {
          touch_database(made.database, made.database, keyspace);
        } else if constexpr (std::is_same_v<Change, Swapped>) {
          touch_database(made.database, made.other, keyspace);
        } else if constexpr (!std::is_same_v<Change, Mirrored>) {
          touch_key(made.key, std::is_same_v<Change, Removed>);
          // Both keys have changed, and so for Moved: one is gone, and the other names something else.
          if constexpr (std::is_same_v<Change, Renamed>)
            touch_key({.database = made.key.database, .key = made.target});
          if constexpr (std::is_same_v<Change, Moved>)
            touch_key({.database = made.to_database, .key = made.key.key});
        }
      },
      change);
}

// A key that was past its deadline when the watch began did not exist for the client, so its removal later is
// no change.
void Watches::touch_key(DatabaseKey key, bool was_removed) {
  const auto found = by_key_.find(std::string(key.key));
  if (found == by_key_.end()) return;
  for (const Watcher& each : found->second) {
    Watch& watch = *each.watch;
    if (watch.keys_[each.index].database != key.database) continue;
    watch.touched_ = watch.touched_ || watch.keys_[each.index].existed || !was_removed;
  }
}

// Called after the change. A watched key has changed if it was there before or is there now: a flush of a
// database that lacks the key changes nothing for it.
void Watches::touch_database(std::uint32_t database, std::uint32_t other, const Keyspace& keyspace) {
  for (const auto& [key, watching] : by_key_) {
    for (const Watcher& each : watching) {
      const Watch::Key& watched = each.watch->keys_[each.index];
      if (watched.database != database && watched.database != other) continue;
      const bool exists = keyspace.find({.database = watched.database, .key = key}) != nullptr;
      each.watch->touched_ = each.watch->touched_ || watched.existed || exists;
    }
  }
}

}  // namespace sepal::keyspace
