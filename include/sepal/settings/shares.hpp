// How the memory of the machine or container, and a small disk, are divided where the settings leave it open.
#pragma once

#include <sepal/settings/settings.hpp>

#include <cstdint>

namespace sepal::settings {

// All in bytes. `filters`, `clients`, the scripts of all workers, and a rest for the process itself add up to
// the memory there is, unless the settings ask for more than that.
struct MemoryShares {
  std::uint64_t filters = 0;  // for filters and keys while maxmemory is 0; 0: no limit is known
  std::uint64_t clients = 0;  // for maxmemory_clients
  std::uint64_t scripts = 0;  // for script_memory_max, so for each worker
};

// `available`: the bytes of the machine or container; 0: unknown. maxmemory_clients and script_memory_max are
// lowered to an eighth of them (for the scripts of all workers together) if they have their default values;
// other values are kept. The filters get the rest, at least a quarter of `available`. Any thread.
[[nodiscard]] MemoryShares memory_shares(std::uint64_t available, const Settings& settings);

// In bytes.
struct DiskShares {
  std::uint64_t journal_segment = 0;
  std::uint64_t reserve = 0;
};

// `capacity`: the size of the data directory's file system in bytes; 0: unknown. The segment is lowered to a
// sixteenth of it, but not below its least size, and the reserve to a quarter, if they have their default
// values. Other values are kept. Any thread.
[[nodiscard]] DiskShares disk_shares(std::uint64_t capacity, const Settings& settings);

}  // namespace sepal::settings
