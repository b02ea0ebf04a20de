// The machine below the daemon: how much memory the daemon may use, and what it has used.
#pragma once

#include <sepal/command/run/services.hpp>

#include <cstdint>

namespace sepal::app {

// The smaller of the machine's memory and the container's limit (settings/container.hpp); 0: unknown.
[[nodiscard]] std::uint64_t memory_bytes();

// How many mappings of memory the system allows a process (vm.max_map_count).
[[nodiscard]] std::uint64_t mappings_max();

[[nodiscard]] command::ProcessUsage process_usage();

// Tells the C library how this process uses its heap. Called before any thread is started.
void prepare_allocator();

// Gives free memory of the heap back to the system, if there is much of it. While it runs, allocations of
// other threads wait: a few milliseconds for 100 MB. Any thread.
void return_free_memory();
// The same, however much there is.
void return_all_free_memory();

}  // namespace sepal::app
