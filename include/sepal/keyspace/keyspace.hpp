// The keyspace: numbered databases of keys, each key naming one value of some kind; limits; the memory
// account. It knows values by the rows of their kinds (value/kind_row.hpp): what only one kind has, its
// writers do (writers/), and change() keeps the books around them.
//
// Guarded by the gate: members marked *shared* need the caller's side, members marked *exclusive* need a
// closed gate. Members marked *of one key* need a closed gate, or the caller's side and the lock of the key
// (Mutator::KeyLock). They then take a Limbo, for what other workers may still read. The keyspace opens no
// file and starts no thread. It hands over what takes long: a Housekeeper returns a deleted value of
// gigabytes to the system, so no request waits for that.
#pragma once

#include <sepal/base/limbo.hpp>
#include <sepal/base/result.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/mirrors.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/keyspace/watches.hpp>
#include <sepal/value/kind_row.hpp>
#include <sepal/value/value.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sepal::keyspace {

class Cut;
class Database;
class KeyTable;
class Segment;

using value::ValuePtr;

inline constexpr std::uint32_t database_count = 16;
// The longest key. It bounds the length of a change's record.
inline constexpr std::size_t key_bytes_max = 65536;

struct KeyspaceOptions {
  std::uint64_t memory_max = 0;            // bytes of all values and keys; 0: none is set
  std::uint64_t machine_bytes = 0;         // memory of the machine or container; 0: unknown
  std::uint64_t keys_max = 1'000'000'000;  // over all databases
  std::uint32_t layers_max = 64;           // in one filter
  double error_rate = 0.01;                // for a filter that an add creates
  std::uint64_t capacity = 100;
  std::uint32_t expansion = 2;
  // The same for filters that delete.
  std::uint64_t cuckoo_capacity = 1024;
  std::uint16_t cuckoo_bucket_size = 2;
  std::uint16_t cuckoo_iteration_max = 20;
  std::uint32_t cuckoo_expansion = 1;
  std::uint32_t cuckoo_layers_max = 32;  // in one filter of RedisBloom, and at most layers_max
  std::uint64_t seed = 0;                // for new filters
  // For the tables of keys. It must be random and reach no client: a client that knew it could choose keys
  // that collide. Images of filters tell the other seed.
  std::uint64_t key_seed = 0;
  // How many workers there are: big filters have counters for each (KindRow::prepare). 0: none has counters.
  std::uint32_t worker_count = 0;
};

// Takes over work that a request should not wait for. Called inside the gate, or with the gate closed, also
// with the lock of a key: must not block, and takes no lock of a key.
class Housekeeper {
 public:
  virtual ~Housekeeper() = default;
  // Drops a value that no key names any more, a small one at once. Any thread, also without the gate.
  virtual void dispose(ValuePtr value) = 0;
  // The same inside the shared gate, where other workers may still read the value.
  virtual void retire(ValuePtr value, Limbo& limbo) {
    limbo.retire(value.detach(),
                 [](void* retired) { ValuePtr(static_cast<value::Value*>(retired), false).reset(); });
  }
  // Drops a flushed database, which frees all of its values.
  virtual void dispose_database(std::shared_ptr<const void> database) = 0;
  // Moves memory of the value (KindRow::small_pages) into huge pages when requests have filled it. May come
  // again for a value.
  virtual void give_pages(ValuePtr value) = 0;
  // A key has got a deadline that may be sooner than all others.
  virtual void due_at(Deadline deadline) = 0;
};

// One step of a scan. A cursor of 0 begins a scan; as an answer it ends the scan.
struct ScanStep {
  std::uint64_t cursor = 0;
  std::vector<std::string> keys;
};

// One key at the instant of a cut. The value is shared, not copied.
struct CutEntry {
  std::uint32_t database = 0;
  std::string key;
  ValuePtr value;
  Deadline deadline = no_deadline;
};

struct NamedKey {
  std::uint32_t database = 0;
  std::string key;
};

// Where a key is in the table, for the members *of one key*.
struct KeyPlace {
  DatabaseKey key;
  KeyTable* table = nullptr;  // null: the database has no tables, so no key
  std::uint64_t hash = 0;
  // What look() has found.
  Segment* segment = nullptr;
  std::size_t index = 0;
  value::Value* value = nullptr;  // null: there is no such key
  Deadline deadline = no_deadline;
};

// A member that is told a time leaves out keys that are past their deadline then, as if they had been
// removed. Without a time, and for members that take none, they are keys like others: a caller that lets
// clients change the keyspace removes them first (expire).
class Keyspace {
 public:
  Keyspace(const KeyspaceOptions& options, Housekeeper& housekeeper);
  ~Keyspace();

  // --- shared ---------------------------------------------------------------------------------------------

  // Null when the key names nothing. The pointer is valid while the caller stays inside the gate.
  [[nodiscard]] value::Value* find(DatabaseKey key, WallTime now = {}) const;
  // The same for a value of one kind; null as well when the key names one of another kind.
  template <class Class>
  [[nodiscard]] Class* find_as(DatabaseKey key, WallTime now = {}) const {
    return value::as<Class>(find(key, now));
  }
  // Asks for these keys and their values from memory, so that a later find() or insert() of each waits
  // little.
  void prefetch(std::uint32_t database, std::span<const std::string_view> keys) const;
  // The deadline of a key; no_deadline as well when there is no such key.
  [[nodiscard]] Deadline deadline(DatabaseKey key) const;
  // Both in one search.
  struct Present {
    value::Value* value = nullptr;
    Deadline deadline = no_deadline;
  };
  [[nodiscard]] Present look(DatabaseKey key, WallTime now) const;
  [[nodiscard]] DeadlineSummary deadlines(std::uint32_t database) const;
  // No key of any database is past its deadline before this time; no_deadline: no key has one. It may come
  // before all deadlines: those of keys that were removed, or whose deadline was moved, count until
  // collect_due() has looked.
  [[nodiscard]] Deadline due() const;
  [[nodiscard]] std::uint64_t size(std::uint32_t database) const;
  [[nodiscard]] std::uint64_t total_size() const;
  // Any key, each about equally likely. Nothing when the database is empty, and perhaps nothing while nearly
  // all keys are past their deadline. `random` decides.
  [[nodiscard]] std::optional<std::string> random_key(std::uint32_t database, std::uint64_t random,
                                                      WallTime now = {}) const;

  // Visits about `count_min` keys from `cursor` on. A whole iteration visits a key that was there throughout
  // exactly once, whatever is created, deleted or renamed meanwhile: keys are visited in the order of their
  // hashes, which no growth of the table changes. Any number is a valid cursor.
  [[nodiscard]] ScanStep scan(std::uint32_t database, std::uint64_t cursor, std::uint64_t count_min,
                              WallTime now = {}) const;
  // Visits every key, in the order of scan().
  void for_each_key(std::uint32_t database, const std::function<void(std::string_view)>& visit,
                    WallTime now = {}) const;

  [[nodiscard]] const Mirrors& mirrors() const { return mirrors_; }
  // Whether the value under the key is the target of a mirror. No other value may take a target's place: the
  // mirror would end without an error, and the source would lose the value that is to replace it.
  [[nodiscard]] bool is_target(DatabaseKey key, WallTime now = {}) const;
  // Exclusive.
  [[nodiscard]] Watches& watches() { return watches_; }

  // The memory that a key takes beside its value, without what the table keeps free for further keys.
  [[nodiscard]] static std::uint64_t entry_bytes(std::string_view key);
  // The bytes of values, keys and tables, those of hold(), and what copies under way keep (KeptBytes).
  [[nodiscard]] std::uint64_t memory_used() const;
  [[nodiscard]] std::uint64_t memory_peak() const;
  // The bytes that all values and keys may take: memory_max; else the share (set_memory_share); else
  // machine_bytes. 0: no limit.
  [[nodiscard]] std::uint64_t memory_limit() const;
  [[nodiscard]] bool over_memory_limit() const;  // there is a limit, and it is exceeded
  [[nodiscard]] const KeyspaceOptions& options() const { return options_; }
  // The limits for one value now. `bytes_held` of the used memory belong to this value already, so they are
  // not counted against it.
  [[nodiscard]] value::Limits value_limits(std::uint64_t bytes_held = 0) const;
  // For a replay: it repeats what has fitted before, whatever the operator has set since. Only the machine
  // bounds it.
  [[nodiscard]] value::Limits machine_limits() const;
  // What the values of a kind share here; null where its row makes none.
  [[nodiscard]] value::KindState* state_of(value::Kind kind) const {
    return states_[static_cast<std::size_t>(kind)].get();
  }

  // A number for the contents of the database. Each flush gives a new one, also of an empty database, and a
  // swap takes it along.
  [[nodiscard]] std::uint64_t contents_of(std::uint32_t database) const { return contents_[database]; }

  // Appends keys that are past their deadline, at most `count_max`. False: there are no others. True without
  // a key means that it has looked at some, and found none: ask again. Its work is that of some 64 keys.
  bool collect_due(WallTime now, std::size_t count_max, std::vector<NamedKey>& keys);
  // What a new value under this key may take, the key's own memory left out. Errors: out_of_range (there is
  // no such database), key_too_long, key_exists, key_limit.
  [[nodiscard]] Result<value::Limits> limits_of_new(DatabaseKey key) const;
  // The same for a key that was looked up.
  [[nodiscard]] Result<value::Limits> limits_of_new(const KeyPlace& place) const;

  // A value of `database` has taken so many bytes more; below 0: it has given them back. The value's
  // KindRow::byte_count says the same.
  void resized_by(std::uint32_t database, std::int64_t bytes) {
    count_value(database, 0, static_cast<std::uint64_t>(bytes));
  }

  // --- of one key -----------------------------------------------------------------------------------------

  // Shared. The table of a key.
  [[nodiscard]] KeyPlace place_of(DatabaseKey key) const;
  // The same for a key that is to be inserted: makes the tables of a database that has none.
  [[nodiscard]] KeyPlace place_for(DatabaseKey key);
  // Finds the key in its table, if there is one. Valid until that changes.
  static void look(KeyPlace& place);
  // The key must be free, and the limits have admitted the value (limits_of_new). The table may take the
  // account past the limit by one step of its own growth.
  value::Value& insert(const KeyPlace& place, ValuePtr value, Deadline deadline, Limbo& limbo);
  // look() has found the key.
  void remove(const KeyPlace& place, Limbo& limbo);
  // Shared. Whether the key is past its deadline.
  [[nodiscard]] bool is_due(DatabaseKey key, WallTime now) const;
  void count_expired() { expired_count_.fetch_add(1, std::memory_order_relaxed); }
  // look() has found the key, with another deadline. With no_deadline it stays for ever.
  void set_deadline(const KeyPlace& place, Deadline deadline, Limbo& limbo);
  // For a change that its value counts itself (KindRow::changes), as an add: a change of structure only if
  // the value takes another number of bytes than `bytes_before`. A key of `database` names the value.
  void resized(std::uint32_t database, value::Value& value, std::uint64_t bytes_before);

  // --- exclusive ------------------------------------------------------------------------------------------

  // As insert() above, without a deadline.
  value::Value& insert(DatabaseKey key, ValuePtr value) {
    return insert(place_for(key), std::move(value), no_deadline, at_once_);
  }
  // False when there was no such key.
  bool remove(DatabaseKey key);
  // False, with nothing changed, when there is no such key or it has that deadline already.
  bool set_deadline(DatabaseKey key, Deadline deadline);
  // Puts a ready value under a key, replacing what is there. For loads and imports. Errors: key_too_long,
  // key_limit, memory_limit, out_of_range (there is no such database). The pointer is not null. The limit is
  // compared with all values and keys, without what the table keeps free. So values and keys that have fitted
  // into a limit one after the other fit into it again, in whatever order they come.
  Result<void> put(DatabaseKey key, ValuePtr value, Deadline deadline = no_deadline);
  // The same for a value that was made of others. `of_itself`: also of the one under the key, which is there;
  // then the deadline and the mirror stay, and else there is none.
  Result<void> put_remade(DatabaseKey key, ValuePtr value, bool of_itself);
  // Mirrors::follow and unfollow.
  void follow(const value::Value& filter, Follower& follower) { mirrors_.follow(filter, follower); }
  void unfollow(const value::Value& filter) { mirrors_.unfollow(filter); }
  // Counts bytes as used for a value that is not under its key yet. Errors: memory_limit.
  Result<void> hold(std::uint64_t byte_count);
  // Ends hold() for so many bytes.
  void release(std::uint64_t byte_count);
  // Hands a value that no key names to the housekeeper, which drops it.
  void dispose(ValuePtr value) { housekeeper_.dispose(std::move(value)); }
  // Makes the housekeeper look again at this time for what is past its deadline.
  void wake_at(Deadline deadline) { housekeeper_.due_at(deadline); }
  // What else is in memory as long as it is not removed: users. It counts as used, and stands in for any
  // earlier number. Called with the gate closed.
  void count_others(std::uint64_t byte_count) {
    account(byte_count - std::exchange(other_bytes_, byte_count));
  }

  // Calls work(), and keeps the books around it. work() changes `value`, which the key names, in place and
  // returns null; or it makes another value of the same kind, which takes its place (for kinds without
  // mirrors). The deadline stays. Counts as a change of structure. An error of work() is returned; then it
  // has changed nothing.
  //
  // For a change in place a cut has nothing to keep, because the key names the same value as before. What a
  // save reads of the value is its kind's matter (KindRow::freeze).
  template <class Work>
  Result<void> change(DatabaseKey key, value::Value& value, const Work& work) {
    const std::uint64_t bytes_before = value::row_of(value).byte_count(value);
    Result<ValuePtr> other = work();
    if (!other) return other.error();
    has_changed(key, value, std::move(*other), bytes_before);
    return {};
  }
  // Removes the key when it is past its deadline, and counts it; else returns false.
  bool expire(DatabaseKey key, WallTime now);
  // Moves the value and its deadline from one key to another of the same database, replacing what is there.
  // A move of a key onto itself changes nothing. Errors: no_such_key, key_too_long (the target).
  Result<void> rename(std::uint32_t database, std::string_view from, std::string_view to);
  // The same to another database, where the key must be free. Errors: no_such_key, key_exists.
  Result<void> move(DatabaseKey from, std::uint32_t to_database);
  // Gives each of the two databases the keys of the other, whatever their number.
  void swap(std::uint32_t database, std::uint32_t other);
  // Their work does not depend on the number of keys: the housekeeper frees the tables and all that is in
  // them. The account forgets them at once.
  void flush(std::uint32_t database);
  void flush_all();

  // From now on Mutator adds to the target what it adds to the source. Ends by itself when either key is
  // removed, moves to another database or gets another value. Errors: out_of_range (one key for both, or
  // state off, or no such database, or a kind that has no mirrors), no_such_key (the source), not_found (the
  // target), key_exists (either is an end of a mirror), key_limit.
  Result<void> begin_mirror(const Mirror& mirror);
  // False when the key is not the source of a mirror.
  bool end_mirror(DatabaseKey source);
  bool set_mirror_state(DatabaseKey source, MirrorState state);

  // Repeat what was recorded (KindRow). It was accepted once, so only machine_limits() bounds it. A handler
  // may call change_recorded() too, if a value of the kind stays tiny: maxmemory does not bound how it grows.
  // A handler of larger ones calls change(), and compares with value_limits() itself. Errors of all: damaged,
  // out_of_range (no such database, no such kind, or not of this value), too_large, out_of_memory,
  // mapping_limit. make_recorded: key_exists. change_recorded: no_such_key, if the row does not make a value
  // then.
  Result<void> make_recorded(DatabaseKey key, value::Kind kind, std::span<const std::byte> head);
  Result<void> change_recorded(DatabaseKey key, value::Kind kind, std::uint8_t what,
                               std::span<const std::byte> bytes);
  // A key of `database` names the value. False where it could not have taken the entries (KindRow::add).
  [[nodiscard]] bool add_recorded(std::uint32_t database, value::Value& value,
                                  std::span<const Fingerprint> entries);
  // As put(), for a value that was accepted once. Errors: out_of_range (there is no such database).
  Result<void> readopt(DatabaseKey key, ValuePtr value, Deadline deadline);
  // The two halves of repeating Remade. The first may be called with the gate open, while no other thread
  // changes the keyspace; null: no part is there. Errors of the second beside those above: no_such_key. Then
  // not all parts are there; the value is made of the others, and if there are none, the key is removed.
  [[nodiscard]] Result<ValuePtr> make_recorded(const Remade& remade, const value::GoOn& go_on) const;
  Result<void> put_remade_recorded(const Remade& remade, Result<ValuePtr> made);

  void set_memory_max(std::uint64_t bytes);
  // The limit while memory_max is 0; 0: none. Set after a load, so that saved data that exceeds it is served.
  void set_memory_share(std::uint64_t bytes);
  // Takes from `options` what new filters are like when no client says it.
  void set_defaults(const KeyspaceOptions& options);

  // All keys and values of this instant, in steps (cut.hpp). One cut at a time; the keyspace outlives it.
  [[nodiscard]] std::unique_ptr<Cut> begin_cut();
  // All entries of a cut at once.
  [[nodiscard]] std::vector<CutEntry> cut() const;

  // Counts of what happened, for INFO and for the decision to save. Each change() counts as one of structure,
  // so a write into a string does. Any thread.
  [[nodiscard]] std::uint64_t structure_changes() const;
  // The changes of structure, and those of note_value_changes().
  [[nodiscard]] std::uint64_t changes() const;
  // Counts changes that a value counts itself (KindRow::changes) and no worker counts as a client's: those of
  // a replay, and of a mirror's target.
  void note_value_changes(std::uint64_t count) { value_changes_.fetch_add(count, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t expired_count() const { return expired_count_.load(std::memory_order_relaxed); }
  void reset_expired_count() { expired_count_.store(0, std::memory_order_relaxed); }

 private:
  struct TableFigures;
  [[nodiscard]] Database& database(std::uint32_t number) const;
  [[nodiscard]] std::uint64_t bytes_beside(std::uint64_t bytes_used) const;  // what the limit leaves
  [[nodiscard]] std::uint64_t bytes_free(std::uint64_t bytes_held) const;
  [[nodiscard]] Result<void> may_put(DatabaseKey key, const value::Value& value) const;
  enum class Mirroring : std::uint8_t { ends, stays };
  void place(DatabaseKey key, ValuePtr value, Deadline deadline, Mirroring mirroring = Mirroring::ends);
  void carry(const KeyPlace& from, DatabaseKey to);
  void drop(ValuePtr value, Limbo& limbo);
  void has_changed(DatabaseKey key, value::Value& value, ValuePtr other, std::uint64_t bytes_before);
  void dispose_table(std::uint32_t database);
  void prepare(value::Value& value);
  void drop_mirror(const value::Value& end);
  void about_to_change(DatabaseKey key);  // call it before what the key names changes
  // After each change of what a value of the database takes; 0: it was not, or is not, there.
  void count_value(std::uint32_t database, std::uint64_t bytes_before, std::uint64_t bytes_after);
  // After each change of a table: what it was before, and by how much more values take now.
  void count_table(const KeyTable& table, const TableFigures& before, std::uint64_t more_value_bytes = 0);
  // The account grows by so many bytes. A negative number wraps, and the sums wrap back. `least`: without
  // what the tables keep free.
  void account(std::uint64_t bytes, std::uint64_t least);
  void account(std::uint64_t bytes) { account(bytes, bytes); }
  void changed() {
    structure_changes_.fetch_add(1, std::memory_order_relaxed);
  }  // after each change of structure

  KeyspaceOptions options_;
  std::uint64_t memory_share_ = 0;
  Housekeeper& housekeeper_;
  Limbo at_once_{nullptr};
  std::vector<std::shared_ptr<Database>> databases_;       // shared with a cut, which may outlive a flush
  Cut* cut_ = nullptr;                                     // the one that is under way
  std::vector<std::unique_ptr<value::KindState>> states_;  // by kind
  Mirrors mirrors_;
  Watches watches_;
  std::array<std::uint64_t, database_count> contents_{};
  std::uint64_t contents_last_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t other_bytes_ = 0;
  // The account: values, keys, tables, and what is held. Any thread may read it. Relaxed: nothing is ordered
  // by it. All workers write here, so it has cache lines of its own.
  alignas(64) std::atomic<std::uint64_t> memory_used_{0};
  std::atomic<std::uint64_t> least_bytes_{0};  // the same without what the tables keep free
  std::atomic<std::uint64_t> memory_peak_{0};
  std::atomic<std::uint64_t> key_count_{0};
  std::atomic<std::uint64_t> structure_changes_{0};
  alignas(64) std::atomic<std::uint64_t> value_changes_{0};
  std::atomic<std::uint64_t> expired_count_{0};
};

}  // namespace sepal::keyspace
