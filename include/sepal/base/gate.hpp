// The gate: how many workers share one keyspace without a lock on their way.
//
// Each worker has a side of the gate. It holds its own side for the length of a batch of requests: a mutex
// that nobody else touches in the steady state, on a cache line of its own. Whoever changes structure
// (creates, deletes, renames, flushes, grows a filter, or looks into the sessions of others) closes the gate:
// it takes every side, and so runs alone.
//
//        worker 0   worker 1   worker 2
//   side    [x]        [ ]        [x]      inside: shared
//   close   [c]        [c]        [c]      all sides taken, in order of index: alone
//
// A closer announces itself first, and workers queue behind it at the turnstile before they enter again, so a
// busy worker cannot keep a closer waiting for more than the batch it is in.
//
// Rules: nobody waits for a disk, a socket or another lock holder inside; nobody enters or closes twice. The
// gate comes before every other lock of the project.
#pragma once

#include <sepal/base/mutex.hpp>

#include <atomic>
#include <cstddef>
#include <memory>

namespace sepal {

// Synchronised.
class SEPAL_CAPABILITY("gate") Gate {
 public:
  // `side_count` of at least 1: one for each worker.
  explicit Gate(std::size_t side_count);

  [[nodiscard]] std::size_t side_count() const { return side_count_; }

  // Shared. Blocks while the gate is closed or somebody waits to close it. `side` below side_count().
  void enter(std::size_t side) SEPAL_ACQUIRE_SHARED();
  void leave(std::size_t side) SEPAL_RELEASE_SHARED();

  // Exclusive. Blocks until every side is free. From any thread that is not inside.
  void close() SEPAL_ACQUIRE();
  void open() SEPAL_RELEASE();

 private:
  struct alignas(64) Side {
    std::mutex mutex;
  };

  std::size_t side_count_;
  std::unique_ptr<Side[]> sides_;
  alignas(64) std::atomic<std::size_t> closers_{0};
  std::mutex turnstile_;  // Lock order: before any Side::mutex.
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
