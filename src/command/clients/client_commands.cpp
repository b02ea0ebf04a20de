// Handlers of CLIENT.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <limits>
#include <optional>

#include "command/clients/client_text.hpp"
#include "command/table/handlers.hpp"

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

// Which clients CLIENT LIST shows.
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

}  // namespace

Next client_id(Context& context) {
  context.reply.integer_unsigned(context.client.id);
  return Next::done;
}

Next client_get_name(Context& context) {
  if (context.client.name.empty()) {
    context.reply.null();
  } else {
    context.reply.bulk(context.client.name);
  }
  return Next::done;
}

Next client_set_name(Context& context) {
  if (fits_client_line(context.words[2])) {
    context.client.name = context.words[2];
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
    context.reply.error(text::syntax);
    return Next::done;
  } else if (replies != Replies::none) {
    replies = Replies::all_but_two;
  }
  context.reply.ok();
  return Next::done;
}

Next client_set_info(Context& context) {
  const std::string_view attribute = context.words[2];
  std::string* stored = nullptr;
  if (equal_ignoring_case(attribute, "LIB-NAME")) stored = &context.client.library_name;
  if (equal_ignoring_case(attribute, "LIB-VER")) stored = &context.client.library_version;
  if (stored == nullptr) {
    context.reply.error("ERR Unrecognized option '" + std::string(echoed(attribute)) + "'");
  } else if (!fits_client_line(context.words[3])) {
    context.reply.error("ERR " + std::string(attribute) +
                        " cannot contain spaces, newlines or special characters.");
  } else {
    *stored = context.words[3];
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
  if (const std::string refused = parse_list(context.words.subspan(2), filter); !refused.empty()) {
    context.reply.error(refused);
    return Next::done;
  }
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
  if (const std::string refused = parse_kill(words, filter); !refused.empty()) {
    context.reply.error(refused);
    return Next::done;
  }
  if (filter.user_name && context.services.users->find(*filter.user_name) == nullptr) {
    context.reply.error("ERR No such user '" + std::string(echoed(*filter.user_name)) + "'");
    return Next::done;
  }
  std::vector<std::uint64_t> killed;
  context.services.clients.for_each([&](const ClientState& client) {
    if (filter.takes(client, context)) killed.push_back(client.id);
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

}  // namespace sepal::command
