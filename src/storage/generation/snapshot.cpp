#include <sepal/base/assert.hpp>
#include <sepal/storage/format/snapshot_format.hpp>
#include <sepal/storage/generation/snapshot.hpp>

#include <algorithm>
#include <utility>

namespace sepal::storage {
namespace {

// The entry joins the last run, or begins the next one.
void join_run(Snapshot& snapshot, const Snapshot::Run& single) {
  const bool joins =
      !snapshot.runs.empty() && snapshot.runs.back().record_bytes + single.record_bytes <= run_bytes_max;
  if (!joins) return snapshot.runs.push_back(single);
  Snapshot::Run& run = snapshot.runs.back();
  run.record_bytes += single.record_bytes;
  run.body_bytes += single.body_bytes;
  run.body_bytes_max = std::max(run.body_bytes_max, single.body_bytes);
}

// Freezes all entries that are not frozen yet. The gate is closed, so shapes, counts and position belong
// together.
void freeze(Snapshot& snapshot, std::uint64_t journal_position) {
  SEPAL_ASSERT(journal_position >= snapshot.journal_position, "values are frozen before the cut");
  for (std::size_t entry = snapshot.number_counts.size(); entry < snapshot.entries.size(); ++entry) {
    SEPAL_ASSERT(snapshot.entries[entry].value != nullptr, "a key of the snapshot names no value");
    const value::Value& value = *snapshot.entries[entry].value;
    const value::KindRow& row = value::row_of(value);
    const std::size_t before = snapshot.numbers.size();
    auto still = row.freeze(value, snapshot.numbers);
    const value::FrozenView view{
        .value = value, .numbers = std::span(snapshot.numbers).subspan(before), .still = still.get()};
    const std::uint64_t body_bytes = row.body_bytes(view);
    join_run(snapshot, {.first_entry = entry,
                        .first_number = before,
                        .record_bytes = format::record_bytes(snapshot.entries[entry].key.size(),
                                                             row.head_bytes(view), body_bytes),
                        .body_bytes = body_bytes,
                        .body_bytes_max = body_bytes});
    if (still != nullptr) snapshot.held.push_back({.entry = entry, .still = std::move(still)});
    snapshot.journal_positions.push_back(journal_position);
    snapshot.number_counts.push_back(static_cast<std::uint32_t>(snapshot.numbers.size() - before));
    snapshot.item_count += row.item_count(value);
    if (const std::uint64_t identity = row.identity(value); identity != 0)
      snapshot.known.push_back({.entry = entry, .identity = identity, .changes = row.changes(value)});
  }
}

}  // namespace

SnapshotTaker::SnapshotTaker(keyspace::Keyspace& keyspace, WallTime now, std::uint64_t journal_position)
    : cut_(keyspace.begin_cut()) {
  snapshot_.taken_at = now;
  snapshot_.journal_position = journal_position;
  // Mirrors are few (mirrors_max), so they are copied whole at the instant. The keys take steps.
  snapshot_.mirrors = keyspace.mirrors().all();
}

void SnapshotTaker::reserve() {
  SEPAL_ASSERT(cut_ != nullptr && snapshot_.entries.empty(), "memory is reserved after the first step");
  snapshot_.entries.reserve(cut_->size());
  snapshot_.journal_positions.reserve(cut_->size());
  snapshot_.number_counts.reserve(cut_->size());
  // Most values have two. A vector that has to grow copies itself with the gate closed.
  snapshot_.numbers.reserve(2 * cut_->size());
}

bool SnapshotTaker::step(std::size_t filter_count, std::uint64_t journal_position) {
  SEPAL_ASSERT(cut_ != nullptr && filter_count > 0,
               "a snapshot takes a step after its last, or one of no filters");
  const bool last = cut_->step(filter_count, snapshot_.entries);
  // In the same closing. Also for an entry that the cut kept earlier, because its key was about to change:
  // the value may have changed since, so it is frozen with the position of this step (decisions/0011).
  freeze(snapshot_, journal_position);
  return last;
}

Snapshot SnapshotTaker::finish() {
  SEPAL_ASSERT(cut_ != nullptr && snapshot_.number_counts.size() == snapshot_.entries.size(),
               "a snapshot is finished twice, or a value is not frozen");
  cut_.reset();
  return std::move(snapshot_);
}

Snapshot snapshot_of(const keyspace::Keyspace& keyspace, WallTime now, std::uint64_t journal_position) {
  Snapshot snapshot;
  snapshot.taken_at = now;
  snapshot.journal_position = journal_position;
  snapshot.mirrors = keyspace.mirrors().all();
  snapshot.entries = keyspace.cut();
  freeze(snapshot, journal_position);
  return snapshot;
}

}  // namespace sepal::storage
