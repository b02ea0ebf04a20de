// The ways of a request through this file:
//
//     run() --+-- waits_for_pause()     it waits for the end of a pause
//             +-- run_part()            one part of a long request, which run_whole() runs like a short one
//             +-- ScriptRunner::run()   a script with the gate closed, on a fiber that leads to run_whole()
//             +-- run_whole()           obstacle, queue, alone, admit, handler
//     run_together(), run_lone_requests()   several requests of one row: all are answered, or none is
//
// A request may come here several times. After need_alone, later, paused and delayed the session runs it
// again from its first check, because the keyspace may have changed meanwhile. So a request is counted when
// it ends, and not when it comes.
#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/base/memory_reserve.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <utility>

#include "command/clients/client_text.hpp"
#include "command/run/error_counts.hpp"
#include "command/run/scratch.hpp"
#include "command/run/script_runner.hpp"
#include "command/run/transaction_state.hpp"
#include "command/strings/string_access.hpp"
#include "command/table/absent_commands.hpp"
#include "command/table/command_index.hpp"

namespace sepal::command {
namespace {

std::string unknown_command(std::span<const std::string_view> words) {
  std::string arguments;
  // The text is the reference's, but it is bounded: it need not repeat the whole request.
  for (const std::string_view word : words.subspan(1)) {
    if (arguments.size() >= echoed_bytes_max) break;
    const std::size_t room = echoed_bytes_max - arguments.size();
    arguments.append("'").append(word.substr(0, room)).append("' ");
  }
  std::string text = "ERR unknown command '";
  text.append(echoed(words[0])).append("', with args beginning with: ").append(arguments);
  return text;
}

std::string unknown_subcommand(const CommandSpec& container, std::string_view word) {
  std::string text = "ERR unknown subcommand '";
  text.append(echoed(word)).append("'. Try ");
  text.append(upper_case(container.name)).append(" HELP.");
  return text;
}

// A web page can make a browser post to this port (cross-protocol scripting). The browser's bytes begin like
// this, and it gets no reply.
bool comes_from_a_browser(std::string_view name) {
  return equal_ignoring_case(name, "post") || equal_ignoring_case(name, "host:");
}

// The gate is reserved while a script is busy, so a command that needs it closed cannot run.
bool runs_beside_script(const CommandSpec& spec) {
  return spec.flags.has(Flag::allow_busy) && !spec.flags.has(Flag::alone);
}

// Whether scripts may run in it: the request then needs a stack that can be suspended.
bool may_run_script(const Request& request) {
  if (request.spec == nullptr) return false;
  if (request.spec->flags.has(Flag::runs_script)) return true;
  const Transaction* const transaction = request.client.transaction.get();
  return transaction != nullptr && transaction->has_script() && is_exec(*request.spec);
}

// Whether the client must log in first. If `default` needs no password now, it did when the client came.
bool must_log_in(const Services& services, const ClientState& client) {
  return !client.authenticated && !services.users->open();
}

// What keeps a request from its handler. Nearly every request meets no obstacle, so the text is made apart
// (obstacle_text()): this path runs for each request, and allocates nothing.
enum class Obstacle : std::uint8_t {
  none,
  subcommand,
  arity,
  log_in,
  transaction,
  permission,
  memory,         // maxmemory
  system_memory,  // the system refuses it
  loading,
  script
};

// The part of obstacle_to() that depends on the client's user. Not called for a client that may do
// everything, and not inlined, so that such a client does not pay for it.
[[gnu::noinline]] Obstacle access_obstacle(const Services& services, const Request& request) {
  const CommandSpec& spec = *request.spec;
  if (spec.flags.has(Flag::not_enabled)) return Obstacle::none;
  if (must_log_in(services, request.client) && !spec.flags.has(Flag::no_auth)) return Obstacle::log_in;
  if (request.client.transaction != nullptr && spec.flags.has(Flag::no_multi)) return Obstacle::transaction;
  return request.client.user->denied(spec, request.words) ? Obstacle::permission : Obstacle::none;
}

// The order is the reference's: a request with several faults gets the same error from both.
Obstacle obstacle_to(const Services& services, const Request& request, const RunMode& mode) {
  const CommandSpec& spec = *request.spec;
  if (!spec.subcommands.empty() && request.words.size() > 1) return Obstacle::subcommand;
  if (!arity_fits(spec, request.words.size())) return Obstacle::arity;
  if (!request.client.authenticated || !request.client.user->unrestricted())
    if (const Obstacle obstacle = access_obstacle(services, request); obstacle != Obstacle::none)
      return obstacle;
  if (spec.flags.has(Flag::deny_oom)) {
    if (services.keyspace.over_memory_limit() && !mode.may_exceed_memory && !only_asks(spec, request.words))
      return Obstacle::memory;
    if (!memory_reserve::permits()) return Obstacle::system_memory;
  }
  if (services.load.running && !spec.flags.has(Flag::loading)) return Obstacle::loading;
  if (services.busy && !runs_beside_script(spec)) return Obstacle::script;
  return Obstacle::none;
}

// What the client is told. Dispatcher::deny has the texts for a permission.
std::string obstacle_text(Obstacle obstacle, const Request& request) {
  switch (obstacle) {
    case Obstacle::subcommand:
      return unknown_subcommand(*request.spec, request.words[1]);
    case Obstacle::arity:
      return wrong_arity(request.spec->name);
    case Obstacle::log_in:
      return std::string(text::no_authentication);
    case Obstacle::transaction:
      return std::string(text::not_in_transaction);
    case Obstacle::memory:
      return std::string(text::over_memory);
    case Obstacle::system_memory:
      return std::string(text::no_memory);
    case Obstacle::loading:
      return std::string(text::loading);
    case Obstacle::script:
      return std::string(text::busy_script);
    case Obstacle::none:
    case Obstacle::permission:
      break;
  }
  SEPAL_ASSERT(false, "a request is refused without a text");
  return {};
}

std::size_t bytes_of_key(std::string_view word) {
  return std::min(word.size(), keyspace::key_bytes_max);
}

// For MSET and MSETNX, which put a string under each key.
std::uint64_t record_bytes_of_pairs(std::span<const std::string_view> words) {
  std::uint64_t bytes = 0;
  for (std::size_t at = 1; at + 1 < words.size(); at += 2)
    bytes += keyspace::record_bytes_of_string(bytes_of_key(words[at]), words[at + 1].size());
  return bytes;
}

// For another command that changes a string: is_right() in command_table.cpp sees to it that words[1], its
// key, is there. Any further word may be put under the key, or be one of the words of an operation that
// writes a few bytes. No more than `value_bytes_max` bytes of it are recorded.
std::uint64_t record_bytes_of_words(std::span<const std::string_view> words, std::uint64_t value_bytes_max) {
  std::uint64_t bytes = 0;
  for (const std::string_view word : words.subspan(2))
    bytes += std::min<std::uint64_t>(word.size(), value_bytes_max);
  const std::size_t key_bytes = bytes_of_key(words[1]);
  return words.size() * (keyspace::record_bytes_max + key_bytes) +
         keyspace::record_bytes_of_string(key_bytes, bytes);
}

// What a request that changes strings records under the shared gate: nothing. With the gate closed, a part of
// it writes string_at_once_max bytes at most, or a job puts a longer string, and asks for its own room. In a
// transaction or a script, all parts run at once.
std::uint64_t record_bytes_of_strings(const CommandSpec& spec, std::span<const std::string_view> words,
                                      const RunMode& mode) {
  if (!mode.alone) return 0;
  if (spec.keys.step == 2) return record_bytes_of_pairs(words);
  return record_bytes_of_words(
      words, mode.in_transaction ? std::numeric_limits<std::uint64_t>::max() : string_at_once_max);
}

// The most bytes that a request records. If only its first argument is a key, the request may create a filter
// or add to it, and the other arguments may be items. Else it changes keys only. With the gate closed the
// filter may also grow, to `layers_max` layers; 0: it may not grow.
std::uint64_t record_bytes_of(const CommandSpec& spec, std::span<const std::string_view> words,
                              std::size_t item_count, std::uint32_t layers_max, const RunMode& mode) {
  if (spec.flags.has(Flag::string)) return record_bytes_of_strings(spec, words, mode);
  if (spec.keys.first != 1 || spec.keys.last != 1) return keyspace::record_bytes_of_keys(words.subspan(1));
  const std::size_t key_bytes = bytes_of_key(words[1]);
  return layers_max == 0 ? keyspace::record_bytes_of_adds(key_bytes, item_count)
                         : keyspace::record_bytes_of_adds_alone(key_bytes, item_count, layers_max);
}

// No look ahead for a key and an item that are longer than this together.
constexpr std::size_t looked_ahead_bytes_max = 1024;
static_assert(part_items_max > 0 && part_bytes_max > 0 && part_items_max <= whole_items_max);

inline bool is_cut(const Request& request) {
  // Every request is asked, and nearly all are short: the test that ends here comes first.
  if (request.words.size() <= whole_items_max && request.byte_count <= whole_bytes_max) return false;
  if (request.spec == nullptr || request.spec->items_at == nullptr) return false;
  const std::size_t items_at = request.spec->items_at(request.words);
  // A wrong request runs whole: its handler has the error.
  if (items_at == 0 || items_at >= request.words.size()) return false;
  // Only items can be cut off. Words in front of them do not count.
  return request.words.size() - items_at > whole_items_max || request.byte_count > whole_bytes_max;
}

// Whether a part of the request has run. If the dispatcher cuts the request, `partial` is there before the
// first part, and that part may still be put off: `next_word` tells. Otherwise a handler makes `partial` when
// it has run a part.
bool has_begun(const Request& request) {
  return request.partial != nullptr && (request.partial->next_word != 0 || !is_cut(request));
}

// EXEC may change something if one of its commands may.
bool may_change(const Request& request) {
  if (may_change(*request.spec)) return !only_asks(*request.spec, request.words);
  const Transaction* const transaction = request.client.transaction.get();
  return is_exec(*request.spec) && transaction != nullptr &&
         std::ranges::any_of(transaction->groups(),
                             [](const Transaction::Group& group) { return may_change(*group.spec); });
}

// The word behind the part that begins at `begin`. A part has at least one item. Each part runs the `first`
// words of the request anew: where they are many or long, a part gets more items, so that this takes less
// time than the items.
std::size_t end_of_part(std::span<const std::string_view> words, std::size_t first, std::size_t begin) {
  SEPAL_ASSERT(first > 0 && begin >= first && begin < words.size(),
               "a part of a request begins where it has no item");
  std::size_t first_bytes = 0;
  for (const std::string_view word : words.first(first)) first_bytes += word.size();
  const std::size_t items_max = std::max(part_items_max, 4 * first + first_bytes / 4);
  const std::size_t bytes_max = std::max(part_bytes_max, 4 * first_bytes);
  const std::size_t end_max = begin + std::min(items_max, words.size() - begin);
  std::size_t bytes = 0;
  for (std::size_t at = begin; at < end_max; ++at) {
    bytes += words[at].size();
    // An item is never cut, so the last one may exceed the bound.
    if (bytes >= bytes_max) return at + 1;
  }
  return end_max;
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

// The answer of a request that ran together with others.
void append_answer(resp::Reply& reply, const CommandSpec& spec, bool answer) {
  if (!spec.flags.has(Flag::integers)) return reply.boolean(answer);
  reply.integer(answer ? 1 : 0);
}
void append_answers(resp::Reply& reply, const CommandSpec& spec, std::span<const bool> answers) {
  if (!spec.flags.has(Flag::integers)) return reply.booleans(answers);
  for (const bool answer : answers) append_answer(reply, spec, answer);
}

}  // namespace

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

// items_added and bits_set stay: the count of changes since the last save is made from them.
void WorkerStats::reset() {
  for (CommandStats& row : commands) row.reset();
  for (metrics::Counter* counter : {&requests, &bytes_in, &bytes_out, &error_replies, &key_hits, &key_misses,
                                    &items_asked, &items_found, &batches, &too_long_requests, &http_requests})
    counter->reset();
  errors->reset();
}

Dispatcher::Dispatcher(Services& services, std::size_t worker)
    : services_(services),
      worker_(worker),
      stats_(services.workers[worker]),
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
    case Next::more:
      break;
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

// Runs one part of a request that is cut. The outcomes need_alone and later are those of the part:
// `next_word` stays where it is, so the same part runs again.
//
// The words of the part are the first words of the request (the key, and options) and some of its items. So
// the handler gets an ordinary request, and knows nothing of parts (decisions/0022).
Dispatcher::Outcome Dispatcher::run_part(const Request& request, const RunMode& mode) {
  const std::span<const std::string_view> words = request.words;
  if (request.partial == nullptr) request.partial = std::make_unique<PartialRun>();
  PartialRun& partial = *request.partial;
  const std::size_t items_at = request.spec->items_at(words);
  const bool is_first = partial.next_word == 0;
  const std::size_t begin = is_first ? items_at : partial.next_word;
  const std::size_t end = end_of_part(words, items_at, begin);
  SEPAL_ASSERT(end > begin && end <= words.size(),
               "a part of a request has no item, and the request would never end");
  scratch_->part_words.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(items_at));
  scratch_->part_words.insert(scratch_->part_words.end(), words.begin() + static_cast<std::ptrdiff_t>(begin),
                              words.begin() + static_cast<std::ptrdiff_t>(end));
  // The part needs a reply of its own: join() reads it as one whole value, and the client's reply already
  // holds the answers to other requests.
  resp::Reply& reply = scratch_->part_reply;
  reply.truncate(0);
  reply.set_version(request.reply.version());
  Outcome outcome = run_whole({.client = request.client,
                               .reply = reply,
                               .spec = request.spec,
                               .words = scratch_->part_words,
                               .partial = request.partial},
                              mode, !is_first);
  if (outcome.next != Next::done) return outcome;
  partial.join(reply.bytes());
  partial.next_word = end;
  // After an error that ends the request, what is left of the items must not run.
  if (end < words.size() && !partial.ends()) {
    outcome.next = Next::more;
  } else {
    partial.answer(request.reply);
  }
  return outcome;
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
    return reject(request, obstacle_text(obstacle, request), has_begun);
  }
  if (request.client.transaction != nullptr && !spec.flags.has(Flag::unqueued))
    return queue(request, request.words.last(1), mode);
  if (spec.flags.has(Flag::alone)) {
    if (request.words.size() > at_once_max && !mode.in_transaction)
      return reject(request, text::too_many_words_alone, has_begun);
    if (!mode.alone) return {.next = Next::need_alone, .spec = &spec};
  }
  const bool changes = spec.flags.has(Flag::write) && !only_asks(spec, request.words);
  keyspace::WorkerLog* const log = changes ? recording_log() : nullptr;
  switch (admit(log, request, request.words.size(), mode)) {
    case keyspace::Admission::granted:
      break;
    case keyspace::Admission::refused:
      return reject(request, journal_refuses(services_.journal.status().refusal), has_begun);
    case keyspace::Admission::never:
      return reject(request, text::record_too_large, has_begun);
    case keyspace::Admission::later:
      return {.next = Next::later, .spec = &spec};
  }
  Context context = context_of(request, log, mode);
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

bool Dispatcher::runs_together(const CommandSpec* spec, std::size_t word_count) {
  return spec != nullptr && spec->run_together != nullptr && arity_fits(*spec, word_count);
}

Dispatcher::Outcome Dispatcher::run_together(const Request& first,
                                             std::span<const std::string_view> last_words,
                                             const RunMode& mode) {
  SEPAL_ASSERT(first.spec != nullptr && first.partial == nullptr && !last_words.empty(),
               "requests run together that have no row, or one of them is long");
  // One by one, run() answers or holds each of them as it should. EXEC itself has waited for the pause, so
  // its commands do not. All of them have one client, row and key, so an obstacle to the first is an obstacle
  // to all.
  const bool is_paused = services_.pause.runs(mode.steady_now) && !mode.in_transaction;
  if (is_paused || obstacle_to(services_, first, mode) != Obstacle::none)
    return {.next = Next::need_alone, .spec = first.spec};
  if (first.client.transaction != nullptr) return queue(first, last_words, mode);
  const std::span<bool> answers = scratch_->flags(last_words.size());
  const Next next = answer_together(first, last_words, answers, mode);
  if (next == Next::done) {
    append_answers(first.reply, *first.spec, answers);
    first.client.last_command = first.spec;
    count_requests(first.client, last_words.size(), mode.steady_now);
    if (services_.monitors.any()) show_together(first, last_words, mode);
  }
  return {.next = next, .spec = first.spec};
}

Next Dispatcher::answer_together(const Request& first, std::span<const std::string_view> last_words,
                                 std::span<bool> answers, const RunMode& mode) {
  keyspace::WorkerLog* const log = log_of(*first.spec);
  // Refused, or no room yet: one by one, run_whole() answers each or puts it off.
  if (admit(log, first, last_words.size(), mode) != keyspace::Admission::granted) return Next::need_alone;
  Context context = context_of(first, log, mode);
  return first.spec->run_together(context, last_words, answers);
}

bool Dispatcher::run_lone_requests(std::span<const Request> requests, const RunMode& mode) {
  SEPAL_ASSERT(!requests.empty() && requests.size() <= lone_requests_max, "so many are run together");
  SEPAL_ASSERT(!mode.alone, "requests of several clients share the gate");
  if (services_.pause.runs(mode.steady_now)) return false;
  std::array<std::string_view, lone_requests_max> last_words;
  // Each client has a user and a transaction of its own, so all are asked before any of them runs.
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (obstacle_to(services_, requests[i], mode) != Obstacle::none ||
        requests[i].client.transaction != nullptr)
      return false;
    last_words[i] = requests[i].words[together_index(*requests[i].spec, requests[i].words.size())];
  }
  std::array<bool, lone_requests_max> answers;
  const auto answered = std::span(answers).first(requests.size());
  if (answer_together(requests.front(), std::span(last_words).first(requests.size()), answered, mode) !=
      Next::done)
    return false;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    append_answer(requests[i].reply, *requests[i].spec, answered[i]);
    requests[i].client.last_command = requests[i].spec;
    count_requests(requests[i].client, 1, mode.steady_now);
    if (services_.monitors.any()) show(requests[i], mode);
  }
  return true;
}

// Not const, because it changes the log.
// NOLINTNEXTLINE(readability-make-member-function-const)
void Dispatcher::commit() {
  if (record_.log != nullptr) record_.log->commit();
}

void Dispatcher::prefetch(const ClientState& client, std::span<const std::string_view> keys) const {
  services_.keyspace.prefetch(client.database, keys);
}

// Only for commands that may run together: they spend most of their time waiting for the item's block. A long
// key or item is left out: most of its time is spent on hashing, which the look ahead would do once more. The
// result is a hint (decisions/0018). So the key is looked up without the time: a key that is past its
// deadline costs a useless prefetch.
void Dispatcher::collect_lines(const ClientState& client, const CommandSpec* spec,
                               std::span<const std::string_view> words, LinesAhead& lines) const {
  if (!runs_together(spec, words.size())) return;
  if (words[1].size() + words.back().size() > looked_ahead_bytes_max) return;
  const bloom::Filter* const filter = services_.keyspace.find({.database = client.database, .key = words[1]});
  if (filter != nullptr) filter->collect_lines(words.back(), lines);
}

// A request of which a part has run is a call that failed: only then the session gets the row, and adds the
// time to it. A refused command ends in the failure of the transaction that it was to be part of; a refused
// EXEC ends the transaction.
Dispatcher::Outcome Dispatcher::reject(const Request& request, std::string_view text, bool has_begun) {
  if (is_exec(*request.spec)) {
    end_transaction(request.client);
    request.reply.error(transaction_discarded(text));
  } else {
    if (request.client.transaction != nullptr) request.client.transaction->fail();
    request.reply.error(text);
  }
  CommandStats& row = stats_.commands[command_row(*request.spec)];
  (has_begun ? row.failed : row.rejected).add();
  count_errors(text, 1);
  return {.next = Next::done, .spec = has_begun ? request.spec : nullptr};
}

// Refuses what the client's user may not do. EXEC asks for each command once more: the user may have changed
// since the command was queued.
Dispatcher::Outcome Dispatcher::deny(const Request& request, const RunMode& mode, bool has_begun) {
  const std::optional<Denial> found = request.client.user->denied(*request.spec, request.words);
  SEPAL_ASSERT(found.has_value(), "a request is denied that the client's user may run");
  const Denial& denial = *found;
  const bool is_queued = mode.in_transaction || request.client.transaction != nullptr;
  note_denial(denial, request.client, *request.spec, request.words,
              is_queued ? AclPlace::transaction : AclPlace::toplevel, mode);
  const std::string text = mode.in_transaction
                               ? no_permission_at_exec(denial)
                               : no_permission(denial_text(denial, *request.client.user, *request.spec));
  return reject(request, text, has_begun);
}

// Not const, because it changes the log of denials.
// NOLINTNEXTLINE(readability-make-member-function-const)
void Dispatcher::note_denial(const Denial& denial, const ClientState& client, const CommandSpec& spec,
                             std::span<const std::string_view> words, AclPlace place, const RunMode& mode) {
  const bool is_key = denial.reason == Denial::Reason::key;
  services_.acl_log->note({.reason = is_key ? AclReason::key : AclReason::command,
                           .place = place,
                           .object = std::string(is_key ? echoed(words[denial.word]) : spec.name),
                           .user_name = client.user->name(),
                           .client = client_line(client, mode.steady_now)},
                          mode.now, services_.options.acl_log_max);
}

// Null if the command changes nothing, or if the journal is off.
keyspace::WorkerLog* Dispatcher::log_of(const CommandSpec& spec) const {
  return spec.flags.has(Flag::write) ? recording_log() : nullptr;
}

keyspace::WorkerLog* Dispatcher::recording_log() const {
  keyspace::WorkerLog* const log = services_.logs[worker_];
  return log != nullptr && log->recording() ? log : nullptr;
}

// Asks for journal room for all that a request, or `item_count` items together, may record.
keyspace::Admission Dispatcher::admit(keyspace::WorkerLog* log, const Request& request,
                                      std::size_t item_count, const RunMode& mode) {
  if (log == nullptr) return keyspace::Admission::granted;
  // EXEC was admitted for all of its commands, and a script asks before each (ScriptRunner::make_room).
  if (mode.in_transaction) {
    record_.log = log;
    return keyspace::Admission::granted;
  }
  const CommandSpec& spec = *request.spec;
  // Layers that a filter grows, and targets of mirrors, take further records. Most requests do not pay for
  // that sum.
  const bool more = mode.alone || !services_.keyspace.mirrors().empty();
  const std::uint64_t bytes_max = more ? most_record_bytes(request, item_count, mode)
                                       : record_bytes_of(spec, request.words, item_count, 0, mode);
  const auto admission = log->admit(bytes_max, change_of(request, mode.now));
  // After the batch the session seals the record of this log.
  if (admission == keyspace::Admission::granted) record_.log = log;
  return admission;
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
  std::uint64_t bytes = record_bytes_of(*request.spec, request.words, item_count, layers_max, mode);
  // COPY may remove expired keys in two databases before it adopts a filter in one of them.
  if (mode.alone && request.spec->flags.has(Flag::adopts))
    bytes += keyspace::record_bytes_of_adoption(keyspace::key_bytes_max);
  if (keyspace.mirrors().empty()) return bytes;
  return bytes + keyspace::record_bytes_of_mirror(keyspace.mirrors(), item_count, layers_max);
}

Context Dispatcher::context_of(const Request& request, keyspace::WorkerLog* log, const RunMode& mode) {
  return {.services = services_,
          .client = request.client,
          .reply = request.reply,
          .stats = stats_,
          .scratch = *scratch_,
          .words = request.words,
          .spec = *request.spec,
          .now = mode.now,
          .steady_now = mode.steady_now,
          .changes = keyspace::Mutator(services_.keyspace, log),
          .record = record_,
          .partial = request.partial,
          .alone = mode.alone,
          .dispatcher = *this,
          .mode = mode};
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

Dispatcher::Outcome Dispatcher::run_unknown(const Request& request) {
  if (comes_from_a_browser(request.words[0])) {
    stats_.http_requests.add();
    services_.control.log_http_request(request.client);
    return {.next = Next::close, .spec = nullptr};
  }
  if (request.client.transaction != nullptr) request.client.transaction->fail();
  const AbsentGroup* const absent = find_absent(request.words[0]);
  if (absent == nullptr) {
    request.reply.error(unknown_command(request.words));
  } else if (must_log_in(services_, request.client)) {
    // The reference has these commands, so it asks for the password first.
    request.reply.error(text::no_authentication);
  } else {
    request.reply.error(absent_command(*absent));
  }
  count_errors(request.reply.last_error(), 1);
  return {.next = Next::done, .spec = nullptr};
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
