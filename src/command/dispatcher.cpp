#include <sepal/base/assert.hpp>
#include <sepal/command/dispatcher.hpp>
#include <sepal/command/error_texts.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "arguments.hpp"
#include "command_index.hpp"
#include "error_counts.hpp"
#include "scratch.hpp"

namespace sepal::command {
namespace {

std::string unknown_command(std::span<const std::string_view> words) {
  std::string arguments;
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

// A browser that was led to post to this port begins like this (cross-protocol scripting): it gets no reply.
bool comes_from_a_browser(std::string_view name) {
  return equal_ignoring_case(name, "post") || equal_ignoring_case(name, "host:");
}

// Why a request does not come to its handler; empty when it does.
std::string refusal(const Services& services, const ClientState& client, const CommandSpec& spec,
                    std::span<const std::string_view> words) {
  if (!spec.subcommands.empty() && words.size() > 1) return unknown_subcommand(spec, words[1]);
  if (!arity_fits(spec, words.size())) return wrong_arity(spec.name);
  if (!client.authenticated && !services.options.password.empty() && !spec.flags.has(Flag::no_auth))
    return std::string(text::no_authentication);
  if (spec.flags.has(Flag::deny_oom) && services.keyspace.over_memory_limit())
    return std::string(text::over_memory);
  if (services.load.running && !spec.flags.has(Flag::loading)) return std::string(text::loading);
  return {};
}

// The most that a request records. Where its first argument alone is a key, it creates a filter or adds to
// it, and the others may be items; else it is a change of keys. With a closed gate a filter may grow, to so
// many layers.
std::uint64_t record_bytes_of(const CommandSpec& spec, std::span<const std::string_view> words,
                              std::size_t item_count, std::uint32_t layers_max) {
  if (spec.keys.first != 1 || spec.keys.last != 1) return keyspace::record_bytes_of_keys(words.subspan(1));
  const std::size_t key_bytes = std::min(words[1].size(), keyspace::key_bytes_max);
  return layers_max == 0 ? keyspace::record_bytes_of_adds(key_bytes, item_count)
                         : keyspace::record_bytes_of_adds_alone(key_bytes, item_count, layers_max);
}

// Of a key and an item.
constexpr std::size_t looked_ahead_bytes_max = 1024;

// What is past its deadline is gone before a request changes something in its place.
void expire_keys(Context& context) {
  const KeyRange& keys = context.spec.keys;
  if (keys.first == 0) return;
  const auto last = keys.last < 0 ? context.words.size() - 1 : static_cast<std::size_t>(keys.last);
  for (auto at = static_cast<std::size_t>(keys.first); at <= last; at += static_cast<std::size_t>(keys.step))
    context.changes.expire({.database = context.client.database, .key = context.words[at]}, context.now);
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
}

// Not items_added: what has changed since the last save is reckoned from it.
void WorkerStats::reset() {
  for (CommandStats& row : commands) row.reset();
  for (metrics::Counter* counter :
       {&requests, &bytes_in, &bytes_out, &error_replies, &key_hits, &key_misses, &batches})
    counter->reset();
  errors->reset();
}

Dispatcher::Dispatcher(Services& services, std::size_t worker)
    : services_(services),
      worker_(worker),
      stats_(services.workers[worker]),
      scratch_(std::make_unique<Scratch>()) {}
Dispatcher::~Dispatcher() = default;

Dispatcher::Outcome Dispatcher::run(ClientState& client, resp::Reply& reply,
                                    std::span<const std::string_view> words, const CommandSpec* spec,
                                    bool alone, WallTime now, SteadyTime steady_now) {
  if (spec == nullptr) return run_unknown(client, reply, words, steady_now);
  if (const std::string refused = refusal(services_, client, *spec, words); !refused.empty())
    return reject(client, reply, *spec, refused, steady_now);
  if (spec->flags.has(Flag::alone) && !alone) return {.next = Next::need_alone, .spec = spec};
  keyspace::WorkerLog* const log = log_of(*spec);
  switch (admit(log, *spec, words, words.size(), alone)) {
    case keyspace::Admission::granted:
      break;
    case keyspace::Admission::refused:
      return reject(client, reply, *spec, journal_refuses(services_.journal.status().refusal), steady_now);
    case keyspace::Admission::later:
      return {.next = Next::later, .spec = spec};
  }
  Context context = context_of(client, reply, words, *spec, log, alone, now, steady_now);
  if (alone && spec->flags.has(Flag::write)) expire_keys(context);
  return {.next = run_handler(context), .spec = spec};
}

bool Dispatcher::runs_together(const CommandSpec* spec, std::size_t word_count) {
  return spec != nullptr && spec->run_together != nullptr && arity_fits(*spec, word_count);
}

Dispatcher::Outcome Dispatcher::run_together(ClientState& client, resp::Reply& reply, const CommandSpec& spec,
                                             std::span<const std::string_view> words,
                                             std::span<const std::string_view> last_words, bool alone,
                                             WallTime now, SteadyTime steady_now) {
  if (!refusal(services_, client, spec, words).empty()) return {.next = Next::need_alone, .spec = &spec};
  const std::span<bool> answers = scratch_->flags(last_words.size());
  const Next next = answer_together(client, reply, spec, words, last_words, answers, alone, now, steady_now);
  if (next == Next::done) {
    reply.booleans(answers);
    client.last_command = &spec;
    count_requests(client, last_words.size(), steady_now);
  }
  return {.next = next, .spec = &spec};
}

Next Dispatcher::answer_together(ClientState& client, resp::Reply& reply, const CommandSpec& spec,
                                 std::span<const std::string_view> words,
                                 std::span<const std::string_view> last_words, std::span<bool> answers,
                                 bool alone, WallTime now, SteadyTime steady_now) {
  keyspace::WorkerLog* const log = log_of(spec);
  if (admit(log, spec, words, last_words.size(), alone) != keyspace::Admission::granted)
    return Next::need_alone;
  Context context = context_of(client, reply, words, spec, log, alone, now, steady_now);
  return spec.run_together(context, last_words, answers);
}

bool Dispatcher::run_singles(std::span<const SingleRequest> requests, WallTime now, SteadyTime steady_now) {
  SEPAL_ASSERT(!requests.empty() && requests.size() <= singles_max, "so many are run together");
  std::array<std::string_view, singles_max> last_words;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const SingleRequest& each = requests[i];
    if (!refusal(services_, each.client, each.spec, each.words).empty()) return false;
    last_words[i] = each.words.back();
  }
  const SingleRequest& first = requests.front();
  std::array<bool, singles_max> answers;
  const auto answered = std::span(answers).first(requests.size());
  if (answer_together(first.client, first.reply, first.spec, first.words,
                      std::span(last_words).first(requests.size()), answered, false, now,
                      steady_now) != Next::done)
    return false;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].reply.boolean(answered[i]);
    requests[i].client.last_command = &requests[i].spec;
    count_requests(requests[i].client, 1, steady_now);
  }
  return true;
}

void Dispatcher::commit() {
  if (record_.log != nullptr) record_.log->commit();
}

void Dispatcher::prefetch(const ClientState& client, std::span<const std::string_view> keys) const {
  services_.keyspace.prefetch(client.database, keys);
}

// What gains by running together waits for little else but the item's block. A long item is hashed for
// longer.
void Dispatcher::collect_lines(const ClientState& client, const CommandSpec* spec,
                               std::span<const std::string_view> words, LinesAhead& lines) const {
  if (!runs_together(spec, words.size())) return;
  if (words[1].size() + words.back().size() > looked_ahead_bytes_max) return;
  const filter::Filter* const filter =
      services_.keyspace.find({.database = client.database, .key = words[1]});
  if (filter != nullptr) filter->collect_lines(words.back(), lines);
}

Dispatcher::Outcome Dispatcher::reject(ClientState& client, resp::Reply& reply, const CommandSpec& spec,
                                       std::string_view text, SteadyTime steady_now) {
  reply.error(text);
  stats_.commands[command_row(spec)].rejected.add();
  count_requests(client, 1, steady_now);
  count_errors(text, 1);
  return {.next = Next::done, .spec = nullptr};
}

// Null when the command changes nothing, or nobody keeps a record.
keyspace::WorkerLog* Dispatcher::log_of(const CommandSpec& spec) const {
  if (!spec.flags.has(Flag::write)) return nullptr;
  keyspace::WorkerLog* const log = services_.logs[worker_];
  return log != nullptr && log->recording() ? log : nullptr;
}

// Asks for room for all that a request, or so many items together, may record.
keyspace::Admission Dispatcher::admit(keyspace::WorkerLog* log, const CommandSpec& spec,
                                      std::span<const std::string_view> words, std::size_t item_count,
                                      bool alone) {
  if (log == nullptr) return keyspace::Admission::granted;
  const bool more = alone || !services_.keyspace.mirrors().empty();
  const std::uint64_t bytes_max =
      more ? most_record_bytes(spec, words, item_count, alone) : record_bytes_of(spec, words, item_count, 0);
  const auto admission = log->admit(bytes_max);
  if (admission == keyspace::Admission::granted) record_.log = log;
  return admission;
}

// With the gate closed, or while any filter has a mirror: any request may record what that takes.
std::uint64_t Dispatcher::most_record_bytes(const CommandSpec& spec, std::span<const std::string_view> words,
                                            std::size_t item_count, bool alone) const {
  const keyspace::Keyspace& keyspace = services_.keyspace;
  const std::uint32_t layers_max = alone ? keyspace.options().layers_max : 0;
  std::uint64_t bytes = record_bytes_of(spec, words, item_count, layers_max);
  // A key may be gone in two databases before it is adopted in one.
  if (alone && spec.flags.has(Flag::adopts))
    bytes += keyspace::record_bytes_of_adoption(keyspace::key_bytes_max);
  if (keyspace.mirrors().empty()) return bytes;
  return bytes + keyspace::record_bytes_of_mirror(keyspace.mirrors(), item_count, layers_max);
}

Context Dispatcher::context_of(ClientState& client, resp::Reply& reply,
                               std::span<const std::string_view> words, const CommandSpec& spec,
                               keyspace::WorkerLog* log, bool alone, WallTime now, SteadyTime steady_now) {
  return {.services = services_,
          .client = client,
          .reply = reply,
          .stats = stats_,
          .scratch = *scratch_,
          .words = words,
          .spec = spec,
          .now = now,
          .steady_now = steady_now,
          .changes = keyspace::Mutator(services_.keyspace, log),
          .record = record_,
          .alone = alone};
}

Next Dispatcher::run_handler(Context& context) {
  ClientState& client = context.client;
  // Set before the handler runs, because CLIENT LIST shows the command that asks.
  const CommandSpec* const previous = std::exchange(client.last_command, &context.spec);
  const std::uint64_t errors_before = context.reply.error_count();
  const Next next = context.spec.run(context);
  if (next == Next::need_alone) {
    client.last_command = previous;
    return next;
  }
  count_requests(client, 1, context.steady_now);
  if (const std::uint64_t errors = context.reply.error_count() - errors_before; errors != 0) {
    stats_.commands[command_row(context.spec)].failed.add();
    count_errors(context.reply.last_error(), errors);
  }
  return next;
}

Dispatcher::Outcome Dispatcher::run_unknown(ClientState& client, resp::Reply& reply,
                                            std::span<const std::string_view> words, SteadyTime steady_now) {
  count_requests(client, 1, steady_now);
  if (comes_from_a_browser(words[0])) return {.next = Next::close, .spec = nullptr};
  reply.error(unknown_command(words));
  count_errors(reply.last_error(), 1);
  return {.next = Next::done, .spec = nullptr};
}

void Dispatcher::count_requests(ClientState& client, std::uint64_t times, SteadyTime steady_now) {
  stats_.requests.add(times);
  client.request_count += times;
  client.last_request_at = steady_now;
}

void Dispatcher::count_errors(std::string_view text, std::uint64_t times) {
  stats_.error_replies.add(times);
  stats_.errors->add(text, times);
}

void Dispatcher::count_error(std::string_view text, const CommandSpec* failed) {
  if (failed != nullptr) stats_.commands[command_row(*failed)].failed.add();
  count_errors(text, 1);
}

void Dispatcher::record(const CommandSpec& spec, std::uint64_t times, std::chrono::nanoseconds duration) {
  if (times == 0) return;
  const auto nanoseconds = static_cast<std::uint64_t>(std::max(duration.count(), std::int64_t{0}));
  CommandStats& row = stats_.commands[command_row(spec)];
  row.calls.add(times);
  row.nanoseconds.add(nanoseconds);
  row.latency.add(nanoseconds / times, times);
}

}  // namespace sepal::command
