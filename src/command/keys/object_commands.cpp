// Handlers of OBJECT and MEMORY. Tools ask for much that Sepal does not have: eviction, replicas, buffers of
// its own allocator. Such figures are 0, or have the one value that they can have here.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "command/keys/lookup.hpp"
#include "command/observe/number_text.hpp"
#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

// Answers null, and false, if the key of a subcommand names nothing.
const value::Value* names_filter(Context& context) {
  const value::Value* const named = find_counted(context, context.words[2]);
  if (named == nullptr) context.reply.null();
  return named;
}

// How the reference would keep the value.
std::string_view encoding_of(const value::Value& value) {
  const auto encoding = value::row_of(value).encoding;
  return encoding == nullptr ? "raw" : encoding(value);
}

// [SAMPLES count]: the error text; empty if there is none. The count changes nothing, because the size of a
// filter is known and needs no samples.
std::string_view parse_samples(std::span<const std::string_view> words) {
  for (std::size_t at = 0; at < words.size(); at += 2) {
    if (!equal_ignoring_case(words[at], "SAMPLES") || at + 1 == words.size()) return text::syntax;
    const std::optional<std::int64_t> count = parse_integer(words[at + 1]);
    if (!count) return text::not_an_integer;
    if (*count < 0) return text::syntax;
  }
  return {};
}

struct Numbers {
  std::uint64_t used = 0;
  std::uint64_t peak = 0;
  AllocatorUsage heap;
  std::uint64_t key_count = 0;
};

Numbers numbers_of(const Context& context) {
  const keyspace::Keyspace& keyspace = context.services.keyspace;
  return {.used = keyspace.memory_used(),
          .peak = keyspace.memory_peak(),
          .heap = context.services.control.usage().allocator,
          .key_count = keyspace.total_size()};
}

// The fields of MEMORY STATS.
class Fields {
 public:
  explicit Fields(resp::Reply& reply) : reply_(reply) {}
  Fields& count(std::string_view name, std::uint64_t value) {
    reply_.bulk(name);
    reply_.integer_unsigned(value);
    return *this;
  }
  Fields& real(std::string_view name, double value) {
    reply_.bulk(name);
    reply_.real(value);
    return *this;
  }

 private:
  resp::Reply& reply_;
};

std::string diagnosis(const Context& context) {
  const keyspace::Keyspace& keyspace = context.services.keyspace;
  const std::uint64_t used = keyspace.memory_used();
  const std::uint64_t limit = keyspace.memory_limit();
  const std::string name = keyspace.options().memory_max != 0 ? "maxmemory" : "their share of the memory";
  std::string text = "Filters and keys take " + human_bytes(used) + " of memory. ";
  constexpr double nearly = 0.9;
  if (limit == 0) {
    text +=
        "maxmemory is not set, and the memory of the machine is unknown: filters may grow without a limit.";
  } else if (keyspace.over_memory_limit()) {
    text += "That is more than " + name +
            ": commands that need memory are refused. Delete filters, or raise maxmemory.";
  } else if (ratio(used, limit) > nearly) {
    text += "That is more than 90% of " + name + ": commands that need memory will soon be refused.";
  } else {
    text += "That is less than 90% of " + name + ".";
  }
  return text;
}

Next object_encoding(Context& context) {
  if (const value::Value* const named = names_filter(context)) context.reply.bulk(encoding_of(*named));
  return Next::done;
}

Next object_frequency(Context& context) {
  if (names_filter(context) != nullptr) context.reply.error(text::no_frequency);
  return Next::done;
}

Next object_idle_time(Context& context) {
  // Sepal keeps no times of access. With 0, a tool that deletes idle keys deletes none.
  if (names_filter(context) != nullptr) context.reply.integer(0);
  return Next::done;
}

Next object_reference_count(Context& context) {
  if (names_filter(context) != nullptr) context.reply.integer(1);
  return Next::done;
}

Next memory_usage(Context& context) {
  if (const std::string_view wrong = parse_samples(context.words.subspan(3)); !wrong.empty())
    return refuse(context, wrong);
  const std::string_view key = context.words[2];
  const value::Value* const value = find(context, key);
  if (value == nullptr) {
    context.reply.null();
  } else {
    context.reply.integer_unsigned(value::row_of(*value).byte_count(*value) +
                                   keyspace::Keyspace::entry_bytes(key));
  }
  return Next::done;
}

Next memory_statistics(Context& context) {
  const Numbers numbers = numbers_of(context);
  const std::uint64_t per_key = numbers.key_count == 0 ? 0 : numbers.used / numbers.key_count;
  const AllocatorUsage& heap = numbers.heap;
  constexpr std::size_t field_count = 17;
  context.reply.map(field_count);
  Fields(context.reply)
      .count("peak.allocated", numbers.peak)
      .count("total.allocated", numbers.used)
      .count("startup.allocated", 0)
      .count("replication.backlog", 0)
      .count("clients.slaves", 0)
      .count("clients.normal", 0)
      .count("aof.buffer", 0)
      .count("overhead.total", 0)
      .count("keys.count", numbers.key_count)
      .count("keys.bytes-per-key", per_key)
      .count("dataset.bytes", numbers.used)
      .real("dataset.percentage", numbers.used == 0 ? 0 : 100)
      .real("peak.percentage", 100 * ratio(numbers.used, numbers.peak))
      .count("allocator.allocated", heap.allocated_bytes)
      .count("allocator.resident", heap.resident_bytes)
      .real("fragmentation", ratio(heap.resident_bytes, heap.allocated_bytes))
      .count("fragmentation.bytes",
             heap.resident_bytes - std::min(heap.resident_bytes, heap.allocated_bytes));
  return Next::done;
}

Next memory_doctor(Context& context) {
  context.reply.verbatim(diagnosis(context));
  return Next::done;
}

Next memory_purge(Context& context) {
  // A background job does it: no worker waits for the heap.
  context.services.control.give_memory_back();
  return answer_ok(context);
}

Next memory_allocator_statistics(Context& context) {
  // The reference's answer if it was built without jemalloc.
  context.reply.bulk("Stats not supported for the current allocator");
  return Next::done;
}

constexpr Family object_row{.group = "generic", .categories = Category::keyspace};
constexpr Family memory_row{.group = "server"};

constexpr CommandSpec memory_subcommands[] = {
    memory_row("memory|doctor", 2, "4.0.0", "Says in words how the server stands with its memory",
               memory_doctor, each_shard_alone),
    memory_row.help("memory|help", "4.0.0"),
    memory_row("memory|malloc-stats", 2, "4.0.0", "Answers that the allocator keeps no statistics",
               memory_allocator_statistics, each_shard_alone),
    memory_row("memory|purge", 2, "4.0.0",
               "Has a background thread give free memory back to the system at once", memory_purge,
               on_all_shards),
    memory_row("memory|stats", 2, "4.0.0", "Answers how much memory the server takes, and for what",
               memory_statistics, each_shard_alone),
    memory_row("memory|usage key [SAMPLES count]", -3, "4.0.0",
               "Answers how many bytes of memory a key and its value take", memory_usage, Flag::read_only,
               key_of_subcommand("RO")),
};

constexpr CommandSpec object_subcommands[] = {
    object_row("object|encoding key", 3, "2.2.3",
               "Answers raw for a filter, and int, embstr or raw for a string", object_encoding,
               Flag::read_only, key_of_subcommand("RO"), any_output),
    object_row("object|freq key", 3, "4.0.0", "Answers an error: Sepal does not count accesses",
               object_frequency, Flag::read_only, key_of_subcommand("RO"), any_output),
    object_row.help("object|help", "6.2.0"),
    object_row("object|idletime key", 3, "2.2.3", "Answers 0 for every key: Sepal keeps no times of access",
               object_idle_time, Flag::read_only, key_of_subcommand("RO"), any_output),
    object_row("object|refcount key", 3, "2.2.3", "Answers 1 for every key", object_reference_count,
               Flag::read_only, key_of_subcommand("RO"), any_output),
};

constexpr CommandSpec object_family[] = {
    memory_row.container("memory", "4.0.0", "Commands about memory", memory_subcommands),
    object_row.container("object", "2.2.3", "Commands about what a key names", object_subcommands),
};

}  // namespace

constinit const Rows object_rows = object_family;

}  // namespace sepal::command
