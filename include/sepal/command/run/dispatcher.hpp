// Leads from a parsed request to its reply. The session has found the row. The dispatcher checks arity,
// authentication, memory, the journal and whether the data is loaded, runs the handler, and counts.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/prefetch.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/run/partial_run.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sepal::command {

enum class AclPlace : std::uint8_t;
class ScriptRunner;

// Confined to one worker.
class Dispatcher {
 public:
  // `worker` is the index of the dispatcher's worker in the services.
  // `gate` is what the worker enters before it calls run(); null: there are no other workers.
  Dispatcher(Services& services, std::size_t worker, const Gate* gate);
  ~Dispatcher();

  [[nodiscard]] std::size_t worker() const { return worker_; }

  struct Outcome {
    Next next = Next::done;
    const CommandSpec* spec = nullptr;  // the row whose handler ran, for Session's timing; null when none ran
  };
  // Inside the gate. Appends one reply for Next::done and Next::close; a browser that is closed gets none.
  // Appends none for need_alone, later, paused, delayed, more and wait.
  Outcome run(const Request& request, const RunMode& mode);

  // Whether run_together takes requests of this row (which may be null) with so many words each.
  [[nodiscard]] static bool runs_together(const CommandSpec* spec, std::size_t word_count);
  // As run, for several requests that differ in their last words only. `first` is the first of them;
  // `last_words` has its last word as well. Next::done: all are answered. Next::need_alone: none is answered,
  // run them one by one.
  Outcome run_together(const Request& first, std::span<const std::string_view> last_words,
                       const RunMode& mode);

  // Whether two requests that run_together takes differ in their last word only. All pairs of a round are
  // compared, so the test that usually fails comes first.
  [[nodiscard]] static bool alike(const Request& one, const Request& other) {
    const std::string_view key = one.words[1];
    const std::string_view other_key = other.words[1];
    return key.size() == other_key.size() && (key.empty() || key.back() == other_key.back()) &&
           one.spec == other.spec && one.client.database == other.client.database && key == other_key &&
           one.words.size() == other.words.size() &&
           equal_beside(together_index(*one.spec, one.words.size()), one.words, other.words);
  }
  // As run, for requests of different clients that are alike, at most lone_requests_max. False: none is
  // answered, run them one by one. Inside the gate, not closed.
  static constexpr std::size_t lone_requests_max = 64;
  bool run_lone_requests(std::span<const Request> requests, const RunMode& mode);

  // Inside the gate. Asks for the keys of requests that are run next from memory.
  void prefetch(const ClientState& client, std::span<const std::string_view> keys) const;

  // Inside the gate. Collects the lines that a request of these words, which is run soon, will wait for.
  // `spec` is row_for(words).
  void collect_lines(const ClientState& client, const CommandSpec* spec,
                     std::span<const std::string_view> words, LinesAhead& lines) const;

  // Counts `times` calls of a row. These requests, one after the other, took `duration` together. (Reading a
  // clock around each would cost as much as a pipelined look-up.)
  void count_calls(const CommandSpec& spec, std::uint64_t times, std::chrono::nanoseconds duration);

  // For handlers of scripts.
  [[nodiscard]] ScriptRunner& scripts() { return *scripts_; }
  // Whether note_slow() does something for a measurement of this length. Inside the gate, as note_slow() is.
  [[nodiscard]] bool is_slow(std::chrono::nanoseconds duration) const {
    return is_for_slow_log(duration) || is_latency_event(duration);
  }
  // Requests of one row that took long.
  struct SlowRun {
    const ClientState& client;  // of the first of them
    const CommandSpec& spec;
    std::span<const std::string_view> words;  // of the first of them; not empty
    std::uint64_t times;
    std::chrono::nanoseconds duration;  // of all together
    WallTime now;
  };
  // Puts them into the slow log, and makes them an event of LATENCY, if they took as long as the options say.
  // Inside the gate.
  void note_slow(const SlowRun& run);
  // Read inside the gate.
  [[nodiscard]] const resp::ParserLimits& parser_limits() const { return services_.options.parser; }

  // For EXEC. Runs all commands of a transaction one after the other, and appends their replies as an array.
  // later: nothing was done, run again when the journal has made progress. need_alone: nothing was done, run
  // again with the gate closed; only a transaction of one command may be run without. If the journal refuses
  // changes, the error is the reply, and nothing was done.
  Next run_transaction(const Transaction& transaction, Context& context);
  // Counts the items that its commands would have added.
  void count_refused_adds(const Transaction& transaction, RefusedAdd reason);

  // --- a script that runs for long (command/scripts.hpp) ---

  // The client whose request has run for longer than busy_reply_threshold, and is suspended: run() has
  // answered Next::wait. 0: there is none. While there is one, the gate is reserved whenever it is open.
  [[nodiscard]] std::uint64_t suspended_client() const { return suspended_client_; }
  // Called with the gate closed. Runs the suspended request for a while. True: it has ended.
  bool resume_script();
  // Appends the reply of the request that has ended.
  Outcome finish_script(resp::Reply& reply);
  // The suspended script ends with its next line, with an error. Without `even_after_changes`: only if it has
  // changed nothing.
  void end_script(bool even_after_changes);

  // Called with the gate closed, before it opens: what ran alone is then in the journal.
  void commit();

  // What the requests since the last call have to do with the journal. Monitors are shown these requests.
  // Outside the gate.
  [[nodiscard]] BatchRecord take_record() {
    if (!shown_.empty()) hand_over_shown();
    return std::exchange(record_, {});
  }

  // Notes for ACL LOG that the client's user may not run a request.
  void note_denial(const Denial& denial, const ClientState& client, const CommandSpec& spec,
                   std::span<const std::string_view> words, AclPlace place, const RunMode& mode);

  // Called at the end of a batch, before the worker leaves the shared gate.
  void append_gathered() {  // NOLINT(readability-make-member-function-const): it changes the log
    if (record_.log != nullptr) record_.log->append();
  }
  // Called outside the gate, behind a batch: frees what requests have taken out of the keyspace, if no worker
  // can still read it.
  void end_retired() { limbo_.end_some(); }

  // Counts an error that was answered outside of run(). `failed` is the row of a request that was answered
  // later; null: the bytes were no request. Inside the gate.
  void count_error(std::string_view text, const CommandSpec* failed);

  // The client's request was answered later, or the client is gone. If the request administers the server, it
  // is logged now, unless it has failed. Inside the gate.
  void end_administration(ClientState& client, bool is_logged);

 private:
  friend class ScriptRunner;
  [[nodiscard]] bool may_share(const Request& request) const;
  // Whether the words behind the key are equal, but for the one at `index`.
  [[nodiscard]] static bool equal_beside(std::size_t index, std::span<const std::string_view> one,
                                         std::span<const std::string_view> other) {
    constexpr std::size_t behind_key = 2;
    for (std::size_t at = behind_key; at < one.size(); ++at)
      if (at != index && one[at] != other[at]) return false;
    return true;
  }
  // A negative threshold is the largest number here: nothing is as slow.
  [[nodiscard]] bool is_for_slow_log(std::chrono::nanoseconds duration) const {
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
    const auto threshold = static_cast<std::uint64_t>(services_.options.slow_log_microseconds);
    return static_cast<std::uint64_t>(took) >= threshold;
  }
  [[nodiscard]] bool is_latency_event(std::chrono::nanoseconds duration) const {
    const auto threshold = services_.options.latency_event_milliseconds;
    return threshold != 0 &&
           std::chrono::duration_cast<std::chrono::milliseconds>(duration).count() >= threshold;
  }
  [[nodiscard]] bool waits_for_pause(const Request& request, const RunMode& mode) const;
  Outcome run_part(const Request& request, const RunMode& mode);
  Outcome run_whole(const Request& request, const RunMode& mode, bool has_begun = false);
  Context context_of(const Request& request, keyspace::WorkerLog* log, const RunMode& mode) {
    return {.services = services_,
            .client = request.client,
            .reply = request.reply,
            .stats = stats_,
            .scratch = *scratch_,
            .words = request.words,
            .spec = *request.spec,
            .now = mode.now,
            .steady_now = mode.steady_now,
            .changes = keyspace::Mutator(services_.keyspace, log, mode.alone ? nullptr : &limbo_),
            .record = record_,
            .partial = request.partial,
            .alone = mode.alone,
            .dispatcher = *this,
            .mode = mode};
  }
  Next answer_together(const Request& first, std::span<const std::string_view> last_words,
                       std::span<bool> answers, const RunMode& mode);
  // Null if the journal is off.
  [[nodiscard]] keyspace::WorkerLog* recording_log() const {
    keyspace::WorkerLog* const log = services_.logs[worker_];
    return log != nullptr && log->recording() ? log : nullptr;
  }
  // Null if the command changes nothing, or if the journal is off.
  [[nodiscard]] keyspace::WorkerLog* log_of(const CommandSpec& spec) const {
    return spec.flags.has(Flag::write) ? recording_log() : nullptr;
  }
  keyspace::Admission admit(keyspace::WorkerLog* log, const Request& request, std::size_t item_count,
                            const RunMode& mode);
  [[nodiscard]] std::uint64_t most_record_bytes(const Request& request, std::size_t item_count,
                                                const RunMode& mode) const;
  std::uint64_t shared_record_bytes(const Request& request, std::size_t item_count, const RunMode& mode);
  [[nodiscard]] static keyspace::Change change_of(const Request& request, WallTime now);
  Outcome reject(const Request& request, std::string_view text, bool has_begun);
  // Counts the items that a command would have added, or `times` as many.
  void count_refused_adds(const CommandSpec& spec, std::span<const std::string_view> words, RefusedAdd reason,
                          std::uint64_t times = 1);
  // As reject(), and counts the items that the request would have added.
  Outcome reject_add(const Request& request, std::string_view text, bool has_begun, RefusedAdd reason);
  Outcome deny(const Request& request, const RunMode& mode, bool has_begun);
  Outcome queue(const Request& first, std::span<const std::string_view> last_words, const RunMode& mode);
  [[nodiscard]] keyspace::WorkerLog* log_of(const Transaction& transaction) const;
  std::optional<Next> admit_transaction(keyspace::WorkerLog& log, const Transaction& transaction,
                                        Context& context);
  [[nodiscard]] std::uint64_t transaction_record_bytes(const Transaction& transaction, Context& context);
  // The bounds of one transaction.
  struct Bounds {
    std::size_t reply_begin = 0;
    std::uint64_t reply_bytes_max = 0;
    SteadyTime ends_at{};
    bool reached = false;
  };
  // Throws nothing: what lacks memory between two commands of EXEC would leave the second undone.
  Next run_group(const Transaction& transaction, const Transaction::Group& group, Context& context,
                 Bounds& bounds) noexcept;
  Next run_of_group(const Request& request, const RunMode& mode, Bounds& bounds);
  Next run_handler(Context& context);
  Next run_row(Context& context);
  Next lacks_memory(Context& context, std::size_t reply_bytes);
  void note_administration(const Context& context, const std::string& user, Next next);
  Outcome run_unknown(const Request& request);
  void show(const Request& request, const RunMode& mode);
  void show_always(const Request& request, const RunMode& mode);
  void show_together(const Request& first, std::span<const std::string_view> last_words, const RunMode& mode);
  void hand_over_shown();
  void count_requests(ClientState& client, std::uint64_t times, SteadyTime steady_now);
  void count_errors(std::string_view text, std::uint64_t times);

  Services& services_;
  std::size_t worker_;
  WorkerStats& stats_;
  BatchRecord record_;
  bool may_grow_ = false;  // as Context::may_grow, since the last admit()
  Limbo limbo_;            // what requests inside the shared gate took out of the keyspace
  std::string shown_;      // the lines for monitors of this batch
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<ScriptRunner> scripts_;
  std::uint64_t suspended_client_ = 0;  // the runner writes it: workers ask for it in every turn
};

}  // namespace sepal::command
