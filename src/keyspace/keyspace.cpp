#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/keyspace/cut.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/part_list.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "keyspace/database.hpp"

namespace sepal::keyspace {

// How the keyspace keeps its books. Each member that changes structure has these steps:
//
//   1. about_to_change(key), before the table changes: a cut under way keeps what the key names. (A flush and
//      a swap need no such call, because the cut goes by tables.)
//   2. The change of the table. A value that loses its key first loses its mirror, then its bytes are taken
//      from the account, and the housekeeper gets it: no request waits for the memory to be freed.
//   3. count_table() for each table that has changed, then changed().
//
// The account is a few sums of differences. Several workers change it at a time, so a limit may be exceeded
// by what each of them has just admitted. The bytes of values are also kept for each database, so that a
// flush looks at no value.
namespace {

static_assert(database_count > 0);

std::uint64_t byte_count_of(const value::Value& value) {
  return value::row_of(value).byte_count(value);
}

// What a value that loses its key takes from the account.
std::uint64_t settled_bytes_of(value::Value& value) {
  const auto settle = value::row_of(value).settle;
  return settle != nullptr ? settle(value) : byte_count_of(value);
}

HashedKey named(const KeyPlace& place) {
  return {.key = place.key.key, .hash = place.hash};
}

KeyTable::Found found(const KeyPlace& place) {
  return {.segment = place.segment, .index = place.index, .value = place.value, .deadline = place.deadline};
}

Error too_long() {
  return fail(Errc::key_too_long, "a key is longer than " + std::to_string(key_bytes_max) + " bytes");
}

}  // namespace

// What a table adds to the account.
struct Keyspace::TableFigures {
  explicit TableFigures(const KeyTable& table)
      : bytes(table.byte_count()), least(table.entries_bytes()), keys(table.size()) {}
  std::uint64_t bytes;
  std::uint64_t least;
  std::uint64_t keys;
};

Keyspace::Keyspace(const KeyspaceOptions& options, Housekeeper& housekeeper)
    : options_(options), housekeeper_(housekeeper) {
  for (std::uint32_t database = 0; database < database_count; ++database) {
    databases_.push_back(std::make_shared<Database>(options.key_seed));
    contents_[database] = ++contents_last_;
  }
  for (const value::KindRow* const row : value::kinds)
    states_.push_back(row->make_state == nullptr ? nullptr : row->make_state());
  account(database_count * sizeof(Database));
}

Keyspace::~Keyspace() = default;

Database& Keyspace::database(std::uint32_t number) const {
  SEPAL_ASSERT(number < database_count, "a database beyond the last");
  return *databases_[number];
}

KeyPlace Keyspace::place_of(DatabaseKey key) const {
  const Database& keys = database(key.database);
  const HashedKey named = keys.hashed(key.key);
  return {.key = key, .table = keys.part_of(named), .hash = named.hash};
}

// The memory of the tables joins the account when they are made.
KeyPlace Keyspace::place_for(DatabaseKey key) {
  Database& keys = database(key.database);
  const HashedKey named = keys.hashed(key.key);
  std::uint64_t made_bytes = 0;
  KeyTable& table = keys.part_for(named, made_bytes);
  account(made_bytes, 0);
  return {.key = key, .table = &table, .hash = named.hash};
}

void Keyspace::look(KeyPlace& place) {
  const KeyTable::Found found = place.table == nullptr ? KeyTable::Found() : place.table->look(named(place));
  place.segment = found.segment;
  place.index = found.index;
  place.value = found.value;
  place.deadline = found.deadline;
}

Keyspace::Present Keyspace::look(DatabaseKey key, WallTime now) const {
  const Database& keys = database(key.database);
  const HashedKey named = keys.hashed(key.key);
  const KeyTable* const table = keys.part_of(named);
  if (table == nullptr) return {};
  const KeyTable::Found found = table->look(named);
  if (is_past(found.deadline, now)) return {};
  return {.value = found.value, .deadline = found.deadline};
}

value::Value* Keyspace::find(DatabaseKey key, WallTime now) const {
  return database(key.database).find(key.key, now);
}

Deadline Keyspace::deadline(DatabaseKey key) const {
  return database(key.database).deadline(key.key);
}

DeadlineSummary Keyspace::deadlines(std::uint32_t database) const {
  return this->database(database).deadlines();
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
    const auto collect = [&](const Entry& entry, const value::Value& value) {
      // The removal that follows reads the value.
      __builtin_prefetch(&value);
      keys.push_back({.database = database, .key = std::string(entry.key.view())});
    };
    // It may correct the order of deadlines, which takes memory.
    const auto count = [&](KeyTable& table, const auto& visit_due) {
      const TableFigures before(table);
      visit_due();
      count_table(table, before);
    };
    if (databases_[database]->visit_due(now, count_max, count, collect)) return true;
  }
  return false;
}

void Keyspace::prefetch(std::uint32_t database, std::span<const std::string_view> keys) const {
  this->database(database).prefetch(keys);
}

std::uint64_t Keyspace::size(std::uint32_t database) const {
  return this->database(database).size();
}

std::uint64_t Keyspace::total_size() const {
  return key_count_.load(std::memory_order_relaxed);
}

std::optional<std::string> Keyspace::random_key(std::uint32_t database, std::uint64_t random,
                                                WallTime now) const {
  std::optional<std::string> found;
  this->database(database).visit_any(random, now, [&](std::string_view key) { found.emplace(key); });
  return found;
}

ScanStep Keyspace::scan(std::uint32_t database, std::uint64_t cursor, std::uint64_t count_min,
                        WallTime now) const {
  return this->database(database).scan({.cursor = cursor, .count_min = count_min, .now = now});
}

void Keyspace::for_each_key(std::uint32_t database, const std::function<void(std::string_view)>& visit,
                            WallTime now) const {
  this->database(database).visit_from(0, [&](std::uint64_t, const Entry& entry, Deadline deadline) {
    if (!is_past(deadline, now)) visit(entry.key.view());
    return true;
  });
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

Result<value::Limits> Keyspace::limits_of_new(DatabaseKey key) const {
  if (key.database >= database_count) return fail(Errc::out_of_range, "there is no such database");
  return limits_of_new(KeyPlace{.key = key, .value = find(key)});
}

Result<value::Limits> Keyspace::limits_of_new(const KeyPlace& place) const {
  if (place.key.key.size() > key_bytes_max) return too_long();
  if (place.value != nullptr) return fail(Errc::key_exists);
  if (total_size() >= options_.keys_max) return fail(Errc::key_limit);
  value::Limits limits = value_limits();
  limits.bytes_max -= std::min(limits.bytes_max, KeyTable::entry_bytes(place.key.key));
  return limits;
}

value::Value& Keyspace::insert(const KeyPlace& place, ValuePtr value, Deadline deadline, Limbo& limbo) {
  SEPAL_ASSERT(value != nullptr, "a key that would name no value");
  value::Value& inserted = *value;
  about_to_change(place.key);
  // Before other workers find it.
  prepare(inserted);
  KeyTable& table = *place.table;
  const TableFigures before(table);
  const std::uint64_t value_bytes = byte_count_of(inserted);
  database(place.key.database).value_bytes.fetch_add(value_bytes, std::memory_order_relaxed);
  const Deadline due_before = table.due();
  table.insert(named(place), std::move(value), deadline, limbo);
  if (table.due() != due_before) housekeeper_.due_at(table.due());
  count_table(table, before, value_bytes);
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
  SEPAL_ASSERT(other->kind() == value.kind() && !value::row_of(*other).mirrors,
               "a value takes the place of one of another kind, or of an end of a mirror");
  count_value(key.database, bytes_before, byte_count_of(*other));
  // Only the value changes. The deadline stands beside the entry.
  KeyPlace place = place_of(key);
  look(place);
  housekeeper_.dispose(KeyTable::replace(found(place), std::move(other)));
  changed();
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

Result<void> Keyspace::may_put(DatabaseKey key, const value::Value& value) const {
  if (key.database >= database_count) return fail(Errc::out_of_range);
  if (key.key.size() > key_bytes_max) return too_long();
  // All errors come before about_to_change() and place(): a refused value changes nothing.
  const value::Value* const present = find(key);
  if (present == nullptr && total_size() >= options_.keys_max) return fail(Errc::key_limit);
  // The value that goes makes room for the one that comes.
  const std::uint64_t bytes_freed = present == nullptr ? 0 : byte_count_of(*present);
  const std::uint64_t least_bytes = least_bytes_.load(std::memory_order_relaxed);
  SEPAL_ASSERT(bytes_freed <= least_bytes, "a value takes more memory than all keys together");
  const std::uint64_t entry_bytes = present == nullptr ? KeyTable::entry_bytes(key.key) : 0;
  const auto bytes_needed = checked_add(byte_count_of(value), entry_bytes);
  if (!bytes_needed || *bytes_needed > bytes_beside(least_bytes - bytes_freed))
    return fail(Errc::memory_limit);
  return {};
}

Result<void> Keyspace::put(DatabaseKey key, ValuePtr value, Deadline deadline) {
  SEPAL_ASSERT(value != nullptr, "a key that names no value");
  if (auto may = may_put(key, *value); !may) return may;
  place(key, std::move(value), deadline);
  return {};
}

Result<void> Keyspace::put_remade(DatabaseKey key, ValuePtr value, bool of_itself) {
  SEPAL_ASSERT(value != nullptr, "a key that names no value");
  if (auto may = may_put(key, *value); !may) return may;
  place(key, std::move(value), of_itself ? deadline(key) : no_deadline,
        of_itself ? Mirroring::stays : Mirroring::ends);
  return {};
}

Result<ValuePtr> Keyspace::make_recorded(const Remade& remade, const value::GoOn& go_on) const {
  const auto names = decode_parts(remade.parts);
  const value::KindRow* const row = value::row_of_image(remade.head);
  if (remade.key.database >= database_count) return fail(Errc::out_of_range, "there is no such database");
  if (!names || row == nullptr || row->unite == nullptr)
    return fail(Errc::damaged, "a value is made of others in a way that no value is");
  std::vector<value::KindRow::Part> parts;
  for (const Part& name : *names) {
    const value::Value* const part = find({.database = remade.key.database, .key = name.key});
    if (part == nullptr) continue;
    if (part->kind() != row->kind) return fail(Errc::damaged, "a value is made of one of another kind");
    parts.push_back({.value = part, .extent = name.extent});
  }
  if (parts.empty()) return ValuePtr();
  return row->unite(remade.head, parts, machine_limits(), go_on);
}

Result<void> Keyspace::put_remade_recorded(const Remade& remade, Result<ValuePtr> made) {
  if (!made) return made.error();
  if (*made == nullptr) {
    // What was under the key is gone, even if the value that took its place is lost.
    static_cast<void>(remove(remade.key));
    return fail(Errc::no_such_key);
  }
  const auto parts = decode_parts(remade.parts);
  SEPAL_ASSERT(parts.has_value(), "a value is made of no parts");
  const bool of_itself = std::ranges::find(*parts, remade.key.key, &Part::key) != parts->end();
  const bool whole = std::ranges::all_of(*parts, [&](const Part& part) {
    return find({.database = remade.key.database, .key = part.key}) != nullptr;
  });
  place(remade.key, std::move(*made), of_itself ? deadline(remade.key) : no_deadline,
        of_itself ? Mirroring::stays : Mirroring::ends);
  return whole ? Result<void>() : fail(Errc::no_such_key);
}

Result<void> Keyspace::readopt(DatabaseKey key, ValuePtr value, Deadline deadline) {
  if (key.database >= database_count) return fail(Errc::out_of_range, "there is no such database");
  place(key, std::move(value), deadline);
  return {};
}

// The bytes are counted before the pointers are moved away.
void Keyspace::place(DatabaseKey key, ValuePtr value, Deadline deadline, Mirroring mirroring) {
  KeyPlace at = place_for(key);
  look(at);
  if (at.value == nullptr) {
    insert(at, std::move(value), deadline, at_once_);
    return;
  }
  about_to_change(key);
  count_value(key.database, byte_count_of(*at.value), byte_count_of(*value));
  prepare(*value);
  if (mirroring == Mirroring::ends) {
    drop_mirror(*at.value);
  } else {
    mirrors_.replace(*at.value, *value);
  }
  housekeeper_.dispose(KeyTable::replace(found(at), std::move(value)));
  // The key may have a deadline, which belongs to the value that goes.
  if (at.deadline != deadline) return set_deadline(at, deadline, at_once_);
  changed();
}

void Keyspace::set_deadline(const KeyPlace& place, Deadline deadline, Limbo& limbo) {
  about_to_change(place.key);
  KeyTable& table = *place.table;
  const TableFigures before(table);
  const Deadline due_before = table.due();
  table.set_deadline(named(place), found(place), deadline, limbo);
  // The thread `expiry` sleeps until the earliest time that it knows. Only a sooner one must wake it.
  if (table.due() != due_before) housekeeper_.due_at(table.due());
  count_table(table, before);
  changed();
}

bool Keyspace::set_deadline(DatabaseKey key, Deadline deadline) {
  KeyPlace place = place_of(key);
  look(place);
  if (place.value == nullptr || place.deadline == deadline) return false;
  set_deadline(place, deadline, at_once_);
  return true;
}

bool Keyspace::is_due(DatabaseKey key, WallTime now) const {
  const Database& keys = database(key.database);
  const HashedKey named = keys.hashed(key.key);
  // The table's time is asked first: it costs no look-up of the key, and nearly always says no.
  const KeyTable* const table = keys.part_of(named);
  return table != nullptr && is_past(table->due(), now) && is_past(table->deadline(named), now);
}

bool Keyspace::expire(DatabaseKey key, WallTime now) {
  if (!is_due(key, now)) return false;
  count_expired();
  return remove(key);
}

void Keyspace::prepare(value::Value& value) {
  const auto prepare = value::row_of(value).prepare;
  if (prepare != nullptr && prepare(value, options_.worker_count)) housekeeper_.give_pages(ValuePtr(&value));
}

bool Keyspace::remove(DatabaseKey key) {
  KeyPlace place = place_of(key);
  look(place);
  if (place.value == nullptr) return false;
  remove(place, at_once_);
  return true;
}

void Keyspace::remove(const KeyPlace& place, Limbo& limbo) {
  about_to_change(place.key);
  KeyTable& table = *place.table;
  const TableFigures before(table);
  ValuePtr removed = table.take(named(place), found(place), limbo);
  // While the value still lives: mirrors go by its address, and another value could get that address next.
  drop_mirror(*removed);
  const std::uint64_t value_bytes = settled_bytes_of(*removed);
  database(place.key.database).value_bytes.fetch_sub(value_bytes, std::memory_order_relaxed);
  drop(std::move(removed), limbo);
  count_table(table, before, -value_bytes);
  changed();
}

void Keyspace::drop(ValuePtr value, Limbo& limbo) {
  if (&limbo == &at_once_) return housekeeper_.dispose(std::move(value));
  housekeeper_.retire(std::move(value), limbo);
}

// Gives the value of a key, with its deadline, to another key.
void Keyspace::carry(const KeyPlace& from, DatabaseKey to) {
  about_to_change(from.key);
  about_to_change(to);
  const TableFigures source_before(*from.table);
  ValuePtr moved = from.table->take(named(from), found(from), at_once_);
  count_table(*from.table, source_before);
  const std::uint64_t bytes = byte_count_of(*moved);
  KeyPlace target = place_for(to);
  look(target);
  // First: the value that goes may be the other end of the moved value's own mirror (BF.MIRROR with COMMIT).
  // Then there is no mirror to rename later.
  if (target.value != nullptr) {
    drop_mirror(*target.value);
    remove(target, at_once_);
  }
  const TableFigures target_before(*target.table);
  const Deadline due_before = target.table->due();
  target.table->insert(named(target), std::move(moved), from.deadline, at_once_);
  if (target.table->due() != due_before) housekeeper_.due_at(target.table->due());
  count_table(*target.table, target_before);
  if (from.key.database == to.database) return;
  database(from.key.database).value_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  database(to.database).value_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

Result<void> Keyspace::rename(std::uint32_t database, std::string_view from, std::string_view to) {
  KeyPlace source = place_of({.database = database, .key = from});
  look(source);
  if (source.value == nullptr) return fail(Errc::no_such_key);
  if (to.size() > key_bytes_max) return too_long();
  if (from == to) return {};
  // Both keys are kept by a cut before either changes: it may have passed one of them and not the other.
  carry(source, {.database = database, .key = to});
  if (!mirrors_.empty()) mirrors_.rename(*source.value, to);
  changed();
  return {};
}

Result<void> Keyspace::move(DatabaseKey from, std::uint32_t to_database) {
  const DatabaseKey to{.database = to_database, .key = from.key};
  KeyPlace source = place_of(from);
  look(source);
  if (source.value == nullptr) return fail(Errc::no_such_key);
  if (find(to) != nullptr) return fail(Errc::key_exists);
  // A mirror is between two keys of one database, so a move ends it.
  drop_mirror(*source.value);
  carry(source, to);
  changed();
  return {};
}

// A cut goes by tables, so it needs no word of a swap.
void Keyspace::swap(std::uint32_t database, std::uint32_t other) {
  SEPAL_ASSERT(database < database_count && other < database_count, "a database beyond the last is swapped");
  std::swap(databases_[database], databases_[other]);
  // All that belongs to a table goes with it. Values and keys move nowhere.
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
  const Database& keys = *databases_[database];
  const std::uint64_t value_bytes = keys.value_bytes.load(std::memory_order_relaxed);
  account(-(value_bytes + keys.byte_count()), -(value_bytes + keys.entries_bytes()));
  key_count_.fetch_sub(keys.size(), std::memory_order_relaxed);
  housekeeper_.dispose_database(std::move(databases_[database]));
  databases_[database] = std::make_shared<Database>(options_.key_seed);
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

void Keyspace::set_defaults(const KeyspaceOptions& options) {
  SEPAL_ASSERT(options.error_rate > 0 && options.error_rate < 1 && options.capacity > 0,
               "no filter could be created with these defaults");
  options_.error_rate = options.error_rate;
  options_.capacity = options.capacity;
  options_.expansion = options.expansion;
  options_.cuckoo_capacity = options.cuckoo_capacity;
  options_.cuckoo_bucket_size = options.cuckoo_bucket_size;
  options_.cuckoo_iteration_max = options.cuckoo_iteration_max;
  options_.cuckoo_expansion = options.cuckoo_expansion;
  options_.cuckoo_layers_max = options.cuckoo_layers_max;
}

void Keyspace::about_to_change(DatabaseKey key) {
  if (cut_ != nullptr) cut_->keep(database(key.database), key.key);
}

void Keyspace::count_value(std::uint32_t database, std::uint64_t bytes_before, std::uint64_t bytes_after) {
  this->database(database).value_bytes.fetch_add(bytes_after - bytes_before, std::memory_order_relaxed);
  account(bytes_after - bytes_before);
}

void Keyspace::count_table(const KeyTable& table, const TableFigures& before,
                           std::uint64_t more_value_bytes) {
  const TableFigures after(table);
  account(after.bytes - before.bytes + more_value_bytes, after.least - before.least + more_value_bytes);
  if (after.keys != before.keys) key_count_.fetch_add(after.keys - before.keys, std::memory_order_relaxed);
}

}  // namespace sepal::keyspace
