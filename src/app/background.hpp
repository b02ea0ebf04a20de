// Frees what no key reaches any more, on a thread of its own: giving gigabytes back to the system takes the
// time of many requests.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <thread>
#include <vector>

namespace sepal::app {

// Synchronised.
class BackgroundDisposer final : public keyspace::Disposer {
 public:
  BackgroundDisposer();
  ~BackgroundDisposer() override;  // frees what is left

  void dispose(keyspace::FilterPtr filter) override;

 private:
  void run();

  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  Condition changed_;
  std::vector<keyspace::FilterPtr> waiting_ SEPAL_GUARDED_BY(mutex_);
  bool stopping_ SEPAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sepal::app
