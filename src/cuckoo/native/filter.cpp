#include <sepal/base/assert.hpp>
#include <sepal/base/prefetch.hpp>
#include <sepal/cuckoo/native/filter.hpp>

#include <algorithm>
#include <new>
#include <utility>

#include "cuckoo/native/body.hpp"
#include "cuckoo/native/layer.hpp"
#include "cuckoo/native/records.hpp"
#include "cuckoo/native/stills.hpp"

namespace sepal::cuckoo {
namespace {

// The items of changes that are fetched together.
constexpr std::size_t window = 32;

// With the hash inlined: the compiler leaves out what only its other half needs.
[[gnu::flatten]] void find_places(std::span<const std::string_view> items, std::uint64_t seed,
                                  std::uint32_t root_count, ItemPlace* places) {
  for (std::size_t at = 0; at < items.size(); ++at)
    places[at] = place_of(fingerprint_of(items[at], seed).low, root_count);
}

}  // namespace

struct Filter::Sought {
  std::uint64_t hash;
  ItemPlace at;
};

Filter::Filter(const Plan& plan)
    : Value(own_kind), plan_(plan), identity_(value::new_identity()), stills_(std::make_shared<Stills>()) {
  take_own(value::heap_footprint(sizeof(Filter)) + value::heap_footprint(sizeof(Stills)));
}

void Filter::take_own(std::uint64_t bytes) {
  OwnMemory memory;
  account_.took(static_cast<std::int64_t>(bytes), memory);
}

Filter::~Filter() {
  for (const auto& layer : layers_) delete layer.load(std::memory_order_relaxed);
}

Result<FilterPtr> Filter::create(const Plan& plan) {
  FilterPtr filter(new Filter(plan));
  OwnMemory memory;
  if (filter->layer_made(0, memory) == nullptr) return fail(Errc::out_of_memory);
  return filter;
}

Layer* Filter::layer_made(std::uint32_t index, Memory& memory) {
  Layer* layer = layers_[index].load(std::memory_order_acquire);
  if (layer == nullptr) {
    const std::uint64_t bytes = Layer::byte_count(plan_, index);
    if (!account_.may_take(bytes, memory)) return nullptr;
    // No other worker waits for this one. Several may make the layer, and the first one is taken.
    auto made = Layer::make(plan_, index);
    if (made == nullptr) return nullptr;
    if (layers_[index].compare_exchange_strong(layer, made.get(), std::memory_order_acq_rel)) {
      account_.took(static_cast<std::int64_t>(bytes), memory);
      layer = made.release();
    }
  }
  // Before the caller adds to it: look-ups go by the count.
  std::uint32_t count = layer_count_.load(std::memory_order_relaxed);
  while (count <= index && !layer_count_.compare_exchange_weak(count, index + 1, std::memory_order_release)) {
  }
  return layer;
}

Layer* Filter::layers_made(std::uint32_t index, Memory& memory) {
  Layer* made = nullptr;
  for (std::uint32_t each = 0; each <= index; ++each)
    if ((made = layer_made(each, memory)) == nullptr) break;
  return made;
}

// --- look-ups ---------------------------------------------------------------------------------------------

// From the newest layer on, as removals: an item that was added to an older layer, and then taken from a
// newer one, is not missed.
void Filter::contains(std::span<const std::string_view> items, std::span<bool> present) const {
  const std::uint32_t newest = layer_count() - 1;
  std::array<ItemPlace, Layer::looks_max> places;
  while (!items.empty()) {
    const std::size_t count = std::min(places.size(), items.size());
    find_places(items.first(count), plan_.options.seed, plan_.root_count, places.data());
    const auto some = std::span(places).first(count);
    for (std::uint32_t index = 0; index < newest; ++index)
      for (const ItemPlace& at : some) layer(index).prefetch_line(at);
    layer(newest).contains(some, present.first(count));
    for (std::uint32_t index = newest; index-- > 0;)
      for (std::size_t at = 0; at < count; ++at)
        present[at] = present[at] || layer(index).count(places[at], 1) != 0;
    items = items.subspan(count);
    present = present.subspan(count);
  }
}

// In windows: the cells of all items of a window are fetched together, then their lines, then the steps are
// made.
template <class Step>
void Filter::change_each(std::span<const std::string_view> items, Step step) {
  std::array<Sought, window> sought;
  const std::uint32_t layers = items.size() > 1 ? layer_count() : 0;
  for (; !items.empty(); items = items.subspan(std::min(window, items.size()))) {
    const auto some = std::span(sought).first(std::min(window, items.size()));
    for (std::size_t at = 0; at < some.size(); ++at) {
      const std::uint64_t hash = hash_of(items[at]);
      some[at] = {.hash = hash, .at = cuckoo::place_of(hash, plan_.root_count)};
      for (std::uint32_t index = 0; index < layers; ++index) layer(index).prefetch_cell(some[at].at);
    }
    for (std::uint32_t index = 0; index < layers; ++index)
      for (const Sought& item : some) layer(index).prefetch_line(item.at);
    for (const Sought& item : some) step(item);
  }
}

std::uint64_t Filter::count(std::string_view item) const {
  const ItemPlace at = cuckoo::place_of(hash_of(item), plan_.root_count);
  std::uint64_t copies = 0;
  for (std::uint32_t index = 0; index < layer_count(); ++index) copies += layer(index).count_all(at);
  return copies;
}

// --- changes ----------------------------------------------------------------------------------------------

// Takes the room of one item, where the filter does not scale. False: there is none.
bool Filter::claim_room() {
  std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  while (taken < plan_.item_count_max())
    if (taken_.compare_exchange_weak(taken, taken + 1, std::memory_order_relaxed)) return true;
  return false;
}

// All who add an item lock its cell of the oldest layer first, and hold that lock to the end. So of several
// who add it if it is absent, one adds it. Locks of several layers are taken from the oldest to the newest.
Filter::AddOutcome Filter::add(const Sought& item, AddIf condition, Memory& memory, Fingerprint& record) {
  const ItemPlace& at = item.at;
  const bool scaling = plan_.options.scaling();
  Cell* home = &layer(0).lock(at);
  const auto unlock = [](Cell* cell) { cell->unlock(); };
  const auto refused = [&](Refusal refusal) {
    if (!scaling) taken_.fetch_sub(1, std::memory_order_relaxed);
    return AddOutcome{.refusal = refusal};
  };
  if (condition == AddIf::absent && contains_locked(at, *home)) {
    unlock(home);
    return {};
  }
  if (!scaling && !claim_room()) {
    unlock(home);
    return {.refusal = Refusal::full};
  }
  const Changer by{.memory = memory, .stills = *stills_, .account = account_};
  std::uint64_t number = 0;
  Put put = layer(0).put(home, at, by, number);
  std::uint32_t index = 0;
  while (put == Put::no_room && ++index < plan_.layer_count) {
    Layer* const next = layer_made(index, memory);
    if (next == nullptr) {
      put = Put::no_memory;
      break;
    }
    Cell* cell = &next->lock(at);
    put = next->put(cell, at, by, number);
    unlock(cell);
  }
  unlock(home);
  if (put == Put::no_room) {
    if (scaling) refused_last_.store(true, std::memory_order_relaxed);
    return refused(Refusal::full);
  }
  if (put == Put::no_memory) return refused(Refusal::no_memory);
  record = record_of(item.hash, number, index, false);
  return {.added = true};
}

bool Filter::contains_locked(const ItemPlace& at, const Cell& home) const {
  if (layer(0).count_locked(home, at) != 0) return true;
  for (std::uint32_t index = 1; index < layer_count(); ++index)
    if (layer(index).count(at, 1) != 0) return true;
  return false;
}

bool Filter::remove(const Sought& item, Memory& memory, Fingerprint& record) {
  const Changer by{.memory = memory, .stills = *stills_, .account = account_};
  for (std::uint32_t index = layer_count(); index-- > 0;) {
    Cell& cell = layer(index).lock(item.at);
    std::uint64_t number = 0;
    const bool taken = layer(index).take(cell, item.at, by, number);
    cell.unlock();
    if (!taken) continue;
    if (!plan_.options.scaling()) taken_.fetch_sub(1, std::memory_order_relaxed);
    // Asked first: a store would take the line from the other workers at each removal.
    if (refused_last()) refused_last_.store(false, std::memory_order_relaxed);
    record = record_of(item.hash, number, index, true);
    return true;
  }
  return false;
}

bool Filter::add(std::span<const std::string_view> items, AddIf condition, Memory& memory,
                 std::vector<AddOutcome>& outcomes, value::AddRecorder* recorder) {
  outcomes.clear();
  if (recorder != nullptr && !recorder->begin()) return false;
  value::ToldEntries told(recorder, items.size());
  change_each(items, [&](const Sought& item) {
    Fingerprint record;
    outcomes.push_back(add(item, condition, memory, record));
    if (outcomes.back().added) told.add(record);
  });
  told.end();
  return true;
}

bool Filter::remove(std::span<const std::string_view> items, Memory& memory, std::span<bool> removed,
                    value::AddRecorder* recorder) {
  if (recorder != nullptr && !recorder->begin()) return false;
  value::ToldEntries told(recorder, items.size());
  std::size_t at = 0;
  change_each(items, [&](const Sought& item) {
    Fingerprint record;
    removed[at] = remove(item, memory, record);
    if (removed[at]) told.add(record);
    ++at;
  });
  told.end();
  return true;
}

// --- figures ----------------------------------------------------------------------------------------------

namespace {

template <class Of>
std::uint64_t sum(const Layer& layer, Of of) {
  std::uint64_t total = 0;
  layer.each_cell([&](const Cell& cell) { total += (cell.*of)(); });
  return total;
}

}  // namespace

std::uint64_t Filter::item_count() const {
  std::uint64_t total = 0;
  for (std::uint32_t index = 0; index < layer_count(); ++index) total += sum(layer(index), &Cell::item_count);
  return total;
}

std::uint64_t Filter::removed_count() const {
  const std::uint64_t all = all_removed();
  // During a replay, cells may still lack removals.
  return all - std::min(all, forgotten());
}

std::uint64_t Filter::all_removed() const {
  std::uint64_t total = 0;
  for (std::uint32_t index = 0; index < layer_count(); ++index)
    total += sum(layer(index), &Cell::removed_count);
  return total;
}

std::uint64_t Filter::change_count() const {
  std::uint64_t total = compacted_.load(std::memory_order_relaxed);
  for (std::uint32_t index = 0; index < layer_count(); ++index)
    total += sum(layer(index), &Cell::change_count);
  return total;
}

std::vector<Filter::LayerFigures> Filter::layers() const {
  std::vector<LayerFigures> all;
  for (std::uint32_t index = 0; index < layer_count(); ++index) {
    LayerFigures& figures = all.emplace_back(LayerFigures{.plan = plan_.layers[index]});
    layer(index).each_cell([&](const Cell& cell) {
      const CellShape shape = cell.form_now().shape;
      // A writer may be between the two counts.
      const std::uint64_t extra = cell.extra_count();
      const std::uint64_t items = cell.item_count();
      figures.items += items;
      figures.removed += cell.removed_count();
      ++figures.cells;
      figures.slots += shape.quotient_count();
      figures.slots_used += items - std::min(items, extra);
      if (cell.lines_address() != nullptr) figures.bytes += shape.byte_count();
    });
    const double identities =
        static_cast<double>(plan_.root_count) *
        static_cast<double>(std::uint64_t{plan_.root_quotients} << plan_.layers[index].identity_bits);
    figures.rate = static_cast<double>(figures.slots_used) / identities;
  }
  return all;
}

double Filter::rate_of(std::span<const LayerFigures> layers) {
  double right = 1;  // the probability that all layers say no
  for (const LayerFigures& layer : layers) right *= 1 - std::min(1.0, layer.rate);
  return 1 - right;
}

// --- replay -----------------------------------------------------------------------------------------------

// A removal that finds nothing waits for its add, which has a lower number. When that comes, neither has an
// effect. If it never comes, the process that made both ended before it recorded the add, and answered
// neither: adds of a later process have higher numbers, and the removal does not take them. An add that finds
// no room waits for the removal that made room.
bool Filter::repeat(std::span<const Fingerprint> records) {
  for (const Fingerprint& record : records) {
    const auto outcome = repeat(record);
    if (outcome == Repeated::impossible) return false;
    if (outcome == Repeated::not_yet)
      (is_removal(record) ? waiting_removals_ : waiting_adds_).push_back(record);
  }
  // An add that is repeated changes only the removals that wait.
  const auto done = [&](const Fingerprint& record) { return repeat(record) == Repeated::done; };
  while (!waiting_adds_.empty() && std::erase_if(waiting_adds_, done) != 0) {
  }
  return true;
}

// Takes a removal that waits for this add; false: there is none.
bool Filter::meets_removal(const Fingerprint& record, std::uint32_t index, const ItemPlace& at) {
  const auto found = std::ranges::find_if(waiting_removals_, [&](const Fingerprint& removal) {
    const auto ahead = static_cast<std::int32_t>(static_cast<std::uint32_t>(removal.high) -
                                                 static_cast<std::uint32_t>(record.high));
    return layer_of(removal) == index && ahead > 0 &&
           layer(index).are_the_same(at, cuckoo::place_of(removal.low, plan_.root_count));
  });
  if (found == waiting_removals_.end()) return false;
  waiting_removals_.erase(found);
  return true;
}

Filter::Repeated Filter::repeat(const Fingerprint& record) {
  const std::uint32_t index = layer_of(record);
  if (index >= plan_.layer_count || record.high >> (removed_bit + 1) != 0) return Repeated::impossible;
  OwnMemory memory;
  if (layers_made(index, memory) == nullptr) throw std::bad_alloc();
  const ItemPlace at = cuckoo::place_of(record.low, plan_.root_count);
  Cell* cell = &layer(index).lock(at);
  // The whole number is the one next to the last that was seen.
  const auto ahead = static_cast<std::int32_t>(static_cast<std::uint32_t>(record.high) -
                                               static_cast<std::uint32_t>(cell->change_count()));
  const std::uint64_t number = cell->change_count() + static_cast<std::uint64_t>(std::int64_t{ahead});
  const bool is_new = number > cell->loaded_change();
  // Below 0, or above what a cell takes: it wraps. A cell that takes no more changes has made no record.
  if (number > cell_count_max || (is_new && cell->is_worn_out())) {
    cell->unlock();
    return Repeated::impossible;
  }
  const Changer by{.memory = memory, .stills = *stills_, .account = account_, .recorded = number};
  const Repeated outcome = is_new ? repeat_in(cell, record, at, by) : Repeated::done;
  cell->unlock();
  if (outcome == Repeated::no_memory) throw std::bad_alloc();
  return outcome;
}

// After a split `cell` is the one that has the place, as in Layer::put.
Filter::Repeated Filter::repeat_in(Cell*& cell, const Fingerprint& record, const ItemPlace& at,
                                   const Changer& by) {
  const std::uint32_t index = layer_of(record);
  const bool scaling = plan_.options.scaling();
  std::uint64_t number = 0;
  if (is_removal(record)) {
    if (layer(index).take(*cell, at, by, number)) {
      if (!scaling) taken_.fetch_sub(1, std::memory_order_relaxed);
      return Repeated::done;
    }
    // The next number is above this one, whether or not it had an effect. So below.
    (void)cell->count_change(by.recorded);
    return Repeated::not_yet;
  }
  if (!waiting_removals_.empty() && meets_removal(record, index, at)) {
    (void)cell->count_change(by.recorded);
    cell->count_pair();
    return Repeated::done;
  }
  const Put put = layer(index).put(cell, at, by, number);
  if (put == Put::done) {
    if (!scaling) taken_.fetch_add(1, std::memory_order_relaxed);
    return Repeated::done;
  }
  (void)cell->count_change(by.recorded);
  return put == Put::no_memory ? Repeated::no_memory : Repeated::not_yet;
}

std::uint64_t Filter::compact() {
  begin_anew(all_removed());
  return forgotten();
}

void Filter::begin_anew(std::uint64_t forgotten) {
  forgotten_.store(forgotten, std::memory_order_relaxed);
  compacted_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace sepal::cuckoo
