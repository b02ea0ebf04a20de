#include <sepal/base/assert.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/watches.hpp>

#include <algorithm>
#include <type_traits>

// How a change is noticed. Changes of structure pass the Mutator, which calls touch(): the watches of the key
// are marked. Adds are not told, since they run under the shared gate. Instead, EXEC compares the number of
// items of each watched filter with the number at WATCH. An add of known items changes nothing, and is no
// change here (decisions/0023).
//
// The table of keys has weak pointers. A client ends its watch by giving up the pointer, without a word to
// the table. What it leaves behind there goes later: with the next WATCH of the key, with the next change
// when no client watches, or when the table has twice the keys, or twice the bytes, that the last cleaning
// left. The text of a name stands once, in the table, however many clients watch it.
namespace sepal::keyspace {

Watch::Watch(Watches& watches) : watches_(watches) {
  // Relaxed: WATCH runs with the gate closed, and that orders the count before what workers read inside the
  // gate.
  watches_.client_count_.fetch_add(1, std::memory_order_relaxed);
}

Watch::~Watch() {
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
    const filter::Filter* const filter =
        keyspace.find({.database = watched.database, .key = watched.key}, now);
    // The time is that of EXEC: a key that has reached its deadline meanwhile is not found, and counts as
    // changed.
    if (filter == nullptr) return watched.existed;
    return !watched.existed || filter->item_count() != watched.item_count;
  });
}

void Watches::add(const std::shared_ptr<Watch>& watch, DatabaseKey key, const Keyspace& keyspace,
                  WallTime now) {
  // This client is the only one, and its first key comes now: all that the table has is of watches that
  // ended.
  if (client_count() == 1 && watch->keys_.empty()) clear();
  if (by_key_.size() >= dropped_at_ || name_bytes_ >= dropped_at_bytes_) drop_ended();
  const auto [place, is_new] = by_key_.try_emplace(std::string(key.key));
  if (is_new) name_bytes_ += key.key.size();
  auto& [name, watching] = *place;
  // A client that watches a key again and again, transaction by transaction, must not let the list grow.
  std::erase_if(watching, [](const Watcher& each) { return each.watch.expired(); });
  const bool known = std::ranges::any_of(watching, [&](const Watcher& each) {
    return each.watch.lock() == watch && watch->keys_[each.index].database == key.database;
  });
  if (known) return;
  const filter::Filter* const filter = keyspace.find(key, now);
  watch->keys_.push_back({.database = key.database,
                          .key = name,
                          .existed = filter != nullptr,
                          .item_count = filter == nullptr ? 0 : filter->item_count()});
  watch->name_bytes_ += name.size();
  watching.push_back({.watch = watch, .index = watch->keys_.size() - 1});
  key_count_.fetch_add(1, std::memory_order_relaxed);
}

void Watches::touch_watched(const Mutation& change, const Keyspace& keyspace) {
  std::visit(
      [&]<class Change>(const Change& made) {
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
    const auto watch = each.watch.lock();
    if (watch == nullptr || watch->keys_[each.index].database != key.database) continue;
    watch->touched_ = watch->touched_ || watch->keys_[each.index].existed || !was_removed;
  }
}

// Called after the change. A watched key has changed if it was there before or is there now: a flush of a
// database that lacks the key changes nothing for it.
void Watches::touch_database(std::uint32_t database, std::uint32_t other, const Keyspace& keyspace) {
  for (const auto& [key, watching] : by_key_) {
    for (const Watcher& each : watching) {
      const auto watch = each.watch.lock();
      if (watch == nullptr) continue;
      const Watch::Key& watched = watch->keys_[each.index];
      if (watched.database != database && watched.database != other) continue;
      const bool exists = keyspace.find({.database = watched.database, .key = key}) != nullptr;
      watch->touched_ = watch->touched_ || watched.existed || exists;
    }
  }
}

void Watches::clear() {
  by_key_.clear();
  name_bytes_ = 0;
}

void Watches::drop_ended() {
  std::erase_if(by_key_, [this](const auto& entry) {
    const bool ended =
        std::ranges::all_of(entry.second, [](const Watcher& each) { return each.watch.expired(); });
    if (ended) name_bytes_ -= entry.first.size();
    return ended;
  });
  // Twice what is left: so the cleaning costs each new key a constant time on average.
  dropped_at_ = std::max(2 * by_key_.size(), kept_keys_min);
  dropped_at_bytes_ = std::max(2 * name_bytes_, kept_name_bytes_min);
}

}  // namespace sepal::keyspace
