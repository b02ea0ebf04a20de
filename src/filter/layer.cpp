// How bits are read and written. A word is only ever touched through an atomic. Whoever sets bits holds the
// lock of their shard, so a plain load and store is enough and no bit is lost; whoever tests them holds
// nothing. Both are relaxed: a look-up that follows an answered add was caused by that answer, and so sees
// what came before it.
#include "layer.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "heap_bytes.hpp"
#include "probe.hpp"

namespace sepal::filter {
namespace {

constexpr std::uint64_t word_bytes = word_bits / 8;
// The largest bitmap that follows its header. The blocks of a larger one start at cache lines.
constexpr std::uint64_t small_bytes_max = 4096;

// Constness is of the layer, not of its bits, which other threads may be setting.
std::uint64_t load(std::uint64_t& word) {
  return std::atomic_ref<std::uint64_t>(word).load(std::memory_order_relaxed);
}

void store_word(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_relaxed);
}

bool is_small(const LayerPlan& plan) {
  return plan.byte_count() <= small_bytes_max && plan.capacity <= std::numeric_limits<std::uint32_t>::max();
}

void count_one(std::atomic<std::uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

Layer::Layer(const LayerPlan& plan, bool small)
    : capacity_(plan.capacity),
      error_rate_(plan.error_rate),
      block_count_(plan.block_count),
      block_bits_(plan.block_bits),
      probe_count_(static_cast<std::uint8_t>(plan.probe_count)),
      small_(small) {}

Result<std::unique_ptr<Layer>> Layer::create(const LayerPlan& plan, std::uint64_t item_count) {
  SEPAL_ASSERT(item_count <= plan.capacity, "a layer holds no more than its capacity");
  auto layer = is_small(plan) ? create_small(plan) : create_large(plan);
  if (layer == nullptr) return fail(Errc::out_of_memory, "the system refused the memory of a layer");
  if (layer->small_) {
    layer->room_.store(static_cast<std::uint32_t>(plan.capacity - item_count), std::memory_order_relaxed);
    layer->item_count_.store(static_cast<std::uint32_t>(item_count), std::memory_order_relaxed);
  } else {
    layer->store().shards->restore(plan.capacity, item_count);
  }
  return layer;
}

std::unique_ptr<Layer> Layer::create_small(const LayerPlan& plan) {
  void* const allocated = std::calloc(1, sizeof(Layer) + plan.byte_count());
  if (allocated == nullptr) return nullptr;
  return std::unique_ptr<Layer>(::new (allocated) Layer(plan, true));
}

std::unique_ptr<Layer> Layer::create_large(const LayerPlan& plan) {
  auto shards = Shards::allocate(plan);
  if (shards == nullptr) return nullptr;
  auto bitmap = Bitmap::allocate(plan.byte_count());
  if (!bitmap) return nullptr;
  void* const allocated = std::malloc(sizeof(Layer) + sizeof(Store));
  if (allocated == nullptr) return nullptr;
  std::unique_ptr<Layer> layer(::new (allocated) Layer(plan, false));
  ::new (static_cast<void*>(layer.get() + 1))
      Store{.bitmap = std::move(*bitmap), .shards = std::move(shards)};
  return layer;
}

std::uint64_t Layer::footprint(const LayerPlan& plan) {
  if (is_small(plan)) return heap_footprint(sizeof(Layer) + plan.byte_count());
  return heap_footprint(sizeof(Layer) + sizeof(Store)) + Shards::footprint(plan) +
         Bitmap::footprint(plan.byte_count());
}

Layer::~Layer() {
  if (!small_) store().~Store();
}

void Layer::operator delete(void* allocated) {
  std::free(allocated);
}

// Both follow the header, which the allocation in create_small() and create_large() has made room for.
static_assert(alignof(Layer) >= alignof(std::uint64_t) && sizeof(Layer) % alignof(std::max_align_t) == 0);

Layer::Store& Layer::store() const {
  return *std::launder(reinterpret_cast<Store*>(const_cast<Layer*>(this) + 1));
}

std::uint64_t* Layer::words() const {
  return small_ ? reinterpret_cast<std::uint64_t*>(const_cast<Layer*>(this) + 1) : store().bitmap.words();
}

std::uint64_t* Layer::block_words(std::uint64_t block) const {
  return words() + block * (block_bits_ / word_bits);
}

LayerPlan Layer::plan() const {
  return {.capacity = capacity_,
          .error_rate = error_rate_,
          .block_count = block_count_,
          .block_bits = block_bits_,
          .probe_count = probe_count_};
}

std::uint64_t Layer::item_count() const {
  return small_ ? item_count_.load(std::memory_order_relaxed) : store().shards->item_count();
}

Blocks Layer::blocks() const {
  return {
      .words = words(), .block_count = block_count_, .block_bits = block_bits_, .probe_count = probe_count_};
}

void Layer::prefetch(std::span<const Fingerprint> items) const {
  if (small_) return;  // Its bits lie beside the header that is being read.
  prefetch_blocks(blocks(), items);
}

std::size_t Layer::find(std::span<const Fingerprint> items, std::span<std::uint8_t> pending) const {
  return find_items(blocks(), items, pending);
}

bool Layer::contains(const Fingerprint& fingerprint) const {
  return holds_item(blocks(), fingerprint);
}

// The caller holds the lock of the block's shard. True if a bit changed.
bool Layer::set(std::uint64_t* block, const Fingerprint& fingerprint) const {
  bool changed = false;
  for (std::uint32_t probe = 0; probe < probe_count_; ++probe) {
    const std::uint32_t position = position_of(fingerprint, probe, block_bits_);
    std::uint64_t& word = block[position / word_bits];
    const std::uint64_t before = load(word);
    const std::uint64_t after = before | std::uint64_t{1} << (position % word_bits);
    if (after == before) continue;
    store_word(word, after);
    changed = true;
  }
  return changed;
}

bool Layer::claim(std::uint64_t items) {
  if (!small_) return store().shards->claim(items);
  std::uint32_t room = room_.load(std::memory_order_relaxed);
  while (room >= items)
    if (room_.compare_exchange_weak(room, room - static_cast<std::uint32_t>(items),
                                    std::memory_order_relaxed))
      return true;
  return false;
}

void Layer::give_back(std::uint64_t items) {
  if (!small_) return store().shards->give_back(items);
  if (items > 0) room_.fetch_add(static_cast<std::uint32_t>(items), std::memory_order_relaxed);
}

bool Layer::add_claimed(const Fingerprint& fingerprint) {
  const std::uint64_t block = block_of(fingerprint, block_count_);
  if (small_) {
    const SpinGuard guard(lock_);
    const bool added = set(block_words(block), fingerprint);
    if (added) item_count_.store(item_count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return added;
  }
  Shard& shard = store().shards->of_block(block);
  const SpinGuard guard(shard.lock);
  const bool added = set(block_words(block), fingerprint);
  if (added) count_one(shard.item_count);
  return added;
}

Added Layer::add(const Fingerprint& fingerprint) {
  if (small_) {
    if (!claim(1)) return contains(fingerprint) ? Added::present : Added::no_room;
    if (add_claimed(fingerprint)) return Added::yes;
    give_back(1);
    return Added::present;
  }
  const std::uint64_t block = block_of(fingerprint, block_count_);
  std::uint64_t* const bits = block_words(block);
  Shards& shards = *store().shards;
  Shard& shard = shards.of_block(block);
  const SpinGuard guard(shard.lock);
  if (contains(fingerprint)) return Added::present;
  if (shard.reserve == 0 && !shards.refill(shard)) return Added::no_room;
  --shard.reserve;
  set(bits, fingerprint);
  count_one(shard.item_count);
  return Added::yes;
}

void Layer::sweep() {
  if (!small_) store().shards->sweep();
}

void Layer::copy_bits(std::uint64_t offset, std::span<std::byte> to) const {
  SEPAL_ASSERT(offset % word_bytes == 0 && to.size() % word_bytes == 0, "bits are copied in whole words");
  SEPAL_ASSERT(offset <= plan().byte_count() && to.size() <= plan().byte_count() - offset,
               "bits are copied from within the bitmap");
  std::uint64_t* word = words() + offset / word_bytes;
  for (std::size_t at = 0; at < to.size(); at += word_bytes)
    store_little_endian(to.data() + at, load(*word++));
}

void Layer::fill_bits(std::uint64_t offset, std::span<const std::byte> from) {
  SEPAL_ASSERT(offset % word_bytes == 0 && from.size() % word_bytes == 0, "bits are filled in whole words");
  SEPAL_ASSERT(offset <= plan().byte_count() && from.size() <= plan().byte_count() - offset,
               "bits are filled within the bitmap");
  std::uint64_t* word = words() + offset / word_bytes;
  for (std::size_t at = 0; at < from.size(); at += word_bytes)
    store_word(*word++, load_little_endian<std::uint64_t>(from.data() + at));
}

double Layer::fill(std::uint64_t sample_bytes_max) const {
  const std::uint64_t word_count = plan().byte_count() / word_bytes;
  const std::uint64_t sample_count = std::clamp<std::uint64_t>(sample_bytes_max / word_bytes, 1, word_count);
  const std::uint64_t stride = word_count / sample_count;
  std::uint64_t set_bits = 0;
  for (std::uint64_t i = 0; i < sample_count; ++i)
    set_bits += static_cast<std::uint64_t>(__builtin_popcountll(load(words()[i * stride])));
  return static_cast<double>(set_bits) / static_cast<double>(sample_count * word_bits);
}

}  // namespace sepal::filter
