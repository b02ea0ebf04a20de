// The gate: lets many workers share one keyspace without a lock that they all touch.
//
// Each worker has its own side of the gate and holds it for the length of a batch of requests. A side is a
// mutex on a cache line of its own, which only its worker touches in the steady state. A thread that changes
// more than one key (renames, flushes), or looks into the sessions of other workers closes the gate: it takes
// every side, and so runs alone.
//
//        worker 0   worker 1   worker 2
//   side    [x]        [ ]        [x]      inside: shared
//   close   [c]        [c]        [c]      all sides taken, in order of index: alone
//
// A closer announces itself first. From then on workers wait before they enter again, so a busy worker keeps
// a closer waiting no longer than the batch it is in.
//
// A thread whose work with the gate closed takes long may reserve the gate and open it between two parts.
// Workers enter then only to tell their clients so, and no other thread can close the gate.
//
// The gate also tells when the workers that were inside at some time have left: what a worker took out of a
// structure that others read without a lock may be freed then (Visits, base/limbo.hpp).
//
// Rules: a thread inside the gate waits for no disk and no socket, and only for locks that are held for a
// moment. No thread enters or closes twice. The gate comes before every other lock of the project.
#pragma once

#include <sepal/base/mutex.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sepal {

// Synchronised.
class SEPAL_CAPABILITY("gate") Gate {
 public:
  // `side_count` is at least 1: one side for each thread that enters.
  explicit Gate(std::size_t side_count);

  [[nodiscard]] std::size_t side_count() const { return side_count_; }

  // Since the start: how often a thread found the gate closed, or about to close, when it entered; and how
  // often the gate was closed. Any thread.
  [[nodiscard]] std::uint64_t wait_count() const { return wait_count_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t closing_count() const { return closing_count_.load(std::memory_order_relaxed); }

  // Shared. Blocks while the gate is closed, or a closer takes the sides. `side` is below side_count().
  void enter(std::size_t side) SEPAL_ACQUIRE_SHARED();
  void leave(std::size_t side) SEPAL_RELEASE_SHARED();

  // Exclusive. Blocks until every side is free, and while another thread has the gate reserved. Any thread
  // that is not inside may call.
  void close() SEPAL_ACQUIRE();
  // As close(), but gives up, and returns false, while another thread has the gate reserved.
  [[nodiscard]] bool close_unless_reserved() SEPAL_TRY_ACQUIRE(true);
  void open() SEPAL_RELEASE();

  // The visits of all sides at this time. Any thread. What the caller took out of a structure before is not
  // found by workers that enter later.
  using Visits = std::vector<std::uint64_t>;
  void note_visits(Visits& to) const;
  // Whether all workers that were inside then have left. Their last reads have then been made.
  [[nodiscard]] bool have_left(const Visits& then) const;

  // Called with the gate closed. From the next open() on, workers enter as usual, but only this thread closes
  // the gate, until it calls unreserve(). A worker that enters must find out by other means that the gate is
  // reserved, and leave what it guards alone.
  void reserve();
  // Called with the gate closed. Does nothing if it is not reserved.
  void unreserve();
  // For a thread inside. It changes nothing that the gate guards while the gate is reserved.
  [[nodiscard]] bool is_reserved() const { return reserved_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Side {
    std::mutex mutex;
    // Odd while a worker is inside. Written by the worker that has the mutex.
    std::atomic<std::uint64_t> visits{0};
  };
  [[nodiscard]] bool close(bool waits_for_reservation);

  std::size_t side_count_;
  std::unique_ptr<Side[]> sides_;
  alignas(64) std::atomic<std::size_t> closers_{0};  // that wait, or have closed the gate
  std::atomic<bool> reserved_{false};                // written with the gate closed
  std::atomic<std::uint64_t> wait_count_{0};
  std::atomic<std::uint64_t> closing_count_{0};
  // Guards what follows. No thread takes a side, or waits for one, while it holds this lock.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;         // a thread has all sides, or is about to take them
  std::thread::id reserver_{};  // no thread: it is not reserved
};

// Enters a side for a scope.
class SEPAL_SCOPED_CAPABILITY GateEntered {
 public:
  GateEntered(Gate& gate, std::size_t side) SEPAL_ACQUIRE_SHARED(gate) : gate_(gate), side_(side) {
    gate_.enter(side_);
  }
  ~GateEntered() SEPAL_RELEASE() { gate_.leave(side_); }
  GateEntered(const GateEntered&) = delete;
  GateEntered& operator=(const GateEntered&) = delete;

 private:
  Gate& gate_;
  std::size_t side_;
};

// Closes the gate for a scope.
class SEPAL_SCOPED_CAPABILITY GateClosed {
 public:
  explicit GateClosed(Gate& gate) SEPAL_ACQUIRE(gate) : gate_(gate) { gate_.close(); }
  ~GateClosed() SEPAL_RELEASE() { gate_.open(); }
  GateClosed(const GateClosed&) = delete;
  GateClosed& operator=(const GateClosed&) = delete;

 private:
  Gate& gate_;
};

}  // namespace sepal
