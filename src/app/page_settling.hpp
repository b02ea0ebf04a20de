// Moves the big layers that requests have filled from small pages into huge ones, a few at a time.
//
// A layer waits until all of it is in use, and is asked less and less often: a filter that was reserved and
// is never filled stays here and costs next to nothing. Then its pieces are moved one after the other, with
// pauses that leave the address space to others.
//
// A move takes milliseconds where the machine's host has to find the memory, and nobody waits for it. So it
// has a thread that runs behind the others where they share a core. Nobody is to wait for a lock of the
// allocator behind such a thread: it moves entries from list to list, and others make and free them.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/filter/filter.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <thread>

namespace sepal::app {

// Synchronised. Owns a thread.
class PageSettling {
 public:
  // Calls `on_given_up` on its thread, without a lock, when there is something to free.
  explicit PageSettling(std::function<void()> on_given_up);
  ~PageSettling();
  PageSettling(const PageSettling&) = delete;
  PageSettling& operator=(const PageSettling&) = delete;

  void add(filter::FilterPtr filter, filter::LayerView layer);
  // Filters may have been dropped that only this one still holds. It gives them up soon.
  void look_for_dropped();
  // Lets go of what it has given up: filters that were dropped, and those whose layers are settled.
  void free_given_up();

 private:
  struct Layer {
    filter::LayerView view;
    std::uint64_t in_use = 0;  // pieces from the first on
    std::uint64_t moved = 0;   // as well

    [[nodiscard]] bool settled() const { return moved == view.piece_count(); }
    [[nodiscard]] bool ready() const { return in_use == view.piece_count() && !settled(); }
  };
  struct Unsettled {
    filter::FilterPtr filter;
    std::list<Layer> layers;
  };
  using Filters = std::list<Unsettled>;

  void run();
  // Until there is something to do. False at the end.
  bool wait();
  void take_added();
  void give_up_dropped();
  void give_up(Filters filters);
  // Does a little, if it is time.
  void step_if_due();
  // Returns after which pause to call it again.
  std::chrono::milliseconds step();
  bool move_a_piece();
  static bool look_at(Layer& layer);

  const std::function<void()> on_given_up_;

  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  Condition changed_;
  Filters added_ SEPAL_GUARDED_BY(mutex_);  // of one layer each
  Filters given_up_ SEPAL_GUARDED_BY(mutex_);
  bool may_be_dropped_ SEPAL_GUARDED_BY(mutex_) = false;
  bool stopping_ SEPAL_GUARDED_BY(mutex_) = false;

  // Confined to thread_.
  Filters filters_;  // each once
  std::chrono::milliseconds idle_pause_{};
  std::chrono::steady_clock::time_point due_;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace sepal::app
