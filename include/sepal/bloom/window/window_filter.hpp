// A Bloom filter that forgets by itself: its items are those of the last hour, or the last million of them.
// plan.hpp has its blocks, lanes and generations.
//
// What is promised. An item is found for at least the window after the add that answered "new", and for at
// most a window and a generation; then it is not remembered at all. With `refresh` that time runs from its
// last add. Of several clients that add an absent item at once, one is told "new", also when a generation
// begins meanwhile.
//
// A generation begins with the first add that comes in it, or is seen in a look-up's time. Nothing runs then:
// no timer, no record. A lane that has an old stamp is empty, and the first add to it clears it.
//
// The clock. The caller hands in the time of its batch. The filter keeps the latest generation that it was
// added to, so a clock that goes back changes nothing until it has caught up. One that jumps ahead forgets.
//
// Growth. When a generation has more than its share, the filter gets a further layer, which takes the adds
// from then on. The old one goes when its last lane is too old.
//
// Threads. Members are *shared* or *exclusive*, as those of bloom::Filter. Look-ups lock nothing. An add
// locks a stripe: a range of hashes, whose blocks no other stripe has in any layer.
//
// Records. Entries of 16 bytes, as a Fingerprint: the item's hash, and
//
//     bits 0..39 the generation   40..55 the layer's number   56..60 generations since the add that this
//     renews; 0: it was not there
//
// An entry whose generation is over by the time it is repeated has nothing to do.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/base/spin_lock.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/window/plan.hpp>
#include <sepal/value/add_recorder.hpp>
#include <sepal/value/kind_row.hpp>
#include <sepal/value/value.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace sepal::bloom {

class WindowFilter;
class WindowLayer;
struct LiveStamps;
using WindowFilterPtr = boost::intrusive_ptr<WindowFilter>;

class WindowFilter final : public value::Value {
 public:
  static constexpr value::Kind own_kind = value::Kind::window;
  using AddOutcome = Filter::AddOutcome;
  using Refusal = Filter::Refusal;

  // A filter without layers.
  explicit WindowFilter(const WindowOptions& options);
  ~WindowFilter();

  // Errors: out_of_memory.
  static Result<WindowFilterPtr> create(const WindowOptions& options, const LanePlan& first_layer,
                                        WallTime now);

  // --- shared ---------------------------------------------------------------------------------------------

  [[nodiscard]] const WindowOptions& options() const { return options_; }
  void contains(std::span<const std::string_view> items, WallTime now, std::span<bool> present) const;
  // The same for the low halves of the items' fingerprints under the filter's seed, of items that many
  // filters are asked for (commands/find.hpp).
  void contains_hashed(std::span<const std::uint64_t> hashes, WallTime now, std::span<bool> present) const;
  // Asks for what contains_hashed() reads first.
  void fetch_lines(std::span<const std::uint64_t> hashes) const;

  // Adds all items. False, with nothing done: the filter has to grow, or may not, an old layer is to be
  // dropped, or the recorder refuses. `recorder` may be null.
  [[nodiscard]] bool try_add(std::span<const std::string_view> items, WallTime now, std::span<bool> added,
                             value::AddRecorder* recorder);
  // Whether a filter without room may grow now. One that was refused memory, or a layer, is not asked again
  // for a second.
  [[nodiscard]] bool may_grow(WallTime now) const;
  // The newest layer has no place left for the generation of this time: an add of a new item grows the
  // filter, or is refused.
  [[nodiscard]] bool full(WallTime now) const;
  // Why it could not grow another layer within these limits; none: it could, if the system has the memory.
  // `limits.bytes_max` counts what the filter takes already, as for grow().
  [[nodiscard]] Refusal growth_refusal(const value::Limits& limits) const;
  // Whether drop_old_layers() would take some out.
  [[nodiscard]] bool has_old_layers() const { return drop_due_.load(std::memory_order_relaxed); }
  // What an item is told that finds no room in a filter that may not grow.
  [[nodiscard]] Refusal refusal() const { return refusal_.load(std::memory_order_relaxed); }
  // Adds item after item, without growing, and appends what became of each. An item that finds no room is
  // refused with `no_room`; if that is `full`, it is the last one. False, with nothing done: the recorder
  // refuses.
  bool add_each(std::span<const std::string_view> items, WallTime now, Refusal no_room,
                std::vector<AddOutcome>& outcomes, value::AddRecorder* recorder);

  // Items of the generations that are live then; each counts in the one in which it was added or renewed
  // last.
  [[nodiscard]] std::uint64_t item_count(WallTime now) const;
  // The same at the time of the last add.
  [[nodiscard]] std::uint64_t item_count() const;
  // Items that may be in the window without growing.
  [[nodiscard]] std::uint64_t capacity() const;
  [[nodiscard]] std::uint64_t byte_count() const;
  [[nodiscard]] std::uint64_t change_count() const { return changes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t identity() const { return identity_; }
  [[nodiscard]] std::uint32_t layer_count() const { return static_cast<std::uint32_t>(layers_.size()); }
  // How many layers it has had.
  [[nodiscard]] std::uint64_t layers_made() const { return next_number_; }

  // What is in one generation.
  struct Generation {
    std::uint64_t number = 0;
    std::uint64_t items = 0;
    std::optional<std::uint64_t> begin;  // milliseconds since 1970, where the window is a time
  };
  struct LayerFigures {
    LanePlan plan;
    std::uint64_t items = 0;  // of live generations, each item as often as its bits were set
    double rate = 0;          // at which its live lanes err, in sum
  };
  struct State {
    // The live ones, newest first: options().lanes() of them.
    std::vector<Generation> generations;
    std::vector<LayerFigures> layers;  // oldest first
    double error_rate = 0;             // now
    // Milliseconds since 1970. Without a value where the window is the last items.
    std::optional<std::uint64_t> kept_since;    // all that was added since then is remembered
    std::optional<std::uint64_t> forgets_next;  // the oldest generation goes
  };
  [[nodiscard]] State state(WallTime now) const;

  // --- exclusive ------------------------------------------------------------------------------------------

  // Gives the filter a further layer, for a lane that is full. `tell` gets the generation and the layer's
  // plan when nothing can fail any more. A refusal changes nothing else.
  Refusal grow(WallTime now, const value::Limits& limits,
               const std::function<void(std::uint64_t, const LanePlan&)>& tell);
  // Takes out the layers whose last generation is over, for the caller to free: they may be large. Null:
  // there are none.
  [[nodiscard]] value::ValuePtr drop_old_layers();

  // --- its image and records (kind/window_kind.cpp, window_image.cpp); exclusive --------------------------

  // The numbers of an instant: see kind/window_kind.cpp. What is returned keeps the layers.
  [[nodiscard]] std::unique_ptr<value::Still> freeze(std::vector<std::uint64_t>& numbers) const;
  // No other thread knows the filter.
  struct LayerState {
    std::uint64_t number = 0;
    LanePlan plan;
    std::array<std::uint64_t, window_generations_max + 1> taken{};
  };
  struct Restored {
    WindowOptions options;
    std::uint64_t newest = 0;
    std::uint64_t changes = 0;
    std::array<std::int64_t, window_generations_max + 1> items{};
    std::vector<LayerState> layers;  // at least one; numbers rise
  };
  // Its bits are zeros. Errors: too_large, out_of_memory.
  static Result<WindowFilterPtr> restore(const Restored& state, const value::Limits& limits,
                                         value::FilledBy filled_by);
  void fill_body(std::uint64_t offset, std::span<const std::byte> from);
  // The body is whole. What was added behind the instant of the image, in a later generation, is left out: a
  // replay brings it.
  void complete();
  // Repeats grow(). Errors: layer_limit, too_large, out_of_memory.
  Result<void> append_layer(std::uint64_t generation, const LanePlan& plan, const value::Limits& limits);
  // Repeats records. False: the filter could not have made them.
  [[nodiscard]] bool repeat(std::span<const Fingerprint> records);

  [[nodiscard]] bool fresh() const;
  void small_pages(std::vector<value::SmallPages>& to) const;
  [[nodiscard]] const WindowLayer& layer(std::uint32_t index) const { return *layers_[index]; }
  // Oldest first. Who has them keeps them.
  [[nodiscard]] const std::vector<std::shared_ptr<WindowLayer>>& layers() const { return layers_; }
  // The latest generation that an add has reached.
  [[nodiscard]] std::uint64_t newest_generation() const { return newest_.load(std::memory_order_acquire); }
  // That of this time, or the latest one if that is later.
  [[nodiscard]] std::uint64_t generation_at(WallTime now) const;
  // The items of the generation that this lane has.
  [[nodiscard]] std::uint64_t items_of(std::uint32_t lane) const;

 private:
  class FrozenLayers;
  struct Stripe;
  struct Batch;
  class Adding;
  enum class Put : std::uint8_t { known, renewed, added, no_room };

  [[nodiscard]] std::uint64_t hash_of(std::string_view item) const {
    return sepal::fingerprint_of(item, options_.seed).low;
  }
  [[nodiscard]] WindowLayer& newest_layer() const { return *layers_.back(); }
  [[nodiscard]] std::uint32_t sufficient(const LiveStamps& live) const;
  // The live lanes that have an item, in all layers.
  [[nodiscard]] std::uint32_t lanes_with(std::uint64_t hash, const LiveStamps& live) const;
  // Whether a later generation has begun than that of a look-up.
  [[nodiscard]] bool later_began(const LiveStamps& live) const;
  // Whether any live lane has it, also where a generation begins meanwhile.
  [[nodiscard]] bool has(std::uint64_t hash, const LiveStamps& live) const;
  std::uint64_t reach(std::uint64_t generation);
  [[nodiscard]] SpinLock& lock_of(std::uint64_t hash) const;
  template <class Load>
  void find(std::size_t count, const Load& load, WallTime now, std::span<bool> present) const;
  Put put(std::uint64_t hash, Adding& adding, Fingerprint& record);
  template <class Step>
  void add_all(std::span<const std::string_view> items, Adding& adding, value::AddRecorder* recorder,
               const Step& step);
  [[nodiscard]] std::uint64_t places_for(std::span<const std::string_view> items,
                                         const LiveStamps& live) const;
  [[nodiscard]] std::uint64_t next_capacity() const;
  // The plan of the next layer, or why there is none.
  [[nodiscard]] std::variant<LanePlan, Refusal> plan_next(const value::Limits& limits) const;
  [[nodiscard]] bool has_layer_number() const;
  void count_items(std::uint32_t lane, std::uint64_t count);
  [[nodiscard]] bool is_old(const WindowLayer& layer) const;
  [[nodiscard]] std::vector<double> rates_by_age() const;
  void share_out_stripes();
  [[nodiscard]] std::uint64_t items_in(std::uint64_t newest, std::uint64_t now) const;

  const WindowOptions options_;
  const std::uint64_t identity_;
  std::vector<std::shared_ptr<WindowLayer>> layers_;  // oldest first; changes with the gate closed only
  std::uint64_t next_number_ = 0;                     // of a layer
  std::unique_ptr<Stripe[]> stripes_;
  std::uint32_t stripe_count_ = 0;
  std::atomic<bool> drop_due_{false};
  SpinLock generation_lock_;  // held to raise newest_
  std::atomic<std::uint64_t> newest_{0};
  std::atomic<std::uint64_t> changes_{0};
  std::atomic<Refusal> refusal_{Refusal::full};  // of the last growth
  std::atomic<std::uint64_t> may_grow_at_{0};    // milliseconds since 1970
  // Below 0 while a renewal is counted before the add that it renews.
  std::array<std::atomic<std::int64_t>, window_generations_max + 1> items_{};
};

}  // namespace sepal::bloom
