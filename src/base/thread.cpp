#include <sepal/base/thread.hpp>

#include <cstdint>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sepal {
namespace {

// The least that the kernel takes.
constexpr std::uint64_t slice_nanoseconds = 100'000;

// struct sched_attr of sched_setattr(2) in its first version: glibc 2.36 has none, and the kernel's header
// cannot be included beside <sched.h>.
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

}  // namespace

void name_this_thread(const char* name) {
  static_cast<void>(pthread_setname_np(pthread_self(), name));
}

bool ask_for_short_slices() {
  constexpr int this_thread = 0;
  constexpr unsigned no_flags = 0;
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, this_thread, &attributes, sizeof(attributes), no_flags) != 0) return false;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return false;
  attributes.runtime = slice_nanoseconds;
  return ::syscall(SYS_sched_setattr, this_thread, &attributes, no_flags) == 0;
}

}  // namespace sepal
