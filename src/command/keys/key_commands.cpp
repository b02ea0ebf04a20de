// Handlers of commands on keys. All commands of this file that change keys have Flag::alone, so their
// handlers never ask for the closed gate themselves.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/writers/uploads.hpp>

#include <optional>

#include "command/keys/database_number.hpp"
#include "command/keys/lookup.hpp"
#include "command/keys/mirror_state.hpp"
#include "command/keys/type_name.hpp"
#include "command/run/refuse.hpp"
#include "command/run/scratch.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

// [ASYNC | SYNC]: both mean the same, because memory is always freed in the background.
bool flush_option_fits(const Context& context) {
  constexpr std::size_t words_max = 2;
  if (context.words.size() == 1) return true;
  return context.words.size() == words_max &&
         (equal_ignoring_case(context.words[1], "ASYNC") || equal_ignoring_case(context.words[1], "SYNC"));
}

Next del(Context& context) {
  // Keys that are past their deadline do not count.
  std::int64_t removed = 0;
  for (const std::string_view key : context.words.subspan(1))
    if (context.changes.remove({.database = context.client.database, .key = key}, context.now)) ++removed;
  return answer_number(context, removed);
}

// EXISTS, and TOUCH: there is no time of access that TOUCH could change. As in the reference, a key that is
// named twice counts twice.
Next count_existing(Context& context) {
  std::int64_t existing = 0;
  for (const std::string_view key : context.words.subspan(1))
    if (find_counted(context, key) != nullptr) ++existing;
  return answer_number(context, existing);
}

Next type(Context& context) {
  context.reply.simple(type_name(find_counted(context, context.words[1])));
  return Next::done;
}

// RENAME of a target to its source is what BF.MIRROR COMMIT does, so it is refused while that mirror is
// broken: the target lacks items. No other filter may take the place of a target. That is refused only if
// there is something to rename, because `no such key` comes first, as in Redis.
Next rename(Context& context) {
  const value::Value* const replaced = find(context, context.words[2]);
  const keyspace::Mirrors::Link* const link =
      replaced == nullptr ? nullptr
                          : broken_between(context.services.keyspace.mirrors(), context.words[1], *replaced);
  if (link != nullptr) return refuse(context, broken_mirror(link->mirror.state));
  const keyspace::DatabaseKey target{.database = context.client.database, .key = context.words[2]};
  const bool other = context.words[1] != context.words[2] && find(context, context.words[1]) != nullptr;
  if (other && context.services.keyspace.is_target(target, context.now))
    return refuse(context, text::target_of_mirror);
  const Result<void> renamed =
      context.changes.rename(context.client.database, context.words[1], context.words[2]);
  if (renamed) {
    context.reply.ok();
  } else {
    context.reply.error(text_of(renamed.error().code));
  }
  return Next::done;
}

// RENAME of a key to a free one replaces no filter. So it needs none of the checks for mirrors: a mirror
// links filters, and goes on under the new key.
Next rename_if_free(Context& context) {
  if (find(context, context.words[1]) == nullptr) return refuse(context, text::no_such_key);
  if (find(context, context.words[2]) != nullptr) return answer_number(context, 0);
  const Result<void> renamed =
      context.changes.rename(context.client.database, context.words[1], context.words[2]);
  if (renamed) {
    context.reply.integer(1);
  } else {
    context.reply.error(text_of(renamed.error().code));
  }
  return Next::done;
}

Next move(Context& context) {
  const keyspace::DatabaseKey from{.database = context.client.database, .key = context.words[1]};
  const std::optional<std::int64_t> index = parse_integer(context.words[2]);
  const auto to_database = index ? database_of(*index) : std::nullopt;
  if (!to_database) {
    context.reply.error(index ? text::database_range : text::not_an_integer);
  } else if (*to_database == from.database) {
    context.reply.error(text::same_object);
  } else {
    // The dispatcher expires keys in the client's own database only, and an expired key must not block the
    // move.
    context.changes.expire({.database = *to_database, .key = from.key}, context.now);
    // 0 stands for both refusals: nothing is under the key, or the key is taken in the other database.
    context.reply.integer(context.changes.move(from, *to_database) ? 1 : 0);
  }
  return Next::done;
}

Next swap_databases(Context& context) {
  const std::optional<std::int64_t> first = parse_integer(context.words[1]);
  const std::optional<std::int64_t> second = parse_integer(context.words[2]);
  if (!first || !second)
    return refuse(context, first ? text::second_database_invalid : text::first_database_invalid);
  const auto database = database_of(*first);
  const auto other = database_of(*second);
  if (!database || !other) return refuse(context, text::database_range);
  context.changes.swap_databases(*database, *other);
  return answer_ok(context);
}

Next dbsize(Context& context) {
  // Keys past their deadline count until the thread `expiry` has removed them (docs/protocol.md).
  return answer_count(context, context.services.keyspace.size(context.client.database));
}

Next random_key(Context& context) {
  const auto entropy = static_cast<std::uint64_t>(context.steady_now.time_since_epoch().count());
  const std::optional<std::string> key = context.services.keyspace.random_key(
      context.client.database, context.scratch.random(entropy), context.now);
  if (key) {
    context.reply.bulk(*key);
  } else {
    context.reply.null();
  }
  return Next::done;
}

Next flush_database(Context& context) {
  if (!flush_option_fits(context)) return refuse(context, text::syntax);
  context.changes.flush(context.client.database);
  // An upload from before the flush must not get its key after it.
  context.services.uploads->flush(context.client.database);
  return answer_ok(context);
}

Next flush_all(Context& context) {
  if (!flush_option_fits(context)) return refuse(context, text::syntax);
  context.changes.flush_all();
  context.services.uploads->flush_all();
  return answer_ok(context);
}

// What expires in both databases, and what moves.
std::uint64_t records_move(const RecordAsk& ask) {
  const std::string_view keys[] = {ask.words[1], ask.words[1]};
  return keyspace::record_bytes_of_keys(keys);
}

constexpr Family key_row{.group = "generic", .categories = Category::keyspace};
constexpr Family database_row{.group = "server", .categories = Category::keyspace};

constexpr CommandSpec key_family[] = {
    database_row("dbsize", 1, "1.0.0", "Answers the number of keys in the database", dbsize,
                 Flag::read_only | Flag::fast, Tips{"request_policy:all_shards response_policy:agg_sum"}),
    key_row("del key [key ...]", -2, "1.0.0",
            "Deletes keys; memory goes back to the system in the background", del,
            Flag::write | Flag::alone | Flag::shares_one_key | Flag::key_after_key, every_key("RM delete"),
            Cost{"O(N) where N is the number of keys"}, sum_over_shards, frees_always, items_behind_name),
    key_row("exists key [key ...]", -2, "1.0.0", "Counts how many of the keys exist", count_existing,
            Flag::read_only | Flag::fast | Flag::key_after_key, every_key("RO"),
            Cost{"O(N) where N is the number of keys"}, sum_over_shards, items_behind_name),
    database_row("flushall [ASYNC | SYNC]", -1, "1.0.0", "Deletes all keys of all databases", flush_all,
                 Flag::write | Flag::alone | Flag::administers, Category::dangerous,
                 Cost{"O(N) where N is the number of keys in all databases"}, on_all_shards, frees_always),
    database_row("flushdb [ASYNC | SYNC]", -1, "1.0.0", "Deletes all keys of the database", flush_database,
                 Flag::write | Flag::alone | Flag::administers, Category::dangerous,
                 Cost{"O(N) where N is the number of keys in the database"}, on_all_shards, frees_always),
    key_row("move key db", 3, "1.0.0",
            "Moves a filter or a string to another database, if its key is free there", move,
            Flag::write | Flag::fast | Flag::alone, one_key("RW access update"), records_move),
    key_row("randomkey", 1, "1.0.0", "Answers a random key of the database", random_key, Flag::read_only,
            Tips{"request_policy:all_shards response_policy:special nondeterministic_output"}),
    key_row("rename key newkey", 3, "1.0.0",
            "Gives a filter or a string another key, and replaces what is there; readers see no gap", rename,
            Flag::write | Flag::alone, two_keys("RW access delete/OW update")),
    key_row("renamenx key newkey", 3, "1.0.0", "Gives a filter or a string another key, if that is free",
            rename_if_free, Flag::write | Flag::fast | Flag::alone, two_keys("RW access delete/OW insert")),
    database_row("swapdb index1 index2", 3, "4.0.0",
                 "Swaps two databases; clients of the one see the keys of the other at once", swap_databases,
                 Flag::write | Flag::fast | Flag::alone | Flag::administers, Category::dangerous),
    key_row(
        "touch key [key ...]", -2, "3.2.1",
        "Counts how many of the keys exist; Sepal evicts nothing, so there is no time of access to change",
        count_existing, Flag::read_only | Flag::fast, every_key("RO"),
        Cost{"O(N) where N is the number of keys"}, sum_over_shards, items_behind_name),
    key_row("type key", 2, "1.0.0",
            "Answers the type of a key: MBbloom--, SPbloomWF or MBbloomCF for a filter, string, or none",
            type, Flag::read_only | Flag::fast, one_key("RO")),
    key_row("unlink key [key ...]", -2, "4.0.0", "Deletes keys; the same as DEL", del,
            Flag::write | Flag::fast | Flag::alone | Flag::shares_one_key | Flag::key_after_key,
            every_key("RM delete"), Cost{"O(N) where N is the number of keys"}, sum_over_shards, frees_always,
            items_behind_name),
};

}  // namespace

constinit const Rows key_rows = key_family;

}  // namespace sepal::command
