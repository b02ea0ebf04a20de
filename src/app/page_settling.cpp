#include "page_settling.hpp"

#include <algorithm>
#include <utility>

namespace sepal::app {
namespace {

using namespace std::chrono_literals;

// Looking at a piece takes some microseconds, moving one a third of a millisecond, or some where the
// machine's host has to find the memory.
constexpr std::uint64_t looked_at_in_step = 64;
constexpr std::chrono::milliseconds busy_pause = 2ms;
// A pause is at least so many times as long as what was done before it: workers want the core.
constexpr int pause_share = 4;
constexpr std::chrono::milliseconds idle_pause_min = 50ms;
constexpr std::chrono::milliseconds idle_pause_max = 10s;

}  // namespace

void PageSettling::add(filter::FilterPtr filter, filter::LayerView layer) {
  const auto soon = std::chrono::steady_clock::now() + idle_pause_min;
  due_ = layers_.empty() ? soon : std::min(due_, soon);
  idle_pause_ = idle_pause_min;
  layers_.push_back({.filter = std::move(filter), .layer = layer});
}

void PageSettling::forget_dropped() {
  std::erase_if(layers_, [](const Unsettled& each) { return each.filter->use_count() == 1; });
}

void PageSettling::step_if_due() {
  if (layers_.empty() || std::chrono::steady_clock::now() < due_) return;
  const auto started = std::chrono::steady_clock::now();
  const std::chrono::milliseconds pause = step();
  const auto ended = std::chrono::steady_clock::now();
  due_ = ended + std::max<std::chrono::nanoseconds>(pause, pause_share * (ended - started));
}

std::chrono::milliseconds PageSettling::step() {
  forget_dropped();
  bool busy = move_a_piece();
  // The others wait for one that moves: there may be many to look at.
  if (!busy)
    for (Unsettled& layer : layers_) busy = look_at(layer) || busy;
  if (!busy) return std::exchange(idle_pause_, std::min(2 * idle_pause_, idle_pause_max));
  idle_pause_ = idle_pause_min;
  return busy_pause;
}

// Of the first layer that is in use. False if there is none.
bool PageSettling::move_a_piece() {
  const auto ready = std::ranges::find_if(
      layers_, [](const Unsettled& each) { return each.in_use == each.layer.piece_count(); });
  if (ready == layers_.end()) return false;
  ready->layer.move_to_huge_page(ready->moved);
  if (++ready->moved == ready->layer.piece_count()) layers_.erase(ready);
  return true;
}

// Whether it found more in use than the last time.
bool PageSettling::look_at(Unsettled& layer) {
  const std::uint64_t known = layer.in_use;
  const std::uint64_t end = std::min(known + looked_at_in_step, layer.layer.piece_count());
  while (layer.in_use < end && layer.layer.in_use(layer.in_use)) ++layer.in_use;
  return layer.in_use > known;
}

}  // namespace sepal::app
