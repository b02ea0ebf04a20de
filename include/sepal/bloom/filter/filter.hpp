// A filter: a growing stack of layers that share one hash and its seed. A filter that came from RedisBloom
// keeps its layers in their own layout, and grows Sepal's layers on top of them. A filter that began as the
// bitmap of a client program has that bitmap as its oldest layer. The bitmap is asked with the item itself.
//
//     newest layer  -->  older layer  -->  ...  -->  layer 0
//     adds go here       asked only
//
// Threads. Members are *guarded* by the gate (base/gate.hpp) in one of three ways, said at each:
//   shared      any number of threads at once, each holding its side of the gate
//   of one key  one thread at a time, beside those that use shared members: it holds its side of the gate and
//               the lock of the key that names the filter (keyspace/mutator.hpp). Or exclusive
//   exclusive   the caller has closed the gate, or is the only one to know the filter
// Bits are read and written through atomics. An add locks the shard of the item's block in the newest layer;
// a look-up locks nothing.
//
// A filter may grow while other threads add to it: only when its newest layer holds its capacity. No add can
// change that layer any more, so what a look-up finds in it is final. No item gets into two layers.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/base/limbo.hpp>
#include <sepal/base/prefetch.hpp>
#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/item_hash.hpp>
#include <sepal/bloom/filter/usage.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>
#include <sepal/bloom/plan/plan_memo.hpp>
#include <sepal/value/add_recorder.hpp>
#include <sepal/value/kind_row.hpp>
#include <sepal/value/value.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace sepal::value {
enum class Paging : std::uint8_t;
}  // namespace sepal::value

namespace sepal::bloom {

using value::Paging;

class Layer;
class LayerList;
class LayerStack;
struct Pending;

inline constexpr std::uint32_t expansion_max = 32768;

struct FilterOptions {
  // The rate of the whole filter, in (0, 1); a rate above error_rate_max is taken as error_rate_max. For a
  // filter that came from RedisBloom, or began as a client's bitmap: the rate of its first layer.
  double error_rate = 0.01;
  std::uint64_t capacity = 100;  // items of the first layer, at least 1
  std::uint32_t expansion = 2;   // a new layer holds this many times the last; 0: the filter does not scale
  std::uint64_t seed = 0;        // for the fingerprints
  ItemHash hash = ItemHash::xxh3;

  [[nodiscard]] bool scaling() const { return expansion != 0; }
  friend bool operator==(const FilterOptions&, const FilterOptions&) = default;
};

// The setting layers_max may be raised to this. Programs that take filters over take so many layers.
inline constexpr std::uint32_t filter_layers_max = 1024;

using FilterLimits = value::Limits;
using value::AddRecorder;
using value::FilledBy;
using value::recorded_items_max;

// One layer as a saver or a tool sees it: immutable shape, live bits. Valid as long as the caller holds a
// reference to the filter.
class LayerView {
 public:
  LayerView(const Layer& layer, double error_rate) : layer_(&layer), error_rate_(error_rate) {}

  [[nodiscard]] LayerPlan plan() const;
  // Shared. Exact when no add is running; never above the capacity.
  [[nodiscard]] std::uint64_t item_count() const;
  // A number that no other layer of this process has or had. 0 for a small layer.
  [[nodiscard]] std::uint64_t identity() const;
  // Copies bytes [offset, offset + to.size()) of the bitmap, 64-bit little-endian words, while other threads
  // may add: what was added before the call is in the copy. `offset` and `to.size()` are multiples of 8
  // within the bitmap. Any thread, outside the gate as well.
  void copy_bits(std::uint64_t offset, std::span<std::byte> to) const;
  // The share of bits that are set, in [0, 1], estimated from a sample of the bitmap of at most
  // `sample_bytes_max`. Any thread.
  [[nodiscard]] double fill(std::uint64_t sample_bytes_max) const;

  // A big bitmap that requests fill begins in small pages: the first touch of one takes a microsecond, that
  // of a huge page takes hundreds. Once in use it belongs in huge pages, where look-ups are quick. It has so
  // many pieces of a huge page's size; a layer without pieces needs nothing. Outside the gate as well.
  [[nodiscard]] std::uint64_t piece_count() const;
  // The bitmap began in small pages, and not all of its pieces have moved.
  [[nodiscard]] bool fresh() const;
  // Whether requests have touched nearly all small pages of a piece. It stays so, unless the system takes
  // pages away.
  [[nodiscard]] bool in_use(std::uint64_t piece) const;
  // Moves a piece into a huge page, now or when the kernel can. A thread that touches the piece meanwhile
  // waits for some hundred microseconds. One thread at a time for a piece. Move the pieces in order: the last
  // one ends fresh().
  void move_to_huge_page(std::uint64_t piece) const;

 private:
  const Layer* layer_;
  double error_rate_;
};

// The shape that a filter begins with.
struct FilterPlan {
  FilterOptions options;
  LayerPlan first_layer;
  std::uint64_t byte_count = 0;  // bitmap and headers
};

class Filter;
using FilterPtr = boost::intrusive_ptr<Filter>;

// The object stands at the beginning of an allocation that ends with its first layer.
class Filter final : public value::Value {
 public:
  static constexpr value::Kind own_kind = value::Kind::bloom;

  // Plans and checks, without allocating. Errors: out_of_range (options), too_large (limits). `plans`, if
  // given, remembers plans that were made, here and in add_alone().
  static Result<FilterPlan> plan(const FilterOptions& options, const FilterLimits& limits,
                                 PlanMemo* plans = nullptr);

  // Creates what plan() planned. Errors: out_of_memory. Memory of big layers is mapped, and costs nothing
  // until it is touched.
  static Result<FilterPtr> create(const FilterPlan& plan);
  // plan() and create() in one. Errors: those of both.
  static Result<FilterPtr> create(const FilterOptions& options, const FilterLimits& limits,
                                  PlanMemo* plans = nullptr);

  ~Filter();
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  static void operator delete(void* allocated);

  // --- shared ---------------------------------------------------------------------------------------------

  // present[i] says whether items[i] may have been added. The spans are of one length. Items are hashed and
  // their blocks prefetched in a window before any is tested.
  void contains(std::span<const std::string_view> items, std::span<bool> present) const;

  // Collects the lines that a contains() or try_add() of this item waits for first: its block in the newest
  // layer, where that layer is large.
  void collect_lines(std::string_view item, LinesAhead& lines) const;

  // For items that many filters are asked for (commands/find.hpp), hashed by item_hash() under seed().
  [[nodiscard]] ItemHash item_hash() const { return hash(); }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  // Asks for their blocks, where that pays.
  void fetch_blocks(const Pending& hashed) const;
  // Takes those out of the list that may have been added. Their index is that in `items`.
  void remove_held(std::span<const std::string_view> items, Pending& hashed) const;

  // Adds all items without changing the structure. Any number of threads may add the same new item: exactly
  // one add answers true for it. Returns false, with nothing added and `added` unspecified, when the newest
  // layer might not have room for all that are new: then the filter may have to grow. Never false when all
  // items are present already. `recorder`, if given, is told each new item exactly once, and is told nothing
  // at all when no item can be new. If it refuses the add, this returns false, too.
  [[nodiscard]] bool try_add(std::span<const std::string_view> items, std::span<bool> added,
                             AddRecorder* recorder = nullptr);
  // The same for one item's fingerprint under the filter's seed. The caller has asked in_bitmap().
  [[nodiscard]] bool try_add(const Fingerprint& item, bool& added, AddRecorder* recorder = nullptr);
  // Whether this filter began as a client's bitmap that has all bits of the item. The bitmap never changes.
  [[nodiscard]] bool in_bitmap(std::string_view item) const;

  // Why an item was not added.
  enum class Refusal : std::uint8_t { none, full, layer_limit, too_large, out_of_memory };

  // The filter does not scale and holds its capacity: it refuses every new item, for ever. May say false
  // while the adds that make it true are running.
  [[nodiscard]] bool full() const;

  // Whether so many new items would find room now, without growing. May say false while adds are running.
  [[nodiscard]] bool has_room(std::uint64_t item_count) const;
  // About so many new items would find room now. A single item may find room that is not counted here.
  [[nodiscard]] std::uint64_t room() const;

  // Why the filter could not grow another layer within these limits; none: it could, if the system has the
  // memory. `limits.bytes_max` counts what the filter takes already, as for grow().
  [[nodiscard]] Refusal growth_refusal(const FilterLimits& limits) const;

  // Plans the layer that the filter would grow next, so that `plans` knows it.
  void plan_growth(PlanMemo& plans) const;

  [[nodiscard]] FilterOptions options() const;
  // The fingerprint of an item in this filter.
  [[nodiscard]] Fingerprint fingerprint(std::string_view item) const {
    return fingerprint_of(item, hash(), seed_);
  }
  [[nodiscard]] std::uint64_t item_count() const;  // items whose add answered true
  [[nodiscard]] std::uint64_t capacity() const;    // sum over the layers
  [[nodiscard]] std::uint32_t layer_count() const;
  [[nodiscard]] std::uint64_t byte_count() const;  // all memory of this filter, headers included

  // Oldest first. The views stay valid as long as the filter lives, whatever it grows.
  [[nodiscard]] std::vector<LayerView> layers() const;
  [[nodiscard]] LayerView layer(std::uint32_t index) const;  // 0: the oldest; below layer_count()
  [[nodiscard]] LayerView newest_layer() const;
  // A layer is fresh (LayerView).
  [[nodiscard]] bool fresh() const;
  // Appends the bitmaps of the fresh layers.
  void small_pages(std::vector<value::SmallPages>& to) const;
  // Appends the address and the count of each layer, oldest first: what kind.cpp reads an image by.
  void freeze(std::vector<std::uint64_t>& numbers) const;
  // Null where none is kept.
  [[nodiscard]] Usage* usage() const {
    return (traits_.load(std::memory_order_relaxed) & usage_trait) != 0 ? usage_of_newest_layer() : nullptr;
  }

  // --- of one key -----------------------------------------------------------------------------------------

  // What the newest layer has for a new item.
  enum class Room : std::uint8_t {
    some,     // now, but other adds may take it
    claimed,  // other adds have claimed all that is left: soon they use it or give it back
    none      // never again: the filter has to grow
  };
  // Collects what shards have in reserve.
  Room find_room();

  // Grows a layer where find_room() has found none. `tell` is called when nothing can fail any more, and
  // before another thread finds the layer: with its plan, and once all adds to the layers before it have set
  // their bits. A refusal changes nothing.
  using Tell = std::function<void(const LayerPlan&)>;
  Refusal grow(const FilterLimits& limits, PlanMemo* plans, Limbo& limbo, const Tell& tell = {});

  // Keeps usage from now on, with a slot for each worker, if the newest layer is large enough (Usage) and
  // none is kept yet. Its memory is not in byte_count().
  void keep_usage(std::size_t worker_count);

  // --- exclusive ------------------------------------------------------------------------------------------

  // Adds one item, alone: grows the filter when the item is new and the newest layer holds its capacity.
  // `added` has a meaning only where `refusal` is none. A refused item changes nothing. The filter may still
  // know a later item, so callers go on.
  struct AddOutcome {
    bool added = false;
    Refusal refusal = Refusal::none;
  };
  AddOutcome add_alone(std::string_view item, const FilterLimits& limits, PlanMemo* plans = nullptr);
  // The same for an item's fingerprint under the filter's seed. The caller has asked in_bitmap().
  AddOutcome add_alone(const Fingerprint& item, const FilterLimits& limits, PlanMemo* plans = nullptr);

  // --- building from an image (exclusive: no other thread knows the filter yet) ---------------------------

  struct LayerState {
    LayerPlan plan;
    std::uint64_t item_count = 0;
  };
  // A filter with these layers, oldest first, and no bit set. Errors: out_of_range where the states
  // contradict the options or each other, too_large, out_of_memory. Checks everything: the states
  // may come from a disk.
  static Result<FilterPtr> restore(const FilterOptions& options, std::span<const LayerState> layers,
                                   const FilterLimits& limits, FilledBy filled_by = FilledBy::load);
  // Sets bytes of the bitmap of layer `layer_index`, at any offset within it; the inverse of
  // LayerView::copy_bits. Several threads may set different bytes at once.
  void fill_bits(std::uint32_t layer_index, std::uint64_t offset, std::span<const std::byte> from);

  // As fill_bits(), but bits that are set stay set.
  void or_bits(std::uint32_t layer_index, std::uint64_t offset, std::span<const std::byte> from);
  // Sets the bits of items in a layer, and counts none of them. Does nothing if that layer is a client's
  // bitmap, which has no places for fingerprints.
  void set_bits(std::uint32_t layer_index, std::span<const Fingerprint> items);
  // The items of each layer, oldest first: at most its capacity.
  void set_item_counts(std::span<const LayerState> layers);

  // --- repeating what was recorded (exclusive) ------------------------------------------------------------

  // Makes a filter, or a layer, of a shape that was planned once; today's planning might not choose it.
  // Shapes may come from a disk, so everything is checked. Errors: out_of_range where such a filter could not
  // have the layer, too_large, out_of_memory.
  static Result<FilterPtr> recreate(const FilterOptions& options, const LayerPlan& first_layer,
                                    const FilterLimits& limits);
  Result<void> append_layer(const LayerPlan& plan, const FilterLimits& limits);
  // Adds items that were new when they were recorded, and counts them as new whatever the bits say now.
  // False, with nothing done, when the newest layer has no room for so many.
  [[nodiscard]] bool add_recorded(std::span<const Fingerprint> fingerprints);

 private:
  friend class BulkAdd;

  explicit Filter(const FilterOptions& options);
  static Result<FilterPtr> assemble(const FilterOptions& options, std::span<const LayerState> layers,
                                    const FilterLimits& limits, Paging paging);
  static Result<FilterPtr> allocate(const FilterOptions& options, const LayerState& first, Paging paging);
  [[nodiscard]] ItemHash hash() const {
    return static_cast<ItemHash>(traits_.load(std::memory_order_relaxed) & hash_traits);
  }
  [[nodiscard]] Layer& first() const;
  [[nodiscard]] LayerStack stack() const;
  [[nodiscard]] Usage* usage_of_newest_layer() const;
  Result<void> append(std::unique_ptr<Layer> layer);
  void publish(std::unique_ptr<Layer> layer, std::unique_ptr<LayerList> list, Limbo& limbo);
  [[nodiscard]] std::uint32_t foreign_layers() const;
  [[nodiscard]] LayerRequest next_layer() const;
  // The plan of the next layer, or why there is none.
  [[nodiscard]] std::variant<LayerPlan, Refusal> plan_next(const FilterLimits& limits, PlanMemo* plans) const;
  [[nodiscard]] bool foreign_contains(const LayerStack& layers, std::string_view item) const;
  [[nodiscard]] bool try_add_foreign(std::string_view item, bool& added, AddRecorder* recorder);
  template <class Claim>
  std::uint64_t add_absent(const LayerStack& layers, std::span<const std::string_view> items,
                           std::span<bool> added, AddRecorder* recorder, bool& refused, const Claim& claim);
  // The memory of this filter, with a place for one more layer in its list.
  [[nodiscard]] std::uint64_t bytes_with_place() const;

  // The capacity is not here: it is the first layer's.
  // These two are here, where the header leaves room. A filter without the usage trait has no layer with
  // usage, and most requests need not look for it.
  static constexpr std::uint8_t usage_trait = 0x80;
  static constexpr std::uint8_t hash_traits = 0x7f;
  std::atomic<std::uint8_t> traits_;
  std::uint16_t expansion_;
  double error_rate_;
  std::uint64_t seed_;
  std::atomic<LayerList*> younger_{nullptr};  // All but the first, owned; null before any grew.
};

}  // namespace sepal::bloom
