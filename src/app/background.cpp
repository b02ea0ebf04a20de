#include "background.hpp"

#include <sepal/base/thread.hpp>

#include <utility>

namespace sepal::app {

Background::Background() : settling_([this] { settling_gave_up(); }), thread_([this] { run(); }) {}

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

// A task's destruction frees what the task holds, unless a save still uses it.
void Background::dispose(keyspace::FilterPtr filter) {
  const bool may_settle = filter->has_pieces();
  post([this, held = std::move(filter), may_settle] { dropped_ = dropped_ || may_settle; });
}

void Background::dispose_database(std::shared_ptr<const void> database) {
  post([this, held = std::move(database)] { dropped_ = true; });
}

void Background::settle(keyspace::FilterPtr filter, filter::LayerView layer) {
  settling_.add(std::move(filter), layer);
}

void Background::drain() {
  const MutexLock lock(mutex_);
  while (busy_ || !waiting_.empty()) changed_.wait(mutex_);
}

void Background::run() {
  name_this_thread("background");
  while (true) {
    std::vector<Task> tasks = next_tasks();
    for (const Task& task : tasks) task();
    tasks.clear();
    // Called once for all tasks, because one call looks at all filters that wait there.
    if (std::exchange(dropped_, false)) settling_.look_for_dropped();
    settling_.free_given_up();
    const MutexLock lock(mutex_);
    busy_ = false;
    changed_.notify_all();
    if (stopping_ && waiting_.empty()) return;
  }
}

std::vector<Background::Task> Background::next_tasks() {
  const MutexLock lock(mutex_);
  while (waiting_.empty() && !given_up_ && !stopping_) changed_.wait(mutex_);
  given_up_ = false;
  busy_ = !waiting_.empty();
  return std::exchange(waiting_, {});
}

void Background::settling_gave_up() {
  {
    const MutexLock lock(mutex_);
    given_up_ = true;
  }
  changed_.notify_all();
}

}  // namespace sepal::app
