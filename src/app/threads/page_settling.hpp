// Moves big layers that requests have filled from small pages into huge ones, a few at a time.
//
// A layer waits until all of it is in use. The thread looks at it less and less often, so a filter that was
// reserved and is never filled costs next to nothing. Then its pieces are moved one after the other, with
// pauses that leave the address space to other threads.
//
// A move takes milliseconds if the machine's host has to find the memory, and no request waits for it. So the
// thread runs behind the other threads on a shared core. Such a thread must not hold a lock of the allocator,
// because workers would wait for it. So it only moves entries from list to list; other threads allocate and
// free them.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/bloom/filter/filter.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <thread>

namespace sepal::app {

// Synchronised. Owns a thread.
class PageSettling {
 public:
  // The thread calls `on_given_up`, without a lock, when there is something to free.
  explicit PageSettling(std::function<void()> on_given_up);
  ~PageSettling();
  PageSettling(const PageSettling&) = delete;
  PageSettling& operator=(const PageSettling&) = delete;

  void add(bloom::FilterPtr filter, bloom::LayerView layer);
  // Tells the thread that filters may have been dropped that only this object still holds. It gives them up
  // soon.
  void look_for_dropped();
  // Frees what the thread has given up: filters that were dropped, and filters whose layers are settled.
  void free_given_up();

 private:
  struct Layer {
    bloom::LayerView view;
    std::uint64_t in_use = 0;  // how many pieces, from the first on
    std::uint64_t moved = 0;   // the same

    [[nodiscard]] bool settled() const { return moved == view.piece_count(); }
    [[nodiscard]] bool ready() const { return in_use == view.piece_count() && !settled(); }
  };
  struct Unsettled {
    bloom::FilterPtr filter;
    std::list<Layer> layers;
  };
  using Filters = std::list<Unsettled>;

  void run();
  // Waits until there is something to do. False: the thread has to end.
  bool wait();
  void take_added();
  void give_up_dropped();
  void give_up(Filters filters);
  // Does one step, if it is time.
  void step_if_due();
  // Returns the pause before the next call.
  std::chrono::milliseconds step();
  bool move_a_piece();
  static bool look_at(Layer& layer);

  const std::function<void()> on_given_up_;

  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  Condition changed_;
  Filters added_ SEPAL_GUARDED_BY(mutex_);  // with one layer each
  Filters given_up_ SEPAL_GUARDED_BY(mutex_);
  bool may_be_dropped_ SEPAL_GUARDED_BY(mutex_) = false;
  bool stopping_ SEPAL_GUARDED_BY(mutex_) = false;

  // Confined to thread_.
  Filters filters_;  // each filter once
  std::chrono::milliseconds idle_pause_{};
  std::chrono::steady_clock::time_point due_;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace sepal::app
