// While this lives, the signals that end a program wait, so that a file that is half written can be removed
// first: whoever writes asks asked_to_end() now and then. Whatever came meanwhile acts when this goes.
#pragma once

#include <csignal>

namespace sepal::tools {

// Confined to the program's only thread.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held_, number);
    sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  [[nodiscard]] static bool asked_to_end() {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
           sigismember(&pending, SIGHUP) == 1;
  }

 private:
  sigset_t held_{};
  sigset_t before_{};
};

}  // namespace sepal::tools
