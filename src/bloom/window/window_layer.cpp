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
