// From a parsed request to its reply: finds the row, checks arity, authentication, memory, the journal and
// whether the data is loaded, runs the handler, counts.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/command/adoptions.hpp>
#include <sepal/command/client_state.hpp>
#include <sepal/command/command_table.hpp>
#include <sepal/command/rate_sampler.hpp>
#include <sepal/command/services.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/keyspace/uploads.hpp>
#include <sepal/metrics/counters.hpp>
#include <sepal/resp/reply.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sepal::command {

struct CommandStats {
  metrics::Counter calls;
  metrics::Counter nanoseconds;
  metrics::Counter rejected;  // refused before the handler ran
  metrics::Counter failed;    // the handler answered an error
  metrics::Histogram latency;

  void reset();
};

// Counters of one worker: written by it, read by INFO on any worker. Bytes and batches are the session's to
// count; the rest is the dispatcher's.
struct WorkerStats {
  WorkerStats();
  std::vector<CommandStats> commands;  // by command_row()
  metrics::Counter requests;           // answered, or waiting for their answer
  metrics::Counter bytes_in;
  metrics::Counter bytes_out;
  metrics::Counter error_replies;  // of requests; errors inside arrays count too
  metrics::Counter key_hits;       // look-ups of keys that were there
  metrics::Counter key_misses;
  metrics::Counter items_added;  // adds that answered 1
  metrics::Counter batches;
  // Errors by first word; small and rarely written, so under a lock of its own inside.
  class ErrorCounts;
  std::unique_ptr<ErrorCounts> errors;
  ~WorkerStats();

  // With the gate closed.
  void reset();
};

// Everything that handlers share. Owned by app; outlives all sessions.
struct Services {
  keyspace::Keyspace& keyspace;
  RuntimeOptions& options;
  ClientDirectory& clients;
  Persistence& persistence;
  ServerControl& control;
  std::vector<WorkerStats>& workers;
  Journal& journal;
  Adoptions& adoptions;
  Transfers& transfers;
  // Guarded by the gate. While it runs, commands without Flag::loading are refused.
  LoadStatus load{};
  // Of each worker, what records its changes; null while nothing does. Guarded by the gate.
  std::vector<keyspace::WorkerLog*> logs = std::vector<keyspace::WorkerLog*>(workers.size());
  std::unique_ptr<RateSampler> rates = std::make_unique<RateSampler>();
  std::unique_ptr<keyspace::Uploads> uploads = std::make_unique<keyspace::Uploads>(keyspace);
};

// Memory that handlers of one worker reuse from request to request, so that the steady state allocates
// nothing.
class Scratch;

// What a batch of requests has to do with the journal.
struct BatchRecord {
  keyspace::WorkerLog* log = nullptr;  // the worker's, once a request was admitted to it
  bool answered_known = false;         // an add was answered so, while others may be adding
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
  keyspace::Mutator changes;  // for whatever changes the keyspace
  BatchRecord& record;
  bool alone = false;  // the gate is closed
};

// A request as it came, and where its answer goes.
struct SingleRequest {
  ClientState& client;
  resp::Reply& reply;
  const CommandSpec& spec;  // row_for(words)
  std::span<const std::string_view> words;
};

// Confined to one worker.
class Dispatcher {
 public:
  // Of the worker that has this index in the services.
  Dispatcher(Services& services, std::size_t worker);
  ~Dispatcher();

  struct Outcome {
    Next next = Next::done;
    const CommandSpec* spec = nullptr;  // whose handler ran, for Session's timing of runs; null when none did
  };
  // Inside the gate; `alone` says whether it is closed. Appends exactly one reply to `reply` for Next::done
  // and Next::close, none for need_alone, later and wait. `words` is not empty, `spec` is row_for(words).
  Outcome run(ClientState& client, resp::Reply& reply, std::span<const std::string_view> words,
              const CommandSpec* spec, bool alone, WallTime now, SteadyTime steady_now);

  // Whether run_together takes requests of this row, which may be null, with so many words each.
  [[nodiscard]] static bool runs_together(const CommandSpec* spec, std::size_t word_count);
  // As run, for requests that are `words` but for their last words, of which `words` has the first.
  // Next::done: all are answered. Next::need_alone: nothing was done, run them one by one.
  Outcome run_together(ClientState& client, resp::Reply& reply, const CommandSpec& spec,
                       std::span<const std::string_view> words, std::span<const std::string_view> last_words,
                       bool alone, WallTime now, SteadyTime steady_now);

  // Of requests that run_together takes: whether they differ in their last word only. Of a round each is held
  // against each, so what mostly tells them apart comes first.
  [[nodiscard]] static bool alike(const SingleRequest& one, const SingleRequest& other) {
    const std::string_view key = one.words[1];
    const std::string_view other_key = other.words[1];
    return key.size() == other_key.size() && (key.empty() || key.back() == other_key.back()) &&
           &one.spec == &other.spec && one.client.database == other.client.database && key == other_key &&
           one.words.size() == other.words.size() &&
           std::equal(one.words.begin() + 2, one.words.end() - 1, other.words.begin() + 2);
  }
  // As run, for requests of different clients that are alike, at most singles_max. False: nothing was done,
  // run them one by one. With the gate shared.
  static constexpr std::size_t singles_max = 64;
  bool run_singles(std::span<const SingleRequest> requests, WallTime now, SteadyTime steady_now);

  // Inside the gate. Asks for the keys of requests that are about to be run from memory.
  void prefetch(const ClientState& client, std::span<const std::string_view> keys) const;

  // Inside the gate. Adds what a request of these words, soon to be run, will wait for. `spec` is
  // row_for(words).
  void collect_lines(const ClientState& client, const CommandSpec* spec,
                     std::span<const std::string_view> words, LinesAhead& lines) const;

  // Counts `times` calls of a row. `times` requests of one row in a row took `duration` together. (Reading a
  // clock around each would cost as much as a pipelined look-up.)
  void record(const CommandSpec& spec, std::uint64_t times, std::chrono::nanoseconds duration);

  // With the gate closed, before it opens: what was run alone is in the journal.
  void commit();

  // What the requests since the last call were to the journal. Outside the gate.
  [[nodiscard]] BatchRecord take_record() { return std::exchange(record_, {}); }

  // Counts an error that was answered outside of run(): that a request of the row `failed` was answered with
  // later, or, when `failed` is null, for bytes that are no request. Inside the gate.
  void count_error(std::string_view text, const CommandSpec* failed);

 private:
  Context context_of(ClientState& client, resp::Reply& reply, std::span<const std::string_view> words,
                     const CommandSpec& spec, keyspace::WorkerLog* log, bool alone, WallTime now,
                     SteadyTime steady_now);
  Next answer_together(ClientState& client, resp::Reply& reply, const CommandSpec& spec,
                       std::span<const std::string_view> words, std::span<const std::string_view> last_words,
                       std::span<bool> answers, bool alone, WallTime now, SteadyTime steady_now);
  [[nodiscard]] keyspace::WorkerLog* log_of(const CommandSpec& spec) const;
  keyspace::Admission admit(keyspace::WorkerLog* log, const CommandSpec& spec,
                            std::span<const std::string_view> words, std::size_t item_count, bool alone);
  [[nodiscard]] std::uint64_t most_record_bytes(const CommandSpec& spec,
                                                std::span<const std::string_view> words,
                                                std::size_t item_count, bool alone) const;
  Outcome reject(ClientState& client, resp::Reply& reply, const CommandSpec& spec, std::string_view text,
                 SteadyTime steady_now);
  Next run_handler(Context& context);
  Outcome run_unknown(ClientState& client, resp::Reply& reply, std::span<const std::string_view> words,
                      SteadyTime steady_now);
  void count_requests(ClientState& client, std::uint64_t times, SteadyTime steady_now);
  void count_errors(std::string_view text, std::uint64_t times);

  Services& services_;
  std::size_t worker_;
  WorkerStats& stats_;
  BatchRecord record_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace sepal::command
