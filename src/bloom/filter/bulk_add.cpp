// A batch takes its turn at three kinds of places, always in this order:
//
//     entry_       claims room for the items, or finds that there is none
//     regions_[r]  adds the items of the region r; for r from 0 on
//     end_         gives back the room that known items did not need
//
// No batch overtakes another one at any place. So a batch whose turn it is at end_ knows that all batches
// before it are through and that their counts are exact. A batch without room waits for that moment inside
// its turn at entry_, where it also holds up the batches behind it. Then it is alone, and may grow the
// filter.
#include <sepal/base/assert.hpp>
#include <sepal/bloom/filter/bulk_add.hpp>

#include <algorithm>
#include <bit>
#include <numeric>

#include "bloom/filter/layer.hpp"
#include "bloom/filter/stack.hpp"

namespace sepal::bloom {
namespace {

// Regions are runs of a power of two of blocks, so that no block lies in two.
class Regions {
 public:
  Regions(const Blocks& blocks, std::size_t count_max)
      : block_count_(blocks.block_count),
        // The smallest shift that makes at most `count_max` regions.
        shift_(static_cast<int>(std::bit_width((blocks.block_count - 1) / count_max))) {}

  [[nodiscard]] std::size_t of(const Fingerprint& item) const {
    return static_cast<std::size_t>(block_of(item, block_count_) >> shift_);
  }

 private:
  std::uint64_t block_count_;
  int shift_;
};

// The items that none of the first `layer_count` layers holds, in their order.
std::span<const Fingerprint> absent_of(std::span<const Fingerprint> items, const LayerStack& layers,
                                       std::uint32_t layer_count, std::vector<Fingerprint>& absent) {
  absent.clear();
  Pending pending;
  while (!items.empty()) {
    pending.count = std::min(items.size(), window_items_max);
    for (std::size_t i = 0; i < pending.count; ++i) {
      pending.low[i] = items[i].low;
      pending.high[i] = items[i].high;
    }
    items = items.subspan(pending.count);
    layers.prefetch(layer_count, pending);
    layers.find(layer_count, pending);
    for (std::size_t i = 0; i < pending.count; ++i) absent.push_back(pending.fingerprint(i));
  }
  return absent;
}

// No request waits for the first touch of a page here, so huge pages are right from the start.
void move_to_huge_pages(const LayerView& layer) {
  for (std::uint64_t piece = 0; piece < layer.piece_count(); ++piece) layer.move_to_huge_page(piece);
}

}  // namespace

BulkAdd::BulkAdd(Filter& filter, const FilterLimits& limits) : filter_(filter), limits_(limits) {
  SEPAL_ASSERT(!filter.stack().newest().blocks().anywhere(), "bulk adds go by blocks");
  move_to_huge_pages(filter.newest_layer());
}

bool BulkAdd::add(std::uint32_t batch, std::span<const Fingerprint> items, Workspace& workspace) {
  entry_.wait_for(batch);
  Claim claim = make_claim(batch, items, workspace);
  items_before_ += items.size();
  const bool accepted = !refused_;
  entry_.pass(batch);
  // A refused batch has no items. It goes through all turns all the same, because the batches behind it wait
  // for its number.
  // The layers stay as they are until this batch is through: a batch that grows the filter first waits for it
  // at end_.
  if (claim.older_layers > 0)
    claim.items = absent_of(claim.items, filter_.stack(), claim.older_layers, workspace.absent_);
  const std::uint64_t added = add_by_region(batch, claim, workspace);
  // In turn: otherwise this batch could give back room after a later batch has found none. The filter would
  // then grow at another item than with one thread.
  end_.wait_for(batch);
  SEPAL_ASSERT(added <= claim.room, "more items were added than room was claimed for");
  claim.layer->give_back(claim.room - added);
  end_.pass(batch);
  return accepted;
}

BulkAdd::Claim BulkAdd::make_claim(std::uint32_t batch, std::span<const Fingerprint> items,
                                   Workspace& workspace) {
  const LayerStack layers = filter_.stack();
  Layer& newest = layers.newest();
  if (refused_) return {.items = {}, .layer = &newest};
  if (newest.claim(items.size()))
    return {.items = items, .layer = &newest, .room = items.size(), .older_layers = layers.size() - 1};
  // From here on this batch is alone, so the counts are exact. Room for the new items is enough.
  end_.wait_for(batch);
  // Known items need no room. So a batch of mostly known items may still fit, and needs no growth.
  const auto absent = absent_of(items, layers, layers.size(), workspace.absent_);
  if (newest.claim(absent.size())) return {.items = absent, .layer = &newest, .room = absent.size()};
  add_one_by_one(items);
  return {.items = {}, .layer = &filter_.stack().newest()};
}

void BulkAdd::add_one_by_one(std::span<const Fingerprint> items) {
  const std::uint32_t layer_count = filter_.layer_count();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Filter::Refusal refusal = filter_.add_alone(items[i], limits_).refusal;
    if (refusal == Filter::Refusal::none) continue;
    refused_ = {.item = items_before_ + i, .why = refusal};
    return;
  }
  // No other batch is at work here, so the pieces may move at once.
  if (filter_.layer_count() > layer_count) move_to_huge_pages(filter_.newest_layer());
}

std::uint64_t BulkAdd::add_by_region(std::uint32_t batch, const Claim& claim, Workspace& workspace) {
  const Regions regions(claim.layer->blocks(), region_count);
  std::array<std::size_t, region_count + 1> ends{};
  for (const Fingerprint& item : claim.items) ++ends[regions.of(item) + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  // A counting sort: stable, so that a block gets its items in the order of the input.
  // ends[r] is first where region r begins. Filling the region moves it to where the region ends.
  auto& sorted = workspace.sorted_;
  if (sorted.size() < claim.items.size()) sorted.resize(claim.items.size());
  for (const Fingerprint& item : claim.items) sorted[ends[regions.of(item)]++] = item;
  SEPAL_ASSERT(ends[region_count - 1] == claim.items.size(),
               "the regions do not have all items of the batch");
  std::span<const Fingerprint> rest(sorted.data(), claim.items.size());
  std::uint64_t added = 0;
  for (std::size_t region = 0; region < region_count; ++region) {
    const std::size_t count = ends[region] - (claim.items.size() - rest.size());
    regions_[region].wait_for(batch);
    added += claim.layer->add_run(rest, count);
    regions_[region].pass(batch);
    rest = rest.subspan(count);
  }
  return added;
}

}  // namespace sepal::bloom
