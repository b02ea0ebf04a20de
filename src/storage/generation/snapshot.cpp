#include <sepal/base/assert.hpp>
#include <sepal/storage/generation/snapshot.hpp>

#include <algorithm>
#include <utility>

namespace sepal::storage {
namespace {

// Takes the layers of all entries that have none yet. The gate is closed, so no filter grows and no count
// changes while they are read: layers, counts and position belong together.
void take_layers(Snapshot& snapshot, std::uint64_t journal_position) {
  SEPAL_ASSERT(journal_position >= snapshot.journal_position, "layers are taken before the cut");
  for (std::size_t entry = snapshot.layer_counts.size(); entry < snapshot.entries.size(); ++entry) {
    SEPAL_ASSERT(snapshot.entries[entry].value != nullptr, "a key of the snapshot names no filter");
    const auto& filter = static_cast<const bloom::Filter&>(*snapshot.entries[entry].value);
    const std::uint32_t layer_count = filter.layer_count();
    snapshot.journal_positions.push_back(journal_position);
    snapshot.layer_counts.push_back(layer_count);
    for (std::uint32_t index = 0; index < layer_count; ++index) {
      const bloom::LayerView view = filter.layer(index);
      snapshot.layers.push_back({.view = view, .item_count = view.item_count()});
    }
  }
}

}  // namespace

std::uint64_t Snapshot::taken_until() const {
  std::uint64_t last = journal_position;
  for (const std::uint64_t position : journal_positions) last = std::max(last, position);
  return last;
}

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
  snapshot_.layer_counts.reserve(cut_->size());
  // Most filters have one layer. A vector that has to grow copies itself with the gate closed.
  snapshot_.layers.reserve(cut_->size());
}

bool SnapshotTaker::step(std::size_t filter_count, std::uint64_t journal_position) {
  SEPAL_ASSERT(cut_ != nullptr && filter_count > 0,
               "a snapshot takes a step after its last, or one of no filters");
  const bool last = cut_->step(filter_count, snapshot_.entries);
  // In the same closing. Also for an entry that the cut kept earlier, because its key was about to change:
  // the filter may have grown since, so it gets the layers and the position of this step (decisions/0011).
  take_layers(snapshot_, journal_position);
  return last;
}

Snapshot SnapshotTaker::finish() {
  SEPAL_ASSERT(cut_ != nullptr && snapshot_.layer_counts.size() == snapshot_.entries.size(),
               "a snapshot is finished twice, or lacks layers");
  cut_.reset();
  return std::move(snapshot_);
}

Snapshot snapshot_of(const keyspace::Keyspace& keyspace, WallTime now, std::uint64_t journal_position) {
  Snapshot snapshot;
  snapshot.taken_at = now;
  snapshot.journal_position = journal_position;
  snapshot.mirrors = keyspace.mirrors().all();
  snapshot.entries = keyspace.cut();
  take_layers(snapshot, journal_position);
  return snapshot;
}

}  // namespace sepal::storage
