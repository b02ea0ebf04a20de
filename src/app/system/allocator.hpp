// The allocator of this process: jemalloc. Small values come and go by the million, from several threads, and
// their memory goes back to the system (decisions/0046). A build with a sanitizer has the sanitizer's.
#pragma once

#include <sepal/command/run/services.hpp>

namespace sepal::app {

// What the allocator has taken from the system, and what of it is in use. All zero, and named "libc", if it
// keeps no figures. Any thread.
[[nodiscard]] command::AllocatorUsage allocator_usage();

// Gives memory of the heap back to the system that has been free for some time. A thread that allocates and
// frees does so by the way; this is for the memory of threads that rest. Any thread.
void return_old_free_memory();
// The same for all free memory.
void return_all_free_memory();

}  // namespace sepal::app
