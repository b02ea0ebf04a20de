// What the daemon runs on: how much memory it may use, and what it has used.
#pragma once

#include <sepal/command/services.hpp>

#include <cstdint>
#include <string>

namespace sepal::app {

// The smaller of the machine's memory and the limit of the container (cgroup version 1 or 2); 0 when unknown.
[[nodiscard]] std::uint64_t memory_bytes();

[[nodiscard]] command::ProcessUsage process_usage();

// Tells the C library how this process uses its heap. Before any thread is started.
void prepare_allocator();

// Lets the process open as many files and connections as the system would allow it, and says how many.
[[nodiscard]] std::uint64_t raise_descriptor_limit();

// A number nobody can guess, from the system. Stops the process where the system has none to give.
[[nodiscard]] std::uint64_t random_number();

// 40 hexadecimal digits, new at each call.
[[nodiscard]] std::string random_run_id();

}  // namespace sepal::app
