// What the system is told of the calling thread.
#pragma once

#include <sepal/base/result.hpp>

namespace sepal {

// Shown beside the thread by `top -H`, `ps -L` and debuggers. At most 15 characters: a longer one is not
// taken.
void name_this_thread(const char* name);

// Asks the scheduler to run the calling thread, and those that it starts later, in short slices where they
// share a core with others: each is then run sooner after it is woken, its share of the core stays the same.
// Linux heeds it from 6.12 on (the runtime of sched_setattr(2) for the fair classes) and ignores it before.
// Errors: io, where it is refused, the thread is of another class, or others would not inherit it; nothing
// has changed then. docs/decisions/0016.
Result<void> ask_for_short_slices();
// For a thread that works for long, and for which nobody waits: where it shares a core with others of the
// process, it gets a tenth of what one of them gets, and one with short slices that is woken has the core
// soon. Errors as above.
Result<void> ask_to_run_behind();

}  // namespace sepal
