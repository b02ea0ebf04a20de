#include "server/idle_cores.hpp"

#include <chrono>
#include <vector>

#include "support/catch.hpp"

namespace sepal::server::idle_cores_test {
namespace {

// user, nice, system, idle, iowait, irq ...
constexpr std::string_view text =
    "cpu  600 0 60 1600 16 0 0 0 0 0\n"
    "cpu0 100 0 10 1000 1 0 0 0 0 0\n"
    "cpu1 200 0 20 500 5 0 0 0 0 0\n"
    "cpu12 300 0 30 100 10 0 0 0 0 0\n"
    "intr 12345 0 0\n"
    "cpu3 1 1 1 1 1\n";

std::vector<bool> cores(std::initializer_list<std::size_t> numbers) {
  std::vector<bool> cores(64);
  for (const std::size_t number : numbers) cores[number] = true;
  return cores;
}

TEST_CASE("the idle time of the cores that the process may use, with what they waited for disks") {
  CHECK(idle_ticks(text, std::vector<bool>(64, true)) == 1616);
  CHECK(idle_ticks(text, cores({0})) == 1001);
  CHECK(idle_ticks(text, cores({1, 12})) == 615);
  CHECK(idle_ticks(text.substr(0, text.find("intr") - 1), cores({12})) == 110);
}

TEST_CASE("a text that does not tell the idle time of these cores") {
  CHECK_FALSE(idle_ticks("", cores({0})));
  CHECK_FALSE(idle_ticks(text, cores({3})));
  CHECK_FALSE(idle_ticks(text, {}));
  CHECK_FALSE(idle_ticks("cpu0 1 2 3\n", cores({0})));
  CHECK_FALSE(idle_ticks("cpu0 1 2 3 four 5\n", cores({0})));
  CHECK_FALSE(idle_ticks("cpu 1 2 3 4 5\n", cores({0})));
}

TEST_CASE("idle cores are counted from the look before") {
  IdleCores idle;
  const SteadyTime now = std::chrono::steady_clock::now();
  CHECK(idle.since_last_look(now) == 0);
  CHECK(idle.since_last_look(now + std::chrono::hours(1)) >= 0);
  idle.forget();
  CHECK(idle.since_last_look(now + std::chrono::hours(2)) == 0);
  CHECK(idle.since_last_look(now) == 0);
}

}  // namespace
}  // namespace sepal::server::idle_cores_test
