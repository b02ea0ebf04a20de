#include "app/threads/page_settling.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/thread.hpp>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

namespace sepal::app {
namespace {

using namespace std::chrono_literals;

// Looking at a piece takes some microseconds. Moving one takes a third of a millisecond, or some milliseconds
// if the machine's host has to find the memory.
constexpr std::uint64_t looked_at_in_step = 64;
constexpr std::chrono::milliseconds busy_pause = 2ms;
// A pause is at least this many times as long as the step before it used a core, because workers need the
// core.
constexpr int pause_share = 4;
constexpr std::chrono::milliseconds idle_pause_min = 50ms;
constexpr std::chrono::milliseconds idle_pause_max = 10s;
static_assert(busy_pause <= idle_pause_min && idle_pause_min <= idle_pause_max && looked_at_in_step > 0);

// How long this thread has used a core. Time in which it waits for a core does not count: that takes nothing
// from the workers.
std::chrono::nanoseconds core_time() {
  std::timespec time{};
  static_cast<void>(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time));
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

PageSettling::PageSettling(std::function<void()> on_given_up)
    : on_given_up_(std::move(on_given_up)), thread_(start_thread("pages", [this] { run(); })) {}

PageSettling::~PageSettling() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PageSettling::add(value::ValuePtr value, const value::SmallPages& pages) {
  SEPAL_ASSERT(value != nullptr && pages.piece_count > 0, "a layer without pieces has no pages to settle");
  Values added;
  added.emplace_back();
  added.back().value = std::move(value);
  added.back().layers.push_back({.pages = pages});
  {
    const MutexLock lock(mutex_);
    added_.splice(added_.end(), added);
  }
  changed_.notify_all();
}

void PageSettling::look_for_dropped() {
  {
    const MutexLock lock(mutex_);
    may_be_dropped_ = true;
  }
  changed_.notify_all();
}

void PageSettling::free_given_up() {
  Values freed;
  {
    const MutexLock lock(mutex_);
    freed.swap(given_up_);
  }
}

void PageSettling::run() {
  // If the system refuses this, it has refused short slices as well, and the log says so.
  static_cast<void>(ask_to_run_behind());
  while (wait()) {
    take_added();
    give_up_dropped();
    step_if_due();
  }
}

bool PageSettling::wait() {
  const MutexLock lock(mutex_);
  while (!stopping_ && added_.empty() && !may_be_dropped_) {
    if (values_.empty()) {
      changed_.wait(mutex_);
    } else if (changed_.wait_until(mutex_, due_) == std::cv_status::timeout) {
      break;
    }
  }
  may_be_dropped_ = false;
  return !stopping_;
}

// Keeps one entry for each value. So this object holds a value once, and a use count of 1 means that the
// value has been dropped.
void PageSettling::take_added() {
  Values added;
  {
    const MutexLock lock(mutex_);
    added.swap(added_);
  }
  if (added.empty()) return;
  const auto soon = std::chrono::steady_clock::now() + idle_pause_min;
  due_ = values_.empty() ? soon : std::min(due_, soon);
  idle_pause_ = idle_pause_min;
  Values emptied;
  while (!added.empty()) {
    const auto first = added.begin();
    const auto known = std::ranges::find(values_, first->value, &Unsettled::value);
    if (known == values_.end()) {
      values_.splice(values_.end(), added, first);
    } else {
      // A value that has grown comes with all of its small pages. A layer has one entry.
      const void* const memory = first->layers.front().pages.memory;
      const auto is_this = [&](const Layer& layer) { return layer.pages.memory == memory; };
      if (std::ranges::none_of(known->layers, is_this))
        known->layers.splice(known->layers.end(), first->layers);
      // This frees nothing on this thread, because `known` holds the value as well. The empty entry is freed
      // by the other thread.
      first->value.reset();
      emptied.splice(emptied.end(), added, first);
    }
  }
  give_up(std::move(emptied));
}

void PageSettling::give_up_dropped() {
  Values dropped;
  for (auto each = values_.begin(); each != values_.end();) {
    const auto next = std::next(each);
    // No other thread has a reference, so none can make another one.
    if (each->value->use_count() == 1) dropped.splice(dropped.end(), values_, each);
    each = next;
  }
  give_up(std::move(dropped));
}

void PageSettling::give_up(Values values) {
  if (values.empty()) return;
  {
    const MutexLock lock(mutex_);
    given_up_.splice(given_up_.end(), values);
  }
  // Outside the lock: the callback takes a lock of its own.
  on_given_up_();
}

void PageSettling::step_if_due() {
  if (values_.empty() || std::chrono::steady_clock::now() < due_) return;
  const std::chrono::nanoseconds before = core_time();
  const std::chrono::milliseconds pause = step();
  const std::chrono::nanoseconds taken = core_time() - before;
  due_ = std::chrono::steady_clock::now() + std::max<std::chrono::nanoseconds>(pause, pause_share * taken);
}

std::chrono::milliseconds PageSettling::step() {
  bool busy = move_a_piece();
  // Other layers are not looked at while one is moved, because there may be many.
  if (!busy)
    for (Unsettled& each : values_)
      for (Layer& layer : each.layers) busy = look_at(layer) || busy;
  if (!busy) return std::exchange(idle_pause_, std::min(2 * idle_pause_, idle_pause_max));
  idle_pause_ = idle_pause_min;
  return busy_pause;
}

// Moves the next piece of the first layer that is wholly in use. False if there is none.
bool PageSettling::move_a_piece() {
  for (auto each = values_.begin(); each != values_.end(); ++each) {
    const auto layer = std::ranges::find_if(each->layers, &Layer::ready);
    if (layer == each->layers.end()) continue;
    SEPAL_ASSERT(layer->moved < layer->in_use, "a piece is moved that is not in use");
    layer->pages.move(layer->pages.memory, layer->moved);
    ++layer->moved;
    // The entry stays until all of its layers are settled, because it stands for the whole value.
    if (!std::ranges::all_of(each->layers, &Layer::settled)) return true;
    Values settled;
    settled.splice(settled.end(), values_, each);
    give_up(std::move(settled));
    return true;
  }
  return false;
}

// Whether more pieces are in use than at the last look.
bool PageSettling::look_at(Layer& layer) {
  const std::uint64_t known = layer.in_use;
  SEPAL_ASSERT(layer.moved <= known && known <= layer.pages.piece_count,
               "more pieces were moved than are in use, or more are in use than there are");
  const std::uint64_t end = std::min(known + looked_at_in_step, layer.pages.piece_count);
  // Pieces count from the first on: a layer is ready only when no piece is left out, because requests that
  // still touch a piece for the first time would wait for its move (decisions/0010).
  while (layer.in_use < end && layer.pages.in_use(layer.pages.memory, layer.in_use)) ++layer.in_use;
  return layer.in_use > known;
}

}  // namespace sepal::app
