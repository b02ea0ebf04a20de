// While this object lives, signals that end the program are held back, so that a half-written file can be
// removed first. The code that writes calls asked_to_end() now and then. Signals that came meanwhile take
// effect when the object is destroyed.
#pragma once

#include <csignal>

namespace sepal::tools {

// Confined to the program's only thread: a second thread would not hold the signals back, and a signal that
// the kernel gives to it would end the program.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held_, number);
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
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
