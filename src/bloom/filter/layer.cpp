// How bits are read and written. A word is only ever touched through an atomic, or through a vector access
// that is as good as one (avx512_kernel.cpp). A thread that sets bits holds the lock of their shard, so a
// plain load and store is enough and no bit is lost. In a layer without blocks, shards share words, so a read
// and write in one sets the bits there. A thread that tests bits holds no lock. All accesses are relaxed: a
// look-up that follows an answered add was caused by that answer, and so sees what came before it.
//
// A count is stored with release behind the bits of its item, and read with acquire. So a thread that finds a
// layer full sees all of its bits, and a look-up in it is final: a filter may grow then.
#include "bloom/filter/layer.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/value/heap.hpp>
#include <sepal/value/value.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "bloom/kernel/positions.hpp"
#include "bloom/kernel/set_items.hpp"

namespace sepal::bloom {
namespace {

constexpr std::uint64_t word_bytes = word_bits / 8;
// The largest bitmap that follows its header. The blocks of a larger one start at cache lines.
constexpr std::uint64_t small_bytes_max = 4096;
static_assert(small_bytes_max / word_bytes <= std::numeric_limits<std::uint16_t>::max(),
              "the shape of a small layer fits its header");

// A const layer's bits may still change, because other threads may be setting them.
std::uint64_t load(std::uint64_t& word) {
  return std::atomic_ref<std::uint64_t>(word).load(std::memory_order_relaxed);
}

bool is_small(const LayerPlan& plan) {
  return plan.layout != Layout::client && plan.byte_count() <= small_bytes_max &&
         plan.capacity <= Layer::small_capacity_max &&
         plan.probe_count <= std::numeric_limits<std::uint8_t>::max();
}

std::size_t bytes_of_list(std::size_t count) {
  return sizeof(LayerList) + (count + 1) * sizeof(Blocks) + count * sizeof(void*);
}

// What a client's bitmap shows to a look-up by fingerprint: a block whose bits are never set. So the kernels
// pass such a layer without a test of their own (decisions/0030). All such layers share the word, because no
// add writes to it.
Blocks no_blocks() {
  alignas(64) static std::uint64_t word = 0;
  return {.words = &word, .block_count = 1, .block_bits = word_bits, .probe_count = 1};
}

// A client's bitmap needs shards for its count only. One is enough: no_blocks() has one block.
std::unique_ptr<Shards> shards_of_client() {
  return Shards::allocate({.block_count = 1, .block_bits = word_bits});
}
std::uint64_t shards_footprint(const LayerPlan& plan) {
  return plan.layout == Layout::client ? Shards::footprint({.block_count = 1, .block_bits = word_bits})
                                       : Shards::footprint(plan);
}

// The width of the blocks, as Blocks has it.
std::uint32_t block_bits_of(const LayerPlan& plan) {
  return plan.layout == Layout::blocked ? plan.block_bits : 0;
}

// Items of different shards meet in the same words here, so each word is changed in one step. True if a bit
// changed.
bool set_anywhere(const Blocks& blocks, const Fingerprint& fingerprint) {
  const Anywhere positions(blocks);
  std::uint64_t changed = 0;
  for (std::uint32_t probe = 0; probe < blocks.probe_count; ++probe) {
    const std::uint64_t position = positions.position(fingerprint, probe);
    const std::uint64_t bit = std::uint64_t{1} << (position % word_bits);
    const std::atomic_ref<std::uint64_t> word(blocks.words[position / word_bits]);
    changed |= bit & ~word.fetch_or(bit, std::memory_order_relaxed);
  }
  return changed != 0;
}

// The caller holds the lock of the block's shard. True if a bit changed.
bool set(const Blocks& blocks, std::uint64_t block, const Fingerprint& fingerprint) {
  return blocks.anywhere() ? set_anywhere(blocks, fingerprint) : set_item(blocks, block, fingerprint);
}

// Visits all lines of the item's block. This function and the next are inlined by force: for the compiler a
// function that only prefetches does nothing, and it drops its calls.
template <class Visit>
[[gnu::always_inline]] inline void each_line(const Blocks& blocks, const Fingerprint& fingerprint,
                                             const Visit& visit) {
  constexpr std::uint32_t line_words = 64 / word_bytes;
  const std::uint32_t block_words = blocks.block_bits / word_bits;
  const std::uint64_t* const words = blocks.words + block_of(fingerprint, blocks.block_count) * block_words;
  for (std::uint32_t word = 0; word < block_words; word += line_words) visit(words + word);
}

// Asks for all lines of the block, because most of them will be written to.
[[gnu::always_inline]] inline void prefetch_block(const Blocks& blocks, const Fingerprint& fingerprint) {
  each_line(blocks, fingerprint, [](const std::uint64_t* line) { __builtin_prefetch(line); });
}

// The caller holds the counter's lock, so no count is lost without an atomic addition.
void count_one(std::atomic<std::uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace

Layer::Layer(const LayerPlan& plan, std::uint64_t item_count)
    : room_(static_cast<SmallCount>(plan.capacity - item_count)),
      item_count_(static_cast<SmallCount>(item_count)),
      small_capacity_(static_cast<SmallCount>(plan.capacity)),
      block_count_(static_cast<std::uint16_t>(plan.block_count)),
      block_words_(static_cast<std::uint16_t>(block_bits_of(plan) / word_bits)),
      probe_count_(static_cast<std::uint8_t>(plan.probe_count)),
      small_(true) {}

Layer::Layer(Store store, bool fresh) : small_(false), fresh_(fresh) {
  ::new (static_cast<void*>(this + 1)) Store(std::move(store));
}

Layer* Layer::create_at(void* place, const LayerPlan& plan, std::uint64_t item_count, Paging paging) {
  SEPAL_ASSERT(item_count <= plan.capacity, "a layer holds no more than its capacity");
  SEPAL_ASSERT(plan.block_count > 0 && plan.probe_count > 0,
               "a layer without blocks or probes would hold every item");
  // From here on nothing stands in `place` until all memory is there, so a refusal leaves nothing to destroy.
  if (is_small(plan)) return ::new (place) Layer(plan, item_count);
  if (plan.layout == Layout::client) return create_client_at(place, plan, item_count, paging);
  auto shards = Shards::allocate(plan);
  if (shards == nullptr) return nullptr;
  shards->restore(plan.capacity, item_count);
  auto bitmap = Bitmap::allocate(plan.byte_count(), paging);
  if (!bitmap) return nullptr;
  const Blocks blocks{.words = bitmap->words(),
                      .block_count = plan.block_count,
                      .block_bits = block_bits_of(plan),
                      .probe_count = plan.probe_count};
  // A bitmap that a load fills is never fresh: the load touches its pages, and they are huge from the start.
  const bool fresh = paging == Paging::small && bitmap->piece_count() > 0;
  return ::new (place) Layer(Store{.bitmap = std::move(*bitmap),
                                   .shards = std::move(shards),
                                   .blocks = blocks,
                                   .capacity = plan.capacity,
                                   .identity = value::new_identity(),
                                   .own_usage = nullptr,
                                   .usage = nullptr,
                                   .client = std::nullopt},
                             fresh);
}

Layer* Layer::create_client_at(void* place, const LayerPlan& plan, std::uint64_t item_count, Paging paging) {
  auto shards = shards_of_client();
  if (shards == nullptr) return nullptr;
  // Count and capacity of the shards are equal, so there is no room: nothing is added to a client's bitmap.
  shards->restore(item_count, item_count);
  auto bitmap = Bitmap::allocate(plan.byte_count(), paging);
  if (!bitmap) return nullptr;
  return ::new (place) Layer(Store{.bitmap = std::move(*bitmap),
                                   .shards = std::move(shards),
                                   .blocks = no_blocks(),
                                   .capacity = plan.capacity,
                                   .identity = value::new_identity(),
                                   .own_usage = nullptr,
                                   .usage = nullptr,
                                   .client = plan},
                             false);
}

Result<std::unique_ptr<Layer>> Layer::create(const LayerPlan& plan, std::uint64_t item_count, Paging paging) {
  void* const place = value::heap_allocate(place_bytes(plan));
  Layer* const layer = place == nullptr ? nullptr : create_at(place, plan, item_count, paging);
  if (layer != nullptr) return std::unique_ptr<Layer>(layer);
  value::heap_release(place);
  return fail(Errc::out_of_memory, "the system refused the memory of a layer");
}

std::uint64_t Layer::place_bytes(const LayerPlan& plan) {
  return sizeof(Layer) + (is_small(plan) ? plan.byte_count() : sizeof(Store));
}

// Must say what create_at() takes: limits are checked, and memory is accounted for, by these numbers alone.
std::uint64_t Layer::outside_bytes(const LayerPlan& plan) {
  if (is_small(plan)) return 0;
  return shards_footprint(plan) + Bitmap::footprint(plan.byte_count());
}

std::uint64_t Layer::footprint(const LayerPlan& plan) {
  return value::heap_footprint(place_bytes(plan)) + outside_bytes(plan);
}

Layer::~Layer() {
  if (!small_) store().~Store();
}

void Layer::operator delete(void* allocated) {
  value::heap_release(allocated);
}

std::uint64_t* Layer::words() const {
  // The blocks of a client's bitmap are those of an empty layer, and not its bits.
  return !small_ && store().client ? store().bitmap.words() : blocks().words;
}

LayerPlan Layer::plan() const {
  if (!small_ && store().client) {
    LayerPlan shape = *store().client;
    shape.error_rate = 0;
    return shape;
  }
  const Blocks shape = blocks();
  return {.capacity = capacity(),
          .error_rate = 0,
          .block_count = shape.block_count,
          .block_bits = shape.anywhere() ? word_bits : shape.block_bits,
          .probe_count = shape.probe_count,
          .layout = shape.anywhere() ? Layout::double_hashing : Layout::blocked};
}

std::uint64_t Layer::item_count() const {
  return small_ ? item_count_.load(std::memory_order_acquire) : store().shards->item_count();
}

bool Layer::full() const {
  if (small_) return item_count() == small_capacity_;
  return store().client || store().shards->full(store().capacity);
}

std::uint64_t Layer::room() const {
  return small_ ? room_.load(std::memory_order_relaxed) : store().shards->room();
}

bool Layer::holds(std::string_view item) const {
  SEPAL_ASSERT(!small_ && store().client, "a layer of blocks is asked for an item itself");
  return bloom::holds(store().bitmap.words(), store().client->client_bits(), item);
}

bool Layer::claim(std::uint64_t items) {
  if (!small_) return store().shards->claim(items);
  // Relaxed: only the number is claimed. The lock orders bits and count.
  SmallCount room = room_.load(std::memory_order_relaxed);
  while (room >= items)
    if (room_.compare_exchange_weak(room, static_cast<SmallCount>(room - items), std::memory_order_relaxed))
      return true;
  return false;
}

void Layer::give_back(std::uint64_t items) {
  if (!small_) return store().shards->give_back(items);
  if (items == 0) return;
  const std::uint64_t before = room_.fetch_add(static_cast<SmallCount>(items), std::memory_order_relaxed);
  // `before` is at most the capacity, so the subtraction does not wrap.
  SEPAL_ASSERT(items <= small_capacity_ - before, "more room is given back than was claimed");
}

void Layer::prefetch_room() const {
  if (!small_) store().shards->prefetch_room();
}

void Layer::touch(const Fingerprint& fingerprint) const {
  const Blocks& shape = store().blocks;
  // Without blocks an item's bits lie in many pages, and no single write would map them all.
  if (shape.anywhere()) return;
  std::uint64_t* const block =
      shape.words + block_of(fingerprint, shape.block_count) * (shape.block_bits / word_bits);
  // Not by an "or" with 0: a compiler may turn that into a load, or into nothing. The exchange counts as a
  // write even where the word is not 0 and nothing changes. (Seen on x86; other processors may read first:
  // decisions/0010.)
  std::uint64_t zero = 0;
  std::atomic_ref<std::uint64_t>(*block).compare_exchange_strong(zero, 0, std::memory_order_relaxed);
}

void Layer::move_to_huge_page(std::uint64_t piece) const {
  SEPAL_ASSERT(!small_, "a small layer has no pieces");
  const Bitmap& bitmap = store().bitmap;
  bitmap.move_to_huge_page(piece);
  // Relaxed: a thread that still sees `true` only makes a write that it could have left out.
  if (piece + 1 == bitmap.piece_count()) fresh_.store(false, std::memory_order_relaxed);
}

bool Layer::is_far() const {
  return !small_ && !store().blocks.anywhere();
}

void Layer::collect_lines(const Fingerprint& fingerprint, LinesAhead& lines) const {
  each_line(store().blocks, fingerprint, [&](const std::uint64_t* line) { lines.add(line); });
}

void Layer::prefetch_for_add(const Fingerprint& fingerprint) const {
  if (small_) return;
  const Store& large = store();
  large.shards->prefetch_of_block(block_of(fingerprint, large.blocks.block_count));
}

bool Layer::add_claimed(const Fingerprint& fingerprint) {
  const Blocks shape = blocks();
  const std::uint64_t block = block_of(fingerprint, shape.block_count);
  if (small_) {
    const SpinGuard guard(lock_);
    const bool added = set(shape, block, fingerprint);
    if (added) {
      const auto count = static_cast<SmallCount>(item_count_.load(std::memory_order_relaxed) + 1);
      item_count_.store(count, std::memory_order_release);
    }
    return added;
  }
  // A layer without blocks has shards all the same, chosen by the fingerprint as if it had blocks. So all
  // adds of one item meet at one lock (decisions/0015).
  Shard& shard = store().shards->of_block(block);
  const SpinGuard guard(shard.lock);
  const bool added = set(shape, block, fingerprint);
  if (added) count_one(shard.item_count);
  return added;
}

std::uint64_t Layer::add_run(std::span<const Fingerprint> items, std::size_t count) {
  SEPAL_ASSERT(count <= items.size(), "a run has more items than there are");
  if (count == 0) return 0;
  const Blocks shape = blocks();
  const std::uint64_t added = set_items(shape, items, count);
  // Added to, not stored: another region's run may share the counter. The count goes to the shard of the
  // first item, though the run may reach into other shards: only the sum over the shards matters.
  if (small_)
    item_count_.fetch_add(static_cast<SmallCount>(added), std::memory_order_relaxed);
  else
    store()
        .shards->of_block(block_of(items[0], shape.block_count))
        .item_count.fetch_add(added, std::memory_order_relaxed);
  return added;
}

Added Layer::add(const Fingerprint& fingerprint) {
  if (small_) {
    // Room is claimed before a bit is set. Otherwise two adds could set their bits, and only one of them
    // could be counted within the capacity.
    if (!claim(1)) return contains(fingerprint) ? Added::present : Added::no_room;
    if (add_claimed(fingerprint)) return Added::yes;
    give_back(1);
    return Added::present;
  }
  const Blocks& shape = store().blocks;
  const std::uint64_t block = block_of(fingerprint, shape.block_count);
  Shards& shards = *store().shards;
  Shard& shard = shards.of_block(block);
  const SpinGuard guard(shard.lock);
  // Only under the lock is this answer final: the look-up before the add may have missed another thread's
  // add.
  if (contains(fingerprint)) return Added::present;
  // Room comes before the bits here, too: `no_room` must leave no trace.
  if (shard.reserve == 0 && !shards.refill(shard)) return Added::no_room;
  --shard.reserve;
  set(shape, block, fingerprint);
  count_one(shard.item_count);
  return Added::yes;
}

Usage* Layer::usage() const {
  return small_ ? nullptr : std::atomic_ref<Usage*>(store().usage).load(std::memory_order_acquire);
}

void Layer::share_usage(const Layer& older) {
  if (!small_) store().usage = older.usage();
}

void Layer::keep_usage(std::unique_ptr<Usage> usage) {
  SEPAL_ASSERT(!small_ && store().own_usage == nullptr,
               "a layer gets a second usage, or has no place for it");
  store().own_usage = std::move(usage);
  std::atomic_ref<Usage*>(store().usage).store(store().own_usage.get(), std::memory_order_release);
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

// It changes the bitmap, so it is not const.
// NOLINTNEXTLINE(readability-make-member-function-const)
void Layer::fill_bits(std::uint64_t offset, std::span<const std::byte> from) {
  SEPAL_ASSERT(offset <= plan().byte_count() && from.size() <= plan().byte_count() - offset,
               "bits are filled within the bitmap");
  // No other thread knows the filter yet, so this is the one place where words need no atomic.
  auto* const bytes = reinterpret_cast<std::byte*>(words());
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(bytes + offset, from.data(), from.size());
  } else {
    for (std::size_t at = 0; at < from.size(); ++at) bytes[(offset + at) ^ (word_bytes - 1)] = from[at];
  }
}

// NOLINTNEXTLINE(readability-make-member-function-const)
void Layer::or_bits(std::uint64_t offset, std::span<const std::byte> from) {
  SEPAL_ASSERT(offset <= plan().byte_count() && from.size() <= plan().byte_count() - offset,
               "bits are set within the bitmap");
  SEPAL_ASSERT(offset % word_bytes == 0 && from.size() % word_bytes == 0, "bits are set in whole words");
  std::uint64_t* word = words() + offset / word_bytes;
  for (std::size_t at = 0; at < from.size(); at += word_bytes)
    *word++ |= load_little_endian<std::uint64_t>(from.data() + at);
}

void Layer::set_bits(std::span<const Fingerprint> items) {
  // Its blocks are those that all empty layers share.
  if (!small_ && store().client) return;
  const Blocks shape = blocks();
  for (std::size_t at = 0; at < items.size(); at += window_items_max) {
    const auto window = items.subspan(at, std::min(window_items_max, items.size() - at));
    if (!small_)
      for (const Fingerprint& item : window) prefetch_block(shape, item);
    for (const Fingerprint& item : window)
      static_cast<void>(set(shape, block_of(item, shape.block_count), item));
  }
}

void Layer::set_item_count(std::uint64_t item_count) {
  if (!small_) {
    if (!store().client) store().shards->restore(store().capacity, item_count);
    return;
  }
  SEPAL_ASSERT(item_count <= small_capacity_, "a layer holds no more than its capacity");
  item_count_.store(static_cast<SmallCount>(item_count), std::memory_order_relaxed);
  room_.store(static_cast<SmallCount>(small_capacity_ - item_count), std::memory_order_relaxed);
}

bool Layer::add_recorded(std::span<const Fingerprint> fingerprints) {
  // claim() sees the pool alone. Without the sweep it could refuse room that the layer still has in reserves.
  sweep();
  if (!claim(fingerprints.size())) return false;
  set_bits(fingerprints);
  // Every fingerprint counts, even if it changes no bit. A save reads bits later than counts, so the bits may
  // have the item already; the record says that it was new.
  if (!small_) {
    store().shards->count(fingerprints.size());
  } else {
    item_count_.fetch_add(static_cast<SmallCount>(fingerprints.size()), std::memory_order_relaxed);
  }
  return true;
}

double Layer::fill(std::uint64_t sample_bytes_max) const {
  const std::uint64_t word_count = plan().byte_count() / word_bytes;
  const std::uint64_t sample_count = std::clamp<std::uint64_t>(sample_bytes_max / word_bytes, 1, word_count);
  const std::uint64_t stride = word_count / sample_count;
  std::uint64_t* const words = this->words();
  std::uint64_t set_bits = 0;
  for (std::uint64_t i = 0; i < sample_count; ++i)
    set_bits += static_cast<std::uint64_t>(__builtin_popcountll(load(words[i * stride])));
  return static_cast<double>(set_bits) / static_cast<double>(sample_count * word_bits);
}

std::unique_ptr<LayerList> LayerList::create(const LayerList* before, const Layer& first, Layer& newest) {
  const std::span<Layer* const> older = before == nullptr ? std::span<Layer* const>() : before->layers();
  const std::size_t count = older.size() + 1;
  void* const place = value::heap_allocate(bytes_of_list(count));
  if (place == nullptr) return nullptr;
  std::unique_ptr<LayerList> list(::new (place) LayerList(count));
  auto* blocks = reinterpret_cast<Blocks*>(list.get() + 1);
  std::construct_at(blocks++, newest.blocks());
  if (before == nullptr) {
    std::construct_at(blocks++, first.blocks());
  } else {
    blocks = std::uninitialized_copy(before->blocks().begin(), before->blocks().end(), blocks);
  }
  auto** const layers = reinterpret_cast<Layer**>(blocks);
  std::uninitialized_copy(older.begin(), older.end(), layers);
  std::construct_at(layers + older.size(), &newest);
  return list;
}

std::uint64_t LayerList::footprint(std::size_t count) {
  return count == 0 ? 0 : value::heap_footprint(bytes_of_list(count));
}

void LayerList::operator delete(void* allocated) {
  value::heap_release(allocated);
}

void LayerStack::prefetch(std::uint32_t count, const Pending& pending) const {
  // The newest layer first, in the order in which find() asks.
  with_blocks(count, [&](std::span<const Blocks> layers) {
    for (const Blocks& blocks : layers) {
      const BlockPrefetch prefetch(blocks);
      if (!prefetch.worth_it()) continue;
      for (std::size_t i = 0; i < pending.count; ++i) prefetch(pending.low[i]);
    }
  });
  // GCC drops calls of a function that does nothing but prefetch.
  asm volatile("");
}

void LayerStack::find(std::uint32_t count, Pending& pending) const {
  with_blocks(count, [&](std::span<const Blocks> layers) { find_items(layers, pending); });
}

// --- a layer as savers and tools see it -------------------------------------------------------------------

LayerPlan LayerView::plan() const {
  LayerPlan plan = layer_->plan();
  plan.error_rate = error_rate_;
  return plan;
}
std::uint64_t LayerView::item_count() const {
  return layer_->item_count();
}
std::uint64_t LayerView::identity() const {
  return layer_->identity();
}
void LayerView::copy_bits(std::uint64_t offset, std::span<std::byte> to) const {
  layer_->copy_bits(offset, to);
}
double LayerView::fill(std::uint64_t sample_bytes_max) const {
  return layer_->fill(sample_bytes_max);
}
std::uint64_t LayerView::piece_count() const {
  return layer_->piece_count();
}
bool LayerView::fresh() const {
  return layer_->fresh();
}
bool LayerView::in_use(std::uint64_t piece) const {
  return layer_->in_use(piece);
}
void LayerView::move_to_huge_page(std::uint64_t piece) const {
  layer_->move_to_huge_page(piece);
}

}  // namespace sepal::bloom
