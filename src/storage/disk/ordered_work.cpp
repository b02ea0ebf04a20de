// Pieces are numbered for the life of the object; piece p is in slot p % slot_count().
//
//     taken ... | done or being worked on | ready ...  | free slots
//               taken (in run)            next_        end_
//
// A thread takes the lock for each piece. A piece is the work of some hundred microseconds, so the lock is
// rarely waited for.
#include "storage/disk/ordered_work.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/thread.hpp>

#include <algorithm>
#include <system_error>

namespace sepal::storage {

OrderedWork::~OrderedWork() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    change_.notify_all();
  }
  for (std::thread& helper : helpers_) helper.join();
}

Result<void> OrderedWork::run(const OrderedSteps& steps) {
  {
    const MutexLock lock(mutex_);
    SEPAL_ASSERT(next_ == end_ && working_ == 0, "pieces of an earlier run are left");
    steps_ = &steps;
    done_.assign(slot_count(), false);
    next_ = end_ = 0;
  }
  Result<bool> more = true;
  std::uint64_t prepared = 0;
  for (std::uint64_t taken = 0;; ++taken) {
    if (more && *more && prepared - taken <= slot_count() / 2)
      more = prepare(steps, taken + slot_count(), prepared);
    if (taken == prepared) break;
    finish(taken);
    if (auto done = steps.take(taken % slot_count()); !done) {
      cancel();
      return done;
    }
  }
  return more ? Result<void>() : more.error();
}

// Prepares many pieces at a time: each call of publish() wakes all threads that wait.
Result<bool> OrderedWork::prepare(const OrderedSteps& steps, std::uint64_t end, std::uint64_t& prepared) {
  const std::uint64_t begin = prepared;
  Result<bool> more = true;
  while (prepared < end) {
    more = steps.prepare(prepared % slot_count());
    if (!more || !*more) break;
    ++prepared;
  }
  begin_helpers(prepared);
  publish(prepared - begin);
  return more;
}

void OrderedWork::begin_helpers(std::uint64_t pieces) {
  try {
    while (helpers_.size() + 1 < std::min<std::uint64_t>(thread_count_, pieces))
      helpers_.emplace_back([this] { help(); });
  } catch (const std::system_error&) {
    // The calling thread does what no helper does.
  }
}

void OrderedWork::help() {
  name_this_thread("storage");
  // Without it the thread works all the same, and takes a larger share from the workers.
  if (helping_ == Helping::behind) static_cast<void>(ask_to_run_behind());
  const MutexLock lock(mutex_);
  while (!closing_) {
    if (next_ < end_) {
      work_on_next();
    } else {
      change_.wait(mutex_);
    }
  }
}

void OrderedWork::publish(std::uint64_t count) {
  const MutexLock lock(mutex_);
  end_ += count;
  change_.notify_all();
}

void OrderedWork::finish(std::uint64_t piece) {
  const MutexLock lock(mutex_);
  const std::size_t slot = piece % done_.size();
  while (!done_[slot]) {
    if (next_ < end_) {
      work_on_next();
    } else {
      change_.wait(mutex_);
    }
  }
  done_[slot] = false;
}

void OrderedWork::cancel() {
  const MutexLock lock(mutex_);
  next_ = end_;
  while (working_ > 0) change_.wait(mutex_);
}

void OrderedWork::work_on_next() {
  const std::size_t slot = next_++ % done_.size();
  const OrderedSteps& steps = *steps_;
  ++working_;
  mutex_.unlock();
  steps.work(slot);
  mutex_.lock();
  --working_;
  done_[slot] = true;
  change_.notify_all();
}

}  // namespace sepal::storage
