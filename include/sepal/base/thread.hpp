// What the calling thread tells the system about itself.
#pragma once

#include <sepal/base/result.hpp>

#include <future>
#include <string>
#include <thread>
#include <utility>

namespace sepal {

// Names the thread as `top -H`, `ps -L` and debuggers show it. At most 15 characters: the system refuses a
// longer name, and nothing changes. Also gives the thread a stack of its own for signal handlers, so that a
// crash that used up the thread's stack is still reported (app/crash_report.hpp).
void name_this_thread(const char* name);

// Starts a thread that does the work under this name. Returns when the thread has its name, and with it its
// first memory: jemalloc ends the process where the first allocation of a thread finds none, so a thread that
// serves must not come to that later. Throws std::system_error, as std::thread does.
template <class Work>
[[nodiscard]] std::thread start_thread(std::string name, Work work) {
  std::promise<void> named;
  const std::future<void> begun = named.get_future();
  std::thread thread([name = std::move(name), work = std::move(work), named = std::move(named)]() mutable {
    name_this_thread(name.c_str());
    named.set_value();
    work();
  });
  begun.wait();
  return thread;
}

// Asks the scheduler to run the calling thread, and the threads that it starts later, in short slices. On a
// shared core such a thread runs sooner after it is woken; its share of the core stays the same. Linux heeds
// this from 6.12 on (the runtime of sched_setattr(2) for the fair classes) and ignores it before. Errors: io
// when the system refuses, when the thread has another scheduling class, or when the threads it starts would
// not inherit the setting; nothing has changed then. docs/decisions/0016.
Result<void> ask_for_short_slices();
// For a thread that works for long and that no client waits for. On a core shared with other threads of the
// process it gets a tenth of what one of them gets, and a woken thread with short slices gets the core soon.
// Errors as above.
Result<void> ask_to_run_behind();

}  // namespace sepal
