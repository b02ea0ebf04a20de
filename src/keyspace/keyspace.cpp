#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/bloom/strings/bit_string.hpp>
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
//   2. The change of the table. A filter that loses its key first loses its mirror, then its bytes are taken
//      from the account, and the housekeeper gets it: no request waits for the memory to be freed.
//   3. count_table() for each table that has changed, then changed(), which brings the gauges up to date.
//
// filter_bytes_, table_bytes_ and held_bytes_ are the account. The first two are also kept for each database,
// so that a flush looks at no filter. They are not atomic, since only a thread that has closed the gate
// changes them. The gauges are copies that any thread may read.
namespace {

// What a filter may take when neither a limit nor the machine's memory is known: more than any machine has,
// yet small enough that sums of a few such numbers do not wrap.
constexpr std::uint64_t unbounded_bytes = std::uint64_t{1} << 62;
static_assert(database_count > 0);

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
  changed();
  // To make empty tables is no change that a save would have to keep.
  structure_changes_ = 0;
}

Keyspace::~Keyspace() = default;

KeyTable& Keyspace::table(std::uint32_t database) const {
  SEPAL_ASSERT(database < database_count, "a database beyond the last");
  return *databases_[database];
}

bloom::Filter* Keyspace::find(DatabaseKey key, WallTime now) const {
  const FilterPtr* const found = std::as_const(table(key.database)).find(key.key, now);
  return found == nullptr ? nullptr : found->get();
}

Deadline Keyspace::deadline(DatabaseKey key) const {
  return table(key.database).deadline(key.key);
}

DeadlineSummary Keyspace::deadlines(std::uint32_t database) const {
  return table(database).deadlines();
}

Deadline Keyspace::earliest_deadline() const {
  Deadline earliest = no_deadline;
  for (const auto& database : databases_) {
    const Deadline of_table = database->earliest();
    if (earliest == no_deadline || (of_table != no_deadline && of_table < earliest)) earliest = of_table;
  }
  return earliest;
}

std::optional<NamedKey> Keyspace::next_due(WallTime now) const {
  const Deadline earliest = earliest_deadline();
  if (!is_past(earliest, now)) return std::nullopt;
  std::uint32_t database = 0;
  // Ends: is_past() was true, so a table has this deadline.
  while (databases_[database]->earliest() != earliest) ++database;
  return NamedKey{.database = database, .key = std::string(*databases_[database]->earliest_key())};
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
  std::uint64_t least = filter_bytes_ + held_bytes_ + other_bytes_;
  for (const auto& database : databases_) least += database->least_bytes();
  return least;
}

bloom::FilterLimits Keyspace::filter_limits(std::uint64_t bytes_held) const {
  return {.bytes_max = bytes_free(bytes_held), .layers_max = options_.layers_max};
}

void Keyspace::plan_ahead(const bloom::FilterOptions& options) const {
  // Only the memo matters. An error comes again, and is told, when the filter is created.
  (void)bloom::Filter::plan(options, filter_limits(), &plans_);
}

void Keyspace::plan_growth_ahead(const bloom::Filter& filter) const {
  filter.plan_growth(plans_);
  if (const Mirrors::Link* const link = mirrors_.whole_from(filter)) link->target->plan_growth(plans_);
}

// A filter is too large for the rest of a limit, or for any machine. Clients are told which: a second plan,
// without a limit, tells the two apart.
Error Keyspace::refusal_of(const Error& error, const bloom::FilterOptions& options) const {
  if (error.code != Errc::too_large) return error;
  const bloom::FilterLimits unbounded{.bytes_max = unbounded_bytes, .layers_max = options_.layers_max};
  if (!bloom::Filter::plan(options, unbounded, &plans_)) return error;
  return fail(Errc::memory_limit, error.detail);
}

Result<bloom::Filter*> Keyspace::create(DatabaseKey key, const bloom::FilterOptions& options) {
  KeyTable& keys = table(key.database);
  if (key.key.size() > key_bytes_max) return too_long();
  if (std::as_const(keys).find(key.key) != nullptr) return fail(Errc::key_exists);
  if (total_size() >= options_.keys_max) return fail(Errc::key_limit);
  bloom::FilterLimits limits = filter_limits();
  // The key takes memory, too.
  limits.bytes_max -= std::min(limits.bytes_max, KeyTable::entry_bytes(key.key));
  // Most filters have the options of the one before.
  const bool known = newest_plan_ && newest_plan_->options == options;
  if (!known || newest_plan_->byte_count > limits.bytes_max) {
    const auto planned = bloom::Filter::plan(options, limits, &plans_);
    if (!planned) return refusal_of(planned.error(), options);
    newest_plan_ = *planned;
  }
  // create() checks no limit. The plan, new or known, has just been compared with the limits.
  auto created = bloom::Filter::create(*newest_plan_);
  if (!created) return created.error();
  return &insert(key, std::move(*created));
}

const bloom::FilterPlan& Keyspace::newest_plan() const {
  SEPAL_ASSERT(newest_plan_.has_value(), "a filter has been created");
  return *newest_plan_;
}

bloom::Filter& Keyspace::insert(DatabaseKey key, FilterPtr filter) {
  SEPAL_ASSERT(filter != nullptr, "a key that would name no filter");
  bloom::Filter& inserted = *filter;
  about_to_change(key);
  table(key.database).insert(key.key, std::move(filter));
  give_pages_to_newest_layer(inserted);
  count_filter(key.database, 0, inserted.byte_count());
  count_table(key.database);
  changed();
  return inserted;
}

// A string for a key that has none, or a larger copy of the one that it has. It is under no key yet, so
// write() can still fail without a trace.
Result<FilterPtr> Keyspace::string_with_room(DatabaseKey key, std::uint64_t byte_count,
                                             std::uint64_t bytes_max) const {
  const bloom::FilterLimits limits{.bytes_max = bytes_max, .layers_max = 1};
  if (const bloom::Filter* const present = find(key))
    return bloom::BitString(*present).grown(byte_count, limits);
  if (key.key.size() > key_bytes_max) return too_long();
  if (total_size() >= options_.keys_max) return fail(Errc::key_limit);
  if (KeyTable::entry_bytes(key.key) > bytes_max) return fail(Errc::memory_limit);
  return bloom::BitString::with_room(byte_count, limits);
}

Result<void> Keyspace::write(DatabaseKey key, std::uint64_t offset, std::span<const std::byte> bytes,
                             std::uint64_t bytes_max) {
  if (key.database >= database_count) return fail(Errc::out_of_range, "there is no such database");
  // The offset is the client's, and the sum may wrap.
  const auto end = checked_add(offset, bytes.size());
  if (!end || *end > bloom::string_bytes_max) return fail(Errc::too_large, "a string is longer than 512 MB");
  // Shared, not only pointed to: the key may get a larger string below, and this one is still needed then.
  FilterPtr string(find(key));
  SEPAL_ASSERT(string == nullptr || string->is_string(), "bytes are written into a filter");
  const bool is_new = string == nullptr;
  const bool grows = is_new || *end > bloom::BitString(*string).capacity();
  // As accounted. A larger string shares the memory of the one that it replaces, so what is written now is in
  // both.
  const std::uint64_t bytes_before = is_new ? 0 : string->byte_count();
  if (grows) {
    // The length was compared with the longest string above. So too_large can only mean that the memory is
    // not there.
    auto made = string_with_room(key, *end, bytes_max);
    if (!made) return made.error().code == Errc::too_large ? fail(Errc::memory_limit) : made.error();
    string = std::move(*made);
  }
  bloom::BitString target(*string);
  // All that can fail is behind us then: what follows changes the keyspace.
  if (target.bytes_to_touch(offset, bytes.size()) > bytes_max) return fail(Errc::memory_limit);
  target.write(offset, bytes);
  if (is_new) {
    insert(key, std::move(string));
  } else if (grows) {
    replace_string(key, std::move(string), bytes_before);
  } else {
    // The key names the same filter as before, so a cut has nothing to keep. A save may read these bytes at
    // any time: the replay writes them again (decisions/0027).
    count_filter(key.database, bytes_before, string->byte_count());
    changed();
  }
  return {};
}

void Keyspace::replace_string(DatabaseKey key, FilterPtr larger, std::uint64_t bytes_before) {
  // A save that reads the smaller string finds the shape that it has noted: the cut keeps that string
  // (decisions/0027).
  about_to_change(key);
  FilterPtr* const present = table(key.database).find(key.key);
  SEPAL_ASSERT(present != nullptr, "a string grows that is not there");
  count_filter(key.database, bytes_before, larger->byte_count());
  // Only the filter changes. The deadline stands beside the entry, and a string is no end of a mirror.
  housekeeper_.dispose(std::exchange(*present, std::move(larger)));
  changed();
}

bloom::FilterLimits Keyspace::machine_limits() const {
  // For a replay: it repeats what has fitted before, whatever the operator has set since. Only the machine
  // itself bounds it.
  return {.bytes_max = options_.machine_bytes != 0 ? options_.machine_bytes : unbounded_bytes,
          .layers_max = std::numeric_limits<std::uint32_t>::max()};
}

namespace {

FilterPtr as_filter(const value::ValuePtr& value) {
  return FilterPtr(static_cast<bloom::Filter*>(value.get()));
}

}  // namespace

Result<void> Keyspace::make_recorded(DatabaseKey key, value::Kind kind, std::span<const std::byte> head) {
  if (key.database >= database_count) return fail(Errc::out_of_range, "there is no such database");
  if (find(key) != nullptr) return fail(Errc::key_exists, "the key is there already");
  const auto made = value::row_of(kind).make_recorded(head, machine_limits());
  if (!made) return made.error();
  insert(key, as_filter(*made));
  return {};
}

Result<void> Keyspace::change_recorded(DatabaseKey key, value::Kind kind, std::uint8_t what,
                                       std::span<const std::byte> bytes) {
  if (key.database >= database_count) return fail(Errc::out_of_range, "there is no such database");
  const value::KindRow& row = value::row_of(kind);
  // Shared, not only pointed to: another value may take its place below, and this one is still needed then.
  FilterPtr value(find(key));
  if (value != nullptr && value->kind() != kind)
    return fail(Errc::damaged, "a value changes as one of another kind does");
  const bool is_new = value == nullptr;
  if (is_new) {
    if (!row.made_by_change) return fail(Errc::no_such_key);
    const auto made = row.make_recorded({}, machine_limits());
    if (!made) return made.error();
    value = as_filter(*made);
  }
  const std::uint64_t bytes_before = value->byte_count();
  const auto other = row.apply(*value, what, bytes, machine_limits());
  if (!other) return other.error();
  if (*other != nullptr) value = as_filter(*other);
  if (is_new) {
    insert(key, std::move(value));
  } else if (*other != nullptr) {
    replace_string(key, std::move(value), bytes_before);
  } else {
    count_filter(key.database, bytes_before, value->byte_count());
    give_pages_to_newest_layer(*value);
    changed();
  }
  return {};
}

Result<void> Keyspace::put(DatabaseKey key, FilterPtr filter, Deadline deadline) {
  SEPAL_ASSERT(filter != nullptr, "a key that names no filter");
  if (key.database >= database_count) return fail(Errc::out_of_range);
  if (key.key.size() > key_bytes_max) return too_long();
  KeyTable& keys = table(key.database);
  // All errors come before about_to_change() and place(): a refused filter changes nothing.
  FilterPtr* const present = keys.find(key.key);
  if (present == nullptr && total_size() >= options_.keys_max) return fail(Errc::key_limit);
  // The filter that goes makes room for the one that comes.
  const std::uint64_t bytes_freed = present == nullptr ? 0 : (*present)->byte_count();
  SEPAL_ASSERT(bytes_freed <= least_bytes(), "a filter takes more memory than all keys together");
  const std::uint64_t entry_bytes = present == nullptr ? KeyTable::entry_bytes(key.key) : 0;
  const auto bytes_needed = checked_add(filter->byte_count(), entry_bytes);
  if (!bytes_needed || *bytes_needed > bytes_beside(least_bytes() - bytes_freed))
    return fail(Errc::memory_limit);
  place(key, std::move(filter), deadline);
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

Result<void> Keyspace::readopt(DatabaseKey key, FilterPtr filter, Deadline deadline) {
  if (key.database >= database_count) return fail(Errc::out_of_range, "there is no such database");
  place(key, std::move(filter), deadline);
  return {};
}

// The bytes are counted before the pointers are moved away.
void Keyspace::place(DatabaseKey key, FilterPtr filter, Deadline deadline) {
  SEPAL_ASSERT(filter != nullptr, "a key that would name no filter");
  about_to_change(key);
  KeyTable& keys = table(key.database);
  FilterPtr* const present = keys.find(key.key);
  const bool replaces = present != nullptr;
  count_filter(key.database, replaces ? (*present)->byte_count() : 0, filter->byte_count());
  if (options_.worker_count > 0) filter->keep_usage(options_.worker_count);
  for (const bloom::LayerView& layer : filter->layers())
    // Layers that an upload has filled are still in small pages.
    if (layer.fresh()) housekeeper_.give_pages(filter, layer);
  if (replaces) {
    drop_mirror(**present);
    housekeeper_.dispose(std::exchange(*present, std::move(filter)));
  } else {
    keys.insert(key.key, std::move(filter));
  }
  // A key that was there may have a deadline, which belongs to the filter that goes.
  if (deadline != no_deadline || replaces) store_deadline(key, deadline);
  count_table(key.database);
  changed();
}

void Keyspace::store_deadline(DatabaseKey key, Deadline deadline) {
  // The thread `expiry` sleeps until the earliest deadline that it knows. Only a sooner one must wake it.
  const Deadline earliest = earliest_deadline();
  table(key.database).set_deadline(key.key, deadline);
  if (deadline != no_deadline && (earliest == no_deadline || deadline < earliest))
    housekeeper_.due_at(deadline);
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
  // The table's earliest deadline is asked first: it costs no look-up of the key, and nearly always says
  // no.
  if (!is_past(table(key.database).earliest(), now) || !is_past(deadline(key), now)) return false;
  expired_count_.fetch_add(1, std::memory_order_relaxed);
  return remove(key);
}

bloom::Filter::AddOutcome Keyspace::add_alone(std::uint32_t database, bloom::Filter& filter,
                                              const Fingerprint& item) {
  // An add that needs no growth leaves the account of bytes as it is.
  bool added = false;
  if (filter.try_add(item, added)) return {.added = added};
  const std::uint64_t bytes_before = filter.byte_count();
  // The limit is what is free and what the filter has already, because a growth is compared with the whole
  // size of the filter.
  const auto outcome = filter.add_alone(item, filter_limits(bytes_before), &plans_);
  const std::uint64_t bytes_after = filter.byte_count();
  SEPAL_ASSERT(bytes_after >= bytes_before, "a filter has become smaller by an add");
  if (bytes_after != bytes_before) {
    count_filter(database, bytes_before, bytes_after);
    give_pages_to_newest_layer(filter);
    changed();
  }
  return outcome;
}

// A string may get memory for a page here. A filter does not: its growth is a record of its own.
bool Keyspace::add_recorded(std::uint32_t database, bloom::Filter& filter,
                            std::span<const Fingerprint> fingerprints) {
  const auto add = value::row_of(filter).add;
  if (add == nullptr) return false;
  const std::uint64_t bytes_before = filter.byte_count();
  const bool added = add(filter, fingerprints);
  count_filter(database, bytes_before, filter.byte_count());
  return added;
}

void Keyspace::give_pages_to_newest_layer(bloom::Filter& filter) {
  if (options_.worker_count > 0) filter.keep_usage(options_.worker_count);
  // Small layers have no pieces, and no huge page would help them.
  if (filter.fresh()) housekeeper_.give_pages(FilterPtr(&filter), filter.newest_layer());
}

bool Keyspace::remove(DatabaseKey key) {
  about_to_change(key);
  FilterPtr removed = table(key.database).take(key.key);
  if (removed == nullptr) return false;
  // While the filter still lives: mirrors go by its address, and another filter could get that address
  // next.
  drop_mirror(*removed);
  count_filter(key.database, removed->byte_count(), 0);
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
  FilterPtr moved = keys.take(from);
  // Stays valid: the table keeps the filter.
  const bloom::Filter& filter = *moved;
  if (FilterPtr* const present = keys.find(to)) {
    // First: the filter that goes may be the other end of the moved filter's own mirror (BF.MIRROR with
    // COMMIT). Then there is no mirror to rename below.
    drop_mirror(**present);
    count_filter(database, (*present)->byte_count(), 0);
    housekeeper_.dispose(std::exchange(*present, std::move(moved)));
  } else {
    keys.insert(to, std::move(moved));
  }
  if (!mirrors_.empty()) mirrors_.rename(filter, to);
  // Overwrites what the replaced filter may have had. The thread `expiry` knows the moved deadline already.
  keys.set_deadline(to, deadline);
  count_table(database);
  changed();
  return {};
}

Result<void> Keyspace::move(DatabaseKey from, std::uint32_t to_database) {
  const DatabaseKey to{.database = to_database, .key = from.key};
  const bloom::Filter* const moved = find(from);
  if (moved == nullptr) return fail(Errc::no_such_key);
  if (find(to) != nullptr) return fail(Errc::key_exists);
  about_to_change(from);
  about_to_change(to);
  // A mirror is between two keys of one database, so a move ends it.
  drop_mirror(*moved);
  const Deadline deadline = table(from.database).deadline(from.key);
  count_filter(from.database, moved->byte_count(), 0);
  count_filter(to_database, 0, moved->byte_count());
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
  // All that belongs to a table goes with it. Filters and keys move nowhere.
  std::swap(filter_bytes_of_[database], filter_bytes_of_[other]);
  std::swap(table_bytes_of_[database], table_bytes_of_[other]);
  std::swap(contents_[database], contents_[other]);
  mirrors_.swap_databases(database, other);
  changed();
}

void Keyspace::drop_mirror(const bloom::Filter& end) {
  if (!mirrors_.empty()) mirrors_.drop(end);
}

// The housekeeper gets the table as it is: no filter is touched here.
void Keyspace::dispose_table(std::uint32_t database) {
  SEPAL_ASSERT(database < database_count, "a database beyond the last is flushed");
  // While its filters live: mirrors go by addresses. A cut that still needs the table shares it.
  mirrors_.drop_database(database);
  housekeeper_.dispose_database(std::move(databases_[database]));
  databases_[database] = std::make_shared<KeyTable>(options_.key_seed);
  count_filter(database, filter_bytes_of_[database], 0);
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

void Keyspace::count_filter(std::uint32_t database, std::uint64_t bytes_before, std::uint64_t bytes_after) {
  SEPAL_ASSERT(bytes_before <= filter_bytes_of_[database], "a filter takes more memory than its database");
  // The difference may be negative: then it wraps, and the sums wrap back.
  filter_bytes_of_[database] += bytes_after - bytes_before;
  filter_bytes_ += bytes_after - bytes_before;
}

void Keyspace::count_table(std::uint32_t database) {
  const std::uint64_t bytes = databases_[database]->byte_count();
  SEPAL_ASSERT(table_bytes_of_[database] <= table_bytes_, "a table takes more memory than all tables");
  // The difference may be negative: then it wraps, and the sum wraps back.
  table_bytes_ += bytes - std::exchange(table_bytes_of_[database], bytes);
}

void Keyspace::account() {
  const std::uint64_t used = filter_bytes_ + table_bytes_ + held_bytes_ + other_bytes_;
  memory_used_.store(used, std::memory_order_relaxed);
  // A plain load and store: one thread at a time has the gate closed.
  memory_peak_.store(std::max(memory_peak(), used), std::memory_order_relaxed);
}

void Keyspace::changed() {
  account();
  structure_changes_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace sepal::keyspace
