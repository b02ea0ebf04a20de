#include "app/system/crash_report.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/log/standard_streams.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <execinfo.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sepal::app {
namespace {

constexpr std::array fatal_signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int frames_max = 64;
// A handler that takes longer hangs.
constexpr unsigned seconds_max = 10;

// A text that the handler may find half changed: then its length is 0.
template <std::size_t capacity>
class PreparedText {
 public:
  void set(std::string_view text) {
    byte_count_.store(0);
    const std::size_t count = std::min(text.size(), capacity);
    std::memcpy(bytes_.data(), text.data(), count);
    byte_count_.store(count);
  }
  [[nodiscard]] std::string_view view() const { return {bytes_.data(), byte_count_.load()}; }

 private:
  std::array<char, capacity> bytes_{};
  std::atomic<std::size_t> byte_count_{0};
};

// The handler can be given nothing, so what it needs is here.
PreparedText<256> crash_version;
PreparedText<3> crash_priority;  // of the first line on standard error
PreparedText<512> thrown;
PreparedText<16384> crash_settings;
std::atomic<int> crash_descriptor{STDERR_FILENO};
std::atomic<long> reporting_thread{0};

std::string_view name_of_signal(int number) {
  switch (number) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGILL: return "SIGILL";
    default: return "SIGABRT";
  }
}

// Gathers text, and writes it with nothing but write(2). One write keeps the lines that other threads log
// meanwhile out of the text. A pipe may still take a text of more than 4096 bytes in two parts.
class CrashWriter {
 public:
  CrashWriter& text(std::string_view bytes) {
    const std::size_t count = std::min(bytes.size(), bytes_.size() - byte_count_);
    std::memcpy(bytes_.data() + byte_count_, bytes.data(), count);
    byte_count_ += count;
    return *this;
  }
  CrashWriter& number(std::uint64_t value, std::uint64_t base = 10) {
    std::array<char, 20> digits{};
    std::size_t at = digits.size();
    do {
      digits[--at] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    return text({digits.data() + at, digits.size() - at});
  }
  CrashWriter& line(std::string_view name, std::string_view value) {
    return value.empty() ? *this : text("  ").text(name).text(value).text("\n");
  }
  void write_to(int descriptor) {
    std::string_view left(bytes_.data(), byte_count_);
    byte_count_ = 0;
    while (!left.empty()) {
      const ssize_t count = ::write(descriptor, left.data(), left.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      left.remove_prefix(static_cast<std::size_t>(count));
    }
  }

 private:
  // Space for the longest texts that are prepared, and for the lines around them.
  std::array<char, 20480> bytes_{};
  std::size_t byte_count_ = 0;
};

// Not on the handler's stack, which is small. Only one thread writes a report.
CrashWriter crash_writer;

void write_report(int number, const siginfo_t& info) {
  const int descriptor = crash_descriptor.load();
  CrashWriter& to = crash_writer;
  std::array<char, 17> thread{};
  prctl(PR_GET_NAME, thread.data());
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  to.text("\n").text(descriptor == STDERR_FILENO ? crash_priority.view() : "");
  to.text("sepald crashed: signal=").text(name_of_signal(number));
  // A signal that was sent has a sender and no address.
  if (info.si_code > 0) {
    to.text(" address=0x").number(reinterpret_cast<std::uintptr_t>(info.si_addr), 16);
  } else {
    to.text(" sent_by_pid=").number(static_cast<std::uint64_t>(info.si_pid));
  }
  to.text(" thread=").text(thread.data()).text(" pid=").number(static_cast<std::uint64_t>(getpid()));
  to.text(" unix_time=").number(static_cast<std::uint64_t>(now.tv_sec)).text("\n");
  to.line("", crash_version.view()).line("", failed_assertion()).line("thrown: ", thrown.view());
  to.text("settings that differ from their defaults:\n").text(crash_settings.view());
  to.text("stack (addr2line -Cfpie sepald +OFFSET names the lines):\n");
  // backtrace_symbols_fd() writes the stack itself, so what is gathered leaves before it.
  to.write_to(descriptor);
  std::array<void*, frames_max> frames{};
  const int count = backtrace(frames.data(), frames_max);
  backtrace_symbols_fd(frames.data(), count, descriptor);
  to.text("end of the report\n");
  to.write_to(descriptor);
}

void on_crash(int number, siginfo_t* info, void* /*context*/) {
  const long thread = ::syscall(SYS_gettid);
  long none = 0;
  if (reporting_thread.compare_exchange_strong(none, thread)) {
    // SIGALRM has no handler, so its default action ends a report that hangs.
    alarm(seconds_max);
    write_report(number, *info);
  } else if (none != thread) {
    // Another thread writes a report, and then ends the process.
    for (;;) pause();
  }
  // The signal is blocked until the handler returns. Then its default action ends the process.
  // A thread that crashes within its own report comes here at once, without a second report.
  static_cast<void>(::signal(number, SIG_DFL));
  static_cast<void>(::raise(number));
}

[[noreturn]] void on_terminate() {
  if (const std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& problem) {
      thrown.set(problem.what());
    } catch (...) {
      thrown.set("something that is no std::exception");
    }
  }
  std::abort();
}

#ifdef SEPAL_SANITIZED
constexpr bool has_sanitizer = true;
#else
constexpr bool has_sanitizer = false;
#endif

}  // namespace

void install_crash_report(const std::string& version) {
  if (has_sanitizer) return;
  crash_version.set(version);
  if (log::standard_error_is_journal()) crash_priority.set("<2>");
  // The first call loads a library and takes memory.
  std::array<void*, 1> frame{};
  static_cast<void>(backtrace(frame.data(), 1));
  // on_terminate() ends in abort(), so SIGABRT writes the report.
  std::set_terminate(on_terminate);
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int number : fatal_signals) static_cast<void>(::sigaction(number, &action, nullptr));
}

void set_crash_descriptor(int descriptor) {
  crash_descriptor.store(descriptor);
}

void set_crash_settings(std::string_view lines) {
  crash_settings.set(lines);
}

}  // namespace sepal::app
