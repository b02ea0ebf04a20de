// Handlers of MULTI, EXEC, DISCARD, WATCH and UNWATCH, and the part of the dispatcher that queues commands
// and runs them (docs/decisions/0023-transactions.md).

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/base/memory_reserve.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "command/run/refuse.hpp"
#include "command/run/scratch.hpp"
#include "command/run/transaction_state.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

// The most keys that one connection watches, and the most bytes of their names.
constexpr std::size_t watched_keys_max = 4096;
constexpr std::size_t watched_name_bytes_max = std::size_t{1} << 20;

// The room for words that a worker keeps from one queued command to the next.
constexpr std::size_t queued_words_kept_max = 4096;

// EXEC runs so many commands together. The reply to each is ready before the next run begins.
constexpr std::size_t run_together_max = 64;

// A transaction takes at most this part of the journal's bound. One that is larger than the bound would wait
// for ever: a journal at its bound makes no further segments.
constexpr std::uint64_t journal_part = 2;

std::vector<std::string_view> words_of(const Transaction& transaction, const Transaction::Group& group,
                                       std::size_t command) {
  SEPAL_ASSERT(command < group.command_count, "a command that the group does not have");
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < group.head_count; ++at)
    words.push_back(transaction.word(group.first_word + at));
  words.push_back(transaction.word(group.first_word + group.head_count + command));
  return words;
}

bool group_only_asks(const Transaction& transaction, const Transaction::Group& group) {
  return group.spec->asks != nullptr && group.spec->asks(words_of(transaction, group, 0));
}

bool any_denied_above_limit(const Transaction& transaction) {
  return std::ranges::any_of(transaction.groups(), [&](const Transaction::Group& group) {
    return group.spec->flags.has(Flag::deny_oom) && !group_only_asks(transaction, group);
  });
}

// Whether its changes only remove keys: on a full disk the journal keeps room for such changes.
bool only_frees(const Transaction& transaction, WallTime now) {
  return std::ranges::all_of(transaction.groups(), [&](const Transaction::Group& group) {
    if (group.spec->flags.has(Flag::runs_script)) return false;
    if (!group.spec->flags.has(Flag::write) || group_only_asks(transaction, group)) return true;
    return group.spec->frees != nullptr && group.spec->frees(words_of(transaction, group, 0), now);
  });
}

// A rename gives a mirror's end another name, which each later add names in the journal. How long that name
// is would have to be known before EXEC asks for room.
bool renames_beside_mirror(const keyspace::Keyspace& keyspace, const Transaction& transaction) {
  if (keyspace.mirrors().empty()) return false;
  return std::ranges::any_of(transaction.groups(), [](const Transaction::Group& group) {
    return group.spec->name == "rename" || group.spec->name == "renamenx";
  });
}

// The replies of the next commands stand behind a long one, which begins at `reply_bytes`: so it must be
// whole.
void fill_whole(resp::Reply& reply, std::size_t reply_bytes) {
  if (memory_reserve::suffices_for([&] { reply.fill_whole(); })) return;
  reply.drop(reply_bytes);
  reply.error(text::no_memory_for_reply);
}

// A single command keeps its isolation as it is. More commands run with the gate closed: under the shared
// gate, other workers would see some of them done and some not.
bool needs_alone(const ClientState& client) {
  return client.watch != nullptr || client.transaction->command_count() > 1;
}

}  // namespace

Next multi(Context& context) {
  if (context.client.transaction != nullptr) return refuse(context, text::nested_multi);
  context.client.transaction = std::make_unique<Transaction>();
  return answer_ok(context);
}

Next discard(Context& context) {
  if (context.client.transaction == nullptr) return refuse(context, text::discard_without_multi);
  end_transaction(context.client);
  return answer_ok(context);
}

Next watch(Context& context) {
  ClientState& client = context.client;
  if (client.transaction != nullptr) return refuse(context, text::watch_inside_multi);
  const auto keys = context.words.subspan(1);
  const std::size_t watched = client.watch == nullptr ? 0 : client.watch->key_count();
  if (keys.size() > watched_keys_max - watched) return refuse(context, text::too_many_watched);
  // A longer key can name no filter, now or later.
  const auto can_exist = [](std::string_view key) { return key.size() <= keyspace::key_bytes_max; };
  std::size_t name_bytes = client.watch == nullptr ? 0 : client.watch->name_bytes();
  for (const std::string_view key : keys)
    if (can_exist(key)) name_bytes += key.size();
  if (name_bytes > watched_name_bytes_max) return refuse(context, text::watched_names_too_long);
  keyspace::Keyspace& keyspace = context.services.keyspace;
  if (client.watch == nullptr) client.watch = std::make_unique<keyspace::Watch>(keyspace.watches());
  for (const std::string_view key : keys)
    if (can_exist(key))
      keyspace.watches().add(*client.watch, {.database = client.database, .key = key}, keyspace, context.now);
  return answer_ok(context);
}

Next unwatch(Context& context) {
  context.client.watch.reset();
  return answer_ok(context);
}

// The order matters. A transaction that has failed is answered without closing the gate. The watched keys are
// compared with the gate closed, so that no other worker changes one of them before the first command runs.
// All refusals come before the first command.
Next exec(Context& context) {
  ClientState& client = context.client;
  if (client.transaction == nullptr) return refuse(context, text::exec_without_multi);
  if (!client.transaction->failed() && !context.alone && needs_alone(client)) return Next::need_alone;
  if (client.transaction->failed()) {
    end_transaction(client);
    return refuse(context, text::transaction_failed);
  }
  if (client.watch != nullptr && client.watch->changed(context.services.keyspace, context.now)) {
    end_transaction(client);
    context.reply.null_array();
    return Next::done;
  }
  if (any_denied_above_limit(*client.transaction) && context.services.keyspace.over_memory_limit()) {
    context.dispatcher.count_refused_adds(*client.transaction, RefusedAdd::memory);
    end_transaction(client);
    return refuse(context, transaction_discarded(text::over_memory));
  }
  // While the commands run, the client is in no transaction: else they would be queued again.
  std::unique_ptr<Transaction> transaction = std::move(client.transaction);
  const Next next = context.dispatcher.run_transaction(*transaction, context);
  if (next == Next::later || next == Next::need_alone) {
    // Nothing was done. EXEC runs again, and must find its client in the transaction.
    client.transaction = std::move(transaction);
  } else {
    client.watch.reset();
  }
  return next;
}

Dispatcher::Outcome Dispatcher::queue(const Request& first, std::span<const std::string_view> last_words,
                                      const RunMode& mode) {
  Transaction& transaction = *first.client.transaction;
  const CommandSpec& spec = *first.spec;
  if (spec.flags.has(Flag::not_enabled)) {
    transaction.fail();
    Context context = context_of(first, nullptr, mode);
    return {.next = run_handler(context), .spec = &spec};
  }
  if (spec.flags.has(Flag::no_multi) || spec.flags.has(Flag::outside_multi))
    return reject(first, text::not_in_transaction, false);
  // A refusal is the reply of one command, so commands that came together then come one by one.
  const Outcome one_by_one{.next = Next::need_alone, .spec = &spec};
  const bool are_several = last_words.size() > 1;
  // What is queued takes memory, whatever it is.
  if (!memory_reserve::permits())
    return are_several ? one_by_one : reject_add(first, text::no_memory, false, RefusedAdd::memory);
  // EXEC asks for the room. But if the journal refuses all changes, the client is told so with the command,
  // and not only with EXEC.
  keyspace::WorkerLog* const log = only_asks(spec, first.words) ? nullptr : log_of(spec);
  if (log != nullptr && log->admit(0, change_of(first, mode.now)) == keyspace::Admission::refused)
    return are_several ? one_by_one
                       : reject_add(first, journal_refuses(services_.journal.status().refusal), false,
                                    RefusedAdd::journal);
  const std::size_t byte_count = byte_count_of(first.words) + byte_count_of(last_words);
  if (!transaction.failed() &&
      !transaction.takes(last_words.size(), first.words.size() + last_words.size(), byte_count))
    return are_several ? one_by_one : reject(first, text::transaction_too_long, false);
  if (!transaction.failed()) {
    // A transaction keeps the head of a group once, so only requests that differ in their last word join.
    const bool may_join = runs_together(&spec, first.words.size()) && spec.together_tail == 0;
    std::vector<std::string_view>& words = scratch_->queued_words;
    words.assign(first.words.begin(), first.words.end());
    for (const std::string_view word : last_words) {
      words[are_several ? together_index(spec, words.size()) : words.size() - 1] = word;
      transaction.queue(spec, words, may_join);
    }
  }
  // In a transaction that has failed, nothing is kept, and the client gets QUEUED all the same, as from the
  // reference.
  for (std::size_t queued = 0; queued < last_words.size(); ++queued) first.reply.raw("+QUEUED\r\n");
  // A command may have a million words, and the worker would keep the room for them.
  if (scratch_->queued_words.capacity() > queued_words_kept_max) free_memory(scratch_->queued_words);
  return {.next = Next::done, .spec = nullptr};
}

Next Dispatcher::run_transaction(const Transaction& transaction, Context& context) {
  keyspace::WorkerLog* const log = log_of(transaction);
  if (log != nullptr)
    if (const auto not_now = admit_transaction(*log, transaction, context)) return *not_now;
  // A group needs the closed gate. A single command under the shared gate records as it does outside of a
  // transaction.
  const bool is_group = log != nullptr && context.alone;
  const std::size_t reply_bytes = context.reply.size();
  const std::uint64_t of_clients = services_.options.clients_memory_max;
  Bounds bounds{.reply_begin = reply_bytes,
                .reply_bytes_max = of_clients == 0 ? transaction_reply_bytes_max
                                                   : std::min(of_clients, transaction_reply_bytes_max),
                .ends_at = context.mode.clock() + transaction_time_max};
  context.reply.array(transaction.command_count());
  if (is_group) log->begin_group();
  Next next = Next::done;
  for (const Transaction::Group& group : transaction.groups()) {
    const Next ran = run_group(transaction, group, context, bounds);
    if (ran == Next::need_alone) {
      SEPAL_ASSERT(!context.alone && transaction.command_count() == 1, "nothing was done before it");
      context.reply.truncate(reply_bytes);
      return ran;
    }
    if (ran == Next::close) next = ran;
  }
  if (is_group) log->end_group();
  return next;
}

// Asks for room for all that the transaction records. Nothing: it may run. Else what EXEC answers now.
std::optional<Next> Dispatcher::admit_transaction(keyspace::WorkerLog& log, const Transaction& transaction,
                                                  Context& context) {
  if (renames_beside_mirror(services_.keyspace, transaction))
    return refuse(context, transaction_discarded(text::rename_beside_mirror));
  // Scripts of the transaction need the number: they ask for this room once more, beside their own
  // (ScriptRunner::make_room).
  const std::uint64_t bytes_max = context.room_bytes = transaction_record_bytes(transaction, context);
  const std::uint64_t journal_bytes_max = services_.options.journal_bytes_max;
  if (journal_bytes_max != 0 && bytes_max > journal_bytes_max / journal_part)
    return refuse(context, transaction_discarded(text::transaction_too_large));
  const auto change = only_frees(transaction, context.now) ? keyspace::Change::frees : keyspace::Change::any;
  const keyspace::Admission admitted = log.admit(bytes_max, change);
  if (admitted == keyspace::Admission::granted) return std::nullopt;
  if (admitted == keyspace::Admission::later) return Next::later;
  count_refused_adds(transaction, RefusedAdd::journal);
  return refuse(context, transaction_discarded(admitted == keyspace::Admission::never
                                                   ? std::string(text::record_too_large)
                                                   : journal_refuses(services_.journal.status().refusal)));
}

void Dispatcher::count_refused_adds(const Transaction& transaction, RefusedAdd reason) {
  for (const Transaction::Group& group : transaction.groups())
    count_refused_adds(*group.spec, words_of(transaction, group, 0), reason, group.command_count);
}

// Null if the transaction changes nothing, or if the journal is off. A script may change something.
keyspace::WorkerLog* Dispatcher::log_of(const Transaction& transaction) const {
  if (transaction.has_script()) return recording_log();
  for (const Transaction::Group& group : transaction.groups())
    if (keyspace::WorkerLog* const log = log_of(*group.spec);
        log != nullptr && !group_only_asks(transaction, group))
      return log;
  return nullptr;
}

// The most bytes that all commands record together. The words of a group's first command stand for all of its
// commands: only commands that add an item to a filter form groups and write, and all items take the same
// room. EVAL has no Flag::write. Its script asks for room before each change.
std::uint64_t Dispatcher::transaction_record_bytes(const Transaction& transaction, Context& context) {
  std::uint64_t bytes = 0;
  RunMode mode = context.mode;
  mode.in_transaction = true;
  for (const Transaction::Group& group : transaction.groups()) {
    if (!group.spec->flags.has(Flag::write)) continue;
    const std::vector<std::string_view> words = words_of(transaction, group, 0);
    const Request request{.client = context.client,
                          .reply = context.reply,
                          .spec = group.spec,
                          .words = words,
                          .partial = context.partial};
    // Without mirrors, the items of a group join one record, which names the key once. With a mirror, each
    // item may name the keys of both ends.
    const bool joins = services_.keyspace.mirrors().empty();
    const std::uint64_t times = joins ? 1 : group.command_count;
    const std::size_t item_count = words.size() + (joins ? group.command_count : 1);
    bytes += times * most_record_bytes(request, item_count, mode);
  }
  return bytes;
}

// Runs one command of a transaction. A long one runs all its parts at once, because no other client may run
// meanwhile. What was done stays, also if its reply has no room.
Next Dispatcher::run_of_group(const Request& request, const RunMode& mode, Bounds& bounds) {
  const bool late = runs_late(*request.spec);
  if (bounds.reached && !late) return reject(request, text::transaction_bounds_reached, false).next;
  const std::size_t reply_bytes = request.reply.size();
  Next ran = Next::more;
  while (ran == Next::more) {
    ran = run_whole(request, mode).next;
    if (ran != Next::more || late) continue;
    bounds.reached = mode.clock() >= bounds.ends_at || request.partial->bytes_kept() > bounds.reply_bytes_max;
    if (bounds.reached) return reject(request, text::transaction_bounds_reached, true).next;
  }
  if (request.reply.size() + request.reply.bytes_later() - bounds.reply_begin > bounds.reply_bytes_max) {
    bounds.reached = true;
    request.reply.drop(reply_bytes);
    reject(request, text::exec_reply_too_long, true);
  }
  fill_whole(request.reply, reply_bytes);
  return ran;
}

// Runs commands together, run_together_max at a time, as neighbours in a pipeline. If that cannot be done,
// one command runs by itself, and the next ones are tried together again.
Next Dispatcher::run_group(const Transaction& transaction, const Transaction::Group& group, Context& context,
                           Bounds& bounds) noexcept {
  const SteadyTime began = context.mode.clock();
  bounds.reached = bounds.reached || began >= bounds.ends_at;
  RunMode mode = context.mode;
  mode.in_transaction = true;
  mode.room_bytes = context.room_bytes;
  Next next = Next::done;
  for (std::size_t at = 0; at < group.command_count;) {
    const std::vector<std::string_view> words = words_of(transaction, group, at);
    std::unique_ptr<PartialRun> partial;
    const Request request{.client = context.client,
                          .reply = context.reply,
                          .spec = group.spec,
                          .words = words,
                          .partial = partial};
    const std::size_t count = std::min(run_together_max, group.command_count - at);
    if (count > 1) {
      scratch_->last_words.clear();
      for (std::size_t item = 0; item < count; ++item)
        scratch_->last_words.push_back(transaction.word(group.first_word + group.head_count + at + item));
      if (run_together(request, scratch_->last_words, mode).next == Next::done) {
        at += count;
        continue;
      }
    }
    const std::uint64_t errors_before = context.reply.error_count();
    const Next ran = run_of_group(request, mode, bounds);
    if (services_.monitors.any() && ran != Next::need_alone) show(request, mode);
    if (ran == Next::need_alone) return ran;
    SEPAL_ASSERT(ran == Next::done || ran == Next::close, "a command of a transaction answers at once");
    if (ran == Next::close) next = ran;
    count_requests(context.client, 1, mode.steady_now);
    context.errors_told += context.reply.error_count() - errors_before;
    ++at;
  }
  const std::chrono::nanoseconds duration = context.mode.clock() - began;
  count_calls(*group.spec, group.command_count, duration);
  if (is_slow(duration))
    note_slow({.client = context.client,
               .spec = *group.spec,
               .words = words_of(transaction, group, 0),
               .times = group.command_count,
               .duration = duration,
               .now = mode.now});
  return next;
}

namespace {

constexpr Family transaction_row{.group = "transactions",
                                 .categories = Category::transaction,
                                 .flags = Flag::no_script | Flag::loading | Flag::stale};

constexpr CommandSpec transaction_family[] = {
    transaction_row("discard", 1, "2.0.0", "Drops the commands queued since MULTI, and ends the watch",
                    discard, Flag::fast | Flag::allow_busy | Flag::unqueued,
                    Cost{"O(N) where N is the number of queued commands"}),
    transaction_row("exec", 1, "1.2.0", "Runs the commands queued since MULTI as one step", exec,
                    Flag::skip_slowlog | Flag::unqueued, Cost{"That of the queued commands together"}),
    transaction_row("multi", 1, "1.2.0", "Begins a transaction: the commands that follow are queued", multi,
                    Flag::fast | Flag::allow_busy | Flag::unqueued),
    transaction_row("unwatch", 1, "2.2.0", "Forgets the watched keys", unwatch,
                    Flag::fast | Flag::allow_busy),
    transaction_row("watch key [key ...]", -2, "2.2.0",
                    "Watches keys: the next EXEC runs only if none of them has changed", watch,
                    Flag::fast | Flag::alone | Flag::allow_busy | Flag::unqueued, every_key("RO"),
                    Cost{"O(N) where N is the number of keys"}),
};

}  // namespace

constinit const Rows transaction_rows = transaction_family;

}  // namespace sepal::command
