// The ways of a request through the dispatcher:
//
//     run() --+-- waits_for_pause()     it waits for the end of a pause
//             +-- run_part()            one part of a long request, which run_whole() runs like a short one
//             |                         (parts.cpp)
//             +-- ScriptRunner::run()   a script with the gate closed, on a fiber that leads to run_whole()
//             +-- run_whole()           obstacle, queue, alone, admit, handler
//     run_together(), run_lone_requests()   several requests of one row: all are answered, or none is
//
// A request may come here several times. After need_alone, later, paused and delayed the session runs it
// again from its first check, because the keyspace may have changed meanwhile. So a request is counted when
// it ends, and not when it comes.
#include <sepal/base/assert.hpp>
#include <sepal/base/memory_reserve.hpp>
#include <sepal/command/observe/slow_log.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <algorithm>
#include <new>

#include "command/run/error_counts.hpp"
#include "command/run/obstacle.hpp"
#include "command/run/parts.hpp"
#include "command/run/scratch.hpp"
#include "command/run/script_runner.hpp"
#include "command/run/transaction_state.hpp"

namespace sepal::command {
namespace {

// Whether scripts may run in it: the request then needs a stack that can be suspended.
bool may_run_script(const Request& request) {
  if (request.spec == nullptr) return false;
  if (request.spec->flags.has(Flag::runs_script)) return true;
  const Transaction* const transaction = request.client.transaction.get();
  return transaction != nullptr && transaction->has_script() && is_exec(*request.spec);
}

// The most bytes that a request records. With the gate closed a filter may also grow, to `layers_max` layers.
inline std::uint64_t record_bytes_of(const Request& request, std::size_t item_count, std::uint32_t layers_max,
                                     const RunMode& mode) {
  const CommandSpec& spec = *request.spec;
  if (spec.record_bytes == nullptr) return keyspace::record_bytes_of_keys(request.words.subspan(1));
  return spec.record_bytes({.words = request.words,
                            .item_count = item_count,
                            .alone = mode.alone,
                            .layers_max = layers_max,
                            .in_transaction = mode.in_transaction});
}

// EXEC may change something if one of its commands may.
bool may_change(const Request& request) {
  if (may_change(*request.spec)) return !only_asks(*request.spec, request.words);
  const Transaction* const transaction = request.client.transaction.get();
  return is_exec(*request.spec) && transaction != nullptr &&
         std::ranges::any_of(transaction->groups(),
                             [](const Transaction::Group& group) { return may_change(*group.spec); });
}

// Removes the request's keys that are past their deadline. The handler does not find such a key, but the key
// table still has it: without the removal, a new filter would find its key taken. A row may count an option
// as a key (BF.MIRROR): that is harmless, because only what is past its deadline goes.
void expire_keys(Context& context) {
  const KeyRange& keys = context.spec.keys;
  if (keys.first == 0) return;
  const auto last = keys.last < 0 ? context.words.size() - 1 : static_cast<std::size_t>(keys.last);
  for (auto at = static_cast<std::size_t>(keys.first); at <= last; at += static_cast<std::size_t>(keys.step))
    context.changes.expire({.database = context.client.database, .key = context.words[at]}, context.now);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : " ").append(word);
  return text;
}

}  // namespace

Dispatcher::Dispatcher(Services& services, std::size_t worker, const Gate* gate)
    : services_(services),
      worker_(worker),
      stats_(services.workers[worker]),
      limbo_(gate),
      scratch_(std::make_unique<Scratch>()),
      scripts_(std::make_unique<ScriptRunner>(services, *this, worker)) {
  SEPAL_ASSERT(worker < services.workers.size() && services.logs.size() == services.workers.size(),
               "a worker without statistics, or without a place for its log");
}
Dispatcher::~Dispatcher() = default;

Dispatcher::Outcome Dispatcher::run(const Request& request, const RunMode& mode) {
  if (services_.pause.runs(mode.steady_now) && waits_for_pause(request, mode))
    return {.next = Next::paused, .spec = request.spec};
  // A transaction queues a long request whole.
  const bool is_queued = request.client.transaction != nullptr;
  // Without the closed gate no script runs, so no fiber is needed: run_whole() refuses the request, or
  // answers need_alone.
  const Outcome outcome = !is_queued && is_cut(request)           ? run_part(request, mode)
                          : mode.alone && may_run_script(request) ? scripts_->run(request, mode)
                                                                  : run_whole(request, mode);
  // Only a request that has ended is counted and shown to monitors. Any other request runs again, and would
  // count twice. For the session, a request with `partial` goes on, so the state goes with the last part.
  switch (outcome.next) {
    case Next::done:
    case Next::wait:
    case Next::close:
      count_requests(request.client, 1, mode.steady_now);
      if (services_.monitors.any() && outcome.spec != nullptr) show(request, mode);
      request.partial.reset();
      break;
    case Next::need_alone:
    case Next::later:
    case Next::paused:
    case Next::delayed:
    case Next::more: break;
  }
  return outcome;
}

// While a pause runs. What would be refused is refused at once. A long request of which a part has run goes
// on.
bool Dispatcher::waits_for_pause(const Request& request, const RunMode& mode) const {
  if (request.spec == nullptr || has_begun(request) || request.client.monitoring != nullptr) return false;
  return (services_.pause.of_all() || may_change(request)) &&
         obstacle_to(services_, request, mode) == Obstacle::none;
}

// `has_begun`: a part of the request has run before this one.
//
// The order matters. What the client may not do is refused before it is queued, so EXEC fails early. The gate
// comes before the journal: with the gate closed the request may record more, so it is admitted then, for all
// of that. The journal comes before the handler: a change that is made cannot be refused any more, so its
// record must find room.
Dispatcher::Outcome Dispatcher::run_whole(const Request& request, const RunMode& mode, bool has_begun) {
  if (request.spec == nullptr) return run_unknown(request);
  const CommandSpec& spec = *request.spec;
  if (const Obstacle obstacle = obstacle_to(services_, request, mode); obstacle != Obstacle::none) {
    if (obstacle == Obstacle::permission) return deny(request, mode, has_begun);
    if (obstacle == Obstacle::memory || obstacle == Obstacle::system_memory)
      return reject_add(request, obstacle_text(obstacle, request), has_begun, RefusedAdd::memory);
    return reject(request, obstacle_text(obstacle, request), has_begun);
  }
  if (request.client.transaction != nullptr && !spec.flags.has(Flag::unqueued))
    return queue(request, request.words.last(1), mode);
  if (spec.flags.has(Flag::alone)) {
    if (request.words.size() > at_once_max && !mode.in_transaction)
      return reject(request, text::too_many_words_alone, has_begun);
    if (!mode.alone && !may_share(request)) return {.next = Next::need_alone, .spec = &spec};
  }
  const bool changes = spec.flags.has(Flag::write) && !only_asks(spec, request.words);
  keyspace::WorkerLog* const log = changes ? recording_log() : nullptr;
  switch (admit(log, request, request.words.size(), mode)) {
    case keyspace::Admission::granted: break;
    case keyspace::Admission::refused:
      return reject_add(request, journal_refuses(services_.journal.status().refusal), has_begun,
                        RefusedAdd::journal);
    case keyspace::Admission::never:
      return reject_add(request, text::record_too_large, has_begun, RefusedAdd::journal);
    case keyspace::Admission::later: return {.next = Next::later, .spec = &spec};
  }
  Context context = context_of(request, log, mode);
  context.may_grow = may_grow_;
  // All parts of a request with one key look up that key, which counts once. Where the items are keys, each
  // part has keys of its own.
  context.counts_keys = !has_begun || spec.keys.last != 1;
  if (mode.alone && changes) expire_keys(context);
  const Next next = run_handler(context);
  // The worker with the suspended script has reserved the gate. This request would wait for it as long as the
  // script runs.
  if (next == Next::need_alone && services_.busy) return reject(request, text::busy_script, has_begun);
  return {.next = next, .spec = &spec};
}

// Whether a request that changes keys may run inside the shared gate: it changes one key, and no key has a
// mirror.
bool Dispatcher::may_share(const Request& request) const {
  constexpr std::size_t words_with_one_key = 2;
  return request.spec->flags.has(Flag::shares_one_key) && services_.keyspace.mirrors().empty() &&
         request.words.size() == words_with_one_key;
}

// Not const, because it changes the log.
// NOLINTNEXTLINE(readability-make-member-function-const)
void Dispatcher::commit() {
  if (record_.log != nullptr) record_.log->commit();
}

// Asks for journal room for all that a request, or `item_count` items together, may record.
keyspace::Admission Dispatcher::admit(keyspace::WorkerLog* log, const Request& request,
                                      std::size_t item_count, const RunMode& mode) {
  may_grow_ = log == nullptr;
  if (log == nullptr) return keyspace::Admission::granted;
  // EXEC was admitted for all of its commands, and a script asks before each (ScriptRunner::make_room).
  if (mode.in_transaction) {
    record_.log = log;
    return keyspace::Admission::granted;
  }
  // Layers that a filter grows, and targets of mirrors, take further records. Most requests do not pay for
  // that sum.
  const bool more = mode.alone || !services_.keyspace.mirrors().empty();
  const std::uint64_t bytes_max =
      more ? most_record_bytes(request, item_count, mode) : shared_record_bytes(request, item_count, mode);
  const auto admission = log->admit(bytes_max, change_of(request, mode.now));
  // After the batch the session seals the record of this log.
  if (admission == keyspace::Admission::granted) record_.log = log;
  return admission;
}

// Inside the shared gate, without mirrors. A request may create a filter there, or let one grow, if what it
// then records is little.
std::uint64_t Dispatcher::shared_record_bytes(const Request& request, std::size_t item_count,
                                              const RunMode& mode) {
  constexpr std::uint64_t little = std::uint64_t{64} << 10;
  const std::uint64_t bytes =
      record_bytes_of(request, item_count, services_.keyspace.options().layers_max, mode);
  may_grow_ = bytes <= little;
  return may_grow_ ? bytes : record_bytes_of(request, item_count, 0, mode);
}

keyspace::Change Dispatcher::change_of(const Request& request, WallTime now) {
  const CommandSpec& spec = *request.spec;
  return spec.frees != nullptr && spec.frees(request.words, now) ? keyspace::Change::frees
                                                                 : keyspace::Change::any;
}

// The most bytes that a request records with the gate closed, or while any filter has a mirror.
std::uint64_t Dispatcher::most_record_bytes(const Request& request, std::size_t item_count,
                                            const RunMode& mode) const {
  const keyspace::Keyspace& keyspace = services_.keyspace;
  const std::uint32_t layers_max = mode.alone ? keyspace.options().layers_max : 0;
  const std::uint64_t bytes = record_bytes_of(request, item_count, layers_max, mode);
  if (keyspace.mirrors().empty()) return bytes;
  return bytes + writers::record_bytes_of_mirror(keyspace.mirrors(), item_count, layers_max);
}

// Inlined: each request passes here.
[[gnu::always_inline]] inline Next Dispatcher::run_row(Context& context) {
  ClientState& client = context.client;
  // Set before the handler runs, because CLIENT LIST shows its own request as the client's last command.
  const CommandSpec* const previous = std::exchange(client.last_command, &context.spec);
  const std::uint64_t errors_before = context.reply.error_count();
  // Before the handler, because ACL DELUSER may remove the client's own user.
  const std::string user = context.spec.flags.has(Flag::administers) ? client.user->name() : std::string();
  const Next next = context.spec.run(context);
  // The request runs again, and until then CLIENT LIST shows the command before it.
  if (next == Next::need_alone || next == Next::delayed) {
    client.last_command = previous;
    return next;
  }
  // EXEC and scripts have counted the errors of their commands already.
  if (const std::uint64_t errors = context.reply.error_count() - errors_before - context.errors_told;
      errors != 0) {
    stats_.commands[command_row(context.spec)].failed.add();
    count_errors(context.reply.last_error(), errors);
  } else if (context.spec.flags.has(Flag::administers)) {
    note_administration(context, user, next);
  }
  return next;
}

Next Dispatcher::run_handler(Context& context) {
  const std::size_t reply_bytes = context.reply.size();
  try {
    return run_row(context);
  } catch (const std::bad_alloc&) {
    return lacks_memory(context, reply_bytes);
  }
}

// A change throws nothing (keyspace/mutator.hpp). So what was thrown comes from before the first change, from
// between two of them, or from the reply behind them.
Next Dispatcher::lacks_memory(Context& context, std::size_t reply_bytes) {
  static_cast<void>(memory_reserve::renew());
  const bool changed =
      context.spec.flags.has(Flag::write) &&
      (context.changes.changed() ||
       (context.partial != nullptr && (context.partial->next_word != 0 || context.partial->cursor != 0)));
  context.reply.drop(reply_bytes);
  const std::string_view text = changed ? text::no_memory_for_reply : text::no_memory;
  if (is_exec(context.spec)) {
    // The commands of EXEC have answers of their own, so nothing has run yet.
    end_transaction(context.client);
    context.reply.error(transaction_discarded(text));
  } else {
    context.reply.error(text);
  }
  stats_.commands[command_row(context.spec)].failed.add();
  count_errors(text, 1);
  return Next::done;
}

// A command that is answered later may still fail, so the note stays with the client until then. slow_words()
// hides secrets, and bounds the length.
void Dispatcher::note_administration(const Context& context, const std::string& user, Next next) {
  auto noted = std::make_unique<const Administration>(
      Administration{.user = user, .words = joined(slow_words(context.words, 1))});
  context.client.administration = std::move(noted);
  if (next != Next::wait) end_administration(context.client, true);
}

// Not const, because it changes the log.
// NOLINTNEXTLINE(readability-make-member-function-const)
void Dispatcher::end_administration(ClientState& client, bool is_logged) {
  const auto ended = std::move(client.administration);
  if (ended != nullptr && is_logged) services_.control.log_administration(client, *ended);
}

void Dispatcher::count_requests(ClientState& client, std::uint64_t times, SteadyTime steady_now) {
  stats_.requests.add(times);
  client.request_count += times;
  client.last_request_at = steady_now;
}

void Dispatcher::count_errors(std::string_view text, std::uint64_t times) {
  SEPAL_ASSERT(!text.empty() && times > 0, "an error without a text is counted");
  stats_.error_replies.add(times);
  stats_.errors->add(text, times);
}

void Dispatcher::count_error(std::string_view text, const CommandSpec* failed) {
  if (failed != nullptr) stats_.commands[command_row(*failed)].failed.add();
  count_errors(text, 1);
}

bool Dispatcher::resume_script() {
  return scripts_->resume();
}

Dispatcher::Outcome Dispatcher::finish_script(resp::Reply& reply) {
  return scripts_->finish(reply);
}

void Dispatcher::end_script(bool even_after_changes) {
  scripts_->end(even_after_changes);
}

void Dispatcher::count_calls(const CommandSpec& spec, std::uint64_t times,
                             std::chrono::nanoseconds duration) {
  if (times == 0) return;
  const auto nanoseconds = static_cast<std::uint64_t>(std::max(duration.count(), std::int64_t{0}));
  CommandStats& row = stats_.commands[command_row(spec)];
  row.calls.add(times);
  row.nanoseconds.add(nanoseconds);
  // Requests that were measured together count with their mean.
  if (services_.options.latency_tracking)
    row.latency.add(nanoseconds / times, times);
  else
    row.untimed_nanoseconds.add(nanoseconds);
}

}  // namespace sepal::command
