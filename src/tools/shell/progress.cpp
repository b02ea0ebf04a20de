#include "tools/shell/progress.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>

#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr std::chrono::milliseconds bar_interval{100};
constexpr std::chrono::seconds line_interval{10};
constexpr std::size_t bar_characters = 24;
// Over a shorter time, a rate is a guess.
constexpr double rate_seconds_min = 0.2;

std::string bar(double share) {
  SEPAL_ASSERT(share >= 0 && share <= 1, "a bar is longer than the whole");
  std::string text(bar_characters, '.');
  std::fill_n(text.begin(), static_cast<std::size_t>(share * bar_characters), '#');
  return "[" + text + "]";
}

}  // namespace

std::string progress_text(const ProgressState& state, bool with_bar) {
  const double share =
      state.total == 0 ? 0
                       : std::min(1.0, static_cast<double>(state.done) / static_cast<double>(state.total));
  std::string text = format("%-9s ", state.phase.c_str());
  if (state.total == 0) text += amount_text(static_cast<double>(state.item_count)) + " " + state.unit;
  if (state.total != 0) text += (with_bar ? bar(share) : "") + format(" %3.0f%%", 100 * share);
  if (state.seconds < rate_seconds_min) return text;
  if (state.item_count != 0)
    text +=
        "  " + amount_text(static_cast<double>(state.item_count) / state.seconds) + " " + state.unit + "/s";
  if (state.total == 0) return text + "  " + duration_text(state.seconds);
  if (share > 0) text += "  " + duration_text(state.seconds / share - state.seconds) + " left";
  return text;
}

void Progress::begin(const std::string& phase, std::uint64_t total, const std::string& unit) {
  if (style_ == Style::none) return;
  const MutexLock lock(mutex_);
  state_ = {.phase = phase, .total = total, .unit = unit};
  begun_at_ = Clock::now();
  // Nothing is shown before the first interval has passed, so a short phase prints nothing.
  const Clock::time_point first = begun_at_ + (style_ == Style::bar ? bar_interval : line_interval);
  next_.store(first.time_since_epoch().count(), std::memory_order_relaxed);
}

void Progress::update(std::uint64_t done, std::uint64_t item_count) {
  if (style_ == Style::none) return;
  const Clock::time_point now = Clock::now();
  auto due = next_.load(std::memory_order_relaxed);
  // Most calls end here, without the lock: threads call this behind each block of items.
  if (now.time_since_epoch().count() < due) return;
  const Clock::time_point next = now + (style_ == Style::bar ? bar_interval : line_interval);
  // If several threads find the display due, the exchange lets only one of them show it.
  if (!next_.compare_exchange_strong(due, next.time_since_epoch().count(), std::memory_order_relaxed)) return;
  const MutexLock lock(mutex_);
  state_.done = done;
  state_.item_count = item_count;
  state_.seconds = std::chrono::duration<double>(now - begun_at_).count();
  show();
}

void Progress::show() {
  const std::string text = progress_text(state_, style_ == Style::bar);
  if (style_ == Style::lines) {
    std::fprintf(to_, "%s\n", text.c_str());
  } else {
    // Blanks cover the rest of a longer text that was shown before.
    const std::size_t before = shown_ > text.size() ? shown_ - text.size() : 0;
    std::fprintf(to_, "\r%s%s", text.c_str(), std::string(before, ' ').c_str());
    shown_ = text.size();
  }
  std::fflush(to_);
}

void Progress::end() {
  const MutexLock lock(mutex_);
  // Lines stay. Only a bar is removed, so that what follows does not stand behind it.
  if (shown_ == 0) return;
  std::fprintf(to_, "\r%s\r", std::string(shown_, ' ').c_str());
  std::fflush(to_);
  shown_ = 0;
}

}  // namespace sepal::tools
