#include <sepal/base/gate.hpp>

#include <latch>

#include "support/catch.hpp"
#include "support/eventually.hpp"

namespace gate_test {

using sepal::Gate;
using sepal::GateClosed;

namespace {

// Thread-safety analysis follows one thread through one function; a test that walks a gate on purpose in
// loops and lambdas is beyond it.
void pass(Gate& gate, std::size_t side) SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  gate.enter(side);
  gate.leave(side);
}

}  // namespace

TEST_CASE("workers on different sides are inside at the same time") {
  Gate gate(2);
  CHECK(gate.side_count() == 2);
  gate.enter(0);
  // Would never return if one side kept the other out.
  std::thread other([&] { pass(gate, 1); });
  other.join();
  gate.leave(0);
}

TEST_CASE("the gate opens again after it was closed") {
  Gate gate(3);
  for (int round = 0; round < 3; ++round) {
    { const GateClosed closed(gate); }
    for (std::size_t side = 0; side < gate.side_count(); ++side) pass(gate, side);
  }
}

TEST_CASE("a thread that closes the gate waits for a worker inside, on any side") {
  const auto side = GENERATE(std::size_t{0}, std::size_t{1});
  Gate gate(2);
  std::atomic<bool> worker_left{false};
  std::atomic<bool> closer_was_late{false};
  gate.enter(side);
  std::thread closer([&] {
    const GateClosed closed(gate);
    closer_was_late.store(worker_left.load());
  });
  // Enough turns for the closing thread to get in too early, if the gate let it.
  for (int turn = 0; turn < 100; ++turn) std::this_thread::yield();
  worker_left.store(true);
  gate.leave(side);
  closer.join();
  CHECK(closer_was_late.load());
}

TEST_CASE("a thread that closes the gate is alone") {
  constexpr std::size_t worker_count = 3;
  constexpr std::size_t closer_count = 2;
  constexpr int rounds = 2000;
  Gate gate(worker_count);
  // These numbers are not atomic on purpose: ThreadSanitizer notices two threads inside at once.
  std::uint64_t shared = 0;
  std::vector<std::uint64_t> seen(worker_count, 0);
  std::atomic<int> closers_inside{0};
  std::atomic<int> workers_inside{0};
  std::atomic<int> violations{0};

  std::latch start(worker_count + closer_count);

  // All threads yield inside. So with a wrong gate they would be inside at the same time.
  const auto work = [&](std::size_t side) SEPAL_NO_THREAD_SAFETY_ANALYSIS {
    start.arrive_and_wait();
    for (int round = 0; round < rounds; ++round) {
      gate.enter(side);
      workers_inside.fetch_add(1);
      if (closers_inside.load() != 0) violations.fetch_add(1);
      std::this_thread::yield();
      if (closers_inside.load() != 0) violations.fetch_add(1);
      seen[side] += shared > 0 ? 1 : 0;
      workers_inside.fetch_sub(1);
      gate.leave(side);
    }
  };
  const auto close = [&] {
    start.arrive_and_wait();
    for (int round = 0; round < rounds / 10; ++round) {
      const GateClosed closed(gate);
      if (closers_inside.fetch_add(1) != 0) violations.fetch_add(1);
      std::this_thread::yield();
      if (workers_inside.load() != 0) violations.fetch_add(1);
      ++shared;
      closers_inside.fetch_sub(1);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t side = 0; side < worker_count; ++side) threads.emplace_back(work, side);
  for (std::size_t closer = 0; closer < closer_count; ++closer) threads.emplace_back(close);
  for (std::thread& thread : threads) thread.join();
  CHECK(violations.load() == 0);
  CHECK(shared == closer_count * (rounds / 10));
}

TEST_CASE("a busy worker cannot keep another thread from closing the gate") {
  Gate gate(1);
  std::atomic<bool> closed_once{false};
  // Never pauses between batches. Ends only when the closing thread got in.
  std::thread worker([&] {
    while (!closed_once.load()) pass(gate, 0);
  });
  {
    const GateClosed closed(gate);
    closed_once.store(true);
  }
  worker.join();
  CHECK(closed_once.load());
}

TEST_CASE("workers enter a gate that is reserved, and only the thread that reserved it closes it")
SEPAL_NO_THREAD_SAFETY_ANALYSIS {
  Gate gate(2);
  gate.close();
  gate.reserve();
  gate.open();
  bool closed_by_other = true;
  std::thread other([&]() SEPAL_NO_THREAD_SAFETY_ANALYSIS {
    pass(gate, 0);
    closed_by_other = gate.close_unless_reserved();
    pass(gate, 1);  // the attempt has left nothing behind
  });
  other.join();
  CHECK(!closed_by_other);
  gate.close();
  gate.open();
  const bool closed_by_reserver = gate.close_unless_reserved();
  CHECK(closed_by_reserver);
  gate.unreserve();
  gate.open();
  std::thread after([&]() SEPAL_NO_THREAD_SAFETY_ANALYSIS {
    closed_by_other = gate.close_unless_reserved();
    gate.open();
  });
  after.join();
  CHECK(closed_by_other);
}

TEST_CASE("a thread that closes the gate waits until its reservation ends") {
  Gate gate(1);
  std::atomic<bool> ended{false};
  std::atomic<bool> closer_was_late{false};
  gate.close();
  gate.reserve();
  gate.open();
  std::thread closer([&] {
    const GateClosed closed(gate);
    closer_was_late.store(ended.load());
  });
  // Enough turns for the closing thread to get in too early, if the gate let it. Workers enter meanwhile.
  for (int turn = 0; turn < 100; ++turn) {
    pass(gate, 0);
    gate.close();
    std::this_thread::yield();
    gate.open();
  }
  gate.close();
  ended.store(true);
  gate.unreserve();
  gate.open();
  closer.join();
  CHECK(closer_was_late.load());
}

TEST_CASE("a gate counts how often it was closed, and how often a thread found it closed") {
  Gate gate(1);
  pass(gate, 0);
  CHECK(gate.wait_count() == 0);
  CHECK(gate.closing_count() == 0);
  gate.close();
  std::thread worker([&] { pass(gate, 0); });
  CHECK(sepal::test::eventually([&] { return gate.wait_count() == 1; }));
  gate.open();
  worker.join();
  CHECK(gate.closing_count() == 1);
}

}  // namespace gate_test
