// A library to preload: SIGHUP comes while the libraries of a program set themselves up, before its main().
#include <csignal>
#include <unistd.h>

namespace {

[[gnu::constructor]] void hang_up() {
  kill(getpid(), SIGHUP);
}

}  // namespace
