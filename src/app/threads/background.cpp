#include "app/threads/background.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/thread.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

#include "app/system/allocator.hpp"

namespace sepal::app {
namespace {

constexpr std::chrono::seconds free_memory_period{2};
// To hand a value to the thread takes as long as to free one of about this size.
constexpr std::uint64_t freed_at_once_max = std::uint64_t{16} << 10;

std::vector<value::SmallPages> small_pages_of(const value::Value& value) {
  std::vector<value::SmallPages> found;
  if (const auto append = value::row_of(value).small_pages; append != nullptr) append(value, found);
  return found;
}

}  // namespace

Background::Background()
    : settling_([this] { settling_gave_up(); }), thread_(start_thread("background", [this] { run(); })) {}

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
  SEPAL_ASSERT(task, "a task without anything to do");
  {
    const MutexLock lock(mutex_);
    SEPAL_ASSERT(!stopping_, "a task comes after the stop, and would never run");
    waiting_.push_back(std::move(task));
  }
  changed_.notify_all();
}

// A task's destruction frees what the task holds, unless a save still uses it.
void Background::dispose(value::ValuePtr value) {
  SEPAL_ASSERT(value != nullptr, "no value is disposed of");
  if (value::row_of(*value).byte_count(*value) <= freed_at_once_max) {
    disposals_begun_.fetch_add(1, std::memory_order_relaxed);
    value.reset();
    disposals_done_.fetch_add(1, std::memory_order_release);
    return;
  }
  // Without this, each deletion of a value would lead to a look at all that wait in settling_.
  const bool may_settle = !small_pages_of(*value).empty();
  disposals_begun_.fetch_add(1);
  post([this, held = std::move(value), may_settle] {
    dropped_ = dropped_ || may_settle;
    ++disposals_of_round_;
  });
}

// The worker that took a small value out frees it. A large one goes to the thread when no worker can read it.
void Background::retire(value::ValuePtr value, Limbo& limbo) {
  if (value::row_of(*value).byte_count(*value) <= freed_at_once_max) {
    disposals_begun_.fetch_add(1, std::memory_order_relaxed);
    disposals_done_.fetch_add(1, std::memory_order_release);
    return Housekeeper::retire(std::move(value), limbo);
  }
  struct Large {
    Background& background;
    value::ValuePtr value;
  };
  limbo.retire(new Large{.background = *this, .value = std::move(value)}, [](void* retired) {
    const std::unique_ptr<Large> large(static_cast<Large*>(retired));
    large->background.dispose(std::move(large->value));
  });
}

void Background::dispose_database(std::shared_ptr<const void> database) {
  SEPAL_ASSERT(database != nullptr, "no database is disposed of");
  disposals_begun_.fetch_add(1);
  post([this, held = std::move(database)] {
    dropped_ = true;
    ++disposals_of_round_;
  });
}

void Background::give_pages(value::ValuePtr value) {
  for (const value::SmallPages& pages : small_pages_of(*value)) settling_.add(value, pages);
}

void Background::drain() {
  const MutexLock lock(mutex_);
  while (busy_ || !waiting_.empty()) changed_.wait(mutex_);
}

// Requests that come while one waits are answered by the same.
void Background::give_memory_back() {
  if (asked_for_memory_.exchange(true)) return;
  post([this] {
    // Before the work: a client that asks while it runs may have freed more, and gets a run of its own.
    asked_for_memory_ = false;
    return_all_free_memory();
  });
}

void Background::run() {
  while (true) {
    std::vector<Task> tasks = next_tasks();
    // Outside the lock: a task may write a file, and post() must not wait for it.
    for (const Task& task : tasks) task();
    // Frees what the tasks hold, before it counts as freed, and before settling_ looks which filters only it
    // holds.
    tasks.clear();
    disposals_done_.fetch_add(std::exchange(disposals_of_round_, 0));
    SEPAL_ASSERT(disposals_done_.load() <= disposals_begun_.load(), "more is freed than was disposed of");
    // Called once for all tasks, because one call looks at all filters that wait there.
    if (std::exchange(dropped_, false)) settling_.look_for_dropped();
    settling_.free_given_up();
    return_old_free_memory();
    const MutexLock lock(mutex_);
    busy_ = false;
    changed_.notify_all();
    if (stopping_ && waiting_.empty()) return;
  }
}

std::vector<Background::Task> Background::next_tasks() {
  const MutexLock lock(mutex_);
  while (waiting_.empty() && !given_up_ && !stopping_) {
    if (changed_.wait_for(mutex_, free_memory_period) == std::cv_status::timeout) break;
  }
  given_up_ = false;
  // Set with the lock that empties the list, so that drain() does not return before these tasks have run.
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
