#include "app/system/hang_up.hpp"

#include <csignal>

namespace sepal::app {
namespace {

// No constructors: they would run after the first call.
sigset_t before;
bool is_held = false;

#ifndef SEPAL_SANITIZED
// The loader takes the addresses in this section for functions. A sanitizer is not set up yet when it calls
// them.
[[gnu::section(".preinit_array"), gnu::used]] void (*hold_at_load)() = hold_hang_up;
#endif

}  // namespace

void hold_hang_up() {
  if (is_held) return;
  is_held = true;
  sigset_t hang_up;
  sigemptyset(&hang_up);
  sigaddset(&hang_up, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &hang_up, &before);
}

void release_hang_up() {
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace sepal::app
