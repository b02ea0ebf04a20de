// Tells the sanitizers that a thread changes its stack. Without it AddressSanitizer takes the other stack for
// foreign memory, and ThreadSanitizer loses the order of calls. In other builds these calls do nothing.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SEPAL_ASAN_STACKS
#endif
#if __has_feature(thread_sanitizer)
#define SEPAL_TSAN_STACKS
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SEPAL_ASAN_STACKS
#endif
#if defined(__SANITIZE_THREAD__)
#define SEPAL_TSAN_STACKS
#endif

#if defined(SEPAL_ASAN_STACKS)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(SEPAL_TSAN_STACKS)
#include <sanitizer/tsan_interface.h>
#endif

namespace sepal::script {

// The making of a fiber visits its stack, too. Each other switch is two calls: one before it, on the stack
// that is left, and one behind it, on the stack that was entered.
class StackSwitch {
 public:
#if defined(SEPAL_ASAN_STACKS)
  StackSwitch(const void* bottom, std::size_t size) : bottom_(bottom), size_(size) {}
  void before_start() {}
  void behind_start() {}
  void leave_thread() {
    __sanitizer_start_switch_fiber(&thread_fake_, bottom_, size_);
  }
  void back_on_fiber() {
    __sanitizer_finish_switch_fiber(fiber_fake_, &thread_bottom_, &thread_size_);
  }
  void leave_fiber() {
    __sanitizer_start_switch_fiber(&fiber_fake_, thread_bottom_, thread_size_);
  }
  void leave_fiber_for_ever() {
    // Null in place of a fake stack: the fiber never runs again, and its fake stack is freed.
    __sanitizer_start_switch_fiber(nullptr, thread_bottom_, thread_size_);
  }
  void back_on_thread() {
    __sanitizer_finish_switch_fiber(thread_fake_, nullptr, nullptr);
  }

 private:
  const void* bottom_;
  std::size_t size_;
  const void* thread_bottom_ = nullptr;
  std::size_t thread_size_ = 0;
  void* thread_fake_ = nullptr;
  void* fiber_fake_ = nullptr;
#elif defined(SEPAL_TSAN_STACKS)
  // ThreadSanitizer keeps the calls of each stack. A function that is entered on one stack and left on the
  // other would add a call here and take one away there, so these are part of their callers.
#define SEPAL_PART_OF_CALLER [[gnu::always_inline]]
  StackSwitch(const void*, std::size_t) : fiber_(__tsan_create_fiber(0)) {}
  ~StackSwitch() {
    __tsan_destroy_fiber(fiber_);
  }
  StackSwitch(const StackSwitch&) = delete;
  StackSwitch& operator=(const StackSwitch&) = delete;
  SEPAL_PART_OF_CALLER void before_start() {
    leave_thread();
  }
  SEPAL_PART_OF_CALLER void behind_start() {
    leave_fiber();
  }
  SEPAL_PART_OF_CALLER void leave_thread() {
    thread_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, 0);
  }
  SEPAL_PART_OF_CALLER void back_on_fiber() {}
  SEPAL_PART_OF_CALLER void leave_fiber() {
    __tsan_switch_to_fiber(thread_, 0);
  }
  // The fiber's functions still return, and are not calls of the thread.
  SEPAL_PART_OF_CALLER void leave_fiber_for_ever() {
    ended_ = true;
  }
  SEPAL_PART_OF_CALLER void back_on_thread() {
    // Only now, since the fiber's functions have returned.
    if (ended_) __tsan_switch_to_fiber(thread_, 0);
  }
#undef SEPAL_PART_OF_CALLER

 private:
  void* fiber_;
  void* thread_ = nullptr;
  bool ended_ = false;
#else
  StackSwitch(const void*, std::size_t) {}
  void before_start() {}
  void behind_start() {}
  void leave_thread() {}
  void back_on_fiber() {}
  void leave_fiber() {}
  void leave_fiber_for_ever() {}
  void back_on_thread() {}
#endif
};

}  // namespace sepal::script
