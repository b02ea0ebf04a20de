#include <sepal/base/assert.hpp>
#include <sepal/base/gate.hpp>

namespace sepal {

Gate::Gate(std::size_t side_count) : side_count_(side_count), sides_(std::make_unique<Side[]>(side_count)) {
  SEPAL_ASSERT(side_count > 0, "a gate has at least one side");
}

void Gate::enter(std::size_t side) SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  SEPAL_ASSERT(side < side_count_, "a worker enters a side that the gate does not have");
  // Sequentially consistent, as the increment in close() is: either this load sees the closer and the worker
  // queues behind it, or the closer finds this side taken. Both are correct; the first keeps the closer from
  // starving.
  if (closers_.load() != 0) {
    turnstile_.lock();
    turnstile_.unlock();
  }
  sides_[side].mutex.lock();
}

void Gate::leave(std::size_t side) SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  sides_[side].mutex.unlock();
}

void Gate::close() SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  closers_.fetch_add(1);
  turnstile_.lock();
  for (std::size_t side = 0; side < side_count_; ++side) sides_[side].mutex.lock();
}

void Gate::open() SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  for (std::size_t side = side_count_; side-- > 0;) sides_[side].mutex.unlock();
  const std::size_t closers_before = closers_.fetch_sub(1);
  SEPAL_ASSERT(closers_before > 0, "the gate is opened more often than it was closed");
  turnstile_.unlock();
}

}  // namespace sepal
