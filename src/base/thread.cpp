#include <sepal/base/thread.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace sepal {
namespace {

// The shortest slice that the kernel accepts.
constexpr std::uint64_t short_slice_nanoseconds = 100'000;
constexpr std::uint64_t usual_slice = 0;  // the system's default
// Gives the thread about a tenth of another thread's share.
constexpr std::int32_t nicer_by = 10;
constexpr std::int32_t nice_max = 19;

// struct sched_attr of sched_setattr(2) in its first version. glibc 2.36 has no such type, and the kernel's
// header cannot be included beside <sched.h>.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

// SCHED_FLAG_RESET_ON_FORK of that header.
constexpr std::uint64_t reset_on_fork = 1;

Error refused(const char* call) {
  return fail(Errc::io, std::string(call) + ": " + std::generic_category().message(errno));
}

Result<void> change_scheduling(const std::function<void(SchedulingAttributes&)>& change) {
  // The present attributes are read first, changed, and written back: sched_setattr() sets them all.
  constexpr int this_thread = 0;
  constexpr unsigned no_flags = 0;
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, this_thread, &attributes, sizeof(attributes), no_flags) != 0)
    return refused("sched_getattr");
  // The operator may have chosen another class for the process: it stays.
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH)
    return fail(Errc::io, "another class of the scheduler was chosen");
  if ((attributes.flags & reset_on_fork) != 0)
    return fail(Errc::io, "threads are to begin with the system's scheduling");
  change(attributes);
  if (::syscall(SYS_sched_setattr, this_thread, &attributes, no_flags) != 0) return refused("sched_setattr");
  return {};
}

// Memory of the thread, as long as it lives; the handler's stack is not touched before a crash.
class SignalStack {
 public:
  SignalStack() {
    const stack_t stack{.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = byte_count};
    // An error is ignored: the thread works without the stack. Only a crash that used up the thread's own
    // stack goes unreported.
    static_cast<void>(sigaltstack(&stack, nullptr));
  }
  ~SignalStack() {
    // The kernel must forget the memory before it is freed.
    const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    static_cast<void>(sigaltstack(&none, nullptr));
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  static constexpr std::size_t byte_count = std::size_t{64} << 10;
  std::unique_ptr<std::byte[]> memory_{new std::byte[byte_count]};  // uninitialised
};

}  // namespace

void name_this_thread(const char* name) {
  // A name that the system refuses is no reason to fail: it is for people only.
  static_cast<void>(pthread_setname_np(pthread_self(), name));
#ifndef SEPAL_SANITIZED
  // A sanitizer has such stacks itself.
  static thread_local const SignalStack stack;
#endif
}

Result<void> ask_for_short_slices() {
  return change_scheduling([](SchedulingAttributes& thread) { thread.runtime = short_slice_nanoseconds; });
}

Result<void> ask_to_run_behind() {
  return change_scheduling([](SchedulingAttributes& thread) {
    thread.runtime = usual_slice;
    thread.nice = std::min(thread.nice + nicer_by, nice_max);
  });
}

}  // namespace sepal
