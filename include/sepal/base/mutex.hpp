// A mutex that Clang's thread-safety analysis can see; the standard one is invisible to it.
#pragma once

#include <sepal/base/thread_annotations.hpp>

#include <condition_variable>
#include <mutex>

namespace sepal {

// Synchronised. Not recursive.
class SEPAL_CAPABILITY("mutex") Mutex {
 public:
  void lock() SEPAL_ACQUIRE() { mutex_.lock(); }
  void unlock() SEPAL_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class SEPAL_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SEPAL_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() SEPAL_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits on a Mutex that the caller holds. A wait may end without a notification: loop on the condition.
class Condition {
 public:
  void wait(Mutex& mutex) SEPAL_REQUIRES(mutex) { condition_.wait(mutex); }
  template <class Duration>
  std::cv_status wait_for(Mutex& mutex, Duration duration) SEPAL_REQUIRES(mutex) {
    return condition_.wait_for(mutex, duration);
  }
  template <class TimePoint>
  std::cv_status wait_until(Mutex& mutex, TimePoint time_point) SEPAL_REQUIRES(mutex) {
    return condition_.wait_until(mutex, time_point);
  }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable_any condition_;
};

}  // namespace sepal
