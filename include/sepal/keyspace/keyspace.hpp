// The keyspace: numbered databases of keys, each key naming one filter; limits; the memory account.
//
// Guarded by the gate: members marked *shared* need the caller's side, those marked *exclusive* a closed
// gate. It opens no file, starts no thread, and hands over what takes long: a deleted filter of gigabytes
// goes back to the system elsewhere (Housekeeper), not on the way of a request.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/filter/plan_memo.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/mirrors.hpp>
#include <sepal/keyspace/mutation_log.hpp>

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

using filter::FilterPtr;

inline constexpr std::uint32_t database_count = 16;
// Of a key. It bounds what the record of a change takes.
inline constexpr std::size_t key_bytes_max = 65536;

struct KeyspaceOptions {
  std::uint64_t memory_max = 0;            // bytes of all filters and keys; 0: none but the machine's
  std::uint64_t machine_bytes = 0;         // memory of the machine or container; 0: unknown
  std::uint64_t keys_max = 1'000'000'000;  // over all databases
  std::uint32_t layers_max = 64;           // of one filter
  double error_rate = 0.01;                // of a filter that an add creates
  std::uint64_t capacity = 100;
  std::uint32_t expansion = 2;
  std::uint64_t seed = 0;  // of new filters
};

// Does what a request should not wait for, elsewhere. Called with the gate closed: must not block.
class Housekeeper {
 public:
  virtual ~Housekeeper() = default;
  // Drops what is no longer reachable by any key.
  virtual void dispose(FilterPtr filter) = 0;
  // A whole flushed database: dropping it frees all of its filters.
  virtual void dispose_database(std::shared_ptr<const void> database) = 0;
  // Moves a new big layer into huge pages (LayerView) when requests have filled it.
  virtual void settle(FilterPtr filter, filter::LayerView layer) = 0;
  // A key has got a deadline that is sooner than all there were.
  virtual void due_at(Deadline deadline) = 0;
};

// Position in a scan: 0 starts, and 0 as an answer ends.
struct ScanStep {
  std::uint64_t cursor = 0;
  std::vector<std::string> keys;
};

// Everything there is, at one instant; filters are shared, not copied.
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

// Where a member is told a time, keys that are past their deadline then are left out as if they had been
// removed. Without one, and for members that take none, they are keys like others: whoever has a keyspace
// changed by clients removes them first (expire).
class Keyspace {
 public:
  Keyspace(const KeyspaceOptions& options, Housekeeper& housekeeper);
  ~Keyspace();

  // --- shared ---------------------------------------------------------------------------------------------

  // Null when the key names nothing. The pointer is good while the caller stays inside the gate.
  [[nodiscard]] filter::Filter* find(DatabaseKey key, WallTime now = {}) const;
  // Asks for these keys and their filters from memory, so that a find() or create() of each that follows
  // waits little.
  void prefetch(std::uint32_t database, std::span<const std::string_view> keys) const;
  // Of a key; none as well when there is no such key.
  [[nodiscard]] Deadline deadline(DatabaseKey key) const;
  [[nodiscard]] DeadlineSummary deadlines(std::uint32_t database) const;
  // Of all keys of all databases.
  [[nodiscard]] Deadline earliest_deadline() const;
  // A key that has been past its deadline for the longest time, if any is.
  [[nodiscard]] std::optional<NamedKey> next_due(WallTime now) const;
  [[nodiscard]] std::uint64_t size(std::uint32_t database) const;
  [[nodiscard]] std::uint64_t total_size() const;
  // Any key, each about equally likely; nothing when the database is empty, and perhaps nothing while nearly
  // all keys are past their deadline. `random` decides.
  [[nodiscard]] std::optional<std::string> random_key(std::uint32_t database, std::uint64_t random,
                                                      WallTime now = {}) const;

  // Visits about `count_min` keys from `cursor` on. Over a whole iteration a key that was there throughout is
  // visited exactly once, whatever is created, deleted or renamed meanwhile: keys are visited in the order of
  // their hash, which no growth of the table changes. Any number is a valid cursor.
  [[nodiscard]] ScanStep scan(std::uint32_t database, std::uint64_t cursor, std::uint64_t count_min,
                              WallTime now = {}) const;
  // Every key, in the order of scan.
  void for_each_key(std::uint32_t database, const std::function<void(std::string_view)>& visit,
                    WallTime now = {}) const;

  [[nodiscard]] const Mirrors& mirrors() const { return mirrors_; }

  // Bytes of filters, keys and tables, and those that are held, as accounted.
  [[nodiscard]] std::uint64_t memory_used() const;
  [[nodiscard]] std::uint64_t memory_peak() const;
  [[nodiscard]] bool over_memory_limit() const;  // memory_max is set and exceeded
  [[nodiscard]] const KeyspaceOptions& options() const { return options_; }
  // Plans what create() or add_alone() would plan, which takes up to a millisecond, so that it is known when
  // the gate is closed for them.
  void plan_ahead(const filter::FilterOptions& options) const;
  void plan_growth_ahead(const filter::Filter& filter) const;  // and that of its mirror's target
  // What a filter may take now, given the limits and what is used.
  [[nodiscard]] filter::FilterLimits filter_limits(std::uint64_t bytes_held = 0) const;

  // A number for what the database holds: another behind each flush, also of an empty one, and it goes along
  // with a swap.
  [[nodiscard]] std::uint64_t contents_of(std::uint32_t database) const { return contents_[database]; }
  // Whether any database still has them.
  [[nodiscard]] bool has_contents(std::uint64_t contents) const;

  // --- exclusive ------------------------------------------------------------------------------------------

  // Errors, the first that holds: key_too_long, key_exists, key_limit, those of Filter::create, with
  // memory_limit where what is left of the memory is the reason and too_large where no machine would do. The
  // limit is compared with filter and key; the table may take the account past it by one step of its own
  // growth.
  Result<filter::Filter*> create(DatabaseKey key, const filter::FilterOptions& options);
  // What the filter that create() has just made began as. Not behind one that failed.
  [[nodiscard]] const filter::FilterPlan& newest_plan() const;
  // Puts a ready filter under a key, replacing what is there. For loads and imports. Errors: key_too_long,
  // key_limit, memory_limit, out_of_range (there is no such database). The pointer is not null. The limit is
  // compared with all filters and keys, without what the table keeps free: so filters and keys that create()
  // and add_alone() have fitted into a limit fit into it again, in whatever order they come.
  Result<void> put(DatabaseKey key, FilterPtr filter, Deadline deadline = no_deadline);
  // Counts bytes as used that are taken beside filters and keys, by what is on its way to become one.
  // Errors: memory_limit.
  Result<void> hold(std::uint64_t byte_count);
  // Ends hold() for so many.
  void release(std::uint64_t byte_count);
  // Drops a filter that is under no key, elsewhere.
  void dispose(FilterPtr filter) { housekeeper_.dispose(std::move(filter)); }
  // Whoever removes keys that are past their deadline is to look again then.
  void wake_at(Deadline deadline) { housekeeper_.due_at(deadline); }
  // Adds one item, growing the filter; keeps the memory account. `filter` is what find() gave.
  filter::Filter::AddOutcome add_alone(filter::Filter& filter, std::string_view item) {
    return add_alone(filter, filter.fingerprint(item));
  }
  // The same for an item's fingerprint under the filter's seed.
  filter::Filter::AddOutcome add_alone(filter::Filter& filter, const Fingerprint& item);

  bool remove(DatabaseKey key);  // false when there was none
  // Removes the key when it is past its deadline, and counts it; else false.
  bool expire(DatabaseKey key, WallTime now);
  // With no_deadline the key stays for ever. False, and nothing changes, when there is no such key or that is
  // its deadline already.
  bool set_deadline(DatabaseKey key, Deadline deadline);
  // Moves the filter and its deadline from one key to another of the same database, replacing what is there;
  // onto itself it changes nothing. Errors: no_such_key, key_too_long (the target).
  Result<void> rename(std::uint32_t database, std::string_view from, std::string_view to);
  // The same to another database, where the key must be free. Errors: no_such_key, key_exists.
  Result<void> move(DatabaseKey from, std::uint32_t to_database);
  // Each of the two has the keys of the other from now on, whatever their number.
  void swap(std::uint32_t database, std::uint32_t other);
  void flush(std::uint32_t database);
  void flush_all();

  // Whoever adds to the source is to add to the target (Mutator). Ends by itself when either key is removed
  // or gets another filter. Errors: out_of_range (one key, or state off, or no such database), no_such_key
  // (the source), not_found (the target), key_exists (either is an end of a mirror), key_limit.
  Result<void> begin_mirror(const Mirror& mirror);
  // False when the key is no source.
  bool end_mirror(DatabaseKey source);
  bool set_mirror_state(DatabaseKey source, MirrorState state);

  // Repeat what was recorded, with the shapes of then (Filter::recreate, Filter::append_layer). It was
  // accepted once, so no limit is asked but the machine's memory. Errors: key_exists, out_of_range (no such
  // database, or no such layer), too_large, out_of_memory.
  Result<void> recreate(DatabaseKey key, const filter::FilterOptions& options,
                        const filter::LayerPlan& first_layer);
  Result<void> append_layer(filter::Filter& filter, const filter::LayerPlan& plan);
  // As put(), of what was accepted once. Errors: out_of_range (there is no such database).
  Result<void> readopt(DatabaseKey key, FilterPtr filter, Deadline deadline);
  [[nodiscard]] filter::FilterLimits machine_limits() const;

  void set_memory_max(std::uint64_t bytes);
  void set_defaults(double error_rate, std::uint64_t capacity, std::uint32_t expansion);

  // All keys and filters of this instant, in steps (cut.hpp). One at a time; the keyspace outlives it.
  [[nodiscard]] std::unique_ptr<Cut> begin_cut();
  // The same at once.
  [[nodiscard]] std::vector<CutEntry> cut() const;

  // Counts of what happened, for INFO and for the decision to save. Any thread.
  [[nodiscard]] std::uint64_t structure_changes() const;
  [[nodiscard]] std::uint64_t expired_count() const { return expired_count_.load(std::memory_order_relaxed); }
  void reset_expired_count() { expired_count_.store(0, std::memory_order_relaxed); }

 private:
  [[nodiscard]] KeyTable& table(std::uint32_t database) const;
  [[nodiscard]] std::uint64_t filter_bytes_of(std::uint32_t database) const;
  [[nodiscard]] std::uint64_t bytes_beside(std::uint64_t bytes_used) const;  // what the limit leaves
  [[nodiscard]] std::uint64_t bytes_free(std::uint64_t bytes_held) const;
  void place(DatabaseKey key, FilterPtr filter, Deadline deadline);
  [[nodiscard]] std::uint64_t least_bytes() const;  // of filters and keys, without what the tables keep free
  [[nodiscard]] Error refusal_of(const Error& error, const filter::FilterOptions& options) const;
  filter::Filter& insert(DatabaseKey key, FilterPtr filter);
  void dispose_table(std::uint32_t database);
  void settle_newest_layer(filter::Filter& filter);
  void drop_mirror(const filter::Filter& end);
  void store_deadline(DatabaseKey key, Deadline deadline);
  void about_to_change(DatabaseKey key);     // before what the key names does
  void count_table(std::uint32_t database);  // after each change of the table
  void account();                            // brings the gauges up to date
  void changed();                            // after each change of structure: counts it, and accounts

  KeyspaceOptions options_;
  Housekeeper& housekeeper_;
  std::vector<std::shared_ptr<KeyTable>> databases_;  // shared with a cut, which may outlive a flush
  Cut* cut_ = nullptr;                                // the one under way
  mutable filter::PlanMemo plans_;
  std::optional<filter::FilterPlan> newest_plan_;
  Mirrors mirrors_;
  std::uint64_t filter_bytes_ = 0;
  std::array<std::uint64_t, database_count> contents_{};
  std::uint64_t contents_last_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::array<std::uint64_t, database_count> table_bytes_of_{};
  std::uint64_t table_bytes_ = 0;  // their sum
  // Gauges that any thread may read. Relaxed: nothing is ordered by them.
  std::atomic<std::uint64_t> memory_used_{0};
  std::atomic<std::uint64_t> memory_peak_{0};
  std::atomic<std::uint64_t> structure_changes_{0};
  std::atomic<std::uint64_t> expired_count_{0};
};

}  // namespace sepal::keyspace
