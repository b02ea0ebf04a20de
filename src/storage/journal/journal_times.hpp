// When the journal's thread is to do something, and what is due without a time.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/storage/journal/journal.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "storage/disk/steady_now.hpp"

namespace sepal::storage {

// Guarded by the lock of the journal's core.
class JournalTimes {
 public:
  explicit JournalTimes(const JournalOptions& options)
      : sync_interval_(options.sync_interval), window_bytes_max_(options.segment_bytes) {}

  // --- due now, without a time ----------------------------------------------------------------------------

  bool due = false;          // the thread must not sleep on
  bool surplus_due = false;  // a generation was saved since the segments ahead were counted
  bool ask_due = false;      // a save has to be asked for
  bool tell_due = false;     // clients need not wait for room any more

  // --- syncs ----------------------------------------------------------------------------------------------

  [[nodiscard]] SteadyTime sync_time(keyspace::JournalPolicy policy) const {
    return policy == keyspace::JournalPolicy::everysec ? last_sync_ + sync_interval_ : gathered_at_;
  }
  void sync_begins(std::uint64_t bytes) {
    last_sync_ = steady_now();
    widen_window(bytes);
  }
  // The sync covered the first `frames_synced` of the `frames` that were recorded; so many `bytes` were
  // recorded while it ran.
  //
  // Under `always`, a sync releases replies, and their clients ask again at once. The next sync waits for
  // them: for 1/gather_part of the time that the last sync took, and gather_max at most. Without the delay it
  // would serve only the requests that came during the last sync, and the released clients would wait for the
  // sync after it.
  void sync_ends(std::uint64_t frames_synced, std::uint64_t frames, std::uint64_t bytes) {
    const SteadyTime now = steady_now();
    // With a single frame since the sync before, there is at most one client to wait for: no delay.
    gathered_at_ = frames - std::exchange(frames_synced_, frames_synced) > 1
                       ? now + std::min<SteadyTime::duration>((now - last_sync_) / gather_part, gather_max)
                       : SteadyTime::min();
    window_bytes_ = window_bytes_min;
    widen_window(2 * bytes);
  }

  // --- pages ----------------------------------------------------------------------------------------------

  // Pages are prepared for twice the bytes that were stored during the last sync, or for the bytes that were
  // stored between the last two syncs, whichever is more, and for at least window_bytes_min.
  //
  // The system may write prepared pages back at any time, and a page that was written has to be prepared
  // again. So the next few pages are prepared at every sync, and at near_interval while something is
  // recorded. No more than a few, because each prepared page costs another write.
  static constexpr std::uint64_t near_bytes = std::uint64_t{64} << 10;

  void pages_wanted() { pages_due_ = true; }
  // Whether the window is to be prepared, once after it was wanted, and not only the next few pages.
  [[nodiscard]] bool take_pages_due() {
    look_at_pages_later();
    return std::exchange(pages_due_, false);
  }
  void look_at_pages_later() { pages_time_ = steady_now() + near_interval; }
  [[nodiscard]] std::uint64_t window_bytes() const { return window_bytes_; }
  [[nodiscard]] SteadyTime pages_time() const { return pages_time_; }

  // --- further tries, and the mark ------------------------------------------------------------------------

  [[nodiscard]] SteadyTime retry_time() const { return retry_time_; }
  void retry_later() {
    retry_time_ = steady_now() + retry_delay_;
    retry_delay_ = std::min(2 * retry_delay_, retry_delay_max);
  }
  void retry_now() { retry_time_ = steady_now(); }
  void succeeded() { retry_delay_ = retry_delay_first; }

  // SYNCED is written no more often than at mark_interval, but at once when a segment begins. The interval is
  // shorter than the pause between two syncs of `everysec`, so each of these syncs is marked without a
  // further wait.
  [[nodiscard]] SteadyTime mark_time() const { return mark_time_; }
  void mark_now() { mark_time_ = SteadyTime::min(); }
  void mark_later() { mark_time_ = steady_now() + mark_interval; }

 private:
  using Milliseconds = std::chrono::milliseconds;
  static constexpr Milliseconds retry_delay_first{100};
  static constexpr Milliseconds retry_delay_max{2000};
  static_assert(retry_delay_first <= retry_delay_max);
  static constexpr int gather_part = 4;
  static constexpr Milliseconds gather_max{1};
  static constexpr std::uint64_t window_bytes_min = std::uint64_t{1} << 20;
  static constexpr Milliseconds near_interval{100};
  static constexpr Milliseconds mark_interval{500};

  void widen_window(std::uint64_t bytes) {
    if (bytes <= window_bytes_) return;
    window_bytes_ = std::min(bytes, window_bytes_max_);
    pages_due_ = true;
  }

  const Milliseconds sync_interval_;
  const std::uint64_t window_bytes_max_;
  SteadyTime last_sync_ = steady_now();  // when the last sync began
  SteadyTime gathered_at_{SteadyTime::min()};
  std::uint64_t frames_synced_ = 0;
  std::uint64_t window_bytes_ = window_bytes_min;  // how far ahead pages are prepared
  bool pages_due_ = false;
  SteadyTime pages_time_{};
  SteadyTime retry_time_{};
  Milliseconds retry_delay_{retry_delay_first};
  SteadyTime mark_time_{SteadyTime::min()};  // the next mark is written no earlier
};

}  // namespace sepal::storage
