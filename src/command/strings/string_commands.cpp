// Handlers of the commands on strings as wholes and on their bytes.
//
// Each command that replaces or writes a string runs with the gate closed. Most handlers that can tell their
// answer without a change (a key of another type, SETNX of a taken key, a number that is none) give it in the
// shared gate, and ask for the closed gate only then. Bytes beyond string_at_once_max are put by a job,
// written in parts, or copied as they leave (decisions/0043).

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <optional>
#include <string>

#include "command/keys/lookup.hpp"
#include "command/keys/timing.hpp"
#include "command/run/adopting.hpp"
#include "command/run/refuse.hpp"
#include "command/strings/string_access.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

Next get(Context& context);

using keyspace::DatabaseKey;
using keyspace::Deadline;
using Words = std::span<const std::string_view>;

void answer_ok(resp::Reply& reply) {
  reply.ok();
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// When a string expires: what the words of SET and GETEX say.
struct Expiry {
  bool keep = false;     // KEEPTTL
  bool persist = false;  // PERSIST
  std::optional<Timing> timing;
  std::string_view number;

  [[nodiscard]] bool given() const { return keep || persist || timing.has_value(); }
};

// Takes a word that says when a string expires, and the number behind it. False: it is no such word, or one
// too many.
bool take_expiry(Words words, std::size_t& at, Expiry& expiry) {
  struct Name {
    std::string_view word;
    Timing timing;
  };
  constexpr Name names[] = {{"EX", {.seconds = true, .absolute = false}},
                            {"PX", {.seconds = false, .absolute = false}},
                            {"EXAT", {.seconds = true, .absolute = true}},
                            {"PXAT", {.seconds = false, .absolute = true}}};
  const auto* const name = std::ranges::find_if(
      names, [&](const Name& each) { return equal_ignoring_case(each.word, words[at]); });
  if (name == std::end(names) || expiry.given() || at + 1 == words.size()) return false;
  expiry.timing = name->timing;
  expiry.number = words[++at];
  return true;
}

// The deadline that the words ask for. Nothing: an error was answered.
std::optional<Deadline> deadline_of(Context& context, const Expiry& expiry) {
  const std::optional<std::int64_t> number = parse_integer(expiry.number);
  if (!number) {
    context.reply.error(text::not_an_integer);
    return std::nullopt;
  }
  // As in Redis, 0 and negative numbers are errors, also as times since 1970. EXPIRE takes them.
  const auto time = *number > 0 ? time_of(*number, *expiry.timing, context.now) : std::nullopt;
  if (!time) context.reply.error(bad_expire_time(context.spec.name));
  return time;
}

struct SetOptions {
  bool if_free = false;   // NX
  bool if_there = false;  // XX
  bool get = false;
  Expiry expiry;
};

bool parse(Words words, SetOptions& options) {
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (equal_ignoring_case(word, "NX") && !options.if_there) {
      options.if_free = true;
    } else if (equal_ignoring_case(word, "XX") && !options.if_free) {
      options.if_there = true;
    } else if (equal_ignoring_case(word, "GET")) {
      options.get = true;
    } else if (equal_ignoring_case(word, "KEEPTTL") && !options.expiry.timing) {
      options.expiry.keep = true;
    } else if (!take_expiry(words, at, options.expiry)) {
      return false;
    }
  }
  return true;
}

// SET with NX or XX leaves the key as it is.
Next answer_unchanged(Context& context, const SetOptions& options) {
  if (options.get) return get(context);
  context.reply.null();
  return Next::done;
}

// SETEX and PSETEX: key time value
Next set_with_time(Context& context, Timing timing) {
  const Expiry expiry{.timing = timing, .number = context.words[2]};
  const auto deadline = deadline_of(context, expiry);
  if (!deadline) return Next::done;
  return put_string(
      context,
      {.key = context.words[1], .bytes = context.words[3], .deadline = *deadline, .answer = answer_ok});
}

// Turns a first and a last position, which count from the end where they are negative, into a range of so
// many elements. False: the range is empty.
bool clip(std::int64_t& first, std::int64_t& last, std::int64_t count) {
  if (first < 0 && last < 0 && first > last) return false;
  first = from_end(first, count);
  last = std::min(from_end(last, count), count - 1);
  return count > 0 && first <= last;
}

// The bytes that the next part of a request writes. A long request writes in parts of string_at_once_max.
std::string_view next_bytes(Context& context, std::string_view bytes) {
  if (context.partial == nullptr && bytes.size() <= string_at_once_max) return bytes;
  if (context.partial == nullptr) context.partial = std::make_unique<PartialRun>();
  const std::string_view part = bytes.substr(context.partial->cursor, string_at_once_max);
  context.partial->cursor += part.size();
  return part;
}
bool was_last(const Context& context, std::string_view bytes) {
  return context.partial == nullptr || context.partial->cursor == bytes.size();
}

// What INCR and its like add to: the number in the string, 0 where there is none.
std::optional<std::int64_t> number_in(const FoundString& found) {
  // A longer string is no number of 64 bits. Without the test, each INCR would copy it to find that out.
  constexpr std::uint64_t digits_max = 20;
  if (found.value == nullptr) return 0;
  if (length_of(found) > digits_max) return std::nullopt;
  return parse_integer(found.value->text());
}

// Runs once in the shared gate, where it finds errors, and again with the gate closed, where it reads the
// number anew: two increments of different workers do not read the same number. INCR keeps the deadline, as
// in Redis, and put_string() would drop it.
Next add_number(Context& context, std::int64_t amount) {
  const std::string_view key = context.words[1];
  const FoundString found = find_string(context, key);
  if (found.refused) return Next::done;
  const auto number = number_in(found);
  if (!number) return refuse(context, text::not_an_integer);
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*number, amount, &sum)) return refuse(context, text::increment_overflow);
  const std::string digits = std::to_string(sum);
  return put_string(
      context,
      {.key = key,
       .bytes = digits,
       .deadline = context.services.keyspace.deadline({.database = context.client.database, .key = key}),
       .answer = [sum](resp::Reply& reply) { reply.integer(sum); }});
}

// Whether the request's string is there, and may be changed only when the request runs alone. Asked before a
// hit is counted, so that it is counted once.
bool waits_to_change(const Context& context) {
  const value::Value* const value = find(context, context.words[1]);
  return !context.alone && value::as<strings::String>(value) != nullptr;
}

bool all_free(const Context& context, Words keys_and_values) {
  for (std::size_t at = 0; at < keys_and_values.size(); at += 2)
    if (find(context, keys_and_values[at]) != nullptr) return false;
  return true;
}

// Puts all strings of MSET and MSETNX. Answers only an error; then false. A string that is refused is the
// first one, or those before it stay.
bool put_all(Context& context, Words keys_and_values) {
  // MSET is atomic for clients because the gate is closed, and after a crash because of the group.
  const StringGroup group(context);
  const std::uint64_t errors = context.reply.error_count();
  for (std::size_t at = 0; at < keys_and_values.size(); at += 2) {
    put_string(context, {.key = keys_and_values[at],
                         .bytes = keys_and_values[at + 1],
                         .answer = [](resp::Reply&) {},
                         .in_group = true});
    if (context.reply.error_count() != errors) return false;
  }
  return true;
}

// The strings of one MSET are put at once, so none may be so long that a job must put it.
bool refuses_pairs(Context& context, Words keys_and_values) {
  if (keys_and_values.size() % 2 != 0) {
    context.reply.error(wrong_arity(context.spec.name));
    return true;
  }
  if (keys_and_values.size() / 2 > at_once_max) {
    context.reply.error(text::too_many_pairs);
    return true;
  }
  for (std::size_t at = 1; at < keys_and_values.size(); at += 2) {
    if (keys_and_values[at].size() <= string_at_once_max) continue;
    context.reply.error(text::long_string_among_others);
    return true;
  }
  return false;
}

// The next value of an MGET that is longer than what is answered at once, and null for a filter. Its bytes
// stay where they are, if they are more than a few.
void append_value(Context& context, PartialRun& run, strings::String* string) {
  constexpr std::uint64_t copied_bytes_max = 1024;
  ++run.element_count;
  if (string == nullptr) return run.elements.null();
  run.counted += string->length();
  if (string->length() <= copied_bytes_max) return run.elements.bulk(string->text());
  run.append_source(source_of(context, *string), string->length());
}

Next answer_values(Context& context, PartialRun& run) {
  if (refuse_reply(context, run.counted)) return Next::done;
  context.reply.array(run.element_count);
  run.append_elements(context.reply);
  return Next::done;
}

// All strings are found at one instant, and leave later. The first `counted` keys have counted their hits.
Next get_later(Context& context, Words keys, std::size_t counted) {
  PartialRun run;
  run.elements.set_version(context.reply.version());
  for (std::size_t at = 0; at < keys.size(); ++at) {
    auto* const found = at < counted ? find(context, keys[at]) : find_counted(context, keys[at]);
    append_value(context, run, value::as<strings::String>(found));
  }
  return answer_values(context, run);
}

// An MGET of many keys: a part finds some of them.
Next get_in_parts(Context& context, Words keys) {
  if (context.partial == nullptr) {
    context.partial = std::make_unique<PartialRun>();
    context.partial->elements.set_version(context.reply.version());
  }
  PartialRun& run = *context.partial;
  for (const std::string_view key :
       keys.subspan(run.element_count, std::min(part_items_max, keys.size() - run.element_count)))
    append_value(context, run, value::as<strings::String>(find_counted(context, key)));
  run.keep();
  if (run.element_count < keys.size() && run.counted <= reply_room(context)) return Next::more;
  return answer_values(context, run);
}

Next get(Context& context) {
  const FoundString found = find_string_counted(context, context.words[1]);
  if (found.refused) return Next::done;
  if (found.value != nullptr) return answer_string(context, found, 0, length_of(found));
  context.reply.null();
  return Next::done;
}

Next get_many(Context& context) {
  const Words keys = context.words.subspan(1);
  if (keys.size() > whole_items_max) return get_in_parts(context, keys);
  const std::uint64_t room = reply_room(context);
  const std::uint64_t bytes_max = context.mode.in_transaction ? room : std::min(string_at_once_max, room);
  const std::size_t reply_bytes = context.reply.size();
  std::uint64_t byte_count = 0;
  // No WRONGTYPE, as in Redis: the reply has a null for each key that names no string.
  context.reply.array(keys.size());
  for (std::size_t at = 0; at < keys.size(); ++at) {
    const auto* const string = value::as<strings::String>(find_counted(context, keys[at]));
    if (string == nullptr) {
      context.reply.null();
      continue;
    }
    byte_count += string->length();
    if (byte_count > bytes_max) {
      context.reply.truncate(reply_bytes);
      return get_later(context, keys, at + 1);
    }
    context.reply.bulk(string->text());
  }
  return Next::done;
}

Next get_and_delete(Context& context) {
  if (waits_to_change(context)) return Next::need_alone;
  const FoundString found = find_string_counted(context, context.words[1]);
  if (found.refused) return Next::done;
  if (found.value == nullptr) {
    context.reply.null();
    return Next::done;
  }
  if (refuse_reply(context, length_of(found))) return Next::done;
  // The string is answered before its key goes: `found` is a view of it. A reply that leaves later holds it.
  const Next next = answer_string(context, found, 0, length_of(found));
  context.changes.remove({.database = context.client.database, .key = context.words[1]});
  return next;
}

Next get_and_expire(Context& context) {
  Expiry expiry;
  for (std::size_t at = 2; at < context.words.size(); ++at) {
    if (equal_ignoring_case(context.words[at], "PERSIST") && !expiry.given()) {
      expiry.persist = true;
    } else if (!take_expiry(context.words, at, expiry)) {
      return refuse(context, text::syntax);
    }
  }
  if (expiry.given() && waits_to_change(context)) return Next::need_alone;
  const FoundString found = find_string_counted(context, context.words[1]);
  if (found.refused) return Next::done;
  if (found.value == nullptr) {
    context.reply.null();
    return Next::done;
  }
  // Behind the look-up, as in Redis: a missing key is a null even if the time is wrong.
  std::optional<Deadline> deadline = keyspace::no_deadline;
  if (expiry.timing && !(deadline = deadline_of(context, expiry))) return Next::done;
  if (refuse_reply(context, length_of(found))) return Next::done;
  // As in GETDEL, the string is answered before its key may go.
  const bool goes = expiry.given() && keyspace::is_past(*deadline, context.now);
  const Next next = answer_string(context, found, 0, length_of(found));
  if (!expiry.given()) return next;
  const DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  if (goes) {
    context.changes.remove(key);
  } else {
    context.changes.set_deadline(key, *deadline);
  }
  return next;
}

Next get_and_set(Context& context) {
  return put_string(context, {.key = context.words[1], .bytes = context.words[2], .answers_old = true});
}

Next set(Context& context) {
  SetOptions options;
  if (!parse(context.words.subspan(3), options)) return refuse(context, text::syntax);
  std::optional<Deadline> deadline = keyspace::no_deadline;
  if (options.expiry.timing && !(deadline = deadline_of(context, options.expiry))) return Next::done;
  if (options.if_free || options.if_there) {
    const bool there = find(context, context.words[1]) != nullptr;
    if (there == options.if_free) return answer_unchanged(context, options);
  }
  if (!is_ready_to_put(context, context.words[2])) return Next::more;
  if (!context.alone) return Next::need_alone;
  const DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  if (options.expiry.keep) deadline = context.services.keyspace.deadline(key);
  const auto condition = options.if_free    ? PutCondition::free
                         : options.if_there ? PutCondition::taken
                                            : PutCondition::none;
  return put_string(context, {.key = key.key,
                              .bytes = context.words[2],
                              .deadline = *deadline,
                              .answer = [](resp::Reply& reply) { reply.ok(); },
                              .condition = condition,
                              .answer_otherwise = [](resp::Reply& reply) { reply.null(); },
                              .answers_old = options.get});
}

Next set_if_free(Context& context) {
  const bool taken = find(context, context.words[1]) != nullptr;
  if (taken) return answer_number(context, 0);
  return put_string(context, {.key = context.words[1],
                              .bytes = context.words[2],
                              .answer = [](resp::Reply& reply) { reply.integer(1); },
                              .condition = PutCondition::free,
                              .answer_otherwise = [](resp::Reply& reply) { reply.integer(0); }});
}

Next set_with_seconds(Context& context) {
  return set_with_time(context, {.seconds = true});
}

Next set_with_milliseconds(Context& context) {
  return set_with_time(context, {});
}

Next set_many(Context& context) {
  const Words pairs = context.words.subspan(1);
  if (refuses_pairs(context, pairs)) return Next::done;
  if (!context.alone) return Next::need_alone;
  if (put_all(context, pairs)) context.reply.ok();
  return Next::done;
}

Next set_many_if_free(Context& context) {
  const Words pairs = context.words.subspan(1);
  if (refuses_pairs(context, pairs)) return Next::done;
  if (!context.alone) return Next::need_alone;
  const bool free = all_free(context, pairs);
  if (!free || put_all(context, pairs)) context.reply.integer(free ? 1 : 0);
  return Next::done;
}

Next string_length(Context& context) {
  const FoundString found = find_string_counted(context, context.words[1]);
  if (!found.refused) context.reply.integer_unsigned(length_of(found));
  return Next::done;
}

Next append(Context& context) {
  const FoundString found = find_string(context, context.words[1]);
  if (found.refused) return Next::done;
  const std::string_view bytes = context.words[2];
  // A long request runs in parts. Other clients may append between them, so each part looks at the end of the
  // string anew, and at whether the rest still fits.
  const std::size_t done = context.partial == nullptr ? 0 : context.partial->cursor;
  if (refuse_length(context, length_of(found), bytes.size() - done)) return Next::done;
  if (!context.alone) return Next::need_alone;
  // Nothing changes. If the key is free, APPEND of no bytes makes an empty string, as in Redis.
  if (bytes.empty() && found.value != nullptr) return answer_count(context, length_of(found));
  // The string may be replaced when it is written, so its length is taken before.
  const std::uint64_t length = length_of(found);
  const std::string_view part = next_bytes(context, bytes);
  if (!write_string(context, context.words[1], length, as_bytes(part))) return Next::done;
  if (!was_last(context, bytes)) return Next::more;
  return answer_count(context, length + part.size());
}

Next set_range(Context& context) {
  const auto offset = parse_integer(context.words[2]);
  if (!offset) return refuse(context, text::not_an_integer);
  if (*offset < 0) return refuse(context, text::offset_range);
  const FoundString found = find_string(context, context.words[1]);
  if (found.refused) return Next::done;
  const std::string_view bytes = context.words[3];
  // As in Redis, no bytes change nothing: no string is made, and none grows to the offset.
  if (bytes.empty()) return answer_count(context, length_of(found));
  const auto begin = static_cast<std::uint64_t>(*offset);
  if (refuse_length(context, begin, bytes.size())) return Next::done;
  if (!context.alone) return Next::need_alone;
  const std::uint64_t length = std::max(length_of(found), begin + bytes.size());
  const std::string_view part = next_bytes(context, bytes);
  // `part` is a view into `bytes`: its distance from the begin is what the parts before it have written.
  const auto before = static_cast<std::uint64_t>(part.data() - bytes.data());
  if (!write_string(context, context.words[1], begin + before, as_bytes(part))) return Next::done;
  if (!was_last(context, bytes)) return Next::more;
  return answer_count(context, length);
}

Next get_range(Context& context) {
  auto first = parse_integer(context.words[2]);
  auto last = parse_integer(context.words[3]);
  if (!first || !last) return refuse(context, text::not_an_integer);
  const FoundString found = find_string_counted(context, context.words[1]);
  if (found.refused) return Next::done;
  if (!clip(*first, *last, static_cast<std::int64_t>(length_of(found)))) {
    context.reply.bulk({});
    return Next::done;
  }
  return answer_string(context, found, static_cast<std::uint64_t>(*first),
                       static_cast<std::uint64_t>(*last - *first) + 1);
}

Next increment(Context& context) {
  return add_number(context, 1);
}

Next decrement(Context& context) {
  return add_number(context, -1);
}

Next increment_by(Context& context) {
  const auto amount = parse_integer(context.words[2]);
  return amount ? add_number(context, *amount) : refuse(context, text::not_an_integer);
}

Next decrement_by(Context& context) {
  const auto amount = parse_integer(context.words[2]);
  if (!amount) return refuse(context, text::not_an_integer);
  // This number has no positive counterpart: to negate it would overflow.
  if (*amount == std::numeric_limits<std::int64_t>::min()) return refuse(context, text::decrement_overflow);
  return add_number(context, -*amount);
}

// The words may be wrong: what a function does not know counts as a change.

// Only SET ... GET answers what was under the key.
KeyUse key_use_of_set(Words words) {
  constexpr std::size_t options_at = 3;
  for (std::size_t at = options_at; at < words.size(); ++at)
    if (equal_ignoring_case(words[at], "GET")) return {.access = "RW access update"};
  return {.access = "OW update"};
}

// Without options, GETEX is GET.
bool asks_get_ex(Words words) {
  constexpr std::size_t options_at = 2;
  return words.size() <= options_at;
}

constexpr Family string_query{.group = "string", .categories = Category::string, .flags = Flag::read_only};
constexpr Family string_change{.group = "string", .categories = Category::string, .flags = Flag::write};

constexpr CommandSpec string_family[] = {
    string_change("append key value", 3, "2.0.0", "Appends bytes to a string, creating it if the key is free",
                  append, Flag::deny_oom | Flag::fast, one_key("RW insert"), records_string,
                  Cost{"O(N) where N is the number of bytes"}),
    string_change("decr key", 2, "1.0.0", "Subtracts one from the number in a string", decrement,
                  Flag::deny_oom | Flag::fast, one_key("RW access update"), records_string),
    string_change("decrby key decrement", 3, "1.0.0", "Subtracts from the number in a string", decrement_by,
                  Flag::deny_oom | Flag::fast, one_key("RW access update"), records_string),
    string_query("get key", 2, "1.0.0", "Answers a string", get, Flag::fast, one_key("RO access"),
                 Cost{"O(N) where N is the length of the string"}),
    string_change("getdel key", 2, "6.2.0", "Answers a string, and deletes it", get_and_delete, Flag::fast,
                  one_key("RW access delete"), Cost{"O(N) where N is the length of the string"},
                  frees_always),
    string_change("getex key [EX seconds | PX milliseconds | EXAT time | PXAT time | PERSIST]", -2, "6.2.0",
                  "Answers a string, and sets or ends its time to live", get_and_expire, Flag::fast,
                  one_key("RW access update", "RW and UPDATE because it changes the TTL"),
                  Cost{"O(N) where N is the length of the string"}, asks_get_ex),
    string_query("getrange key start end", 4, "2.4.0", "Answers a range of the bytes of a string", get_range,
                 one_key("RO access"), Cost{"O(N) where N is the length of the range"}),
    string_change("getset key value", 3, "1.0.0",
                  "Puts a string under a key, and answers the one that was there", get_and_set,
                  Flag::deny_oom | Flag::fast, one_key("RW access update"), records_string,
                  Cost{"O(N) where N is the length of both"}),
    string_change("incr key", 2, "1.0.0", "Adds one to the number in a string", increment,
                  Flag::deny_oom | Flag::fast, one_key("RW access update"), records_string),
    string_change("incrby key increment", 3, "1.0.0", "Adds to the number in a string", increment_by,
                  Flag::deny_oom | Flag::fast, one_key("RW access update"), records_string),
    string_query("mget key [key ...]", -2, "1.0.0", "Answers the strings under several keys", get_many,
                 Flag::fast, every_key("RO access"), Cost{"O(N) where N is the length of all"},
                 Tips{"request_policy:multi_shard"}),
    string_change("mset key value [key value ...]", -3, "1.0.1", "Puts strings under several keys", set_many,
                  Flag::deny_oom, keys_and_values("OW update"), records_strings,
                  Cost{"O(N) where N is the number of keys"},
                  Tips{"request_policy:multi_shard response_policy:all_succeeded"}),
    string_change("msetnx key value [key value ...]", -3, "1.0.1",
                  "Puts strings under several keys, if all of them are free", set_many_if_free,
                  Flag::deny_oom, keys_and_values("OW insert"), records_strings,
                  Cost{"O(N) where N is the number of keys"}),
    string_change("psetex key milliseconds value", 4, "2.6.0",
                  "Puts a string under a key for a time in milliseconds", set_with_milliseconds,
                  Flag::deny_oom, one_key("OW update"), records_string,
                  Cost{"O(N) where N is the length of the string"}),
    string_change(
        "set key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT time | PXAT time | KEEPTTL]", -3,
        "1.0.0", "Puts a string under a key, whatever was there", set, Flag::deny_oom,
        one_key("RW access update variable_flags", "RW and ACCESS due to the optional `GET` argument"),
        records_string, Cost{"O(N) where N is the length of the string"}, key_use_of_set),
    string_change("setex key seconds value", 4, "2.0.0", "Puts a string under a key for a time in seconds",
                  set_with_seconds, Flag::deny_oom, one_key("OW update"), records_string,
                  Cost{"O(N) where N is the length of the string"}),
    string_change("setnx key value", 3, "1.0.0", "Puts a string under a key, if it is free", set_if_free,
                  Flag::deny_oom | Flag::fast, one_key("OW insert"), records_string,
                  Cost{"O(N) where N is the length of the string"}),
    string_change("setrange key offset value", 4, "2.2.0", "Writes bytes into a string from an offset on",
                  set_range, Flag::deny_oom, one_key("RW update"), records_string,
                  Cost{"O(N) where N is the number of bytes"}),
    string_query("strlen key", 2, "2.2.0", "Answers the length of a string", string_length, Flag::fast,
                 one_key("RO")),
    string_query("substr key start end", 4, "1.0.0",
                 "Answers a range of the bytes of a string: GETRANGE has the same meaning", get_range,
                 one_key("RO access"), Cost{"O(N) where N is the length of the range"}),
};

}  // namespace

constinit const Rows string_rows = string_family;

}  // namespace sepal::command
