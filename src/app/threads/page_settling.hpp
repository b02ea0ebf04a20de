// Moves memory that requests have filled from small pages into huge ones (value::SmallPages: the big layers
// of filters), a few pieces at a time.
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
#include <sepal/value/kind_row.hpp>

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

  void add(value::ValuePtr value, const value::SmallPages& pages);
  // Tells the thread that values may have been dropped that only this object still holds. It gives them up
  // soon.
  void look_for_dropped();
  // Frees what the thread has given up: values that were dropped, and values whose layers are settled.
  void free_given_up();

 private:
  struct Layer {
    value::SmallPages pages;
    std::uint64_t in_use = 0;  // how many pieces, from the first on
    std::uint64_t moved = 0;   // the same

    [[nodiscard]] bool settled() const { return moved == pages.piece_count; }
    [[nodiscard]] bool ready() const { return in_use == pages.piece_count && !settled(); }
  };
  struct Unsettled {
    value::ValuePtr value;
    std::list<Layer> layers;
  };
  using Values = std::list<Unsettled>;

  void run();
  // Waits until there is something to do. False: the thread has to end.
  bool wait();
  void take_added();
  void give_up_dropped();
  void give_up(Values values);
  // Does one step, if it is time.
  void step_if_due();
  // Returns the pause before the next call.
  std::chrono::milliseconds step();
  bool move_a_piece();
  static bool look_at(Layer& layer);

  const std::function<void()> on_given_up_;

  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  Condition changed_;
  Values added_ SEPAL_GUARDED_BY(mutex_);  // with one layer each
  Values given_up_ SEPAL_GUARDED_BY(mutex_);
  bool may_be_dropped_ SEPAL_GUARDED_BY(mutex_) = false;
  bool stopping_ SEPAL_GUARDED_BY(mutex_) = false;

  // Confined to thread_.
  Values values_;  // each value once
  std::chrono::milliseconds idle_pause_{};
  std::chrono::steady_clock::time_point due_;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace sepal::app
