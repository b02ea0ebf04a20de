#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/keyspace/cut.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "keyspace/key_table.hpp"
#include "keyspace/sharing.hpp"

namespace sepal::keyspace {

// How the keyspace keeps its books. Each member that changes structure has these steps:
//
//   1. about_to_change(key), before the table changes: a cut under way keeps what the key names. (A flush and
//      a swap need no such call, because the cut goes by tables.)
//   2. The change of the table. A value that loses its key first loses its mirror, then its bytes are taken
//      from the account, and the housekeeper gets it: no request waits for the memory to be freed.
//   3. count_table() for each table that has changed, then changed(), which brings the gauges up to date.
//
// value_bytes_, table_bytes_ and held_bytes_ are the account. The first two are also kept for each database,
// so that a flush looks at no value. They are not atomic, since only a thread that has closed the gate
// changes them. The gauges are copies that any thread may read.
namespace {

// What a value may take when neither a limit nor the machine's memory is known: more than any machine has,
// yet small enough that sums of a few such numbers do not wrap.
constexpr std::uint64_t unbounded_bytes = std::uint64_t{1} << 62;
static_assert(database_count > 0);

std::uint64_t byte_count_of(const value::Value& value) {
  return value::row_of(value).byte_count(value);
}

Error too_long() {
  return fail(Errc::key_too_long, "a key is longer than " + std::to_string(key_bytes_max) + " bytes");
}

}  // namespace

Keyspace::Keyspace(const KeyspaceOptions& options, Housekeeper& housekeeper)
    : options_(options), housekeeper_(housekeeper) {
  for (std::uint32_t database = 0; database < database_count; ++database) {
    databases_.push_back(std::make_shared<KeyTable>(options.key_seed));
    contents_[database] = ++contents_last_;
    count_table(database);
  }
  for (const value::KindRow* const row : value::kinds)
    states_.push_back(row->make_state == nullptr ? nullptr : row->make_state());
  changed();
  // To make empty tables is no change that a save would have to keep.
  structure_changes_ = 0;
}

Keyspace::~Keyspace() = default;

KeyTable& Keyspace::table(std::uint32_t database) const {
  SEPAL_ASSERT(database < database_count, "a database beyond the last");
  return *databases_[database];
}

value::Value* Keyspace::find(DatabaseKey key, WallTime now) const {
  const ValuePtr* const found = std::as_const(table(key.database)).find(key.key, now);
  return found == nullptr ? nullptr : found->get();
}

Deadline Keyspace::deadline(DatabaseKey key) const {
  return table(key.database).deadline(key.key);
}

DeadlineSummary Keyspace::deadlines(std::uint32_t database) const {
  return table(database).deadlines();
}

Deadline Keyspace::due() const {
  Deadline due = no_deadline;
  for (const auto& database : databases_) {
    const Deadline of_table = database->due();
    if (due == no_deadline || (of_table != no_deadline && of_table < due)) due = of_table;
  }
  return due;
}

bool Keyspace::collect_due(WallTime now, std::size_t count_max, std::vector<NamedKey>& keys) {
  for (std::uint32_t database = 0; database < database_count; ++database) {
    const auto collect = [&](const Entry& entry) {
      // The removal that follows reads the value.
      __builtin_prefetch(entry.value.get());
      keys.push_back({.database = database, .key = std::string(entry.key.view())});
    };
    if (databases_[database]->visit_due(now, count_max, collect)) return true;
  }
  return false;
}

void Keyspace::prefetch(std::uint32_t database, std::span<const std::string_view> keys) const {
  table(database).prefetch(keys);
}

std::uint64_t Keyspace::size(std::uint32_t database) const {
  return table(database).size();
}

std::uint64_t Keyspace::total_size() const {
  std::uint64_t sum = 0;
  for (const auto& database : databases_) sum += database->size();
  return sum;
}

std::optional<std::string> Keyspace::random_key(std::uint32_t database, std::uint64_t random,
                                                WallTime now) const {
  const Entry* const entry = table(database).any(random, now);
  if (entry == nullptr) return std::nullopt;
  return std::string(entry->key.view());
}

ScanStep Keyspace::scan(std::uint32_t database, std::uint64_t cursor, std::uint64_t count_min,
                        WallTime now) const {
  return table(database).scan({.cursor = cursor, .count_min = count_min, .now = now});
}

void Keyspace::for_each_key(std::uint32_t database, const std::function<void(std::string_view)>& visit,
                            WallTime now) const {
  table(database).visit_from(0, [&](std::uint64_t, const Entry& entry, Deadline deadline) {
    if (!is_past(deadline, now)) visit(entry.key.view());
    return true;
  });
}

std::uint64_t Keyspace::memory_used() const {
  return memory_used_.load(std::memory_order_relaxed);
}

std::uint64_t Keyspace::memory_peak() const {
  return memory_peak_.load(std::memory_order_relaxed);
}

std::uint64_t Keyspace::memory_limit() const {
  for (const std::uint64_t limit : {options_.memory_max, memory_share_})
    if (limit != 0) return limit;
  return options_.machine_bytes;
}

bool Keyspace::over_memory_limit() const {
  const std::uint64_t limit = memory_limit();
  return limit != 0 && memory_used() > limit;
}

std::uint64_t Keyspace::structure_changes() const {
  return structure_changes_.load(std::memory_order_relaxed);
}

std::uint64_t Keyspace::changes() const {
  return structure_changes() + value_changes_.load(std::memory_order_relaxed);
}

std::uint64_t Keyspace::entry_bytes(std::string_view key) {
  return KeyTable::entry_bytes(key);
}

std::uint64_t Keyspace::bytes_beside(std::uint64_t bytes_used) const {
  const std::uint64_t limit = memory_limit();
  if (limit == 0) return unbounded_bytes;
  // More may be in use than the limit allows: the operator may have lowered it.
  return std::min(limit - std::min(limit, bytes_used), unbounded_bytes);
}

std::uint64_t Keyspace::bytes_free(std::uint64_t bytes_held) const {
  return bytes_beside(memory_used() - std::min(memory_used(), bytes_held));
}

std::uint64_t Keyspace::least_bytes() const {
  std::uint64_t least = value_bytes_ + held_bytes_ + other_bytes_;
  for (const auto& database : databases_) least += database->least_bytes();
  return least;
}

value::Limits Keyspace::value_limits(std::uint64_t bytes_held) const {
  return {.bytes_max = bytes_free(bytes_held), .layers_max = options_.layers_max};
}

Result<value::Limits> Keyspace::limits_of_new(DatabaseKey key) const {
  if (key.database >= database_count) return fail(Errc::out_of_range, "there is no such database");
  if (key.key.size() > key_bytes_max) return too_long();
  if (std::as_const(table(key.database)).find(key.key) != nullptr) return fail(Errc::key_exists);
  if (total_size() >= options_.keys_max) return fail(Errc::key_limit);
  value::Limits limits = value_limits();
  limits.bytes_max -= std::min(limits.bytes_max, KeyTable::entry_bytes(key.key));
  return limits;
}

value::Value& Keyspace::insert(DatabaseKey key, ValuePtr value) {
  SEPAL_ASSERT(value != nullptr, "a key that would name no value");
  value::Value& inserted = *value;
  about_to_change(key);
  table(key.database).insert(key.key, std::move(value));
  prepare(inserted);
  count_value(key.database, 0, byte_count_of(inserted));
  count_table(key.database);
  changed();
  return inserted;
}

void Keyspace::resized(std::uint32_t database, value::Value& value, std::uint64_t bytes_before) {
  const std::uint64_t bytes_after = byte_count_of(value);
  if (bytes_after == bytes_before) return;
  count_value(database, bytes_before, bytes_after);
  prepare(value);
  changed();
}

void Keyspace::has_changed(DatabaseKey key, value::Value& value, ValuePtr other, std::uint64_t bytes_before) {
  // As accounted: the other value may share memory with this one, which then has grown as well.
  if (other == nullptr) {
    count_value(key.database, bytes_before, byte_count_of(value));
    return changed();
  }
  // A save that reads the value that goes finds the shape that it has noted: the cut keeps it
  // (decisions/0027).
  about_to_change(key);
  ValuePtr* const present = table(key.database).find(key.key);
  SEPAL_ASSERT(present != nullptr && other->kind() == value.kind() && !value::row_of(*other).mirrors,
               "a value takes the place of none, of one of another kind, or of an end of a mirror");
  count_value(key.database, bytes_before, byte_count_of(*other));
  // Only the value changes. The deadline stands beside the entry.
  housekeeper_.dispose(std::exchange(*present, std::move(other)));
  changed();
}

value::Limits Keyspace::machine_limits() const {
  // For a replay: it repeats what has fitted before, whatever the operator has set since. Only the machine
  // itself bounds it.
  return {.bytes_max = options_.machine_bytes != 0 ? options_.machine_bytes : unbounded_bytes,
          .layers_max = std::numeric_limits<std::uint32_t>::max()};
}

Result<void> Keyspace::make_recorded(DatabaseKey key, value::Kind kind, std::span<const std::byte> head) {
  if (key.database >= database_count) return fail(Errc::out_of_range, "there is no such database");
  if (find(key) != nullptr) return fail(Errc::key_exists, "the key is there already");
  auto made = value::row_of(kind).make_recorded(head, machine_limits());
  if (!made) return made.error();
  insert(key, std::move(*made));
  return {};
}

Result<void> Keyspace::change_recorded(DatabaseKey key, value::Kind kind, std::uint8_t what,
                                       std::span<const std::byte> bytes) {
  if (key.database >= database_count) return fail(Errc::out_of_range, "there is no such database");
  const value::KindRow& row = value::row_of(kind);
  value::Value* const present = find(key);
  if (present == nullptr) {
    if (!row.made_by_change) return fail(Errc::no_such_key);
    // Under no key until the change has succeeded.
    auto made = row.make_recorded({}, machine_limits());
    if (!made) return made.error();
    auto other = row.apply(**made, what, bytes, machine_limits());
    if (!other) return other.error();
    insert(key, *other != nullptr ? std::move(*other) : std::move(*made));
    return {};
  }
  if (present->kind() != kind) return fail(Errc::damaged, "a value changes as one of another kind does");
  const std::uint64_t bytes_before = byte_count_of(*present);
  auto done = change(key, *present, [&] { return row.apply(*present, what, bytes, machine_limits()); });
  if (!done) return done;
  value::Value& changed = *find(key);
  if (byte_count_of(changed) != bytes_before) prepare(changed);
  return {};
}

bool Keyspace::add_recorded(std::uint32_t database, value::Value& value,
                            std::span<const Fingerprint> entries) {
  const auto add = value::row_of(value).add;
  if (add == nullptr) return false;
  const std::uint64_t bytes_before = byte_count_of(value);
  const bool added = add(value, entries);
  note_value_changes(entries.size());
  if (byte_count_of(value) != bytes_before) count_value(database, bytes_before, byte_count_of(value));
  return added;
}

Result<void> Keyspace::put(DatabaseKey key, ValuePtr value, Deadline deadline) {
  SEPAL_ASSERT(value != nullptr, "a key that names no value");
  if (key.database >= database_count) return fail(Errc::out_of_range);
  if (key.key.size() > key_bytes_max) return too_long();
  KeyTable& keys = table(key.database);
  // All errors come before about_to_change() and place(): a refused value changes nothing.
  ValuePtr* const present = keys.find(key.key);
  if (present == nullptr && total_size() >= options_.keys_max) return fail(Errc::key_limit);
  // The value that goes makes room for the one that comes.
  const std::uint64_t bytes_freed = present == nullptr ? 0 : byte_count_of(**present);
  SEPAL_ASSERT(bytes_freed <= least_bytes(), "a value takes more memory than all keys together");
  const std::uint64_t entry_bytes = present == nullptr ? KeyTable::entry_bytes(key.key) : 0;
  const auto bytes_needed = checked_add(byte_count_of(*value), entry_bytes);
  if (!bytes_needed || *bytes_needed > bytes_beside(least_bytes() - bytes_freed))
    return fail(Errc::memory_limit);
  place(key, std::move(value), deadline);
  return {};
}

Result<void> Keyspace::hold(std::uint64_t byte_count) {
  if (byte_count > bytes_free(0)) return fail(Errc::memory_limit);
  held_bytes_ += byte_count;
  account();
  return {};
}

void Keyspace::release(std::uint64_t byte_count) {
  SEPAL_ASSERT(byte_count <= held_bytes_, "more is released than was held");
  held_bytes_ -= byte_count;
  account();
}

Result<void> Keyspace::readopt(DatabaseKey key, ValuePtr value, Deadline deadline) {
  if (key.database >= database_count) return fail(Errc::out_of_range, "there is no such database");
  place(key, std::move(value), deadline);
  return {};
}

// The bytes are counted before the pointers are moved away.
void Keyspace::place(DatabaseKey key, ValuePtr value, Deadline deadline) {
  SEPAL_ASSERT(value != nullptr, "a key that would name no value");
  about_to_change(key);
  KeyTable& keys = table(key.database);
  ValuePtr* const present = keys.find(key.key);
  const bool replaces = present != nullptr;
  count_value(key.database, replaces ? byte_count_of(**present) : 0, byte_count_of(*value));
  prepare(*value);
  if (replaces) {
    drop_mirror(**present);
    housekeeper_.dispose(std::exchange(*present, std::move(value)));
  } else {
    keys.insert(key.key, std::move(value));
  }
  // A key that was there may have a deadline, which belongs to the value that goes.
  if (deadline != no_deadline || replaces) store_deadline(key, deadline);
  count_table(key.database);
  changed();
}

void Keyspace::store_deadline(DatabaseKey key, Deadline deadline) {
  // The thread `expiry` sleeps until the earliest time that it knows. Only a sooner one must wake it.
  KeyTable& keys = table(key.database);
  const Deadline due_before = keys.due();
  keys.set_deadline(key.key, deadline);
  if (keys.due() != due_before) housekeeper_.due_at(keys.due());
}

bool Keyspace::set_deadline(DatabaseKey key, Deadline deadline) {
  if (find(key) == nullptr || this->deadline(key) == deadline) return false;
  about_to_change(key);
  store_deadline(key, deadline);
  count_table(key.database);
  changed();
  return true;
}

bool Keyspace::expire(DatabaseKey key, WallTime now) {
  // The table's time is asked first: it costs no look-up of the key, and nearly always says no.
  if (!is_past(table(key.database).due(), now) || !is_past(deadline(key), now)) return false;
  expired_count_.fetch_add(1, std::memory_order_relaxed);
  return remove(key);
}

void Keyspace::prepare(value::Value& value) {
  const auto prepare = value::row_of(value).prepare;
  if (prepare != nullptr && prepare(value, options_.worker_count)) housekeeper_.give_pages(ValuePtr(&value));
}

bool Keyspace::remove(DatabaseKey key) {
  about_to_change(key);
  ValuePtr removed = table(key.database).take(key.key);
  if (removed == nullptr) return false;
  // While the value still lives: mirrors go by its address, and another value could get that address next.
  drop_mirror(*removed);
  count_value(key.database, byte_count_of(*removed), 0);
  housekeeper_.dispose(std::move(removed));
  count_table(key.database);
  changed();
  return true;
}

Result<void> Keyspace::rename(std::uint32_t database, std::string_view from, std::string_view to) {
  KeyTable& keys = table(database);
  if (std::as_const(keys).find(from) == nullptr) return fail(Errc::no_such_key);
  if (to.size() > key_bytes_max) return too_long();
  if (from == to) return {};
  // Both keys are kept by the cut before either changes: it may have passed one of them and not the other.
  about_to_change({.database = database, .key = from});
  about_to_change({.database = database, .key = to});
  const Deadline deadline = keys.deadline(from);
  ValuePtr moved = keys.take(from);
  // Stays valid: the table keeps the value.
  const value::Value& value = *moved;
  if (ValuePtr* const present = keys.find(to)) {
    // First: the value that goes may be the other end of the moved value's own mirror (BF.MIRROR with
    // COMMIT). Then there is no mirror to rename below.
    drop_mirror(**present);
    count_value(database, byte_count_of(**present), 0);
    housekeeper_.dispose(std::exchange(*present, std::move(moved)));
  } else {
    keys.insert(to, std::move(moved));
  }
  if (!mirrors_.empty()) mirrors_.rename(value, to);
  // Overwrites what the replaced value may have had. The thread `expiry` knows the moved deadline already.
  keys.set_deadline(to, deadline);
  count_table(database);
  changed();
  return {};
}

Result<void> Keyspace::move(DatabaseKey from, std::uint32_t to_database) {
  const DatabaseKey to{.database = to_database, .key = from.key};
  const value::Value* const moved = find(from);
  if (moved == nullptr) return fail(Errc::no_such_key);
  if (find(to) != nullptr) return fail(Errc::key_exists);
  about_to_change(from);
  about_to_change(to);
  // A mirror is between two keys of one database, so a move ends it.
  drop_mirror(*moved);
  const Deadline deadline = table(from.database).deadline(from.key);
  count_value(from.database, byte_count_of(*moved), 0);
  count_value(to_database, 0, byte_count_of(*moved));
  // Nothing can fail: the gate is closed, and the key is free.
  table(to.database).insert(to.key, table(from.database).take(from.key));
  table(to.database).set_deadline(to.key, deadline);
  count_table(from.database);
  count_table(to.database);
  changed();
  return {};
}

// A cut goes by tables, so it needs no word of a swap.
void Keyspace::swap(std::uint32_t database, std::uint32_t other) {
  SEPAL_ASSERT(database < database_count && other < database_count, "a database beyond the last is swapped");
  std::swap(databases_[database], databases_[other]);
  // All that belongs to a table goes with it. Values and keys move nowhere.
  std::swap(value_bytes_of_[database], value_bytes_of_[other]);
  std::swap(table_bytes_of_[database], table_bytes_of_[other]);
  std::swap(contents_[database], contents_[other]);
  mirrors_.swap_databases(database, other);
  changed();
}

void Keyspace::drop_mirror(const value::Value& end) {
  if (!mirrors_.empty()) mirrors_.drop(end);
}

// The housekeeper gets the table as it is: no value is touched here.
void Keyspace::dispose_table(std::uint32_t database) {
  SEPAL_ASSERT(database < database_count, "a database beyond the last is flushed");
  // While its values live: mirrors go by addresses. A cut that still needs the table shares it.
  mirrors_.drop_database(database);
  housekeeper_.dispose_database(std::move(databases_[database]));
  databases_[database] = std::make_shared<KeyTable>(options_.key_seed);
  count_value(database, value_bytes_of_[database], 0);
  count_table(database);
}

void Keyspace::flush(std::uint32_t database) {
  // Also for an empty database: a copy or an import under way compares this number, and is given up after
  // any flush.
  contents_[database] = ++contents_last_;
  if (size(database) == 0) return;
  dispose_table(database);
  changed();
}

void Keyspace::flush_all() {
  for (std::uint64_t& contents : contents_) contents = ++contents_last_;
  if (total_size() == 0) return;
  for (std::uint32_t database = 0; database < database_count; ++database)
    if (size(database) != 0) dispose_table(database);
  changed();
}

void Keyspace::set_memory_max(std::uint64_t bytes) {
  options_.memory_max = bytes;
}

void Keyspace::set_memory_share(std::uint64_t bytes) {
  memory_share_ = bytes;
}

void Keyspace::set_defaults(double error_rate, std::uint64_t capacity, std::uint32_t expansion) {
  SEPAL_ASSERT(error_rate > 0 && error_rate < 1 && capacity > 0,
               "no filter could be created with these defaults");
  options_.error_rate = error_rate;
  options_.capacity = capacity;
  options_.expansion = expansion;
}

std::unique_ptr<Cut> Keyspace::begin_cut() {
  Cut::Tables tables;
  // The tables are shared, not copied: a flush gives the database another one, and the cut goes on with
  // this one.
  std::copy(databases_.begin(), databases_.end(), tables.begin());
  return std::unique_ptr<Cut>(new Cut(std::move(tables), total_size(), cut_));
}

void Keyspace::about_to_change(DatabaseKey key) {
  if (cut_ != nullptr) cut_->keep(table(key.database), key.key);
}

std::vector<CutEntry> Keyspace::cut() const {
  std::vector<CutEntry> entries;
  entries.reserve(total_size());
  Sharing sharing(entries);
  for (std::uint32_t database = 0; database < database_count; ++database)
    table(database).visit_all(
        [&](const Entry& entry, Deadline deadline) { sharing.add(database, entry, deadline); });
  return entries;
}

void Keyspace::count_value(std::uint32_t database, std::uint64_t bytes_before, std::uint64_t bytes_after) {
  SEPAL_ASSERT(bytes_before <= value_bytes_of_[database], "a value takes more memory than its database");
  // The difference may be negative: then it wraps, and the sums wrap back.
  value_bytes_of_[database] += bytes_after - bytes_before;
  value_bytes_ += bytes_after - bytes_before;
}

void Keyspace::count_table(std::uint32_t database) {
  const std::uint64_t bytes = databases_[database]->byte_count();
  SEPAL_ASSERT(table_bytes_of_[database] <= table_bytes_, "a table takes more memory than all tables");
  // The difference may be negative: then it wraps, and the sum wraps back.
  table_bytes_ += bytes - std::exchange(table_bytes_of_[database], bytes);
}

void Keyspace::account() {
  const std::uint64_t used = value_bytes_ + table_bytes_ + held_bytes_ + other_bytes_;
  memory_used_.store(used, std::memory_order_relaxed);
  // A plain load and store: one thread at a time has the gate closed.
  memory_peak_.store(std::max(memory_peak(), used), std::memory_order_relaxed);
}

void Keyspace::changed() {
  account();
  structure_changes_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace sepal::keyspace
