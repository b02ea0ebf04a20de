#include "app/system/crash_report.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/descriptor.hpp>
#include <sepal/base/thread.hpp>

#include <csignal>
#include <fcntl.h>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.hpp"

#ifndef SEPAL_SANITIZED
namespace crash_report_test {

using namespace sepal;

namespace {

struct Crash {
  std::string report;
  std::string first_write;
  int status = 0;
};

// Runs `crash` in a process of its own. Its report comes through sockets that keep the bytes of each write
// together.
Crash crash_of(const std::function<void()>& crash) {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);
    for (const int number : {SIGSEGV, SIGABRT, SIGFPE}) ::signal(number, SIG_DFL);  // those of Catch
    app::install_crash_report("sepald 1.2.3");
    app::set_crash_descriptor(ends[1]);
    app::set_crash_settings("  port = 1\n");
    crash();
    _exit(0);
  }
  ::close(ends[1]);
  Crash result;
  char piece[65536];
  for (ssize_t count = 0; (count = ::read(ends[0], piece, sizeof piece)) > 0;) {
    result.report.append(piece, static_cast<std::size_t>(count));
    if (result.first_write.empty()) result.first_write = result.report;
  }
  ::close(ends[0]);
  REQUIRE(::waitpid(child, &result.status, 0) == child);
  return result;
}

bool has(const Crash& crash, const std::string& text) {
  INFO(crash.report);
  CHECK(crash.report.find(text) != std::string::npos);
  return crash.report.ends_with("end of the report\n");
}

// The calls cannot be joined, so each needs some stack.
[[gnu::noinline]] int deeper(volatile int* level) {
  volatile char page[4096];
  page[0] = static_cast<char>(*level);
  *level = *level + 1;
  return *level < 0 ? 0 : deeper(level) + page[0];
}

}  // namespace

TEST_CASE("a wrong access is reported, and ends the process by its signal") {
  const Crash crash = crash_of([] { *reinterpret_cast<volatile int*>(std::uintptr_t{0x10}) = 1; });
  CHECK(has(crash, "sepald crashed: signal=SIGSEGV address=0x10 "));
  CHECK(has(crash, "\n  sepald 1.2.3\n"));
  CHECK(has(crash, "settings that differ from their defaults:\n  port = 1\nstack"));
  CHECK(has(crash, "unit_app"));
  CHECK((WIFSIGNALED(crash.status) && WTERMSIG(crash.status) == SIGSEGV));
}

TEST_CASE("a line that another thread logs cannot stand in the head of a report") {
  const Crash crash = crash_of([] { std::abort(); });
  CHECK(crash.first_write.starts_with("\nsepald crashed: signal=SIGABRT sent_by_pid="));
  CHECK(crash.first_write.ends_with(" names the lines):\n"));
}

TEST_CASE("a broken invariant is reported with its text") {
  const Crash crash = crash_of([] { SEPAL_ASSERT(1 + 1 == 3, "numbers are as they were"); });
  CHECK(has(crash, "signal=SIGABRT"));
  CHECK(has(crash, "numbers are as they were (1 + 1 == 3)"));
  CHECK((WIFSIGNALED(crash.status) && WTERMSIG(crash.status) == SIGABRT));
}

TEST_CASE("an exception that nothing catches is reported with its text") {
  const Crash crash = crash_of([] { std::thread([] { throw std::runtime_error("no luck"); }).join(); });
  CHECK(has(crash, "signal=SIGABRT"));
  CHECK(has(crash, "  thrown: no luck\n"));
}

TEST_CASE("a thread that has used up its stack is reported") {
  const Crash crash = crash_of([] {
    std::thread([] {
      name_this_thread("too deep");
      volatile int level = 0;
      static_cast<void>(deeper(&level));
    }).join();
  });
  CHECK(has(crash, "signal=SIGSEGV"));
  CHECK(has(crash, "thread=too deep"));
}

TEST_CASE("several threads that crash at once make one report") {
  const Crash crash = crash_of([] {
    const auto fall = [] { *reinterpret_cast<volatile int*>(std::uintptr_t{0x20}) = 1; };
    std::thread one(fall);
    std::thread other(fall);
    one.join();
    other.join();
  });
  CHECK(has(crash, "address=0x20"));
  CHECK(crash.report.find("sepald crashed") == crash.report.rfind("sepald crashed"));
}

}  // namespace crash_report_test
#endif
