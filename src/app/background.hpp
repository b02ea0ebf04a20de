// What nobody should wait for, on a thread of its own: giving gigabytes back to the system takes the time of
// many requests, and a file takes the time of a disk.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace sepal::app {

// Synchronised.
class Background final : public keyspace::Disposer {
 public:
  using Task = std::function<void()>;

  Background();
  ~Background() override;  // after drain()

  void post(Task task);
  void dispose(keyspace::FilterPtr filter) override;
  void dispose_database(std::shared_ptr<const void> database) override;

  // Blocks until everything that was posted before has run.
  void drain();

 private:
  void run();

  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  Condition changed_;
  std::vector<Task> waiting_ SEPAL_GUARDED_BY(mutex_);
  bool busy_ SEPAL_GUARDED_BY(mutex_) = false;
  bool stopping_ SEPAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sepal::app
