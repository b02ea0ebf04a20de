// Handlers of ACL. What rules mean stands in acl_selector.cpp and acl_user.cpp.

#include <sepal/base/arguments.hpp>
#include <sepal/base/random.hpp>
#include <sepal/command/run/client_users.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/command/users/acl_log.hpp>
#include <sepal/command/users/users.hpp>

#include <algorithm>
#include <optional>
#include <vector>

#include "command/run/refuse.hpp"
#include "command/table/command_index.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"
#include "command/table/row_category.hpp"

namespace sepal::command {
namespace {

constexpr std::size_t default_log_count = 10;
constexpr std::int64_t password_bits_default = 256;
constexpr std::int64_t password_bits_max = 4096;
constexpr std::int64_t bits_of_digit = 4;

std::string_view name_of_reason(AclReason reason) {
  switch (reason) {
    case AclReason::authentication: return "auth";
    case AclReason::command: return "command";
    case AclReason::key: return "key";
    case AclReason::channel: return "channel";
    case AclReason::certificate: return "tls-cert";
  }
  return {};
}

std::string_view name_of_place(AclPlace place) {
  switch (place) {
    case AclPlace::toplevel: return "toplevel";
    case AclPlace::transaction: return "multi";
    case AclPlace::script: return "lua";
  }
  return {};
}

std::int64_t milliseconds_of(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

void append_log_entry(Context& context, const AclLog::Entry& entry) {
  constexpr double milliseconds_per_second = 1000;
  resp::Reply& reply = context.reply;
  const std::int64_t updated = milliseconds_of(entry.updated);
  const std::int64_t age = std::max(milliseconds_of(context.now) - updated, std::int64_t{0});
  reply.map(10);
  reply.field("count").integer_unsigned(entry.count);
  reply.field("reason").bulk(name_of_reason(entry.event.reason));
  reply.field("context").bulk(name_of_place(entry.event.place));
  reply.field("object").bulk(entry.event.object);
  reply.field("username").bulk(entry.event.user_name);
  reply.field("age-seconds").real(static_cast<double>(age) / milliseconds_per_second);
  reply.field("client-info").bulk(entry.event.client);
  reply.field("entry-id").integer_unsigned(entry.id);
  reply.field("timestamp-created").integer(milliseconds_of(entry.created));
  reply.field("timestamp-last-updated").integer(updated);
}

// Three pairs of a map.
void append_selector(resp::Reply& reply, const AclSelector& selector) {
  reply.field("commands").bulk(selector.commands());
  reply.field("keys").bulk(selector.keys());
  reply.field("channels").bulk(selector.channels());
}

// The reply has an element for each user.
template <class Told>
Next list_users(Context& context, const Told& told) {
  const std::size_t reply_bytes = context.reply.size();
  const std::uint64_t bytes_max = context.services.options.clients_memory_max;
  const UserTable& users = context.services.users->all();
  context.reply.array(users.size());
  for (const auto& [name, user] : users) {
    context.reply.bulk(told(*user));
    if (bytes_max == 0 || context.reply.size() - reply_bytes <= bytes_max) continue;
    context.reply.truncate(reply_bytes);
    return refuse(context, text::users_reply_too_long);
  }
  return Next::done;
}

Next acl_categories_of(Context& context) {
  constexpr std::size_t words_max = 3;
  if (context.words.size() > words_max) return refuse_words(context);
  if (context.words.size() < words_max) {
    context.reply.array(std::size(category_names));
    for (const std::string_view category : category_names) context.reply.bulk(category);
    return Next::done;
  }
  const std::string_view wanted = context.words[2];
  const Categories asked = category_of(wanted);
  if (asked.bits == 0) return refuse(context, "ERR Unknown category '" + std::string(echoed(wanted)) + "'");
  std::vector<std::string_view> names;
  for_each_row([&](const CommandSpec& row) {
    if (row.categories.has(asked)) names.push_back(row.name);
  });
  context.reply.array(names.size());
  for (const std::string_view name : names) context.reply.bulk(name);
  return Next::done;
}

Next acl_who_am_i(Context& context) {
  context.reply.bulk(context.client.user->name());
  return Next::done;
}

Next acl_users(Context& context) {
  return list_users(context, [](const User& user) { return user.name(); });
}

Next acl_list(Context& context) {
  return list_users(context, [](const User& user) { return "user " + user.name() + " " + user.rules(); });
}

Next acl_get_user(Context& context) {
  resp::Reply& reply = context.reply;
  const User* const user = context.services.users->find(context.words[2]);
  if (user == nullptr) {
    reply.null();
    return Next::done;
  }
  reply.map(6);
  reply.field("flags").set(user->flags().size());
  for (const std::string_view flag : user->flags()) reply.bulk(flag);
  reply.field("passwords").array(user->passwords().size());
  for (const std::string& password : user->passwords()) reply.bulk(password);
  append_selector(reply, user->selectors().front());
  const auto others = user->selectors().subspan(1);
  reply.field("selectors").array(others.size());
  for (const AclSelector& selector : others) {
    reply.map(3);
    append_selector(reply, selector);
  }
  return Next::done;
}

Next acl_set_user(Context& context) {
  keyspace::Keyspace& keyspace = context.services.keyspace;
  Users& users = *context.services.users;
  const std::string wrong =
      users.set(context.words[2], context.words.subspan(3), keyspace.value_limits().bytes_max);
  // The texts are those of an ACL file as well, and have no error code.
  if (!wrong.empty()) return refuse(context, "ERR " + wrong);
  keyspace.count_others(users.byte_count());
  return answer_ok(context);
}

Next acl_delete_users(Context& context) {
  const auto names = context.words.subspan(2);
  // Before any user is removed, so a refused request has no effect.
  if (std::ranges::find(names, Users::default_name) != names.end())
    return refuse(context, text::default_stays);
  const RemovedUsers removed = context.services.users->remove(names);
  context.services.keyspace.count_others(context.services.users->byte_count());
  context.reply.integer_unsigned(removed.size());
  // While `removed` lives: clients still point to its users. The gate is closed (Flag::alone), so no client
  // runs meanwhile.
  if (!dismiss(removed, context.services.clients, &context.client)) return Next::done;
  // The client has removed its own user, and still gets its answer.
  context.client.close_after_reply = true;
  return Next::close;
}

Next acl_generate_password(Context& context) {
  constexpr std::size_t words_max = 3;
  if (context.words.size() > words_max) return refuse_words(context);
  std::int64_t bits = password_bits_default;
  if (context.words.size() == words_max) {
    const std::optional<std::int64_t> given = parse_integer(context.words[2]);
    if (!given) return refuse(context, text::not_an_integer);
    if (*given <= 0 || *given > password_bits_max) return refuse(context, text::password_bits_range);
    bits = *given;
  }
  context.reply.bulk(random_hex(static_cast<std::size_t>((bits + bits_of_digit - 1) / bits_of_digit)));
  return Next::done;
}

Next acl_dry_run(Context& context) {
  const User* const user = context.services.users->find(context.words[2]);
  if (user == nullptr)
    return refuse(context, "ERR User '" + std::string(echoed(context.words[2])) + "' not found");
  const auto words = context.words.subspan(3);
  const CommandSpec* const spec = row_for(words);
  // row_for() answers the container for a subcommand that does not exist.
  if (spec == nullptr || (!spec->subcommands.empty() && words.size() > 1))
    return refuse(context, "ERR Command '" + std::string(echoed(words[0])) + "' not found");
  if (!arity_fits(*spec, words.size())) return refuse(context, wrong_arity(spec->name));
  if (const std::optional<Denial> denial = user->denied(*spec, words)) {
    context.reply.bulk(denial_text_in_full(*denial, *user, *spec, words));
  } else {
    context.reply.ok();
  }
  return Next::done;
}

Next acl_log(Context& context) {
  constexpr std::size_t words_max = 3;
  if (context.words.size() > words_max) return refuse_words(context);
  AclLog& log = *context.services.acl_log;
  std::size_t count = default_log_count;
  if (context.words.size() == words_max) {
    if (equal_ignoring_case(context.words[2], "RESET")) {
      log.clear();
      return answer_ok(context);
    }
    const std::optional<std::int64_t> given = parse_integer(context.words[2]);
    if (!given) return refuse(context, text::not_an_integer);
    count = static_cast<std::size_t>(std::max(*given, std::int64_t{0}));
  }
  // A smaller acllog-max-len has effect at once.
  const std::size_t kept_max = context.services.options.acl_log_max;
  const std::vector<AclLog::Entry> entries = log.newest(std::min(count, kept_max));
  context.reply.array(entries.size());
  for (const AclLog::Entry& entry : entries) append_log_entry(context, entry);
  return Next::done;
}

// A thread of the daemon writes and reads the file, so a slow disk holds up no worker. The text is made here,
// because the gate guards the users.
Next acl_save(Context& context) {
  if (context.services.control.save_users_for(context.client.id, context.services.users->text()))
    return Next::wait;
  return refuse(context, text::no_acl_file);
}

Next acl_load(Context& context) {
  if (context.services.control.load_users_for(context.client.id)) return Next::wait;
  return refuse(context, text::no_acl_file);
}

constexpr Family acl_row{.group = "server", .flags = Flag::no_script | Flag::loading | Flag::stale};
constexpr Family acl_admin_row{.group = "server",
                               .flags = Flag::admin | Flag::no_script | Flag::loading | Flag::stale};

constexpr CommandSpec acl_subcommands[] = {
    acl_row("acl|cat [category]", -2, "6.0.0",
            "Lists the categories of commands, or the commands of a category", acl_categories_of,
            Cost{"O(N) where N is the number of commands"}),
    acl_admin_row("acl|deluser username [username ...]", -3, "6.0.0",
                  "Removes users, and closes the connections of their clients", acl_delete_users,
                  Flag::alone | Flag::administers, Cost{"O(N) where N is the number of connections"},
                  on_all_nodes),
    acl_admin_row("acl|dryrun username command [arg [arg ...]]", -4, "7.0.0",
                  "Tells whether a user may run a command, without running it", acl_dry_run),
    acl_row("acl|genpass [bits]", -2, "6.0.0", "Answers a random password of so many bits",
            acl_generate_password),
    acl_admin_row("acl|getuser username", 3, "6.0.0", "Describes a user", acl_get_user,
                  Cost{"O(N) where N is the number of rules of the user"}),
    acl_row.help("acl|help", "6.0.0"),
    acl_admin_row("acl|list", 2, "6.0.0", "Lists the users with their rules, as an ACL file has them",
                  acl_list, Cost{"O(N) where N is the number of users"}),
    acl_admin_row("acl|load", 2, "6.0.0", "Makes the users of the ACL file the users, all or none", acl_load,
                  Flag::administers | Flag::outside_multi,
                  Cost{"O(N) where N is the number of users and connections"}),
    acl_admin_row("acl|log [count | RESET]", -2, "6.0.0",
                  "Lists requests that were not allowed and failed logins, or forgets them", acl_log,
                  Cost{"O(N) where N is the number of entries shown"}),
    acl_admin_row("acl|save", 2, "6.0.0", "Writes the users into the ACL file", acl_save,
                  Flag::administers | Flag::outside_multi, Cost{"O(N) where N is the number of users"},
                  on_all_nodes),
    acl_admin_row("acl|setuser username [rule [rule ...]]", -3, "6.0.0",
                  "Makes a user, or changes one; all rules have effect, or none", acl_set_user,
                  Flag::alone | Flag::administers, Cost{"O(N) where N is the number of rules"}, on_all_nodes),
    acl_admin_row("acl|users", 2, "6.0.0", "Lists the names of the users", acl_users,
                  Cost{"O(N) where N is the number of users"}),
    acl_row("acl|whoami", 2, "6.0.0", "Answers the name of the connection's user", acl_who_am_i),
};

constexpr CommandSpec acl_family[] = {
    acl_row.container("acl", "6.0.0", "Commands about users and what they may do", acl_subcommands),
};

}  // namespace

constinit const Rows acl_rows = acl_family;

}  // namespace sepal::command
