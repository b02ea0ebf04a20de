// What the system is told of the calling thread.
#pragma once

namespace sepal {

// Shown beside the thread by `top -H`, `ps -L` and debuggers. 15 characters at most, ending in a zero.
void name_this_thread(const char* name);

// Asks the scheduler to run the calling thread, and those that it starts later, in short slices where they
// share a core with others: each is then run sooner after it is woken, its share of the core stays the same.
// Linux heeds it from 6.12 on (the runtime of sched_setattr(2) for the fair classes) and ignores it before.
// False where it is refused or the thread is of another class. docs/decisions/0016.
bool ask_for_short_slices();

}  // namespace sepal
