// Shows the user how far a long piece of work is: a bar on a terminal, elsewhere a line now and then.
#pragma once

#include <sepal/base/mutex.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace sepal::tools {

struct ProgressState {
  std::string phase;        // "adding"
  std::uint64_t done = 0;   // a part of `total`, in any unit
  std::uint64_t total = 0;  // 0: unknown
  std::uint64_t item_count = 0;
  std::string unit = "items";  // of item_count
  double seconds = 0;          // since the phase began
};

// "adding    [######............]  33%  21.3 M items/s  0:12 left", or without the bar.
[[nodiscard]] std::string progress_text(const ProgressState& state, bool with_bar);

// Synchronised.
class Progress {
 public:
  enum class Style : std::uint8_t { none, lines, bar };

  Progress(std::FILE* to, Style style) : to_(to), style_(style) {}

  void begin(const std::string& phase, std::uint64_t total, const std::string& unit = "items");
  // Quick. Shows the progress if it is time to.
  void update(std::uint64_t done, std::uint64_t item_count);
  // Removes the bar.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void show() SEPAL_REQUIRES(mutex_);

  std::FILE* const to_;
  const Style style_;
  std::atomic<Clock::rep> next_{0};  // When to show it next. Relaxed: nothing is ordered by it.
  Mutex mutex_;
  ProgressState state_ SEPAL_GUARDED_BY(mutex_);
  Clock::time_point begun_at_ SEPAL_GUARDED_BY(mutex_);
  std::size_t shown_ SEPAL_GUARDED_BY(mutex_) = 0;  // characters of the bar
};

}  // namespace sepal::tools
