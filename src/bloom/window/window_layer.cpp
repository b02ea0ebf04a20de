#include "bloom/window/window_layer.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/value/heap.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace sepal::bloom {

Result<std::shared_ptr<WindowLayer>> WindowLayer::create(const LanePlan& plan, std::uint64_t number,
                                                         std::uint32_t lanes, Paging paging) {
  auto bitmap = Bitmap::allocate(plan.byte_count(lanes), paging);
  if (!bitmap) return fail(Errc::out_of_memory, "the system refused the memory of a layer");
  const bool fresh = paging == Paging::small && bitmap->piece_count() > 0;
  auto* const layer = new (std::nothrow) WindowLayer(plan, number, lanes, std::move(*bitmap), fresh);
  if (layer == nullptr) return fail(Errc::out_of_memory, "the system refused the memory of a layer");
  return std::shared_ptr<WindowLayer>(layer);
}

std::uint64_t WindowLayer::footprint(const LanePlan& plan, std::uint32_t lanes) {
  return value::heap_footprint(sizeof(WindowLayer)) + Bitmap::footprint(plan.byte_count(lanes));
}

namespace {

// Some of the items that are looked for: their places in the list.
struct Candidates {
  std::size_t count = 0;
  std::array<std::uint32_t, found_together_max> places;

  [[nodiscard]] std::span<const std::uint32_t> all() const { return std::span(places).first(count); }
  // Every item is written to the next place, and stays only if it is kept: there is no branch that cannot be
  // guessed.
  void add(std::uint32_t place, bool kept) {
    places[count] = place;
    count += kept ? 1 : 0;
  }
};

// Zone after zone, with the items that are left. The lines of the next zone are asked for before the first of
// them is read.
template <class Shape>
void find_in(const LaneBlocks& blocks, const Shape& shape, const SoughtItems& sought, const LiveStamps& live,
             std::span<std::uint32_t> lanes) {
  Candidates left;
  for (std::uint32_t place = 0; place < sought.count; ++place) {
    const LaneItem& item = sought.items[place];
    lanes[place] = item.lanes_in(shape, 0, sought.lines[place], item.live_lanes(blocks, shape, live));
    left.add(place, lanes[place] != 0);
  }
  std::array<std::uint64_t*, found_together_max> lines;
  for (std::uint32_t zone = 1; zone < blocks.zones && left.count > 0; ++zone) {
    for (const std::uint32_t place : left.all()) {
      lines[place] = sought.items[place].line(blocks, zone);
      fetch_line(lines[place]);
    }
    Candidates still;
    for (const std::uint32_t place : left.all()) {
      lanes[place] = sought.items[place].lanes_in(shape, zone, lines[place], lanes[place]);
      still.add(place, lanes[place] != 0);
    }
    left = still;
  }
}

}  // namespace

void WindowLayer::end_find(const SoughtItems& items, const LiveStamps& live,
                           std::span<std::uint32_t> lanes) const {
  with_shape(blocks_, [&](const auto& shape) { find_in(blocks_, shape, items, live, lanes); });
}

bool WindowLayer::claim(std::uint32_t lane, std::uint64_t count) {
  // Also where a lane has more than its plan, because a generation began within a request.
  if (count == 0) return true;
  std::uint64_t taken = taken_[lane].load(std::memory_order_relaxed);
  do {
    if (taken > plan_.capacity || count > plan_.capacity - taken) return false;
  } while (!taken_[lane].compare_exchange_weak(taken, taken + count, std::memory_order_relaxed));
  return true;
}

// The lane may count another generation by now: then there may be fewer to give back.
void WindowLayer::give_back(std::uint32_t lane, std::uint64_t count) {
  std::uint64_t taken = taken_[lane].load(std::memory_order_relaxed);
  while (
      !taken_[lane].compare_exchange_weak(taken, taken - std::min(taken, count), std::memory_order_relaxed)) {
  }
}

// Word by word, in order: the stamp of a lane before its bits.
void WindowLayer::copy(std::uint64_t offset, std::span<std::byte> to) const {
  SEPAL_ASSERT(offset % 8 == 0 && to.size() % 8 == 0 && offset + to.size() <= byte_count(),
               "a layer is copied in whole words of it");
  const std::uint64_t* word = bitmap_.words() + offset / 8;
  for (std::size_t at = 0; at < to.size(); at += 8, ++word)
    store_little_endian(to.data() + at, read_word(word, std::memory_order_acquire));
}

void WindowLayer::fill(std::uint64_t offset, std::span<const std::byte> from) {
  SEPAL_ASSERT(offset % 8 == 0 && from.size() % 8 == 0 && offset + from.size() <= byte_count(),
               "a layer is filled in whole words of it");
  std::uint64_t* word = bitmap_.words() + offset / 8;
  for (std::size_t at = 0; at < from.size(); at += 8, ++word)
    *word = load_little_endian<std::uint64_t>(from.data() + at);
}

void WindowLayer::keep_live(const LiveStamps& live) const {
  std::uint32_t* stamp = blocks_.stamps;
  for (std::uint64_t block = 0; block < blocks_.block_count; ++block)
    for (std::uint32_t lane = 0; lane < blocks_.lanes; ++lane, ++stamp)
      if (*stamp != live.stamps[lane]) *stamp = 0;
}

void WindowLayer::move_to_huge_page(std::uint64_t piece) const {
  if (dropped()) return;
  bitmap_.move_to_huge_page(piece);
  if (piece + 1 == bitmap_.piece_count()) fresh_.store(false, std::memory_order_relaxed);
}

}  // namespace sepal::bloom
