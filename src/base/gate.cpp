#include <sepal/base/assert.hpp>
#include <sepal/base/gate.hpp>

// GCC warns that ThreadSanitizer ignores fences. That is harmless here: ThreadSanitizer only misses an order
// that exists.
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif

namespace sepal {

Gate::Gate(std::size_t side_count) : side_count_(side_count), sides_(std::make_unique<Side[]>(side_count)) {
  SEPAL_ASSERT(side_count > 0, "a gate has at least one side");
}

void Gate::enter(std::size_t side) SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  SEPAL_ASSERT(side < side_count_, "a worker enters a side that the gate does not have");
  // Sequentially consistent, as the increment in close() is: either this load sees the closer and the worker
  // waits behind it, or the closer finds this side taken. Both are correct; the first keeps the closer from
  // starving.
  // A worker waits only while the gate is closed, not while a closer waits: closers may wait long for a
  // reservation to end, and workers must enter meanwhile, to answer that the server is busy.
  if (closers_.load() != 0) {
    wait_count_.fetch_add(1, std::memory_order_relaxed);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !closed_; });
  }
  // In the steady state no other thread takes this mutex. A closer that came in between holds it, or waits
  // for it.
  sides_[side].mutex.lock();
  // The fence pairs with the one in note_visits(): a thread that does not see this visit took out before it
  // what this worker would find. Release: have_left() may miss the end of the visit before, and find this
  // one. Then it must know all the same that the reads of that visit have been made.
  std::atomic<std::uint64_t>& visits = sides_[side].visits;
  visits.store(visits.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Gate::leave(std::size_t side) SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  std::atomic<std::uint64_t>& visits = sides_[side].visits;
  visits.store(visits.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  sides_[side].mutex.unlock();
}

void Gate::note_visits(Visits& to) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  to.resize(side_count_);
  for (std::size_t side = 0; side < side_count_; ++side)
    to[side] = sides_[side].visits.load(std::memory_order_acquire);
}

bool Gate::have_left(const Visits& then) const {
  for (std::size_t side = 0; side < then.size(); ++side)
    if (then[side] % 2 != 0 && sides_[side].visits.load(std::memory_order_acquire) == then[side])
      return false;
  return true;
}

void Gate::close() SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  const bool is_closed = close(true);
  SEPAL_ASSERT(is_closed, "a thread that waits for the reservation to end closes the gate then");
}

bool Gate::close_unless_reserved() SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  return close(false);
}

bool Gate::close(bool waits_for_reservation) SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  // Announced before the first wait: from here on, no worker passes enter() without a look at closed_.
  closers_.fetch_add(1);
  {
    std::unique_lock lock(mutex_);
    const auto is_of_another = [this] {
      return reserver_ != std::thread::id() && reserver_ != std::this_thread::get_id();
    };
    // Ends in one of two ways: another thread has a reservation and the caller does not wait for it, or the
    // gate is this thread's to close.
    changed_.wait(
        lock, [&] { return (is_of_another() && !waits_for_reservation) || (!closed_ && !is_of_another()); });
    if (is_of_another()) {
      closers_.fetch_sub(1);
      return false;
    }
    // Set before the sides are taken. So workers wait for changed_ and not in the queue of their side, and
    // two closers never hold some sides each.
    closed_ = true;
  }
  // Without mutex_: a side may take as long as the batch that is running there. The order of index is the
  // order of these locks for all closers.
  for (std::size_t side = 0; side < side_count_; ++side) sides_[side].mutex.lock();
  closing_count_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Gate::open() SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  // The sides first: a thread that changed_ wakes then finds its side free.
  for (std::size_t side = side_count_; side-- > 0;) sides_[side].mutex.unlock();
  const std::size_t closers_before = closers_.fetch_sub(1);
  SEPAL_ASSERT(closers_before > 0, "the gate is opened more often than it was closed");
  {
    const std::lock_guard lock(mutex_);
    closed_ = false;
  }
  // All: workers and closers wait for one variable. Each tests its own condition.
  changed_.notify_all();
}

void Gate::reserve() {
  const std::lock_guard lock(mutex_);
  SEPAL_ASSERT(closed_, "only the thread that has closed the gate reserves it");
  reserver_ = std::this_thread::get_id();
  reserved_.store(true, std::memory_order_relaxed);
}

void Gate::unreserve() {
  const std::lock_guard lock(mutex_);
  SEPAL_ASSERT(closed_, "only the thread that has closed the gate ends its reservation");
  reserver_ = {};
  reserved_.store(false, std::memory_order_relaxed);
}

}  // namespace sepal
