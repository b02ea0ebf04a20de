#include <sepal/command/run/worker_stats.hpp>
#include <sepal/command/table/command_table.hpp>

#include "command/run/error_counts.hpp"

namespace sepal::command {

WorkerStats::WorkerStats() : commands(command_row_count()), errors(std::make_unique<ErrorCounts>()) {}
WorkerStats::~WorkerStats() = default;

void CommandStats::reset() {
  calls.reset();
  nanoseconds.reset();
  rejected.reset();
  failed.reset();
  latency.reset();
  untimed_nanoseconds.reset();
}

// items_added, items_removed and other_changes stay: the count of changes since the last save is made from
// them.
void WorkerStats::reset() {
  for (CommandStats& row : commands) row.reset();
  for (metrics::Counter* counter : {&requests, &bytes_in, &bytes_out, &error_replies, &key_hits, &key_misses,
                                    &items_asked, &items_found, &batches, &too_long_requests, &http_requests})
    counter->reset();
  for (metrics::Counter& counter : adds_refused) counter.reset();
  errors->reset();
}

}  // namespace sepal::command
