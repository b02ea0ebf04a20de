// What one worker has counted.
#pragma once

#include <sepal/metrics/counters.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sepal::command {

struct CommandStats {
  metrics::Counter calls;
  metrics::Counter nanoseconds;
  metrics::Counter rejected;             // refused before the handler ran
  metrics::Counter failed;               // the handler answered an error
  metrics::Histogram latency;            // of the calls, but not of those while latency-tracking was off
  metrics::Counter untimed_nanoseconds;  // of the calls that `latency` leaves out; part of `nanoseconds`

  void reset();
};

// Why an item was not added.
enum class RefusedAdd : std::uint8_t {
  full,      // its filter has no room and does not grow
  mirrored,  // the same, but the target of the filter's mirror took it
  layers,    // its filter has all layers that it may have
  memory,    // maxmemory, or the system gives no more
  keys,      // keys_max, for a filter that the add would create
  journal,   // the change cannot be recorded
};
inline constexpr std::size_t refused_add_count = static_cast<std::size_t>(RefusedAdd::journal) + 1;

// Counters of one worker, which writes them; INFO reads them on any worker. The session counts bytes and
// batches; the dispatcher counts the rest.
struct WorkerStats {
  WorkerStats();
  std::vector<CommandStats> commands;  // by command_row()
  metrics::Counter requests;           // answered, or waiting for their answer
  metrics::Counter bytes_in;
  metrics::Counter bytes_out;
  metrics::Counter error_replies;  // in answers to requests; errors inside arrays count too
  metrics::Counter key_hits;       // look-ups of keys that were there
  metrics::Counter key_misses;
  metrics::Counter items_added;    // adds that answered 1
  metrics::Counter items_removed;  // removals that answered 1
  metrics::Counter items_asked;    // look-ups of items
  metrics::Counter items_found;    // of these, the ones that answered 1
  // Items that were answered with an error, by RefusedAdd.
  std::array<metrics::Counter, refused_add_count> adds_refused;
  // Other changes that values count themselves (KindRow::changes), made beside other requests: bits that
  // SETBIT has set, items that CF.LOADCHUNK has added.
  metrics::Counter other_changes;
  metrics::Counter batches;
  metrics::Counter too_long_requests;  // each closed its connection
  metrics::Counter http_requests;      // likewise
  // The most that any client of the worker had unparsed, and unsent, at each look. The worker looks once a
  // second.
  metrics::RecentPeak unparsed_peak;
  metrics::RecentPeak unsent_peak;
  // Errors by first word. They are few and rarely written, so the class has a lock of its own.
  class ErrorCounts;
  std::unique_ptr<ErrorCounts> errors;
  ~WorkerStats();

  // Called with the gate closed.
  void reset();
};

}  // namespace sepal::command
