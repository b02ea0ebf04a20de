// The keys that clients watch (WATCH), so that a transaction runs only if none of them has changed.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/keyspace/mutation.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sepal::keyspace {

class Keyspace;

class Watches;

// What one client watches. The keyspace outlives it. Guarded by the gate, as a ClientState is: changed by the
// client's worker, or with the gate closed. Watches has its address.
class Watch {
 public:
  struct Key {
    std::uint32_t database = 0;
    std::string_view key;       // its text belongs to Watches, and stays while a client watches the key
    bool existed = false;       // when the client began to watch it
    std::uint64_t changes = 0;  // of its value at that moment (KindRow::changes)
  };

  explicit Watch(Watches& watches);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  [[nodiscard]] std::size_t key_count() const { return keys_.size(); }
  // The bytes of the names of its keys, together.
  [[nodiscard]] std::size_t name_bytes() const { return name_bytes_; }
  // The memory of its keys: of what it says about each, and of their names, as if it alone watched them.
  [[nodiscard]] std::size_t byte_count() const;
  // Called with the gate closed. Whether a key was changed since the client began to watch it. An add counts
  // as a change if the item was new. A key that has reached its deadline since then was changed.
  [[nodiscard]] bool changed(const Keyspace& keyspace, WallTime now) const;

 private:
  friend class Watches;
  Watches& watches_;
  std::vector<Key> keys_;
  std::size_t name_bytes_ = 0;
  bool touched_ = false;
};

// All watches. Called with the gate closed, but for the counts, and for touch(), which may be called inside
// the shared gate with the lock of the key. A Watch may end inside the shared gate.
class Watches {
 public:
  // Any thread: the clients that watch keys, and the keys that they watch.
  [[nodiscard]] std::uint64_t client_count() const { return client_count_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t key_count() const { return key_count_.load(std::memory_order_relaxed); }

  // The keys whose names are in memory: those that clients watch.
  [[nodiscard]] std::size_t kept_key_count() const {
    const MutexLock lock(mutex_);
    return by_key_.size();
  }

  // Adds a key to a client's watch. A key that it watches already is left as it is.
  void add(Watch& watch, DatabaseKey key, const Keyspace& keyspace, WallTime now);
  // The change was made. Costs nothing while no client watches.
  void touch(const Mutation& change, const Keyspace& keyspace) {
    if (client_count() != 0) touch_watched(change, keyspace);
  }

 private:
  friend class Watch;
  struct Watcher {
    Watch* watch = nullptr;
    std::size_t index = 0;  // of the key in the watch
  };
  using Watching = std::vector<Watcher>;
  void touch_watched(const Mutation& change, const Keyspace& keyspace);
  void touch_key(DatabaseKey key, bool was_removed = false) SEPAL_REQUIRES(mutex_);
  // Two databases have changed places, or one was emptied (`database` and `other` are the same).
  void touch_database(std::uint32_t database, std::uint32_t other, const Keyspace& keyspace)
      SEPAL_REQUIRES(mutex_);
  void end(const Watch& watch);

  std::atomic<std::uint64_t> client_count_{0};
  std::atomic<std::uint64_t> key_count_{0};
  // Several workers may end watches at a time, inside the shared gate. Lock order: last.
  mutable Mutex mutex_;
  // By the key's text, whatever its database.
  std::unordered_map<std::string, Watching> by_key_ SEPAL_GUARDED_BY(mutex_);
};

}  // namespace sepal::keyspace
