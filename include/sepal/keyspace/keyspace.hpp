// The keyspace: numbered databases of keys, each key naming one filter, or one string
// (filter/bit_string.hpp); limits; the memory account. Where nothing else is said, a filter may be a string.
//
// Guarded by the gate: members marked *shared* need the caller's side, members marked *exclusive* need a
// closed gate. The keyspace opens no file and starts no thread. It hands over what takes long: a Housekeeper
// returns a deleted filter of gigabytes to the system, so no request waits for that.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/plan/plan_memo.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/mirrors.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/keyspace/watches.hpp>

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
class KeyTable;

using bloom::FilterPtr;

inline constexpr std::uint32_t database_count = 16;
// The longest key. It bounds the length of a change's record.
inline constexpr std::size_t key_bytes_max = 65536;

struct KeyspaceOptions {
  std::uint64_t memory_max = 0;            // bytes of all filters and keys; 0: none is set
  std::uint64_t machine_bytes = 0;         // memory of the machine or container; 0: unknown
  std::uint64_t keys_max = 1'000'000'000;  // over all databases
  std::uint32_t layers_max = 64;           // in one filter
  double error_rate = 0.01;                // for a filter that an add creates
  std::uint64_t capacity = 100;
  std::uint32_t expansion = 2;
  std::uint64_t seed = 0;  // for new filters
  // For the tables of keys. It must be random and reach no client: a client that knew it could choose keys
  // that collide. Images of filters tell the other seed.
  std::uint64_t key_seed = 0;
  // How many workers there are: big filters have counters for each (filter/usage.hpp). 0: none has counters.
  std::uint32_t worker_count = 0;
};

// Takes over work that a request should not wait for. Called with the gate closed: must not block.
class Housekeeper {
 public:
  virtual ~Housekeeper() = default;
  // Drops a filter that no key names any more. Any thread, also without the gate.
  virtual void dispose(FilterPtr filter) = 0;
  // Drops a flushed database, which frees all of its filters.
  virtual void dispose_database(std::shared_ptr<const void> database) = 0;
  // Moves a new big layer into huge pages (LayerView) when requests have filled it.
  virtual void give_pages(FilterPtr filter, bloom::LayerView layer) = 0;
  // A key has got a deadline that is sooner than all others.
  virtual void due_at(Deadline deadline) = 0;
};

// One step of a scan. A cursor of 0 begins a scan; as an answer it ends the scan.
struct ScanStep {
  std::uint64_t cursor = 0;
  std::vector<std::string> keys;
};

// One key at the instant of a cut. The filter is shared, not copied.
struct CutEntry {
  std::uint32_t database = 0;
  std::string key;
  FilterPtr filter;
  Deadline deadline = no_deadline;
};

struct NamedKey {
  std::uint32_t database = 0;
  std::string key;
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
  [[nodiscard]] bloom::Filter* find(DatabaseKey key, WallTime now = {}) const;
  // Asks for these keys and their filters from memory, so that a later find() or create() of each waits
  // little.
  void prefetch(std::uint32_t database, std::span<const std::string_view> keys) const;
  // The deadline of a key; no_deadline as well when there is no such key.
  [[nodiscard]] Deadline deadline(DatabaseKey key) const;
  [[nodiscard]] DeadlineSummary deadlines(std::uint32_t database) const;
  // The earliest deadline of all keys of all databases.
  [[nodiscard]] Deadline earliest_deadline() const;
  // The key that has been past its deadline for the longest time, if there is one.
  [[nodiscard]] std::optional<NamedKey> next_due(WallTime now) const;
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
  // Exclusive.
  [[nodiscard]] Watches& watches() { return watches_; }

  // The memory that a key takes beside its filter, without what the table keeps free for further keys.
  [[nodiscard]] static std::uint64_t entry_bytes(std::string_view key);
  // The bytes of filters, keys and tables, and those of hold(), as accounted.
  [[nodiscard]] std::uint64_t memory_used() const;
  [[nodiscard]] std::uint64_t memory_peak() const;
  // The bytes that all filters and keys may take: memory_max; else the share (set_memory_share); else
  // machine_bytes. 0: no limit.
  [[nodiscard]] std::uint64_t memory_limit() const;
  [[nodiscard]] bool over_memory_limit() const;  // there is a limit, and it is exceeded
  [[nodiscard]] const KeyspaceOptions& options() const { return options_; }
  // Makes the plan that create() or add_alone() would need, so that they find it ready when the gate is
  // closed: planning takes up to a millisecond.
  void plan_ahead(const bloom::FilterOptions& options) const;
  void plan_growth_ahead(const bloom::Filter& filter) const;  // and the growth of its mirror's target
  // The limits for one filter now. `bytes_held` of the used memory belong to this filter already, so they are
  // not counted against it.
  [[nodiscard]] bloom::FilterLimits filter_limits(std::uint64_t bytes_held = 0) const;

  // A number for the contents of the database. Each flush gives a new one, also of an empty database, and a
  // swap takes it along.
  [[nodiscard]] std::uint64_t contents_of(std::uint32_t database) const { return contents_[database]; }

  // --- exclusive ------------------------------------------------------------------------------------------

  // Errors, the first that holds: key_too_long, key_exists, key_limit, those of Filter::create. Among these,
  // memory_limit says that the memory that is left is too little, and too_large that no machine has enough.
  // The limit is compared with filter and key; the table may take the account past it by one step of its own
  // growth.
  Result<bloom::Filter*> create(DatabaseKey key, const bloom::FilterOptions& options);
  // The plan of the filter that create() has just made. Not after a create() that failed.
  [[nodiscard]] const bloom::FilterPlan& newest_plan() const;
  // Puts a ready filter under a key, replacing what is there. For loads and imports. Errors: key_too_long,
  // key_limit, memory_limit, out_of_range (there is no such database). The pointer is not null. The limit is
  // compared with all filters and keys, without what the table keeps free. So filters and keys that create()
  // and add_alone() have fitted into a limit fit into it again, in whatever order they come.
  Result<void> put(DatabaseKey key, FilterPtr filter, Deadline deadline = no_deadline);
  // Counts bytes as used for a filter that is not under its key yet. Errors: memory_limit.
  Result<void> hold(std::uint64_t byte_count);
  // Ends hold() for so many bytes.
  void release(std::uint64_t byte_count);
  // Hands a filter that no key names to the housekeeper, which drops it.
  void dispose(FilterPtr filter) { housekeeper_.dispose(std::move(filter)); }
  // Makes the housekeeper look again at this time for what is past its deadline.
  void wake_at(Deadline deadline) { housekeeper_.due_at(deadline); }
  // What else is in memory as long as it is not removed: users. It counts as used, and stands in for any
  // earlier number. Called with the gate closed.
  void count_others(std::uint64_t byte_count) {
    other_bytes_ = byte_count;
    account();
  }

  // Adds one item, growing the filter; keeps the memory account. A key of `database` names `filter`.
  bloom::Filter::AddOutcome add_alone(std::uint32_t database, bloom::Filter& filter, std::string_view item) {
    if (filter.in_bitmap(item)) return {};
    return add_alone(database, filter, filter.fingerprint(item));
  }
  // The same for an item's fingerprint under the filter's seed. The caller has asked Filter::in_bitmap().
  bloom::Filter::AddOutcome add_alone(std::uint32_t database, bloom::Filter& filter, const Fingerprint& item);

  // As Filter::add_recorded(). A page of a string may get its memory here, so the account is kept. A key of
  // `database` names `filter`.
  [[nodiscard]] bool add_recorded(std::uint32_t database, bloom::Filter& filter,
                                  std::span<const Fingerprint> fingerprints);

  // Writes bytes into the string under the key, from `offset` on. Makes the string, or lets it grow, where
  // that is needed; bytes between its end and `offset` are zero. The key names no filter. `bytes_max` is what
  // the string may take in addition. Errors: key_too_long, key_limit, memory_limit, too_large (longer than a
  // string can be), out_of_range (there is no such database), out_of_memory, mapping_limit.
  Result<void> write(DatabaseKey key, std::uint64_t offset, std::span<const std::byte> bytes,
                     std::uint64_t bytes_max);

  bool remove(DatabaseKey key);  // false when there was none
  // Removes the key when it is past its deadline, and counts it; else returns false.
  bool expire(DatabaseKey key, WallTime now);
  // With no_deadline the key stays for ever. False, with nothing changed, when there is no such key or it has
  // that deadline already.
  bool set_deadline(DatabaseKey key, Deadline deadline);
  // Moves the filter and its deadline from one key to another of the same database, replacing what is there.
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
  // removed, moves to another database or gets another filter. Errors: out_of_range (one key for both, or
  // state off, or no such database), no_such_key (the source), not_found (the target), key_exists (either is
  // an end of a mirror), key_limit.
  Result<void> begin_mirror(const Mirror& mirror);
  // False when the key is not the source of a mirror.
  bool end_mirror(DatabaseKey source);
  bool set_mirror_state(DatabaseKey source, MirrorState state);

  // Repeat what was recorded (KindRow::make_recorded, KindRow::apply). The change was accepted once, so only
  // the machine's memory limits it. Errors: those of the rows; key_exists, no_such_key, out_of_range (there
  // is no such database), damaged (the value is of another kind).
  Result<void> make_recorded(DatabaseKey key, value::Kind kind, std::span<const std::byte> head);
  Result<void> change_recorded(DatabaseKey key, value::Kind kind, std::uint8_t what,
                               std::span<const std::byte> bytes);
  // As put(), for a filter that was accepted once. Errors: out_of_range (there is no such database).
  Result<void> readopt(DatabaseKey key, FilterPtr filter, Deadline deadline);
  [[nodiscard]] bloom::FilterLimits machine_limits() const;

  void set_memory_max(std::uint64_t bytes);
  // The limit while memory_max is 0; 0: none. Set after a load, so that saved data that exceeds it is served.
  void set_memory_share(std::uint64_t bytes);
  void set_defaults(double error_rate, std::uint64_t capacity, std::uint32_t expansion);

  // All keys and filters of this instant, in steps (cut.hpp). One cut at a time; the keyspace outlives it.
  [[nodiscard]] std::unique_ptr<Cut> begin_cut();
  // All entries of a cut at once.
  [[nodiscard]] std::vector<CutEntry> cut() const;

  // Counts of what happened, for INFO and for the decision to save. Any thread.
  [[nodiscard]] std::uint64_t structure_changes() const;
  [[nodiscard]] std::uint64_t expired_count() const { return expired_count_.load(std::memory_order_relaxed); }
  void reset_expired_count() { expired_count_.store(0, std::memory_order_relaxed); }

 private:
  [[nodiscard]] KeyTable& table(std::uint32_t database) const;
  [[nodiscard]] std::uint64_t bytes_beside(std::uint64_t bytes_used) const;  // what the limit leaves
  [[nodiscard]] std::uint64_t bytes_free(std::uint64_t bytes_held) const;
  void place(DatabaseKey key, FilterPtr filter, Deadline deadline);
  // The bytes of filters and keys and those of hold(), without what the tables keep free.
  [[nodiscard]] std::uint64_t least_bytes() const;
  [[nodiscard]] Error refusal_of(const Error& error, const bloom::FilterOptions& options) const;
  bloom::Filter& insert(DatabaseKey key, FilterPtr filter);
  Result<FilterPtr> string_with_room(DatabaseKey key, std::uint64_t byte_count,
                                     std::uint64_t bytes_max) const;
  void replace_string(DatabaseKey key, FilterPtr larger, std::uint64_t bytes_before);
  void dispose_table(std::uint32_t database);
  void give_pages_to_newest_layer(bloom::Filter& filter);
  void drop_mirror(const bloom::Filter& end);
  void store_deadline(DatabaseKey key, Deadline deadline);
  void about_to_change(DatabaseKey key);  // call it before what the key names changes
  // After each change of what a filter of the database takes; 0: it was not, or is not, there.
  void count_filter(std::uint32_t database, std::uint64_t bytes_before, std::uint64_t bytes_after);
  void count_table(std::uint32_t database);  // after each change of the table
  void account();                            // brings the gauges up to date
  void changed();                            // after each change of structure: counts it, and accounts

  KeyspaceOptions options_;
  std::uint64_t memory_share_ = 0;
  Housekeeper& housekeeper_;
  std::vector<std::shared_ptr<KeyTable>> databases_;  // shared with a cut, which may outlive a flush
  Cut* cut_ = nullptr;                                // the one that is under way
  mutable bloom::PlanMemo plans_;
  std::optional<bloom::FilterPlan> newest_plan_;
  Mirrors mirrors_;
  Watches watches_;
  std::array<std::uint64_t, database_count> filter_bytes_of_{};
  std::uint64_t filter_bytes_ = 0;  // their sum
  std::array<std::uint64_t, database_count> contents_{};
  std::uint64_t contents_last_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t other_bytes_ = 0;
  std::array<std::uint64_t, database_count> table_bytes_of_{};
  std::uint64_t table_bytes_ = 0;  // their sum
  // Gauges that any thread may read. Relaxed: nothing is ordered by them.
  std::atomic<std::uint64_t> memory_used_{0};
  std::atomic<std::uint64_t> memory_peak_{0};
  std::atomic<std::uint64_t> structure_changes_{0};
  std::atomic<std::uint64_t> expired_count_{0};
};

}  // namespace sepal::keyspace
