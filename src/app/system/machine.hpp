// The machine below the daemon: how much memory the daemon may use, and what it has used.
#pragma once

#include <sepal/command/run/services.hpp>

#include <cstdint>

namespace sepal::app {

// How many mappings of memory the system allows a process (vm.max_map_count).
[[nodiscard]] std::uint64_t mappings_max();

[[nodiscard]] command::ProcessUsage process_usage();

}  // namespace sepal::app
