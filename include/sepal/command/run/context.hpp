// What a request brings to its handler.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/command/run/client_state.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/command/table/command_table.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/resp/reply.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace sepal::command {

class Dispatcher;
class PartialRun;
// Memory that the handlers of one worker reuse from request to request, so that the steady state allocates
// nothing.
class Scratch;

// What a batch of requests has to do with the journal.
struct BatchRecord {
  keyspace::WorkerLog* log = nullptr;  // the worker's log, once it admitted a request
  bool answered_known = false;  // an add was answered "known already" while other workers may be adding
};

// The clock and the privileges of a batch, which its requests share.
struct RunMode {
  WallTime now;
  SteadyTime steady_now;
  bool alone = false;              // the gate is closed
  bool in_transaction = false;     // EXEC or a script runs them: the journal has room for all of them
  std::uint64_t room_bytes = 0;    // of the journal, which EXEC was granted for its other commands
  bool may_exceed_memory = false;  // a script runs them, which has looked at the limit of memory itself
  SteadyTime (*clock)() = std::chrono::steady_clock::now;
};

struct Context {
  Services& services;
  ClientState& client;
  resp::Reply& reply;
  WorkerStats& stats;
  Scratch& scratch;
  std::span<const std::string_view> words;  // words[0] is the name as the client spelled it
  const CommandSpec& spec;                  // the subcommand's row where there is one
  WallTime now;
  SteadyTime steady_now;
  keyspace::Mutator changes;  // every change of the keyspace goes through it
  BatchRecord& record;
  std::unique_ptr<PartialRun>& partial;  // of a handler that answers Next::more; the dispatcher deletes it
  bool alone = false;                    // the gate is closed
  bool may_grow = false;  // inside the shared gate: the journal has room for all that the request may record
  bool counts_keys = true;  // false: a part before this one has counted its key as a hit or a miss
  Dispatcher& dispatcher;   // for a handler that runs other commands
  const RunMode& mode;
  std::uint64_t errors_told = 0;  // in the reply so far that the statistics have already
  std::uint64_t room_bytes = 0;   // of the journal, which EXEC was granted

  // Whether the handler may put a new value under a free key, or let a filter grow.
  [[nodiscard]] bool may_create() const { return alone || (may_grow && changes.may_change_key()); }
};

// A request as it came, with the place for its answer.
struct Request {
  ClientState& client;
  resp::Reply& reply;
  const CommandSpec* spec;                  // row_for(words); null when there is none
  std::span<const std::string_view> words;  // not empty
  // What the session keeps while a long request runs: null before its first part, and after its last.
  std::unique_ptr<PartialRun>& partial;
  std::size_t byte_count = 0;  // of the request as it came; 0 if it has few
};

}  // namespace sepal::command
