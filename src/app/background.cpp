#include "background_disposer.hpp"

#include <utility>

namespace sepal::app {

BackgroundDisposer::BackgroundDisposer() : thread_([this] { run(); }) {}

BackgroundDisposer::~BackgroundDisposer() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundDisposer::dispose(keyspace::FilterPtr filter) {
  {
    const MutexLock lock(mutex_);
    waiting_.push_back(std::move(filter));
  }
  changed_.notify_all();
}

void BackgroundDisposer::run() {
  for (bool last = false; !last;) {
    std::vector<keyspace::FilterPtr> batch;
    {
      const MutexLock lock(mutex_);
      while (waiting_.empty() && !stopping_) changed_.wait(mutex_);
      batch.swap(waiting_);
      last = stopping_;
    }
    batch.clear();
  }
}

}  // namespace sepal::app
