// Adding. A batch claims room in the newest layer before it sets anything. So it is added as a whole or not
// at all, and no layer ever holds more than its capacity. Room that was claimed for items that turn out to be
// present is given back. Under the shard's lock an item is new if it changes a bit, and only one of many adds
// of an item can change its last bit.
//
// Batches. The items of a window are hashed, and their blocks are asked for from memory, before the window
// ahead of it is tested: the waits for memory overlap with each other and with the work.
#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/value/heap.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "bloom/filter/layer.hpp"
#include "bloom/filter/layer_state.hpp"
#include "bloom/filter/stack.hpp"
#include "bloom/filter/window.hpp"

namespace sepal::bloom {

static_assert(sizeof(Filter) == 32, "millions of filters are small");

namespace {

// The memory of a filter and of its first layer.
std::uint64_t footprint(const LayerPlan& first) {
  return value::heap_footprint(sizeof(Filter) + Layer::place_bytes(first)) + Layer::outside_bytes(first);
}

// An item's shard is asked for so many items before the item is added. That is long enough for a line to come
// from another core, and no more lines than a core can have on their way.
constexpr std::size_t shards_ahead = 16;
static_assert(recorded_items_max >= window_items_max, "a window of new items fits into one piece");

// Collects the new items of a batch and tells the recorder of them in pieces. Every item is written down, and
// its place is kept only if it was new: a branch would be guessed wrong for every second item.
class NewItems {
 public:
  explicit NewItems(AddRecorder* recorder) : recorder_(recorder) {}
  ~NewItems() {
    if (begun_) recorder_->end({first(), count_});
  }
  NewItems(const NewItems&) = delete;
  NewItems& operator=(const NewItems&) = delete;

  // Called before up to window_items_max items are added. False: the recorder refuses them, and all that
  // follow.
  [[nodiscard]] bool expect() {
    if (recorder_ == nullptr) return true;
    if (!begun_ && !refused_) refused_ = !(begun_ = recorder_->begin());
    // A piece ends between two windows, so that note() needs no check of the room for each item.
    if (count_ > recorded_items_max - window_items_max) recorder_->tell({first(), std::exchange(count_, 0)});
    return !refused_;
  }
  [[nodiscard]] bool refused() const { return refused_; }
  void note(const Fingerprint& fingerprint, bool is_new) {
    if (recorder_ == nullptr) return;
    std::construct_at(first() + count_, fingerprint);
    count_ += is_new ? 1 : 0;
  }

 private:
  [[nodiscard]] Fingerprint* first() { return std::launder(reinterpret_cast<Fingerprint*>(bytes_)); }

  AddRecorder* recorder_;
  std::size_t count_ = 0;
  // Every begin() gets its end(): between the two, other workers' seal_record() may wait for this one.
  bool begun_ = false;
  bool refused_ = false;
  // Bytes, because an array of fingerprints would be filled with zeros for each batch.
  alignas(Fingerprint) std::byte bytes_[recorded_items_max * sizeof(Fingerprint)];
};

struct FilterHash {
  ItemHash kind;
  std::uint64_t seed;
};

// Takes from the list the items that the client's bitmap has. The list is of a window whose first item stands
// at `at`.
void leave_out(const Layer& bitmap, std::span<const std::string_view> items, std::size_t at,
               Pending& absent) {
  std::size_t left = 0;
  for (std::size_t i = 0; i < absent.count; ++i) {
    absent.low[left] = absent.low[i];
    absent.high[left] = absent.high[i];
    absent.index[left] = absent.index[i];
    left += bitmap.holds(items[at + absent.index[i]]) ? 0 : 1;
  }
  absent.count = left;
}

// visit_absent() with the filter's hash, which is chosen once and not for each item.
template <class Begin, class Visit>
void visit_absent(std::span<const std::string_view> items, const FilterHash& hash, const LayerStack& layers,
                  LookUp purpose, const Begin& begin, const Visit& visit) {
  const auto xxh3 = [seed = hash.seed](std::string_view item) { return sepal::fingerprint_of(item, seed); };
  if (hash.kind != ItemHash::xxh3) [[unlikely]] {
    if (hash.kind == ItemHash::redisbloom)
      return visit_absent(items, redisbloom_fingerprint_of, layers, purpose, begin, visit);
    const auto visit_rest = [&](Pending& absent, std::size_t at) {
      leave_out(layers[0], items, at, absent);
      visit(absent, at);
    };
    return visit_absent(items, xxh3, layers, purpose, begin, visit_rest);
  }
  visit_absent(items, xxh3, layers, purpose, begin, visit);
}

Error over_limit() {
  return fail(Errc::too_large, "the filter would exceed the memory it may take");
}

}  // namespace

Filter::Filter(const FilterOptions& options)
    : Value(own_kind),
      traits_(static_cast<std::uint8_t>(options.hash)),
      expansion_(static_cast<std::uint16_t>(options.expansion)),
      error_rate_(options.error_rate),
      seed_(options.seed) {}

// The constructor's casts are safe: is_sound() holds the expansion to expansion_max, and knows three hashes.
static_assert(expansion_max <= std::numeric_limits<std::uint16_t>::max());

Filter::~Filter() {
  const std::unique_ptr<LayerList> younger(younger_.load(std::memory_order_relaxed));
  if (younger != nullptr)
    for (Layer* const layer : younger->layers()) delete layer;
  // The first layer stands in this allocation, so no pointer destroys it.
  first().~Layer();
}

void Filter::operator delete(void* allocated) {
  value::heap_release(allocated);
}

Result<FilterPtr> Filter::allocate(const FilterOptions& options, const LayerState& first, Paging paging) {
  static_assert(sizeof(Filter) % alignof(Layer) == 0, "the first layer follows the filter");
  char* const allocated =
      static_cast<char*>(value::heap_allocate(sizeof(Filter) + Layer::place_bytes(first.plan)));
  if (allocated == nullptr ||
      Layer::create_at(allocated + sizeof(Filter), first.plan, first.item_count, paging) == nullptr) {
    value::heap_release(allocated);
    return fail(Errc::out_of_memory, "the system refused the memory of a filter");
  }
  // The layer comes first and the filter after it: ~Filter() destroys the layer, so no filter may exist
  // without one.
  return FilterPtr(::new (allocated) Filter(options));
}

Result<FilterPlan> Filter::plan(const FilterOptions& options, const FilterLimits& limits, PlanMemo* plans) {
  // Only Sepal's own filters are planned. A filter with another hash comes whole, with the layers that it has
  // (restore()).
  if (!is_sound(options) || options.hash != ItemHash::xxh3)
    return fail(Errc::out_of_range, "an option of the filter is out of its range");
  const LayerRequest request{.capacity = options.capacity, .error_rate = layer_error_rate(options, {})};
  const auto first_layer = plan_layer(request, limits.bytes_max, plans);
  if (!first_layer) return first_layer.error();
  const std::uint64_t byte_count = footprint(*first_layer);
  if (byte_count > limits.bytes_max) return over_limit();
  return FilterPlan{.options = options, .first_layer = *first_layer, .byte_count = byte_count};
}

Result<FilterPtr> Filter::create(const FilterPlan& plan) {
  SEPAL_ASSERT(plan.byte_count > 0, "a filter is created of what plan() made");
  return allocate(plan.options, {.plan = plan.first_layer, .item_count = 0}, Paging::small);
}

Result<FilterPtr> Filter::create(const FilterOptions& options, const FilterLimits& limits, PlanMemo* plans) {
  const auto planned = plan(options, limits, plans);
  if (!planned) return planned.error();
  return create(*planned);
}

Result<FilterPtr> Filter::restore(const FilterOptions& options, std::span<const LayerState> layers,
                                  const FilterLimits& limits, FilledBy filled_by) {
  return assemble(options, layers, limits, filled_by == FilledBy::load ? Paging::huge : Paging::small);
}

Result<FilterPtr> Filter::recreate(const FilterOptions& options, const LayerPlan& first_layer,
                                   const FilterLimits& limits) {
  const LayerState first{.plan = first_layer, .item_count = 0};
  return assemble(options, {&first, 1}, limits, Paging::small);
}

Result<FilterPtr> Filter::assemble(const FilterOptions& options, std::span<const LayerState> layers,
                                   const FilterLimits& limits, Paging paging) {
  if (layers.size() > limits.layers_max) return fail(Errc::too_large, "more layers than a filter may have");
  if (!is_sound(options, layers)) return fail(Errc::out_of_range, "the layers are not those of a filter");
  // The bits of all layers are counted in 64 bits (is_sound), so their bytes and small headers do not wrap.
  std::uint64_t bytes = footprint(layers[0].plan) + LayerList::footprint(layers.size() - 1);
  for (const LayerState& state : layers.subspan(1)) {
    if (bytes > limits.bytes_max) break;
    bytes += Layer::footprint(state.plan);
  }
  if (bytes > limits.bytes_max) return over_limit();
  auto filter = allocate(options, layers[0], paging);
  if (!filter) return filter;
  for (const LayerState& state : layers.subspan(1)) {
    auto layer = Layer::create(state.plan, state.item_count, paging);
    if (!layer) return layer.error();
    if (auto appended = (*filter)->append(std::move(*layer)); !appended) return appended.error();
  }
  return filter;
}

Result<void> Filter::append_layer(const LayerPlan& plan, const FilterLimits& limits) {
  if (layer_count() >= limits.layers_max) return fail(Errc::too_large, "more layers than a filter may have");
  // The new layer is judged together with the present ones, because its capacity and rate follow from its
  // place among them. The counts do not matter for that.
  std::vector<LayerState> states;
  for (const LayerView& layer : layers()) states.push_back({.plan = layer.plan(), .item_count = 0});
  states.push_back({.plan = plan, .item_count = 0});
  if (!is_sound(options(), states)) return fail(Errc::out_of_range, "the layer is not one of this filter's");
  const std::uint64_t bytes_held = bytes_with_place();
  if (bytes_held > limits.bytes_max || Layer::footprint(plan) > limits.bytes_max - bytes_held)
    return over_limit();
  auto layer = Layer::create(plan, 0, Paging::small);
  if (!layer) return layer.error();
  return append(std::move(*layer));
}

bool Filter::add_recorded(std::span<const Fingerprint> fingerprints) {
  return stack().newest().add_recorded(fingerprints);
}

Usage* Filter::usage_of_newest_layer() const {
  return stack().newest().usage();
}

void Filter::keep_usage(std::size_t worker_count) {
  Layer& newest = stack().newest();
  // Most new filters are small, and their shape is not even asked for.
  if (newest.small() || newest.usage() != nullptr || newest.plan().byte_count() < Usage::layer_bytes_min)
    return;
  newest.keep_usage(std::make_unique<Usage>(worker_count));
  traits_.fetch_or(usage_trait, std::memory_order_relaxed);
}

void Filter::fill_bits(std::uint32_t layer_index, std::uint64_t offset, std::span<const std::byte> from) {
  SEPAL_ASSERT(layer_index < layer_count(), "bits are filled into a layer that is there");
  stack()[layer_index].fill_bits(offset, from);
}

void Filter::or_bits(std::uint32_t layer_index, std::uint64_t offset, std::span<const std::byte> from) {
  SEPAL_ASSERT(layer_index < layer_count(), "bits are set in a layer that is there");
  stack()[layer_index].or_bits(offset, from);
}

void Filter::set_bits(std::uint32_t layer_index, std::span<const Fingerprint> items) {
  SEPAL_ASSERT(layer_index < layer_count(), "bits are set in a layer that is there");
  stack()[layer_index].set_bits(items);
}

void Filter::set_item_counts(std::span<const LayerState> layers) {
  const LayerStack stack = this->stack();
  SEPAL_ASSERT(layers.size() == stack.size(), "each layer gets a count");
  for (std::uint32_t index = 0; index < stack.size(); ++index)
    stack[index].set_item_count(layers[index].item_count);
}

void Filter::contains(std::span<const std::string_view> items, std::span<bool> present) const {
  SEPAL_ASSERT(items.size() == present.size(), "there is one answer for each item");
  const LayerStack layers = stack();
  // One item is tested at once: there is no other work to overlap its wait with.
  if (items.size() == 1) {
    present[0] = hash() == ItemHash::xxh3 ? layers.hold(sepal::fingerprint_of(items[0], seed_))
                                          : foreign_contains(layers, items[0]);
    return;
  }
  // The windows only tell which items are absent.
  std::ranges::fill(present, true);
  visit_absent(
      items, FilterHash{hash(), seed_}, layers, LookUp::only, [] {},
      [&](const Pending& absent, std::size_t at) {
        for (std::size_t i = 0; i < absent.count; ++i) present[at + absent.index[i]] = false;
      });
}

void Filter::fetch_blocks(const Pending& hashed) const {
  const LayerStack layers = stack();
  layers.prefetch(layers.size(), hashed);
}

void Filter::remove_held(std::span<const std::string_view> items, Pending& hashed) const {
  const LayerStack layers = stack();
  if (hash() == ItemHash::xxh3_above_bitmap) [[unlikely]]
    leave_out(layers[0], items, 0, hashed);
  layers.find(layers.size(), hashed);
}

bool Filter::in_bitmap(std::string_view item) const {
  return hash() == ItemHash::xxh3_above_bitmap && first().holds(item);
}

bool Filter::foreign_contains(const LayerStack& layers, std::string_view item) const {
  return in_bitmap(item) || layers.hold(fingerprint(item));
}

bool Filter::try_add_foreign(std::string_view item, bool& added, AddRecorder* recorder) {
  // The bitmap is asked with the item itself, which is lost once there is only a fingerprint.
  added = false;
  return in_bitmap(item) || try_add(fingerprint(item), added, recorder);
}

// Only the newest layer: to ask for lines of all layers would cost more than it saves, as most items are in
// the newest.
void Filter::collect_lines(std::string_view item, LinesAhead& lines) const {
  const Layer& newest = stack().newest();
  if (newest.is_far()) newest.collect_lines(fingerprint(item), lines);
}

bool Filter::try_add(const Fingerprint& item, bool& added, AddRecorder* recorder) {
  const LayerStack layers = stack();
  Layer& newest = layers.newest();
  added = false;
  // Before the look-up, whose read would map the system's page of zeros.
  if (newest.fresh()) [[unlikely]]
    newest.touch(item);
  // Where nothing was added yet, there is nothing to look up: the bits alone tell what is new.
  const bool untouched = layers.size() == 1 && newest.small_and_empty();
  if (!untouched && layers.hold(item)) return true;
  // begin() comes before the first bit is set. Otherwise another worker could read the bit, answer "known",
  // and not wait for the record of this add (WorkerLog::seal_record).
  if (recorder != nullptr && !recorder->begin()) return false;
  const Added outcome = newest.add(item);
  added = outcome == Added::yes;
  if (recorder != nullptr) recorder->end({&item, added ? std::size_t{1} : 0});
  return outcome != Added::no_room;
}

// Adds the items that no layer knows, if claim() says that there is room for all of them, and returns how
// many were new. claim() is called when the first blocks are on their way. Without room nothing is added, and
// this returns how many items no layer knows. `refused`: the recorder has refused them; then nothing is
// added.
template <class Claim>
std::uint64_t Filter::add_absent(const LayerStack& layers, std::span<const std::string_view> items,
                                 std::span<bool> added, AddRecorder* recorder, bool& refused,
                                 const Claim& claim) {
  Layer& newest = layers.newest();
  bool has_room = false;
  std::uint64_t count = 0;
  NewItems new_items(recorder);
  const auto begin = [&] {
    has_room = claim();
    std::ranges::fill(added, false);
  };
  const auto add = [&](const Pending& absent, std::size_t at) {
    // The rest of the room is given back soon: its line is asked for now.
    if (at + window_items_max >= items.size()) newest.prefetch_room();
    if (!has_room) [[unlikely]] {
      count += absent.count;
      return;
    }
    if (absent.count == 0) return;
    if (!new_items.expect()) return;
    const auto ask_for_shard = [&](std::size_t i) {
      if (i < absent.count) newest.prefetch_for_add(absent.fingerprint(i));
    };
    for (std::size_t i = 0; i < shards_ahead; ++i) ask_for_shard(i);
    for (std::size_t i = 0; i < absent.count; ++i) {
      ask_for_shard(i + shards_ahead);
      // The newest layer decides under its lock: an item may stand twice in one window, or another thread may
      // have added it since the look-up.
      const bool is_new = newest.add_claimed(absent.fingerprint(i));
      new_items.note(absent.fingerprint(i), is_new);
      added[at + absent.index[i]] = is_new;
      count += is_new ? 1 : 0;
    }
  };
  visit_absent(items, FilterHash{hash(), seed_}, layers, LookUp::to_add, begin, add);
  refused = new_items.refused();
  return count;
}

bool Filter::try_add(std::span<const std::string_view> items, std::span<bool> added, AddRecorder* recorder) {
  SEPAL_ASSERT(items.size() == added.size(), "there is one answer for each item");
  if (items.size() == 1) {
    if (hash() != ItemHash::xxh3) [[unlikely]]
      return try_add_foreign(items[0], added[0], recorder);
    return try_add(sepal::fingerprint_of(items[0], seed_), added[0], recorder);
  }
  // Read once: room that is claimed in a layer is used there.
  const LayerStack layers = stack();
  Layer& newest = layers.newest();
  std::uint64_t room = items.size();
  // First pass: room for all items, before any is looked up. If there is none, the pass adds nothing and
  // counts the items that no layer knows. A second pass then adds, with room for that many.
  bool claimed = false;
  // The line of the room comes from another core while the first window is hashed.
  newest.prefetch_room();
  bool refused = false;
  std::uint64_t count =
      add_absent(layers, items, added, recorder, refused, [&] { return claimed = newest.claim(room); });
  if (!claimed) {
    // Room for the new items is enough. Adds of other threads can only make them fewer meanwhile.
    room = count;
    if (room == 0) return true;
    if (!newest.claim(room)) return false;
    count = add_absent(layers, items, added, recorder, refused, [] { return true; });
  }
  SEPAL_ASSERT(count <= room, "more items were added than room was claimed for");
  newest.give_back(room - count);
  return !refused;
}

Filter::AddOutcome Filter::add_alone(std::string_view item, const FilterLimits& limits, PlanMemo* plans) {
  if (in_bitmap(item)) return {};
  return add_alone(fingerprint(item), limits, plans);
}

Filter::AddOutcome Filter::add_alone(const Fingerprint& item, const FilterLimits& limits, PlanMemo* plans) {
  if (stack().hold(item)) return {};
  // This thread is alone, so no other add has claimed room.
  if (find_room() != Room::some) {
    Limbo at_once(nullptr);
    const Refusal refusal = grow(limits, plans, at_once);
    if (refusal != Refusal::none) return {.added = false, .refusal = refusal};
  }
  const bool claimed = stack().newest().claim(1);
  SEPAL_ASSERT(claimed, "a layer with room, or a new one, has no room");
  const bool added = stack().newest().add_claimed(item);
  SEPAL_ASSERT(added, "an item that no layer knows changes a bit");
  return {.added = true, .refusal = Refusal::none};
}

std::uint64_t Filter::room() const {
  return stack().newest().room();
}

bool Filter::full() const {
  return expansion_ == 0 && stack().newest().full();
}

bool Filter::has_room(std::uint64_t item_count) const {
  Layer& newest = stack().newest();
  if (!newest.claim(item_count)) return false;
  newest.give_back(item_count);
  return true;
}

FilterOptions Filter::options() const {
  return {.error_rate = error_rate_,
          .capacity = first().capacity(),
          .expansion = expansion_,
          .seed = seed_,
          .hash = hash()};
}

std::uint64_t Filter::item_count() const {
  const LayerStack layers = stack();
  std::uint64_t count = 0;
  for (std::uint32_t index = 0; index < layers.size(); ++index) count += layers[index].item_count();
  return count;
}

std::uint64_t Filter::capacity() const {
  const LayerStack layers = stack();
  std::uint64_t sum = 0;
  for (std::uint32_t index = 0; index < layers.size(); ++index) sum += layers[index].capacity();
  return sum;
}

std::uint32_t Filter::layer_count() const {
  return stack().size();
}

std::uint64_t Filter::byte_count() const {
  const LayerStack layers = stack();
  std::uint64_t bytes = footprint(layers[0].plan()) + LayerList::footprint(layers.size() - 1);
  for (std::uint32_t index = 1; index < layers.size(); ++index)
    bytes += Layer::footprint(layers[index].plan());
  return bytes;
}

void Filter::freeze(std::vector<std::uint64_t>& numbers) const {
  const LayerStack layers = stack();
  for (std::uint32_t index = 0; index < layers.size(); ++index) {
    numbers.push_back(reinterpret_cast<std::uintptr_t>(&layers[index]));
    numbers.push_back(layers[index].item_count());
  }
}

bool Filter::fresh() const {
  const LayerStack layers = stack();
  if (layers.size() == 1) return layers[0].fresh();  // as of each new filter
  for (std::uint32_t index = layers.size(); index-- > 0;)
    if (layers[index].fresh()) return true;
  return false;
}

static const Layer& layer_in(const void* memory) {
  return *static_cast<const Layer*>(memory);
}

void Filter::small_pages(std::vector<value::SmallPages>& to) const {
  if (!fresh()) return;
  const LayerStack layers = stack();
  for (std::uint32_t index = 0; index < layers.size(); ++index)
    if (const Layer& layer = layers[index]; layer.fresh())
      to.push_back(
          {.memory = &layer,
           .piece_count = layer.piece_count(),
           .in_use = [](const void* memory, std::uint64_t piece) { return layer_in(memory).in_use(piece); },
           .move = [](const void* memory,
                      std::uint64_t piece) { layer_in(memory).move_to_huge_page(piece); }});
}

LayerView Filter::layer(std::uint32_t index) const {
  const LayerStack layers = stack();
  SEPAL_ASSERT(index < layers.size(), "a layer that the filter has");
  return {layers[index], layer_error_rate(options(), {.index = index, .foreign_layers = foreign_layers()})};
}

LayerView Filter::newest_layer() const {
  return layer(layer_count() - 1);
}

std::vector<LayerView> Filter::layers() const {
  std::vector<LayerView> views;
  for (std::uint32_t index = 0; index < layer_count(); ++index) views.push_back(layer(index));
  return views;
}

}  // namespace sepal::bloom
