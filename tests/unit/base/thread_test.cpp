#include <sepal/base/thread.hpp>

#include <cstdio>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "support/catch.hpp"

namespace sepal::thread_test {
namespace {

constexpr long short_slice_nanoseconds = 100'000;

// Empty if the kernel does not tell.
std::optional<long> slice_of_this_thread() {
  std::ifstream told("/proc/thread-self/sched");
  for (std::string line; std::getline(told, line);)
    if (line.starts_with("se.slice")) return std::stol(line.substr(line.find(':') + 1));
  return std::nullopt;
}

bool kernel_heeds_slices() {
  utsname system{};
  int major = 0;
  int minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 12);
}

// Whether the system refuses even to set a thread's present scheduling again. Then a test that sees no change
// is not Sepal's fault.
bool system_refuses() {
  struct Attributes {
    std::uint32_t size = 48;
    std::array<std::uint32_t, 11> others{};
  } attributes;
  static_assert(sizeof attributes == 48);
  return ::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 ||
         ::syscall(SYS_sched_setattr, 0, &attributes, 0) != 0;
}

TEST_CASE("a thread has the name that it gave itself") {
  std::string name;
  std::thread([&name] {
    name_this_thread("a-name-of-its-o");
    std::getline(std::ifstream("/proc/thread-self/comm"), name);
  }).join();
  CHECK(name == "a-name-of-its-o");
}

TEST_CASE("a thread with short slices passes them on to new threads, and keeps its share", "[scheduling]") {
  const auto slice_before = slice_of_this_thread();
  sepal::Result<void> asked;
  int nice_before = 0;
  int nice_after = 0;
  std::optional<long> own;
  std::optional<long> inherited;
  std::thread([&] {
    // If the system does not allow a higher nice value, the value is unchanged.
    static_cast<void>(::setpriority(PRIO_PROCESS, 0, 3));
    nice_before = ::getpriority(PRIO_PROCESS, 0);
    asked = ask_for_short_slices();
    nice_after = ::getpriority(PRIO_PROCESS, 0);
    own = slice_of_this_thread();
    std::thread([&] { inherited = slice_of_this_thread(); }).join();
  }).join();
  CHECK(nice_after == nice_before);
  CHECK(slice_of_this_thread() == slice_before);
  if (!asked) {
    CHECK(system_refuses());
    WARN("SKIPPED: refused here: " << asked.error().detail);
    return;
  }
  if (!own || !kernel_heeds_slices()) {
    WARN("SKIPPED: this kernel heeds or tells no slices");
    return;
  }
  CHECK(own == short_slice_nanoseconds);
  CHECK(inherited == short_slice_nanoseconds);
}

TEST_CASE("a thread that gives way has a smaller share, and the system's slices", "[scheduling]") {
  const auto slice_before = slice_of_this_thread();
  const int nice_before = ::getpriority(PRIO_PROCESS, 0);
  sepal::Result<void> asked;
  int nice_after = 0;
  std::optional<long> slice_after;
  sepal::Result<void> asked_again;
  int nice_at_last = 0;
  std::thread([&] {
    static_cast<void>(ask_for_short_slices());
    asked = ask_to_run_behind();
    nice_after = ::getpriority(PRIO_PROCESS, 0);
    slice_after = slice_of_this_thread();
    asked_again = ask_to_run_behind();
    nice_at_last = ::getpriority(PRIO_PROCESS, 0);
  }).join();
  CHECK(::getpriority(PRIO_PROCESS, 0) == nice_before);
  if (!asked) {
    CHECK(system_refuses());
    WARN("SKIPPED: refused here: " << asked.error().detail);
    return;
  }
  CHECK(asked_again.ok());
  CHECK(nice_after == std::min(nice_before + 10, 19));
  CHECK(nice_at_last == std::min(nice_before + 20, 19));
  CHECK(slice_after == slice_before);
}

}  // namespace
}  // namespace sepal::thread_test
