// Handlers of commands on deadlines. A deadline that is not in the future removes the key at once, as in
// Redis. Such requests free memory and disk, so the journal admits them on a full disk too
// (CommandSpec::frees). The tests for that are at the end: they must agree with set_deadline(), since a
// request that is admitted as a removal uses room kept for removals.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <optional>

#include "command/keys/lookup.hpp"
#include "command/keys/timing.hpp"
#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using keyspace::Deadline;
using keyspace::no_deadline;

// What must be true of the key's present deadline.
struct Condition {
  bool none = false;    // NX: the key has none
  bool some = false;    // XX: the key has one
  bool sooner = false;  // GT: it is sooner than the new one
  bool later = false;   // LT: it is later than the new one, or the key has none
};

// The error text; empty if there is none.
std::string parse_conditions(std::span<const std::string_view> words, Condition& condition) {
  for (const std::string_view word : words) {
    if (equal_ignoring_case(word, "NX")) {
      condition.none = true;
    } else if (equal_ignoring_case(word, "XX")) {
      condition.some = true;
    } else if (equal_ignoring_case(word, "GT")) {
      condition.sooner = true;
    } else if (equal_ignoring_case(word, "LT")) {
      condition.later = true;
    } else {
      return unsupported_option(word);
    }
  }
  if (condition.none && (condition.some || condition.sooner || condition.later))
    return std::string(text::expire_contradiction);
  if (condition.sooner && condition.later) return std::string(text::expire_greater_and_less);
  return {};
}

bool holds(const Condition& condition, Deadline present, std::int64_t time) {
  if (condition.none && present != no_deadline) return false;
  if (condition.some && present == no_deadline) return false;
  // A key without a deadline counts as one with the latest deadline.
  if (condition.sooner && (present == no_deadline || time <= present)) return false;
  return !condition.later || present == no_deadline || time < present;
}

Next set_deadline(Context& context, Timing timing) {
  Condition condition;
  if (const std::string wrong = parse_conditions(context.words.subspan(3), condition); !wrong.empty())
    return refuse(context, wrong);
  const std::optional<std::int64_t> number = parse_integer(context.words[2]);
  if (!number) return refuse(context, text::not_an_integer);
  const std::optional<std::int64_t> time = time_of(*number, timing, context.now);
  if (!time) return refuse(context, bad_expire_time(context.spec.name));
  const keyspace::DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  // Again, if another client has changed the deadline since the look at it.
  for (;;) {
    const auto [value, present] = context.services.keyspace.look(key, context.now);
    if (value == nullptr || !holds(condition, present, *time)) return answer_number(context, 0);
    if (!context.changes.may_change_key()) return Next::need_alone;
    // Such a deadline is never stored: it may be 0, which stands for no deadline, or negative.
    const bool removes = *time <= keyspace::deadline_at(context.now);
    // Another client may have set this deadline a moment ago, and its record is not there yet.
    if (present == *time) context.record.answered_known = true;
    const bool done = removes ? context.changes.remove(key, {}, present)
                              : present == *time || context.changes.set_deadline(key, *time, present);
    if (done) return answer_number(context, 1);
  }
}

// Rounded to the nearest, as in the reference.
std::int64_t in_seconds(std::int64_t milliseconds) {
  const bool more = milliseconds % milliseconds_a_second >= milliseconds_a_second / 2;
  return milliseconds / milliseconds_a_second + (more ? 1 : 0);
}

Next tell_deadline(Context& context, Timing timing) {
  // The numbers are the reference's.
  constexpr std::int64_t no_such_key = -2;
  constexpr std::int64_t stays = -1;
  const auto [value, deadline] = context.services.keyspace.look(
      {.database = context.client.database, .key = context.words[1]}, context.now);
  count_key(context, value != nullptr);
  if (value == nullptr) return answer_number(context, no_such_key);
  if (deadline == no_deadline) return answer_number(context, stays);
  const std::int64_t time = timing.absolute ? deadline : deadline - keyspace::deadline_at(context.now);
  return answer_number(context, timing.seconds ? in_seconds(time) : time);
}

// Whether the time is not in the future, so that the request removes the key, if it removes anything. The
// dispatcher asks before the handler checks the number, so the words may be wrong.
bool removes_at_once(std::span<const std::string_view> words, Timing timing, WallTime now) {
  const std::optional<std::int64_t> number = parse_integer(words[2]);
  const std::optional<std::int64_t> time = number ? time_of(*number, timing, now) : std::nullopt;
  return time && *time <= keyspace::deadline_at(now);
}

bool frees_by_expire(std::span<const std::string_view> words, WallTime now) {
  return removes_at_once(words, {.seconds = true}, now);
}

bool frees_by_expire_at(std::span<const std::string_view> words, WallTime now) {
  return removes_at_once(words, {.seconds = true, .absolute = true}, now);
}

bool frees_by_milliseconds_expire(std::span<const std::string_view> words, WallTime now) {
  return removes_at_once(words, {}, now);
}

bool frees_by_milliseconds_expire_at(std::span<const std::string_view> words, WallTime now) {
  return removes_at_once(words, {.absolute = true}, now);
}

Next expire(Context& context) {
  return set_deadline(context, {.seconds = true});
}

Next expire_at(Context& context) {
  return set_deadline(context, {.seconds = true, .absolute = true});
}

Next milliseconds_expire(Context& context) {
  return set_deadline(context, {});
}

Next milliseconds_expire_at(Context& context) {
  return set_deadline(context, {.absolute = true});
}

Next time_to_live(Context& context) {
  return tell_deadline(context, {.seconds = true});
}

Next milliseconds_to_live(Context& context) {
  return tell_deadline(context, {});
}

Next expire_time(Context& context) {
  return tell_deadline(context, {.seconds = true, .absolute = true});
}

Next milliseconds_expire_time(Context& context) {
  return tell_deadline(context, {.absolute = true});
}

Next persist(Context& context) {
  const keyspace::DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  const bool expires = context.services.keyspace.look(key, context.now).deadline != no_deadline;
  if (expires && !context.changes.may_change_key()) return Next::need_alone;
  const bool stays = expires && context.changes.set_deadline(key, no_deadline);
  return answer_number(context, stays ? 1 : 0);
}

constexpr Family deadline_row{
    .group = "generic", .categories = Category::keyspace, .flags = Flag::fast | Flag::key_after_key};

constexpr CommandSpec expire_family[] = {
    deadline_row("expire key seconds [NX | XX | GT | LT]", -3, "1.0.0",
                 "Lets a key expire after so many seconds", expire, Flag::write, one_key("RW update"),
                 frees_by_expire),
    deadline_row("expireat key unix-time-seconds [NX | XX | GT | LT]", -3, "1.2.0",
                 "Lets a key expire at a time, in seconds since 1970", expire_at, Flag::write,
                 one_key("RW update"), frees_by_expire_at),
    deadline_row("expiretime key", 2, "7.0.0", "Answers when a key expires, in seconds since 1970",
                 expire_time, Flag::read_only, one_key("RO access")),
    deadline_row("persist key", 2, "2.2.0", "Lets a key stay that would have expired", persist, Flag::write,
                 one_key("RW update")),
    deadline_row("pexpire key milliseconds [NX | XX | GT | LT]", -3, "2.6.0",
                 "Lets a key expire after so many milliseconds", milliseconds_expire, Flag::write,
                 one_key("RW update"), frees_by_milliseconds_expire),
    deadline_row("pexpireat key unix-time-milliseconds [NX | XX | GT | LT]", -3, "2.6.0",
                 "Lets a key expire at a time, in milliseconds since 1970", milliseconds_expire_at,
                 Flag::write, one_key("RW update"), frees_by_milliseconds_expire_at),
    deadline_row("pexpiretime key", 2, "7.0.0", "Answers when a key expires, in milliseconds since 1970",
                 milliseconds_expire_time, Flag::read_only, one_key("RO access")),
    deadline_row("pttl key", 2, "2.6.0", "Answers how long a key stays, in milliseconds",
                 milliseconds_to_live, Flag::read_only, one_key("RO access"), any_output),
    deadline_row("ttl key", 2, "1.0.0", "Answers how long a key stays, in seconds", time_to_live,
                 Flag::read_only, one_key("RO access"), any_output),
};

}  // namespace

constinit const Rows expire_rows = expire_family;

}  // namespace sepal::command
