// Handlers of CLIENT.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/keyspace/deadline.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <string_view>

#include "command/run/client_text.hpp"
#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using Words = std::span<const std::string_view>;

// All clients of Sepal are normal ones. The other types are known words, but no client has them.
enum class ClientType : std::uint8_t { normal, other };
std::optional<ClientType> client_type(std::string_view word) {
  if (equal_ignoring_case(word, "normal")) return ClientType::normal;
  for (const std::string_view other : {"replica", "slave", "master", "pubsub"})
    if (equal_ignoring_case(word, other)) return ClientType::other;
  return std::nullopt;
}

std::string unknown_type(std::string_view word) {
  return "ERR Unknown client type '" + std::string(echoed(word)) + "'";
}

std::optional<bool> on_or_off(std::string_view word) {
  if (equal_ignoring_case(word, "ON")) return true;
  if (equal_ignoring_case(word, "OFF")) return false;
  return std::nullopt;
}

Next set_switch(Context& context, bool& which) {
  if (const std::optional<bool> on = on_or_off(context.words[2])) {
    which = *on;
    context.reply.ok();
  } else {
    context.reply.error(text::syntax);
  }
  return Next::done;
}

struct ListFilter {
  bool any_type = true;                           // false: a type that no client has
  std::optional<std::vector<std::uint64_t>> ids;  // sorted: a request may name a million

  [[nodiscard]] bool takes(const ClientState& client) const {
    return any_type && (!ids || std::ranges::binary_search(*ids, client.id));
  }
};

// The error text; empty if there is none. `words` follow CLIENT LIST.
std::string parse_list(Words words, ListFilter& filter) {
  if (words.empty()) return {};
  if (words.size() == 2 && equal_ignoring_case(words[0], "TYPE")) {
    const std::optional<ClientType> type = client_type(words[1]);
    if (!type) return unknown_type(words[1]);
    filter.any_type = *type == ClientType::normal;
    return {};
  }
  if (words.size() < 2 || !equal_ignoring_case(words[0], "ID")) return std::string(text::syntax);
  filter.ids.emplace();
  for (const std::string_view word : words.subspan(1)) {
    const std::optional<std::int64_t> id = parse_integer(word);
    if (!id) return std::string(text::bad_client_id);
    // Ids begin at 1, so a smaller number names no client.
    if (*id > 0) filter.ids->push_back(static_cast<std::uint64_t>(*id));
  }
  std::ranges::sort(*filter.ids);
  return {};
}

// Which clients CLIENT KILL closes.
struct KillFilter {
  std::optional<std::uint64_t> id;
  std::optional<std::string_view> address;
  std::optional<std::string_view> local_address;
  std::optional<std::string_view> user_name;
  std::optional<std::chrono::seconds> age_min;
  bool any_type = true;
  bool skip_me = true;

  [[nodiscard]] bool takes(const ClientState& client, const Context& context) const {
    if (!any_type || (skip_me && client.id == context.client.id)) return false;
    if (id && *id != client.id) return false;
    if (address && *address != client.address) return false;
    if (local_address && *local_address != client.local_address) return false;
    if (user_name && *user_name != client.user->name()) return false;
    return !age_min || context.steady_now - client.connected_at >= *age_min;
  }
};

std::string parse_positive(std::string_view word, std::string_view bad, std::string_view range,
                           std::optional<std::uint64_t>& into) {
  const std::optional<std::int64_t> number = parse_integer(word);
  if (!number) return std::string(bad);
  if (*number < 1) return std::string(range);
  into = static_cast<std::uint64_t>(*number);
  return {};
}

std::string parse_kill_option(std::string_view name, std::string_view value, KillFilter& filter) {
  if (equal_ignoring_case(name, "ID"))
    return parse_positive(value, text::client_id_range, text::client_id_range, filter.id);
  if (equal_ignoring_case(name, "MAXAGE")) {
    std::optional<std::uint64_t> seconds;
    std::string refused = parse_positive(value, text::bad_max_age, text::max_age_range, seconds);
    // Longer than any connection can have lasted, and small enough for the comparison not to overflow.
    constexpr std::uint64_t seconds_max = std::numeric_limits<std::int32_t>::max();
    if (seconds) filter.age_min = std::chrono::seconds(std::min(*seconds, seconds_max));
    return refused;
  }
  if (equal_ignoring_case(name, "TYPE")) {
    const std::optional<ClientType> type = client_type(value);
    if (!type) return unknown_type(value);
    filter.any_type = *type == ClientType::normal;
  } else if (equal_ignoring_case(name, "ADDR")) {
    filter.address = value;
  } else if (equal_ignoring_case(name, "LADDR")) {
    filter.local_address = value;
  } else if (equal_ignoring_case(name, "USER")) {
    filter.user_name = value;
  } else if (equal_ignoring_case(name, "SKIPME") && equal_ignoring_case(value, "yes")) {
    filter.skip_me = true;
  } else if (equal_ignoring_case(name, "SKIPME") && equal_ignoring_case(value, "no")) {
    filter.skip_me = false;
  } else {
    return std::string(text::syntax);
  }
  return {};
}

// The error text; empty if there is none. `words` follow CLIENT KILL. A single word is an address, and the
// client that asks is then closed as well if it has that address.
std::string parse_kill(Words words, KillFilter& filter) {
  if (words.size() == 1) {
    filter.address = words[0];
    filter.skip_me = false;
    return {};
  }
  for (std::size_t at = 0; at < words.size(); at += 2) {
    if (at + 1 == words.size()) return std::string(text::syntax);
    if (std::string refused = parse_kill_option(words[at], words[at + 1], filter); !refused.empty())
      return refused;
  }
  return {};
}

// The error text of the options of CLIENT TRACKING; empty if there is none.
std::string_view wrong_with_options(std::span<const std::string_view> words) {
  bool broadcast = false;
  bool prefix = false;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const bool has_value = at + 1 < words.size();
    if (equal_ignoring_case(words[at], "REDIRECT") && has_value) {
      if (!parse_integer(words[++at])) return text::not_an_integer;
    } else if (equal_ignoring_case(words[at], "PREFIX") && has_value) {
      prefix = true;
      ++at;
    } else if (equal_ignoring_case(words[at], "BCAST")) {
      broadcast = true;
    } else if (!equal_ignoring_case(words[at], "OPTIN") && !equal_ignoring_case(words[at], "OPTOUT") &&
               !equal_ignoring_case(words[at], "NOLOOP")) {
      return text::syntax;
    }
  }
  return prefix && !broadcast ? text::prefix_without_broadcast : std::string_view();
}

Next client_id(Context& context) {
  return answer_count(context, context.client.id);
}

Next client_get_name(Context& context) {
  const std::string& name = context.client.shown_names().client;
  if (name.empty()) {
    context.reply.null();
  } else {
    context.reply.bulk(name);
  }
  return Next::done;
}

Next client_set_name(Context& context) {
  if (fits_client_line(context.words[2])) {
    context.client.names_to_change().client = context.words[2];
    context.reply.ok();
  } else {
    context.reply.error(text::bad_client_name);
  }
  return Next::done;
}

// The session drops the OK of OFF and SKIP. After OFF, SKIP has no effect: otherwise it would end in all
// replies.
Next client_reply(Context& context) {
  Replies& replies = context.client.replies;
  const std::string_view word = context.words[2];
  if (equal_ignoring_case(word, "ON")) {
    replies = Replies::all;
  } else if (equal_ignoring_case(word, "OFF")) {
    replies = Replies::none;
  } else if (!equal_ignoring_case(word, "SKIP")) {
    return refuse(context, text::syntax);
  } else if (replies != Replies::none) {
    replies = Replies::all_but_two;
  }
  return answer_ok(context);
}

Next client_set_info(Context& context) {
  const std::string_view attribute = context.words[2];
  std::string ClientNames::*stored = nullptr;
  if (equal_ignoring_case(attribute, "LIB-NAME")) stored = &ClientNames::library;
  if (equal_ignoring_case(attribute, "LIB-VER")) stored = &ClientNames::library_version;
  if (stored == nullptr) {
    context.reply.error("ERR Unrecognized option '" + std::string(echoed(attribute)) + "'");
  } else if (!fits_client_line(context.words[3])) {
    context.reply.error("ERR " + std::string(attribute) +
                        " cannot contain spaces, newlines or special characters.");
  } else {
    context.client.names_to_change().*stored = context.words[3];
    context.reply.ok();
  }
  return Next::done;
}

Next client_info(Context& context) {
  std::string line;
  append_client_line(line, context.client, context.steady_now);
  context.reply.verbatim(line);
  return Next::done;
}

Next client_list(Context& context) {
  ListFilter filter;
  if (const std::string refused = parse_list(context.words.subspan(2), filter); !refused.empty())
    return refuse(context, refused);
  // The gate is closed (Flag::alone), so no worker changes the state of a client meanwhile.
  std::string lines;
  context.services.clients.for_each([&](const ClientState& client) {
    if (filter.takes(client)) append_client_line(lines, client, context.steady_now);
  });
  context.reply.verbatim(lines);
  return Next::done;
}

Next client_kill(Context& context) {
  KillFilter filter;
  const Words words = context.words.subspan(2);
  if (const std::string refused = parse_kill(words, filter); !refused.empty())
    return refuse(context, refused);
  if (filter.user_name && context.services.users->find(*filter.user_name) == nullptr)
    return refuse(context, "ERR No such user '" + std::string(echoed(*filter.user_name)) + "'");
  std::vector<std::uint64_t> killed;
  context.services.clients.for_each([&](ClientState& client) {
    if (!filter.takes(client, context)) return;
    if (&client != &context.client) client.to_be_closed = true;
    killed.push_back(client.id);
  });
  bool self = false;
  for (const std::uint64_t id : killed) {
    if (id == context.client.id) {
      self = true;
    } else {
      context.services.clients.kill(id);
    }
  }
  if (words.size() > 1) {
    context.reply.integer_unsigned(killed.size());
  } else if (killed.empty()) {
    context.reply.error(text::no_such_client);
  } else {
    context.reply.ok();
  }
  if (!self) return Next::done;
  context.client.close_after_reply = true;  // The client that asked still gets its answer.
  return Next::close;
}

Next client_no_evict(Context& context) {
  return set_switch(context, context.client.no_evict);
}

Next client_no_touch(Context& context) {
  return set_switch(context, context.client.no_touch);
}

Next client_pause(Context& context) {
  constexpr std::size_t words_max = 4;
  if (context.words.size() > words_max) return refuse_words(context);
  const bool with_mode = context.words.size() == words_max;
  const bool of_writes = with_mode && equal_ignoring_case(context.words[3], "WRITE");
  if (with_mode && !of_writes && !equal_ignoring_case(context.words[3], "ALL"))
    return refuse(context, text::bad_pause_mode);
  const std::optional<std::int64_t> timeout = parse_integer(context.words[2]);
  if (!timeout) return refuse(context, text::timeout_not_int);
  if (*timeout < 0) return refuse(context, text::timeout_negative);
  if (*timeout > std::numeric_limits<std::int64_t>::max() - keyspace::deadline_at(context.now))
    return refuse(context, text::timeout_range);
  constexpr std::int64_t milliseconds_max = std::chrono::milliseconds(pause_max).count();
  const std::chrono::milliseconds time(std::min(*timeout, milliseconds_max));
  context.services.pause.begin(!of_writes, context.steady_now, context.steady_now + time);
  return answer_ok(context);
}

Next client_unpause(Context& context) {
  context.services.pause.end();
  context.services.clients.pause_ended();
  return answer_ok(context);
}

// ON is refused, and not taken without effect: a client that keeps replies in a cache must learn that Sepal
// does not tell it about changes.
Next client_tracking(Context& context) {
  const bool on = equal_ignoring_case(context.words[2], "ON");
  const std::string_view wrong = wrong_with_options(context.words.subspan(3));
  if (!wrong.empty()) return refuse(context, wrong);
  if (on) return refuse(context, text::no_tracking);
  if (!equal_ignoring_case(context.words[2], "OFF")) return refuse(context, text::syntax);
  return answer_ok(context);
}

// What the reference answers to a client without tracking.
Next client_tracking_info(Context& context) {
  constexpr std::size_t field_count = 3;
  context.reply.map(field_count);
  context.reply.field("flags").set(1);
  context.reply.bulk("off");
  context.reply.field("redirect").integer(-1);
  context.reply.field("prefixes").array(0);
  return Next::done;
}

Next client_get_redirection(Context& context) {
  return answer_number(context, -1);
}

Next client_unblock(Context& context) {
  constexpr std::size_t words_max = 4;
  if (context.words.size() > words_max) return refuse_words(context);
  const bool has_reason = context.words.size() == words_max;
  if (has_reason && !equal_ignoring_case(context.words[3], "TIMEOUT") &&
      !equal_ignoring_case(context.words[3], "ERROR"))
    return refuse(context, text::bad_unblock_reason);
  if (!parse_integer(context.words[2])) return refuse(context, text::not_an_integer);
  return answer_number(context, 0);
}

constexpr Family client_row{.group = "connection",
                            .categories = Category::connection,
                            .flags = Flag::no_script | Flag::loading | Flag::stale};
constexpr Family clients_row{.group = "connection",
                             .categories = Category::connection,
                             .flags = Flag::admin | Flag::no_script | Flag::loading | Flag::stale};

constexpr CommandSpec client_subcommands[] = {
    client_row("client|caching <YES | NO>", 3, "6.0.0", "Answers the error of a connection without tracking",
               Refused{text::caching_without_tracking}),
    client_row("client|getname", 2, "2.6.9", "Answers the connection's name", client_get_name),
    client_row("client|getredir", 2, "6.0.0", "Answers -1: no connection of Sepal tracks keys",
               client_get_redirection),
    client_row.help("client|help", "5.0.0"),
    client_row("client|id", 2, "5.0.0", "Answers the connection's number", client_id),
    client_row("client|info", 2, "6.2.0", "Describes the connection in one line", client_info, any_output),
    clients_row("client|kill [ip:port] [ID client-id] [TYPE type] [USER username] [ADDR addr] [LADDR laddr] "
                "[SKIPME yes-or-no] [MAXAGE maxage]",
                -3, "2.4.0", "Closes connections: one by its address, or all that pass the filters",
                client_kill, Flag::alone | Flag::administers,
                Cost{"O(N) where N is the number of connections"}),
    clients_row("client|list [TYPE type] [ID client-id [client-id ...]]", -2, "2.4.0",
                "Describes all connections, one in a line", client_list, Flag::alone,
                Cost{"O(N) where N is the number of connections"}, any_output),
    clients_row("client|no-evict <ON | OFF>", 3, "7.0.0",
                "Marks the connection as one that must not be evicted; Sepal evicts none", client_no_evict),
    client_row("client|no-touch <ON | OFF>", 3, "7.2.0",
               "Marks the connection as one whose commands leave times of access alone; Sepal keeps none",
               client_no_touch),
    clients_row("client|pause milliseconds [WRITE | ALL]", -3, "3.0.0",
                "Lets requests wait for a while: all, or those that may change something", client_pause,
                Flag::alone | Flag::administers),
    client_row("client|reply <ON | OFF | SKIP>", 3, "3.2.0",
               "Says which of the next requests are answered: all, none, or all but the next one",
               client_reply, Flag::outside_multi),
    client_row("client|setinfo <LIB-NAME libname | LIB-VER libver>", 4, "7.2.0",
               "Says which client library, in which version, the connection uses", client_set_info,
               on_all_nodes),
    client_row("client|setname connection-name", 3, "2.6.9", "Names the connection", client_set_name,
               on_all_nodes),
    client_row(
        "client|tracking <ON | OFF> [REDIRECT client-id] [PREFIX prefix] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        -3, "6.0.0", "Answers an error to ON: Sepal does not tell clients which keys have changed",
        client_tracking),
    client_row("client|trackinginfo", 2, "6.2.0", "Answers that the connection does not track keys",
               client_tracking_info),
    clients_row("client|unblock client-id [TIMEOUT | ERROR]", -3, "5.0.0",
                "Answers 0: no client of Sepal waits for a key", client_unblock),
    clients_row("client|unpause", 2, "6.2.0", "Ends a pause", client_unpause, Flag::alone,
                Cost{"O(N) where N is the number of clients that wait"}),
};

constexpr CommandSpec client_family[] = {
    client_row.container("client", "2.4.0", "Commands about connections", client_subcommands),
};

}  // namespace

constinit const Rows client_rows = client_family;

}  // namespace sepal::command
