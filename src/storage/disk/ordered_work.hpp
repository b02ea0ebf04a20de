// Work on the pieces of a file by several threads, which the calling thread prepares and takes in the order
// of the file. So the calling thread alone reads or writes the file, and an error is the first one of the
// file, whatever the threads do first.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace sepal::storage {

// A slot has one piece at a time, from prepare() until take() has returned.
struct OrderedSteps {
  // The calling thread: puts the next piece into the slot. False: there is no further one.
  std::function<Result<bool>(std::size_t slot)> prepare;
  // Any thread. Several threads work on different slots at once.
  std::function<void(std::size_t slot)> work;
  // The calling thread: takes the pieces in the order in which they were prepared.
  std::function<Result<void>(std::size_t slot)> take;
};

// What the threads beside the caller's are to others of the process. Behind: clients are served meanwhile, so
// they come first (ask_to_run_behind).
enum class Helping : std::uint8_t { beside, behind };

// Confined.
class OrderedWork {
 public:
  // `thread_count` is at least 1, and counts the calling thread. The others begin when there are pieces for
  // them; where the system refuses threads there are fewer.
  OrderedWork(std::size_t thread_count, Helping helping) : thread_count_(thread_count), helping_(helping) {}
  ~OrderedWork();
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;

  // Two for each thread, so that half of them can be prepared while the threads work on the others.
  [[nodiscard]] std::size_t slot_count() const { return thread_count_ == 1 ? 1 : 2 * thread_count_; }
  // Until there is no further piece, or a step fails. An error of prepare() is returned once all pieces
  // before it are taken. When this returns, no thread uses a slot. May be called again.
  Result<void> run(const OrderedSteps& steps);

 private:
  // Up to piece `end`. Raises `prepared`, the number of pieces so far. False: there is no further one.
  Result<bool> prepare(const OrderedSteps& steps, std::uint64_t end, std::uint64_t& prepared);
  void begin_helpers(std::uint64_t pieces);
  void help();
  // Works on pieces until `piece` is done.
  void finish(std::uint64_t piece);
  // Takes the pieces that no thread has begun away, and waits for the others.
  void cancel();
  void publish(std::uint64_t count);
  void work_on_next() SEPAL_REQUIRES(mutex_);

  const std::size_t thread_count_;
  const Helping helping_;
  std::vector<std::thread> helpers_;

  Mutex mutex_;       // Lock order: the innermost. Not held while a step runs.
  Condition change_;  // of any member below
  const OrderedSteps* steps_ SEPAL_GUARDED_BY(mutex_) = nullptr;
  std::vector<bool> done_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t next_ SEPAL_GUARDED_BY(mutex_) = 0;  // the first piece that no thread has begun
  std::uint64_t end_ SEPAL_GUARDED_BY(mutex_) = 0;   // behind the last piece that is prepared
  std::size_t working_ SEPAL_GUARDED_BY(mutex_) = 0;
  bool closing_ SEPAL_GUARDED_BY(mutex_) = false;
};

}  // namespace sepal::storage
