// A second stack for a thread. What runs on it can be suspended anywhere, also in the middle of a library's
// call, and goes on later on the same thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace sepal::script {

// Confined to one thread.
class Fiber {
 public:
  // `stack_bytes` is rounded up to whole pages; a guard page lies below.
  explicit Fiber(std::size_t stack_bytes);
  // Nothing is suspended.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Takes the memory of the stack, unless the fiber has it already. False: the system has none.
  [[nodiscard]] bool prepare();
  // Runs `work` on the fiber's stack until it ends or suspends. True: it has ended. `work` throws nothing.
  // prepare() has answered true, and nothing is suspended.
  bool run(std::function<void()> work);
  // Goes on with what is suspended, until it ends or suspends again. True: it has ended.
  bool resume();
  [[nodiscard]] bool suspended() const;

  // Called by the work. Returns when resume() is called.
  void suspend();
  // The caller runs on this fiber.
  [[nodiscard]] bool inside() const;

 private:
  class Stack;
  std::size_t stack_bytes_;
  std::unique_ptr<Stack> stack_;
};

}  // namespace sepal::script
