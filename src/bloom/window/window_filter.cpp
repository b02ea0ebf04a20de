#include <sepal/base/checked.hpp>
#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/value/heap.hpp>

#include <algorithm>
#include <bit>
#include <utility>

#include "bloom/window/entries.hpp"
#include "bloom/window/milliseconds.hpp"
#include "bloom/window/window_layer.hpp"

namespace sepal::bloom {

// A line of its own, so that workers in different stripes do not pass one around.
struct alignas(64) WindowFilter::Stripe {
  SpinLock lock;
};

namespace {

// The generation in which the year 1970 began: so the first one of a filter has as many before it as a window
// has.
constexpr std::uint64_t first_generation = lanes_max;
// Behind it is no time that a clock tells.
constexpr std::uint64_t milliseconds_max = std::uint64_t{1} << 53;

}  // namespace

// An add of some items: the generation that it is in, and the places that it has claimed there.
class WindowFilter::Adding {
 public:
  // Without `claimed`, each place is claimed when it is taken.
  Adding(WindowFilter& filter, std::uint64_t generation, std::optional<std::uint64_t> claimed)
      : live(generation, filter.options_.lanes()),
        filter_(filter),
        claimed_in_(generation),
        claimed_(claimed.value_or(0)),
        all_claimed_(claimed) {}
  ~Adding() {
    count();
    if (claimed_ > 0 && filter_.newest_generation() - claimed_in_ < live.lanes)
      filter_.newest_layer().give_back(lane_of(claimed_in_), claimed_);
  }
  Adding(const Adding&) = delete;
  Adding& operator=(const Adding&) = delete;

  // With the lock of a stripe: the add that held it before may have been in a later generation.
  void follow() {
    const std::uint64_t newest = filter_.newest_generation();
    if (newest == live.generation) return;
    count();
    live = LiveStamps(newest, live.lanes);
  }
  // A place in the lane of the generation.
  bool take_place() {
    if (live.generation == claimed_in_ && claimed_ > 0) {
      --claimed_;
      return true;
    }
    // The request has begun, and there was room for it when it did.
    if (all_claimed_) {
      filter_.newest_layer().take(live.current, 1);
      return true;
    }
    return filter_.newest_layer().claim(live.current, 1);
  }
  void count_item() { ++items_; }

  LiveStamps live;

 private:
  [[nodiscard]] std::uint32_t lane_of(std::uint64_t generation) const {
    return static_cast<std::uint32_t>(generation % live.lanes);
  }
  void count() {
    if (items_ == 0) return;
    filter_.changes_.fetch_add(items_, std::memory_order_relaxed);
    if (filter_.newest_generation() - live.generation < live.lanes) filter_.count_items(live.current, items_);
    items_ = 0;
  }

  WindowFilter& filter_;
  const std::uint64_t claimed_in_;
  std::uint64_t claimed_;
  const bool all_claimed_;
  std::uint64_t items_ = 0;
};

WindowFilter::WindowFilter(const WindowOptions& options)
    : Value(own_kind), options_(options), identity_(value::new_identity()) {}

WindowFilter::~WindowFilter() = default;

Result<WindowFilterPtr> WindowFilter::create(const WindowOptions& options, const LanePlan& first_layer,
                                             WallTime now) {
  WindowFilterPtr filter(new WindowFilter(options));
  auto layer = WindowLayer::create(first_layer, 0, options.lanes(), Paging::small);
  if (!layer) return layer.error();
  filter->layers_.push_back(std::move(*layer));
  filter->next_number_ = 1;
  filter->share_out_stripes();
  filter->newest_.store(first_generation, std::memory_order_relaxed);
  (void)filter->reach(filter->generation_at(now));
  // As many as the filter has that a journal or a replica makes of its record.
  filter->changes_.store(0, std::memory_order_relaxed);
  return filter;
}

// --- generations ------------------------------------------------------------------------------------------

std::uint64_t WindowFilter::generation_at(WallTime now) const {
  const std::uint64_t newest = newest_generation();
  if (options_.of_last()) return newest;
  return std::max(newest,
                  first_generation + milliseconds_of(now) * options_.generations / options_.milliseconds);
}

// A lane that an image brought may count as many as there may be.
void WindowFilter::count_items(std::uint32_t lane, std::uint64_t count) {
  const std::int64_t left =
      static_cast<std::int64_t>(items_of_lane_max) - items_[lane].load(std::memory_order_relaxed);
  items_[lane].fetch_add(std::clamp<std::int64_t>(left, 0, static_cast<std::int64_t>(count)),
                         std::memory_order_relaxed);
}

// Raises the latest generation. Returns it. That is a change: counts of items go down.
std::uint64_t WindowFilter::reach(std::uint64_t generation) {
  if (const std::uint64_t newest = newest_generation(); newest >= generation) return newest;
  const SpinGuard lock(generation_lock_);
  const std::uint64_t newest = newest_generation();
  if (newest >= generation) return newest;
  const std::uint64_t lanes = options_.lanes();
  for (std::uint64_t left = std::min(generation - newest, lanes); left > 0; --left) {
    const auto lane = static_cast<std::uint32_t>((generation - left + 1) % lanes);
    items_[lane].store(0, std::memory_order_relaxed);
    for (const auto& layer : layers_) layer->set_taken(lane, 0);
  }
  changes_.fetch_add(1, std::memory_order_relaxed);
  newest_.store(generation, std::memory_order_release);
  if (layers_.size() > 1 && is_old(*layers_.front())) drop_due_.store(true, std::memory_order_relaxed);
  return generation;
}

// --- look-ups ---------------------------------------------------------------------------------------------

// A bit for each item of a batch.
using BatchBits = std::uint64_t;
static_assert(sought_together_max <= 64);

// Some items, hashed.
struct WindowFilter::Batch {
  std::size_t count = 0;
  std::array<std::uint64_t, sought_together_max> hashes;
  SoughtItems sought;

  Batch() = default;  // none yet
  Batch(const WindowFilter& filter, std::span<const std::string_view> items) { load(filter, items); }
  void load(const WindowFilter& filter, std::span<const std::string_view> items) {
    count = std::min(items.size(), sought_together_max);
    for (std::size_t number = 0; number < count; ++number) hashes[number] = filter.hash_of(items[number]);
  }
  void load(std::span<const std::uint64_t> hashed) {
    count = std::min(hashed.size(), sought_together_max);
    std::copy_n(hashed.begin(), count, hashes.begin());
  }
  void begin_find(const WindowLayer& layer, Zones zones) {
    layer.begin_find(std::span(hashes).first(count), zones, sought);
  }
  // Those that one of the lanes `sufficient` has.
  [[nodiscard]] BatchBits find(const WindowLayer& layer, const LiveStamps& live, std::uint32_t sufficient) {
    begin_find(layer, Zones::first);
    layer.narrow_find(live, sought);
    return layer.end_find(sufficient, sought);
  }
  // The same in all layers but the newest.
  [[nodiscard]] BatchBits find_in_older(const WindowFilter& filter, const LiveStamps& live,
                                        std::uint32_t sufficient) {
    BatchBits found = 0;
    for (std::size_t index = filter.layers_.size() - 1; index-- > 0;)
      found |= find(*filter.layers_[index], live, sufficient);
    return found;
  }
  // Which of them an add need not put: those that are known, or, where adds renew, that have been added in
  // this generation. Another worker may have begun a later one: then this add came before. The newest layer
  // has begun to find them.
  [[nodiscard]] BatchBits known_in(const WindowFilter& filter, const LiveStamps& live) {
    const std::uint32_t sufficient = filter.sufficient(live);
    if (count <= few_sought_max) {
      BatchBits known = 0;
      for (std::size_t number = 0; number < count; ++number)
        known |= BatchBits{(filter.lanes_with(hashes[number], live) & sufficient) != 0 ? 1U : 0U} << number;
      return known;
    }
    filter.newest_layer().narrow_find(live, sought);
    const BatchBits known = filter.newest_layer().end_find(sufficient, sought);
    return known | find_in_older(filter, live, sufficient);
  }
};

// The lanes in one of which an add has nothing to do for an item.
std::uint32_t WindowFilter::sufficient(const LiveStamps& live) const {
  return options_.refresh ? std::uint32_t{1} << live.current : ~std::uint32_t{0};
}

std::uint32_t WindowFilter::lanes_with(std::uint64_t hash, const LiveStamps& live) const {
  std::uint32_t lanes = 0;
  for (std::size_t index = layers_.size(); index-- > 0;) lanes |= layers_[index]->lanes_with(hash, live);
  return lanes;
}

// Behind the reads of a look-up, and before it answers that an item is absent.
bool WindowFilter::later_began(const LiveStamps& live) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  return newest_generation() > live.generation;
}

// A later generation may begin between the look at the stamps and that at the bits. Its first add to a block
// empties a lane that was live. An add may have renewed the item just before, in a lane that was not live
// yet. So an item that seems absent is asked again, with the stamps of the later generation.
bool WindowFilter::has(std::uint64_t hash, const LiveStamps& live) const {
  const auto has_it = [&](const auto& layer) { return layer->lanes_with(hash, live) != 0; };
  if (std::any_of(layers_.rbegin(), layers_.rend(), has_it)) return true;
  return later_began(live) && has(hash, LiveStamps(newest_generation(), live.lanes));
}

// Three batches are on their way: one is hashed and its lines are asked for, one reads its first zone, and
// one the others. One zone tells of most absent items, so the lines of the others are asked for later.
// load(batch, at) gives a batch the hashes of the items from `at` on.
template <class Load>
[[gnu::always_inline]] inline void WindowFilter::find(std::size_t count, const Load& load, WallTime now,
                                                      std::span<bool> present) const {
  const LiveStamps live(generation_at(now), options_.lanes());
  const WindowLayer& newest = newest_layer();
  std::array<Batch, 3> batches;
  const auto begin = [&](Batch& batch, std::size_t at) {
    load(batch, at);
    batch.begin_find(newest, Zones::first);
  };
  const auto end = [&](Batch& batch) {
    constexpr std::uint32_t any = ~std::uint32_t{0};
    BatchBits found = newest.end_find(any, batch.sought);
    if (layers_.size() > 1) found |= batch.find_in_older(*this, live, any);
    const bool asks_again = later_began(live);
    for (std::size_t number = 0; number < batch.count; ++number)
      present[number] = (found >> number & 1) != 0 || (asks_again && has(batch.hashes[number], live));
    present = present.subspan(batch.count);
  };
  Batch* first = batches.data();
  Batch* second = first + 1;
  Batch* third = first + 2;
  begin(*first, 0);
  for (std::size_t at = first->count;;) {
    const bool more = at < count;
    if (more) {
      begin(*second, at);
      at += second->count;
    }
    newest.narrow_find(live, first->sought);
    if (third->count > 0) end(*third);
    third->count = 0;
    if (!more) break;
    std::swap(third, first);
    std::swap(first, second);
  }
  end(*first);
}

void WindowFilter::contains(std::span<const std::string_view> items, WallTime now,
                            std::span<bool> present) const {
  if (items.size() == 1) {
    present[0] = has(hash_of(items[0]), LiveStamps(generation_at(now), options_.lanes()));
    return;
  }
  find(
      items.size(), [&](Batch& batch, std::size_t at) { batch.load(*this, items.subspan(at)); }, now,
      present);
}

void WindowFilter::contains_hashed(std::span<const std::uint64_t> hashes, WallTime now,
                                   std::span<bool> present) const {
  find(
      hashes.size(), [&](Batch& batch, std::size_t at) { batch.load(hashes.subspan(at)); }, now, present);
}

void WindowFilter::fetch_lines(std::span<const std::uint64_t> hashes) const {
  const LaneBlocks& blocks = newest_layer().blocks();
  for (const std::uint64_t hash : hashes) {
    const LaneItem item(blocks, hash);
    fetch_line(item.stamps(blocks));
    fetch_line(blocks.words + item.line(blocks, 0));
  }
  // GCC drops calls of a function that does nothing but prefetch.
  asm volatile("");
}

// --- adds -------------------------------------------------------------------------------------------------

SpinLock& WindowFilter::lock_of(std::uint64_t hash) const {
  return stripes_[scaled(hash, stripe_count_)].lock;
}

WindowFilter::Put WindowFilter::put(std::uint64_t hash, Adding& adding, Fingerprint& record) {
  const SpinGuard lock(lock_of(hash));
  for (;;) {
    adding.follow();
    const LiveStamps& live = adding.live;
    std::uint32_t lanes = lanes_with(hash, live);
    std::optional<std::uint64_t> last;
    for (; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
      last = std::max(last, std::optional(live.generation_of(lane)));
    }
    if (last && (!options_.refresh || *last == live.generation)) return Put::known;
    if (!adding.take_place()) {
      if (!options_.of_last() || live.generation >= generation_number_max) return Put::no_room;
      // The generation has all its items.
      (void)reach(live.generation + 1);
      continue;
    }
    // The lane was used again since follow(): the place is one of a later generation.
    if (newest_generation() - live.generation >= live.lanes) {
      newest_layer().give_back(live.current, 1);
      continue;
    }
    newest_layer().set(hash, live);
    if (last && newest_generation() - *last < live.lanes)
      items_[*last % live.lanes].fetch_sub(1, std::memory_order_relaxed);
    adding.count_item();
    record = entry_of({.hash = hash,
                       .generation = live.generation,
                       .layer = newest_layer().number(),
                       .renews = last ? live.generation - *last : 0});
    return last ? Put::renewed : Put::added;
  }
}

// Puts one item after the other: step(put), which returns false to end. As long as most items are known, a
// batch is looked for first, and locks are for the rest. Where generations end by their items, any put may
// end one, so each item is looked for in its turn.
template <class Step>
void WindowFilter::add_all(std::span<const std::string_view> items, Adding& adding,
                           value::AddRecorder* recorder, const Step& step) {
  value::ToldEntries told(recorder, items.size());
  const auto put_one = [&](std::uint64_t hash) {
    Fingerprint record;
    const Put outcome = put(hash, adding, record);
    if (outcome == Put::added || outcome == Put::renewed) told.add(record);
    return step(outcome);
  };
  if (items.size() == 1) {
    (void)put_one(hash_of(items[0]));
    return told.end();
  }
  bool looks_ahead = !options_.of_last();
  Batch first(*this, items);
  first.begin_find(newest_layer(), Zones::all);
  Batch second;
  bool goes_on = true;
  for (Batch *current = &first, *next = &second; goes_on && !items.empty(); std::swap(current, next)) {
    items = items.subspan(current->count);
    if (!items.empty()) {
      next->load(*this, items);
      next->begin_find(newest_layer(), Zones::all);
    }
    const BatchBits known = looks_ahead ? current->known_in(*this, adding.live) : 0;
    looks_ahead = static_cast<std::size_t>(std::popcount(known)) * 2 > current->count;
    for (std::size_t number = 0; number < current->count && goes_on; ++number) {
      const bool is_known = (known >> number & 1) != 0;
      goes_on = is_known ? step(Put::known) : put_one(current->hashes[number]);
    }
  }
  told.end();
}

bool WindowFilter::try_add(std::span<const std::string_view> items, WallTime now, std::span<bool> added,
                           value::AddRecorder* recorder) {
  // A filter that may not grow answers "full" if there is no place. So adds to it claim no place ahead that
  // they may not need: they use add_each().
  if (drop_due_.load(std::memory_order_relaxed) || (!options_.of_last() && !may_grow(now))) [[unlikely]]
    return false;
  const std::uint64_t generation = reach(generation_at(now));
  // Where generations end by their items, places are claimed one by one, so that each ends with its last.
  std::optional<std::uint64_t> claims;
  if (!options_.of_last()) {
    const auto lane = static_cast<std::uint32_t>(generation % options_.lanes());
    claims = items.size();
    if (!newest_layer().claim(lane, *claims)) {
      claims = places_for(items, LiveStamps(generation, options_.lanes()));
      if (!newest_layer().claim(lane, *claims)) return false;
    }
  }
  Adding adding(*this, generation, claims);
  if (recorder != nullptr && !recorder->begin()) return false;
  std::size_t at = 0;
  add_all(items, adding, recorder, [&](Put outcome) {
    added[at++] = outcome == Put::added;
    return true;
  });
  return true;
}

// How many of the items need a place: those that are absent, or, where adds renew, not in this generation.
std::uint64_t WindowFilter::places_for(std::span<const std::string_view> items,
                                       const LiveStamps& live) const {
  std::uint64_t places = 0;
  while (!items.empty()) {
    Batch batch(*this, items);
    batch.begin_find(newest_layer(), Zones::first);
    places += batch.count - static_cast<std::uint64_t>(std::popcount(batch.known_in(*this, live)));
    items = items.subspan(batch.count);
  }
  return places;
}

bool WindowFilter::add_each(std::span<const std::string_view> items, WallTime now, Refusal no_room,
                            std::vector<AddOutcome>& outcomes, value::AddRecorder* recorder) {
  if (recorder != nullptr && !recorder->begin()) return false;
  Adding adding(*this, reach(generation_at(now)), std::nullopt);
  add_all(items, adding, recorder, [&](Put outcome) {
    outcomes.push_back(
        {.added = outcome == Put::added, .refusal = outcome == Put::no_room ? no_room : Refusal::none});
    return outcomes.back().refusal != Refusal::full;
  });
  return true;
}

// --- layers -----------------------------------------------------------------------------------------------

bool WindowFilter::is_old(const WindowLayer& layer) const {
  for (std::uint32_t lane = 0; lane < options_.lanes(); ++lane)
    if (layer.taken(lane) != 0) return false;
  return true;
}

value::ValuePtr WindowFilter::drop_old_layers() {
  drop_due_.store(false, std::memory_order_relaxed);
  WindowFilterPtr dropped;
  while (layers_.size() > 1 && is_old(*layers_.front())) {
    if (dropped == nullptr) dropped = new WindowFilter(options_);
    layers_.front()->set_dropped();
    dropped->layers_.push_back(std::move(layers_.front()));
    layers_.erase(layers_.begin());
  }
  if (dropped != nullptr) share_out_stripes();
  return dropped;
}

void WindowFilter::share_out_stripes() {
  std::uint32_t count = layers_.front()->plan().stripe_count();
  for (const auto& layer : layers_) count = std::min(count, layer->plan().stripe_count());
  if (count == stripe_count_) return;
  stripes_ = std::make_unique<Stripe[]>(count);
  stripe_count_ = count;
}

bool WindowFilter::fresh() const {
  return std::ranges::any_of(layers_, [](const auto& layer) { return layer->fresh(); });
}

void WindowFilter::small_pages(std::vector<value::SmallPages>& to) const {
  for (const auto& layer : layers_) {
    if (!layer->fresh()) continue;
    to.push_back(
        {.memory = layer.get(),
         .piece_count = layer->piece_count(),
         .in_use = [](const void* memory,
                      std::uint64_t piece) { return static_cast<const WindowLayer*>(memory)->in_use(piece); },
         .move =
             [](const void* memory, std::uint64_t piece) {
               static_cast<const WindowLayer*>(memory)->move_to_huge_page(piece);
             },
         .owner = layer});
  }
}

// --- figures ----------------------------------------------------------------------------------------------

// The items of the generations that are live in generation `now`; `newest` is the last one that was counted.
std::uint64_t WindowFilter::items_in(std::uint64_t newest, std::uint64_t now) const {
  std::uint64_t items = 0;
  for (std::uint64_t age = 0; age < options_.lanes(); ++age)
    if (now - age <= newest) items += items_of(static_cast<std::uint32_t>((now - age) % options_.lanes()));
  return items;
}

// A lane may be below 0, while a renewal is counted before the add that it renews.
std::uint64_t WindowFilter::items_of(std::uint32_t lane) const {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(items_[lane].load(std::memory_order_relaxed), 0));
}

std::uint64_t WindowFilter::item_count(WallTime now) const {
  return items_in(newest_generation(), generation_at(now));
}

std::uint64_t WindowFilter::item_count() const {
  const std::uint64_t newest = newest_generation();
  return items_in(newest, newest);
}

std::uint64_t WindowFilter::capacity() const {
  const std::uint64_t items = newest_layer().plan().capacity;
  return items * options_.generations;
}

std::uint64_t WindowFilter::byte_count() const {
  std::uint64_t bytes = value::heap_footprint(sizeof(WindowFilter)) +
                        value::heap_footprint(stripe_count_ * sizeof(Stripe)) +
                        value::heap_footprint(layers_.capacity() * sizeof(layers_.front()));
  for (const auto& layer : layers_) bytes += WindowLayer::footprint(layer->plan(), options_.lanes());
  return bytes;
}

WindowFilter::State WindowFilter::state(WallTime now) const {
  const std::uint64_t newest = newest_generation();
  const LiveStamps live(generation_at(now), options_.lanes());
  // A lane has a count if its generation has begun, and is not over.
  const auto counts = [&](std::uint64_t generation) {
    return generation <= newest && newest - generation < live.lanes;
  };
  // A generation begins with the first millisecond whose number is not below its own.
  const auto begin_of = [&](std::uint64_t generation) -> std::optional<std::uint64_t> {
    if (options_.of_last()) return std::nullopt;
    const std::uint64_t since = std::max(generation, first_generation) - first_generation;
    const auto milliseconds = checked_multiply(since, options_.milliseconds);
    if (!milliseconds || *milliseconds > milliseconds_max) return std::nullopt;
    return (*milliseconds + options_.generations - 1) / options_.generations;
  };
  State state;
  for (std::uint64_t age = 0; age < live.lanes; ++age) {
    const std::uint64_t number = live.generation - age;
    state.generations.push_back(
        {.number = number,
         .items = counts(number) ? items_of(static_cast<std::uint32_t>(number % live.lanes)) : 0,
         .begin = begin_of(number)});
  }
  for (const auto& layer : layers_) {
    LayerFigures figures{.plan = layer->plan()};
    for (std::uint32_t lane = 0; lane < live.lanes; ++lane) {
      if (!counts(live.generation_of(lane))) continue;
      figures.items += layer->taken(lane);
      figures.rate += lane_rate(layer->plan(), live.lanes, layer->taken(lane));
    }
    state.error_rate += figures.rate;
    state.layers.push_back(figures);
  }
  state.kept_since = begin_of(live.generation - options_.generations);
  state.forgets_next = begin_of(live.generation + 1);
  return state;
}

}  // namespace sepal::bloom
