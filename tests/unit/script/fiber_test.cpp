#include <sepal/script/fiber.hpp>

#include <stdexcept>

#include "support/catch.hpp"

namespace sepal::test::script_fiber {

using script::Fiber;

class ReadyFiber : public Fiber {
 public:
  explicit ReadyFiber(std::size_t stack_bytes) : Fiber(stack_bytes) { REQUIRE(prepare()); }
};

constexpr std::size_t stack_bytes = std::size_t{1} << 20;

TEST_CASE("fiber: work that ends at once") {
  ReadyFiber fiber(stack_bytes);
  int done = 0;
  for (int i = 0; i < 1000; ++i) CHECK(fiber.run([&] { ++done; }));
  CHECK(done == 1000);
  CHECK(!fiber.suspended());
}

TEST_CASE("fiber: work that is suspended goes on where it was") {
  ReadyFiber fiber(stack_bytes);
  std::vector<std::string> told;
  const auto work = [&] {
    std::string local = "a string that is longer than the string object itself";
    for (int part = 0; part < 3; ++part) {
      told.push_back(local + std::to_string(part));
      fiber.suspend();
    }
  };
  CHECK(!fiber.run(work));
  CHECK(fiber.suspended());
  CHECK(!fiber.inside());
  CHECK(!fiber.resume());
  CHECK(!fiber.resume());
  CHECK(fiber.resume());
  CHECK(told.size() == 3);
  CHECK(fiber.run([] {}));
}

// An exception passes through frames of this stack only.
TEST_CASE("fiber: exceptions within the work, across a suspension") {
  ReadyFiber fiber(stack_bytes);
  bool caught = false;
  const auto throws_late = [&] {
    std::array<char, 1000> room{};
    fiber.suspend();
    throw std::runtime_error(std::string(room.size(), 'x'));
  };
  CHECK(!fiber.run([&] {
    try {
      throws_late();
    } catch (const std::runtime_error& error) {
      caught = std::string(error.what()).size() == 1000;
    }
  }));
  try {
    throw std::logic_error("of the thread");
  } catch (const std::logic_error&) {
    CHECK(!caught);
  }
  CHECK(fiber.resume());
  CHECK(caught);
}

TEST_CASE("fiber: two fibers of one thread take turns") {
  ReadyFiber one(stack_bytes);
  ReadyFiber two(stack_bytes);
  std::string order;
  CHECK(!one.run([&] {
    order += "1";
    one.suspend();
    order += "3";
  }));
  CHECK(!two.run([&] {
    order += "2";
    two.suspend();
    order += "4";
  }));
  CHECK(one.resume());
  CHECK(two.resume());
  CHECK(order == "1234");
}

TEST_CASE("fiber: a stack for which the system has no memory is refused") {
  Fiber fiber(std::size_t{1} << 56);
  CHECK(!fiber.prepare());
  CHECK(!fiber.prepare());
}

TEST_CASE("fiber: fibers that one thread has made end on another") {
  // ThreadSanitizer counted calls of the fibers as calls of the threads, and lost its place.
  int done = 0;
  std::vector<std::unique_ptr<ReadyFiber>> fibers;
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) {
      fibers.push_back(std::make_unique<ReadyFiber>(std::size_t{64} << 10));
      static_cast<void>(fibers.back()->run([&done] { ++done; }));
    }
  }).join();
  fibers.clear();
  CHECK(done == 1000);
}

}  // namespace sepal::test::script_fiber
