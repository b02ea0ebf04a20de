#include "server/duty.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <numeric>

namespace sepal::server {
namespace {

// A worker is pressed when it works for so much of the time, or when its clients wait so long for the long
// batches of others. Without an idle core it may not get more of one.
constexpr double pressed_busy = 0.85;
constexpr double pressed_busy_without_cores = 0.6;
constexpr std::chrono::microseconds pressed_wait{100};
// A worker that is busy for less than this share of what a pressed one is takes clients of it.
constexpr double far_less = 0.5;
// A core of which so much is idle can take a worker.
constexpr double idle_min = 0.5;
// The last worker rests when the others would be busy for so much of the time: where cores are idle, and
// where the workers take them from their clients.
constexpr double rest_busy = 0.6;
constexpr double rest_busy_without_cores = 0.95;
// It rests when it could have rested in so many looks. Without an idle core, each look counts for several.
constexpr std::size_t calm_min = 20;
constexpr std::size_t calm_without_cores = 7;
// Clients take so many looks to move to a worker that wakes.
constexpr std::size_t looks_to_move = 3;
// A worker that rested because no core was idle rests for so many looks.
constexpr std::size_t pause_of_wakes = 10;
// Without an idle core, a worker that is pressed in so many looks wakes another one for a trial: what takes
// the cores may be less urgent than the workers.
constexpr std::size_t looks_before_trial = 100;
// A worker that wakes gets as many clients as stay.
constexpr double half = 0.5;

bool is_pressed(const Duty::Work& work, double idle_cores) {
  return work.busy >= (idle_cores >= idle_min ? pressed_busy : pressed_busy_without_cores) ||
         work.wait >= pressed_wait;
}

}  // namespace

void Duty::serve(std::size_t count) {
  SEPAL_ASSERT(count >= 1 && count <= worker_count_, "the number of serving workers is out of range");
  serving_ = count;
}

bool Duty::asks_for_cores(std::span<const Work> serving) {
  return serving.size() > 1 || std::ranges::any_of(serving, [](const Work& work) {
           return work.busy >= pressed_busy_without_cores * half || is_pressed(work, 0);
         });
}

std::vector<Duty::Gift> Duty::look(std::span<const Work> serving, double idle_cores) {
  SEPAL_ASSERT(serving.size() == serving_, "a look sees the workers that serve");
  if (pause_ > 0) --pause_;
  if (moving_ > 0) --moving_;
  std::vector<std::size_t> order(serving.size());  // the least busy worker first
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t index) { return serving[index].busy; });
  std::vector<Gift> gifts;
  std::vector<std::size_t> pressed;  // those for which no serving worker has time
  auto least = order.begin();
  for (auto most = order.rbegin(); most != order.rend(); ++most) {
    const Work& work = serving[*most];
    if (!is_pressed(work, idle_cores)) continue;
    if (const double other = serving[*least].busy; other < work.busy * far_less) {
      gifts.push_back({.from = *most, .to = *least++, .share = (work.busy - other) / (2 * work.busy)});
    } else {
      pressed.push_back(*most);
    }
  }
  const bool some_are_pressed = !pressed.empty() || !gifts.empty();
  wake(pressed, idle_cores, gifts);
  if (serving_ == serving.size() && moving_ == 0) rest(serving, some_are_pressed, idle_cores);
  return gifts;
}

void Duty::wake(std::span<const std::size_t> pressed, double idle_cores, std::vector<Gift>& gifts) {
  if (pause_ > 0) return;
  double cores = idle_cores;
  if (!pressed.empty() && cores < idle_min && ++starved_ >= looks_before_trial) cores = idle_min;
  for (const std::size_t index : pressed) {
    if (serving_ == worker_count_ || cores < idle_min) return;
    gifts.push_back({.from = index, .to = serving_++, .share = half});
    cores -= 1;
    calm_ = 0;
    moving_ = looks_to_move;
    starved_ = 0;
  }
}

void Duty::rest(std::span<const Work> serving, bool some_are_pressed, double idle_cores) {
  const bool has_cores = idle_cores >= idle_min;
  double busy = 0;
  for (const Work& work : serving) busy += work.busy;
  const double share = has_cores ? rest_busy : rest_busy_without_cores;
  const bool can_rest =
      serving_ > 1 && busy <= share * static_cast<double>(serving_ - 1) && !(has_cores && some_are_pressed);
  if (!can_rest) {
    calm_ = 0;
    return;
  }
  calm_ += has_cores ? 1 : calm_without_cores;
  if (calm_ < calm_min) return;
  calm_ = 0;
  --serving_;
  if (!has_cores) pause_ = pause_of_wakes;
}

}  // namespace sepal::server
