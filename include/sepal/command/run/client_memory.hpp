// The bound on the memory that clients hold (RuntimeOptions::clients_memory_max).
#pragma once

#include <sepal/command/run/services.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sepal::command {

// The memory of a client that no account has, beside the client itself: a few words of its last request, or a
// short reply that the journal holds. The number of clients bounds it.
inline constexpr std::size_t uncounted_bytes_max = 1024;

[[nodiscard]] constexpr std::uint64_t counted(std::uint64_t bytes) {
  return bytes > uncounted_bytes_max ? bytes : 0;
}

// Called with the gate closed. Chooses the clients with most memory, until the others fit into `bytes_max`,
// and marks them; returns their ids, the one with most first. Clients that are marked already are as good as
// gone, and are not chosen again.
[[nodiscard]] std::vector<std::uint64_t> choose_clients_to_close(ClientDirectory& clients,
                                                                 ClientBuffers& buffers,
                                                                 std::uint64_t bytes_max);

}  // namespace sepal::command
