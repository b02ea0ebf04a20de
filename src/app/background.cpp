#include "background.hpp"

#include <utility>

namespace sepal::app {

Background::Background() : thread_([this] { run(); }) {}

Background::~Background() {
  drain();
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::post(Task task) {
  {
    const MutexLock lock(mutex_);
    waiting_.push_back(std::move(task));
  }
  changed_.notify_all();
}

// The task frees the filter when it is itself destroyed, if no save uses it any more.
void Background::dispose(keyspace::FilterPtr filter) {
  post([held = std::move(filter)] {});
}

void Background::dispose_database(std::shared_ptr<const void> database) {
  post([held = std::move(database)] {});
}

void Background::drain() {
  const MutexLock lock(mutex_);
  while (busy_ || !waiting_.empty()) changed_.wait(mutex_);
}

void Background::run() {
  while (true) {
    std::vector<Task> tasks;
    {
      const MutexLock lock(mutex_);
      while (waiting_.empty() && !stopping_) changed_.wait(mutex_);
      if (waiting_.empty()) return;
      tasks.swap(waiting_);
      busy_ = true;
    }
    for (const Task& task : tasks) task();
    tasks.clear();
    {
      const MutexLock lock(mutex_);
      busy_ = false;
    }
    changed_.notify_all();
  }
}

}  // namespace sepal::app
