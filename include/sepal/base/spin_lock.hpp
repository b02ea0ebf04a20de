// A lock of one byte, held for a few writes, and by a log of the journal for the append of a frame. Each of
// very many small filters has one, and so has each shard of a large filter.
#pragma once

#include <sepal/base/thread_annotations.hpp>

#include <atomic>
#include <cstdint>
#include <thread>

namespace sepal {

// Synchronised.
class SEPAL_CAPABILITY("mutex") SpinLock {
 public:
  void lock() SEPAL_ACQUIRE() {
    // Acquire pairs with the release in unlock().
    while (locked_.exchange(1, std::memory_order_acquire) != 0) wait();
  }
  void unlock() SEPAL_RELEASE() { locked_.store(0, std::memory_order_release); }

 private:
  // Reads until the lock looks free, so that the waiters do not pass its cache line around. The holder may
  // have lost its core, so a waiter soon gives up its own.
  void wait() const {
    for (int round = 0; locked_.load(std::memory_order_relaxed) != 0; ++round)
      if (round >= spins_max) std::this_thread::yield();
  }

  static constexpr int spins_max = 64;
  std::atomic<std::uint8_t> locked_{0};
};

class SEPAL_SCOPED_CAPABILITY SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) SEPAL_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() SEPAL_RELEASE() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace sepal
