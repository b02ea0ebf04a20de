#include "bloom/filter/shards.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/value/heap.hpp>

#include <algorithm>
#include <bit>
#include <new>

namespace sepal::bloom {
namespace {

// A layer has one shard for so many bytes, up to the maximum. With more shards threads would meet less often,
// but counting the items of a layer reads all shards.
constexpr std::uint64_t shard_bytes_min = 64 << 10;
constexpr std::uint64_t shard_count_max = 2048;
// What one refill takes from the pool: small against the capacity of a layer with many shards, yet enough
// that a shard seldom refills.
constexpr std::uint64_t reserve_max = 64;
constexpr std::uint64_t reserves_of_pool = 4;
static_assert(reserve_max > 0 && reserves_of_pool > 0 && shard_count_max > 0);

struct Division {
  std::uint32_t shard_count;
  std::uint32_t blocks_shift;
};

Division division_of(const LayerPlan& plan) {
  SEPAL_ASSERT(plan.block_count > 0, "a layer without blocks has no shards");
  const std::uint64_t wanted =
      std::clamp<std::uint64_t>(plan.byte_count() / shard_bytes_min, 1, shard_count_max);
  // A shard is a power of two of blocks, so that of_block() is a shift. Rounding up makes fewer shards than
  // wanted, never more.
  const std::uint64_t blocks = (plan.block_count + wanted - 1) / wanted;
  const auto shift = static_cast<std::uint32_t>(std::bit_width(blocks - 1));
  const std::uint64_t count = ((plan.block_count - 1) >> shift) + 1;
  return {.shard_count = static_cast<std::uint32_t>(count), .blocks_shift = shift};
}

// The most that the aligned operator new adds.
constexpr std::uint64_t alignment_bytes = alignof(Shard);

}  // namespace

std::unique_ptr<Shards> Shards::allocate(const LayerPlan& plan) {
  const Division division = division_of(plan);
  std::unique_ptr<Shard[]> shards(new (std::nothrow) Shard[division.shard_count]);
  if (shards == nullptr) return nullptr;
  return std::unique_ptr<Shards>(new (std::nothrow)
                                     Shards(std::move(shards), division.shard_count, division.blocks_shift));
}

// Two allocations: the object, and the array of shards.
std::uint64_t Shards::footprint(const LayerPlan& plan) {
  return value::heap_footprint(sizeof(Shards) + alignment_bytes) +
         value::heap_footprint(division_of(plan).shard_count * sizeof(Shard) + alignment_bytes);
}

bool Shards::claim(std::uint64_t items) {
  // Relaxed here and below: only the counter is claimed. The shards' locks order bits and items.
  std::uint64_t room = pool_.room.load(std::memory_order_relaxed);
  while (room >= items)
    if (pool_.room.compare_exchange_weak(room, room - items, std::memory_order_relaxed)) return true;
  return false;
}

void Shards::give_back(std::uint64_t items) {
  if (items > 0) pool_.room.fetch_add(items, std::memory_order_relaxed);
}

bool Shards::refill(Shard& shard) {
  SEPAL_ASSERT(shard.reserve == 0, "a shard gets a reserve while it has one");
  // Only a guess, because another thread may take room meanwhile: claim() decides. With one shard all adds
  // meet at its lock anyway, so a reserve would save nothing.
  const std::uint64_t room = pool_.room.load(std::memory_order_relaxed);
  const std::uint64_t shared_room = room / (reserves_of_pool * shard_count_);
  std::uint64_t chunk = shard_count_ == 1 ? 1 : std::clamp<std::uint64_t>(shared_room, 1, reserve_max);
  if (!claim(chunk)) {
    // Another thread has taken from the pool meanwhile, or the pool has less than a chunk: one is enough
    // here.
    chunk = 1;
    if (!claim(chunk)) return false;
  }
  shard.reserve += static_cast<std::uint32_t>(chunk);
  // Relaxed: the lock of the shard orders this store against sweep().
  if (chunk > 1 && !pool_.reserves_left.load(std::memory_order_relaxed))
    pool_.reserves_left.store(true, std::memory_order_relaxed);
  return true;
}

std::uint64_t Shards::item_count() const {
  std::uint64_t count = 0;
  for (std::uint32_t i = 0; i < shard_count_; ++i)
    count += shards_[i].item_count.load(std::memory_order_acquire);
  return count;
}

bool Shards::full(std::uint64_t capacity) {
  // The counts never fall, and a full layer stays full. A thread that finds it so sees all of its bits.
  if (pool_.full.load(std::memory_order_acquire)) return true;
  // While adds run, the sum may lack some of them, so it errs on the side of `false`. It never exceeds the
  // capacity, because each count has used a claim.
  if (item_count() != capacity) return false;
  pool_.full.store(true, std::memory_order_release);
  return true;
}

void Shards::sweep() {
  // Most layers have nothing to collect, and a visit to each shard costs a cache line.
  if (!pool_.reserves_left.load(std::memory_order_relaxed)) return;
  // First: a shard that is refilled behind the sweep then says so anew.
  pool_.reserves_left.store(false, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < shard_count_; ++i) {
    const SpinGuard guard(shards_[i].lock);
    give_back(std::exchange(shards_[i].reserve, 0));
  }
}

// Any shard's count will do: only the sum matters.
void Shards::count(std::uint64_t items) {
  shards_[0].item_count.fetch_add(items, std::memory_order_relaxed);
}

void Shards::restore(std::uint64_t capacity, std::uint64_t item_count) {
  SEPAL_ASSERT(item_count <= capacity, "a layer holds no more than its capacity");
  shards_[0].item_count.store(item_count, std::memory_order_relaxed);
  pool_.room.store(capacity - item_count, std::memory_order_relaxed);
}

}  // namespace sepal::bloom
