// Handlers of commands on replication, and of those that wait for the disk.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <chrono>
#include <limits>
#include <optional>
#include <string_view>

#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

// The error text of a number of milliseconds; empty if there is none.
std::string_view wrong_with_timeout(std::string_view word, WallTime now) {
  const std::optional<std::int64_t> timeout = parse_integer(word);
  if (!timeout) return text::timeout_not_int;
  if (*timeout < 0) return text::timeout_negative;
  const auto now_milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  if (*timeout > std::numeric_limits<std::int64_t>::max() - now_milliseconds) return text::timeout_range;
  return {};
}

// The log of the worker that runs the request; null if its changes are not recorded.
keyspace::WorkerLog* log_of_worker(const Context& context) {
  const auto worker = static_cast<std::size_t>(&context.stats - context.services.workers.data());
  keyspace::WorkerLog* const log = context.services.logs[worker];
  return log != nullptr && log->recording() ? log : nullptr;
}

// Called with the gate closed. Whether everything that was recorded is on the disk when the client reads the
// reply. `may_wait`: the reply may wait for the disk.
bool journal_is_durable(Context& context, bool may_wait) {
  const Journal& journal = context.services.journal;
  keyspace::WorkerLog* const log = log_of_worker(context);
  if (log == nullptr) return false;
  if (const JournalStatus status = journal.status(); !status.accepting || status.resumes) return false;
  if (may_wait && context.services.options.journal == keyspace::JournalPolicy::always) {
    context.record.log = log;  // The session holds the reply until the journal is durable.
    return true;
  }
  // EXEC records the changes of its transaction when all of its commands have run.
  if (context.mode.in_transaction) return false;
  log->commit();
  return journal.durable_position() >= journal.status().position;
}

// The error text of the words behind WAITAOF; empty if there is none.
std::string_view wrong_with_journal_wait(const Context& context) {
  const std::optional<std::int64_t> local_count = parse_integer(context.words[1]);
  if (!local_count) return text::not_an_integer;
  if (*local_count < 0 || *local_count > 1) return text::zero_or_one_range;
  const std::optional<std::int64_t> replica_count = parse_integer(context.words[2]);
  if (!replica_count || *replica_count < 0) return text::positive_range;
  if (const std::string_view wrong = wrong_with_timeout(context.words[3], context.now); !wrong.empty())
    return wrong;
  const bool journal_is_off = context.services.options.journal == keyspace::JournalPolicy::off;
  return *local_count == 1 && journal_is_off ? text::wait_without_journal : std::string_view();
}

Next wait(Context& context) {
  if (!parse_integer(context.words[1])) return refuse(context, text::not_an_integer);
  if (const std::string_view wrong = wrong_with_timeout(context.words[2], context.now); !wrong.empty())
    return refuse(context, wrong);
  return answer_number(context, 0);
}

Next wait_for_journal(Context& context) {
  if (const std::string_view wrong = wrong_with_journal_wait(context); !wrong.empty())
    return refuse(context, wrong);
  const bool may_wait = context.words[1] != "0";
  const bool durable = journal_is_durable(context, may_wait);
  context.reply.array(2);
  context.reply.integer(durable ? 1 : 0);
  return answer_number(context, 0);
}

Next replica_of(Context& context) {
  constexpr std::int64_t port_max = 65535;
  if (equal_ignoring_case(context.words[1], "NO") && equal_ignoring_case(context.words[2], "ONE"))
    return answer_ok(context);
  const std::optional<std::int64_t> port = parse_integer(context.words[2]);
  const bool is_port = port && *port >= 0 && *port <= port_max;
  return refuse(context, is_port ? text::no_replication : text::bad_master_port);
}

Next fail_over(Context& context) {
  const bool abort = context.words.size() == 2 && equal_ignoring_case(context.words[1], "ABORT");
  return refuse(context, abort ? text::no_failover : text::failover_without_replicas);
}

constexpr Family replication_row{.group = "server", .flags = Flag::admin | Flag::no_script | Flag::stale};
constexpr Family wait_row{.group = "generic", .categories = Category::connection, .flags = Flag::blocking};

constexpr CommandSpec replication_family[] = {
    replication_row("failover [TO host port] [FORCE] [ABORT] [TIMEOUT milliseconds]", -1, "6.2.0",
                    "Answers the error of a Redis server without replicas", fail_over),
    replication_row("replicaof <host port | NO ONE>", 3, "5.0.0",
                    "Answers OK to NO ONE, and an error to anything else: Sepal does not replicate",
                    replica_of, Flag::no_async_loading),
    replication_row("slaveof <host port | NO ONE>", 3, "1.0.0", "The same as REPLICAOF", replica_of,
                    Flag::no_async_loading),
    wait_row("wait numreplicas timeout", 3, "3.0.0", "Answers 0 at once: Sepal has no replicas", wait,
             least_of_shards),
    wait_row("waitaof numlocal numreplicas timeout", 4, "7.2.0",
             "Answers whether the journal has all changes so far on the disk, and 0 replicas",
             wait_for_journal, Flag::alone, least_of_shards),
};

}  // namespace

constinit const Rows replication_rows = replication_family;

}  // namespace sepal::command
