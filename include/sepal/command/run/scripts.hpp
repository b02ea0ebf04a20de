// What the workers share about scripts.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/script/library.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sepal::command {

// The texts of all scripts may take so much, and one of them no more.
inline std::uint64_t script_text_max(std::uint64_t script_memory_max) {
  return script_memory_max / 4;
}

// Guarded by the gate, but for the atomics: any worker inside the gate reads and writes them.
struct Scripts {
  explicit Scripts(std::size_t worker_count) : memory_bytes(worker_count) {}

  script::Library library;
  bool told_full = false;  // since the library was cleared, the log has said that a script was refused
  // A script that has run for longer than busy_reply_threshold is suspended again and again. Other clients
  // are then told that it runs (Services::busy). Changed with the gate closed.
  bool busy_has_written = false;
  SteadyTime busy_since{};                               // when that script began
  std::atomic<bool> kill_asked{false};                   // by SCRIPT KILL, while a script is busy
  std::vector<std::atomic<std::uint64_t>> memory_bytes;  // that each worker's Lua takes

  // The worker whose script it is may have read its clock later than the caller.
  [[nodiscard]] SteadyTime::duration busy_for(SteadyTime now) const {
    return now - std::min(busy_since, now);
  }
};

}  // namespace sepal::command
