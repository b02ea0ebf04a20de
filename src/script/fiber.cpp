#include <sepal/base/assert.hpp>
#include <sepal/script/fiber.hpp>

#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include <new>
#include <utility>

#include "script/stack_switch.hpp"

namespace sepal::script {

// The stack of a fiber, and the switch between it and the thread's own stack:
//
//     the thread                         the fiber
//     run(work) -> enter() ------------> body(): work()
//     returns false <------------------    suspend() -> leave()
//     resume() -> enter() ------------->   suspend() returns, the work goes on
//     returns true <-------------------  the work has ended -> leave()
//
// One of the two stacks runs, and `other_` is the place at which the other one goes on. A switch makes the
// old value invalid and gives a new one, so each switch stores it anew, on the side that was entered.
//
// The body of the fiber waits for work, does it, and switches back.
class Fiber::Stack {
 public:
  explicit Stack(std::size_t stack_bytes)
      : allocator_(stack_bytes), memory_(allocator_.allocate()), switch_(bottom(), memory_.size) {
    // The stack is allocated here and not by the fiber, because StackSwitch has to know where it lies.
    const boost::context::preallocated place(memory_.sp, memory_.size, memory_);
    switch_.before_start();
    other_ =
        boost::context::fiber(std::allocator_arg, place, allocator_,
                              [this](boost::context::fiber&& caller) { return body(std::move(caller)); });
    switch_.behind_start();
  }
  ~Stack() {
    // The body must return, which frees the stack. Boost would unwind it by an exception otherwise, through
    // whatever runs there.
    ends_ = true;
    enter();
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  bool run(std::function<void()> work) {
    work_ = std::move(work);
    return enter();
  }
  bool enter() {
    inside_ = true;
    switch_.leave_thread();
    other_ = std::move(other_).resume();
    switch_.back_on_thread();
    inside_ = false;
    return !work_;
  }
  void leave() {
    switch_.leave_fiber();
    other_ = std::move(other_).resume();
    switch_.back_on_fiber();
  }
  [[nodiscard]] bool has_work() const { return static_cast<bool>(work_); }
  [[nodiscard]] bool inside() const { return inside_; }

 private:
  boost::context::fiber body(boost::context::fiber&& caller) {
    switch_.back_on_fiber();
    other_ = std::move(caller);
    while (!ends_) {
      SEPAL_ASSERT(work_, "a fiber is entered without work");
      work_();
      // Destroyed on the fiber's stack, behind its last use. It also tells enter() that the work has ended.
      work_ = nullptr;
      leave();
    }
    switch_.leave_fiber_for_ever();
    return std::move(other_);
  }
  [[nodiscard]] const void* bottom() const { return static_cast<const char*>(memory_.sp) - memory_.size; }

  boost::context::protected_fixedsize_stack allocator_;
  boost::context::stack_context memory_;
  StackSwitch switch_;
  boost::context::fiber other_;  // the stack that does not run: the fiber's, or the thread's
  std::function<void()> work_;   // null: none is under way
  bool inside_ = false;
  bool ends_ = false;
};

Fiber::Fiber(std::size_t stack_bytes) : stack_bytes_(stack_bytes) {}

Fiber::~Fiber() {
  SEPAL_ASSERT(!suspended(), "work is lost in the middle");
}

bool Fiber::prepare() {
  if (stack_ != nullptr) return true;
  try {
    stack_ = std::make_unique<Stack>(stack_bytes_);
    return true;
  } catch (const std::bad_alloc&) {
    // Boost maps the stack, and throws if the system has no memory for it. The client gets an error, and
    // the server goes on.
    return false;
  }
}

bool Fiber::run(std::function<void()> work) {
  SEPAL_ASSERT(work && !suspended() && !inside(), "a fiber does one work at a time");
  SEPAL_ASSERT(stack_ != nullptr, "a fiber is prepared before it runs");
  return stack_->run(std::move(work));
}

bool Fiber::resume() {
  SEPAL_ASSERT(suspended() && !inside(), "only what is suspended is resumed");
  return stack_->enter();
}

bool Fiber::suspended() const {
  return stack_ != nullptr && stack_->has_work() && !stack_->inside();
}

void Fiber::suspend() {
  SEPAL_ASSERT(inside(), "only work on the fiber's stack is suspended");
  stack_->leave();
}

bool Fiber::inside() const {
  return stack_ != nullptr && stack_->inside();
}

}  // namespace sepal::script
