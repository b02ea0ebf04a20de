// Runs work for which no request should wait, on a thread of its own: giving gigabytes back to the system
// takes the time of many requests, and writing a file takes the time of a disk. (Settling pages has another
// thread, which runs behind the others.)
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "app/threads/expiry.hpp"
#include "app/threads/page_settling.hpp"

namespace sepal::app {

// Synchronised.
class Background final : public keyspace::Housekeeper {
 public:
  using Task = std::function<void()>;

  Background();
  ~Background() override;  // after drain()

  void post(Task task);
  void dispose(value::ValuePtr value) override;
  void retire(value::ValuePtr value, Limbo& limbo) override;
  void dispose_database(std::shared_ptr<const void> database) override;
  void give_pages(value::ValuePtr value) override;
  void due_at(keyspace::Deadline deadline) override { expiry_.due_at(deadline); }

  // The part that removes keys when they are due.
  [[nodiscard]] Expiry& expiry() { return expiry_; }
  [[nodiscard]] const Expiry& expiry() const { return expiry_; }

  // Values and databases that were disposed of: those that are not freed yet, and those that are. Any
  // thread.
  [[nodiscard]] std::uint64_t disposals_waiting() const {
    // In this order, so that the difference is never below zero.
    const std::uint64_t done = disposals_done_.load();
    return disposals_begun_.load() - done;
  }
  [[nodiscard]] std::uint64_t disposals_done() const { return disposals_done_.load(); }

  // Blocks until everything that was posted before has run.
  void drain();

  // Has the thread give all free memory back to the system. Any thread.
  void give_memory_back();

 private:
  void run();
  // Waits for posted tasks and takes them. Empty if settling_ has given something up, after a while without
  // tasks, or at the end (stopping_).
  std::vector<Task> next_tasks();
  void settling_gave_up();

  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  Condition changed_;
  std::vector<Task> waiting_ SEPAL_GUARDED_BY(mutex_);
  bool given_up_ SEPAL_GUARDED_BY(mutex_) = false;  // settling_ has given something up that is not freed yet
  bool busy_ SEPAL_GUARDED_BY(mutex_) = false;
  bool stopping_ SEPAL_GUARDED_BY(mutex_) = false;
  Expiry expiry_;
  PageSettling settling_;
  bool dropped_ = false;  // A task held a value that now only settling_ may hold. Confined to thread_.
  std::uint64_t disposals_of_round_ = 0;  // The tasks of this round that held something. Confined to thread_.

  std::atomic<bool> asked_for_memory_{false};
  std::atomic<std::uint64_t> disposals_begun_{0};
  std::atomic<std::uint64_t> disposals_done_{0};

  std::thread thread_;
};

}  // namespace sepal::app
