// What the system lets this process have: the limits of its control groups (cgroups), in which containers and
// services run.
#pragma once

#include <cstdint>
#include <filesystem>

namespace sepal::settings {

struct ContainerLimits {
  std::uint64_t memory_bytes = 0;  // 0: no limit
  double cpus = 0;                 // CPU time for each second; 0: no limit
};

// Reads them from `root`/proc/self/cgroup and `root`/sys/fs/cgroup; version 1 and 2. Groups are nested: the
// lowest limit on the way to the top counts. What cannot be read limits nothing. Any thread.
[[nodiscard]] ContainerLimits container_limits(const std::filesystem::path& root = "/");

// The smaller of the machine's memory and the limit of its control groups; 0: unknown. Any thread.
[[nodiscard]] std::uint64_t memory_bytes();

}  // namespace sepal::settings
