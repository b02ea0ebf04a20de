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

// The tasks free what they hold when they are themselves destroyed, if no save uses it any more.
void Background::dispose(keyspace::FilterPtr filter) {
  post([this, held = std::move(filter)] { settling_.forget(held.get()); });
}

void Background::dispose_database(std::shared_ptr<const void> database) {
  post([this, held = std::move(database)]() mutable {
    held.reset();
    settling_.forget_dropped();
  });
}

void Background::settle(keyspace::FilterPtr filter, filter::LayerView layer) {
  post([this, held = std::move(filter), layer] { settling_.add(held, layer); });
}

void Background::drain() {
  const MutexLock lock(mutex_);
  while (busy_ || !waiting_.empty()) changed_.wait(mutex_);
}

void Background::run() {
  std::chrono::milliseconds pause{};
  while (true) {
    std::vector<Task> tasks = next_tasks(pause);
    for (const Task& task : tasks) task();
    tasks.clear();
    pause = settling_.empty() ? std::chrono::milliseconds::zero() : settling_.step();
    const MutexLock lock(mutex_);
    busy_ = false;
    changed_.notify_all();
    if (stopping_ && waiting_.empty()) return;
  }
}

std::vector<Background::Task> Background::next_tasks(std::chrono::milliseconds pause) {
  const MutexLock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + pause;
  while (waiting_.empty() && !stopping_) {
    if (settling_.empty()) {
      changed_.wait(mutex_);
    } else if (changed_.wait_until(mutex_, until) == std::cv_status::timeout) {
      break;
    }
  }
  busy_ = !waiting_.empty();
  return std::exchange(waiting_, {});
}

}  // namespace sepal::app
