#include <sepal/base/assert.hpp>
#include <sepal/keyspace/cut.hpp>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "keyspace/database.hpp"
#include "keyspace/sharing.hpp"

namespace sepal::keyspace {

Cut::Cut(Tables tables, std::uint64_t size, Cut*& running)
    : tables_(std::move(tables)), size_(size), running_(running) {
  SEPAL_ASSERT(running_ == nullptr, "one cut at a time");
  running_ = this;
}

Cut::~Cut() {
  end();
}

// The keyspace tells the cut of changes only while `running_` points to it. Both ends of a cut clear the
// pointer: its last step, or its destruction before that. By then a second cut may run, so only the own
// pointer is cleared.
void Cut::end() {
  if (running_ == this) running_ = nullptr;
}

// A step first gives out the keys that were kept since the step before. They may be more than
// `entry_count`: then the step takes none from the tables. Each key is kept once at most, so the cut ends
// all the same.
bool Cut::step(std::size_t entry_count, std::vector<CutEntry>& to) {
  SEPAL_ASSERT(running_ == this && database_ < database_count, "a cut takes a step after its last");
  SEPAL_ASSERT(entry_count > 0, "a cut takes a step of no keys, and would never end");
  const std::size_t end = to.size() + entry_count;
  std::move(kept_.begin(), kept_.end(), std::back_inserter(to));
  kept_.clear();
  while (database_ < database_count && to.size() < end) {
    // A key that is in `changed` was kept already, or names something that is younger than the instant.
    const auto& changed = changed_[database_];
    // Ends with the loop's body: all entries of the step are complete before the gate opens.
    Sharing sharing(to);
    const auto take = [&](const Entry& entry, value::Value& value, Deadline deadline) {
      if (changed.empty() || !changed.contains(entry.key.view()))
        sharing.add(database_, entry, value, deadline);
    };
    // No change of the table moves a key across the position, because the order is that of the hashes
    // (decisions/0011).
    position_ = tables_[database_]->visit_segments(position_, end - to.size(), take);
    if (position_ == 0) ++database_;
  }
  if (database_ < database_count) return false;
  this->end();
  return true;
}

// The cut counts databases as they were at the instant.
bool Cut::to_come(std::uint32_t database, std::string_view key) const {
  if (database != database_) return database > database_;
  return tables_[database_]->hashed(key).hash >= position_;
}

void Cut::keep(const Database& database, std::string_view key) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(running_ == this, "a cut that has ended keeps a key");
  // The search is by table, because the key's database may have been swapped with another since. After a
  // flush the key is in another table, of which the cut knows nothing.
  const auto* const at = std::ranges::find(tables_, &database, [](const auto& each) { return each.get(); });
  if (at == tables_.end()) return;
  const auto number = static_cast<std::uint32_t>(at - tables_.begin());
  // The list has the key already.
  if (!to_come(number, key)) return;
  // Only the first change counts: before it, the table still maps the key as at the instant. The key is noted
  // even when it names nothing: what it comes to name is not of the instant.
  if (!changed_[number].emplace(key).second) return;
  // Without a time: a key past its deadline is kept like any other. The journal has its removal, and a
  // replay of that journal must find what it removes or renames (decisions/0013).
  if (value::Value* const named = database.find(key))
    kept_.push_back(
        {.database = number, .key = std::string(key), .value = named, .deadline = database.deadline(key)});
}

std::unique_ptr<Cut> Keyspace::begin_cut() {
  Cut::Tables tables;
  // The tables are shared, not copied: a flush gives the database another one, and the cut goes on with
  // this one.
  std::copy(databases_.begin(), databases_.end(), tables.begin());
  return std::unique_ptr<Cut>(new Cut(std::move(tables), total_size(), cut_));
}

std::vector<CutEntry> Keyspace::cut() const {
  std::vector<CutEntry> entries;
  entries.reserve(total_size());
  Sharing sharing(entries);
  for (std::uint32_t number = 0; number < database_count; ++number)
    database(number).visit_all([&](const Entry& entry, value::Value& value, Deadline deadline) {
      sharing.add(number, entry, value, deadline);
    });
  return entries;
}

}  // namespace sepal::keyspace
