// Handlers of commands on the connection.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/client_users.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/command/users/acl_log.hpp>
#include <sepal/command/users/login_delay.hpp>
#include <sepal/command/users/users.hpp>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "command/keys/database_number.hpp"
#include "command/run/client_text.hpp"
#include "command/run/refuse.hpp"
#include "command/run/transaction_state.hpp"
#include "command/table/command_row.hpp"
#include "command/table/compatibility.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

// What comes of a login. `delayed`: it is wrong, and the answer has to wait. `unchecked`: the client's last
// one is still waiting.
enum class Login : std::uint8_t { accepted, refused, delayed, unchecked };

void note_failed_login(Context& context, std::string_view name) {
  const bool is_queued = context.mode.in_transaction;
  context.services.acl_log->note({.reason = AclReason::authentication,
                                  .place = is_queued ? AclPlace::transaction : AclPlace::toplevel,
                                  .object = std::string(context.words[0]),
                                  .user_name = std::string(echoed(name)),
                                  .client = client_line(context.client, context.steady_now)},
                                 context.now, context.services.options.acl_log_max);
  context.services.control.log_failed_login(context.client, echoed(name));
}

// A login that failed is checked once more when its answer is due: the user may have changed meanwhile. A
// command of a transaction cannot wait. So it is answered at once, and the client's next login waits for it.
//
//     before login_due   no password is checked, so a pipeline or a transaction does not guess faster
//     at login_due       the failed login runs again; if it is still wrong, it is refused, without a new note
//     otherwise          a right login is answered at once; for a wrong one, LoginDelay gives its time
Login log_in(Context& context, std::string_view name, std::string_view password) {
  ClientState& client = context.client;
  const bool can_wait = !context.mode.in_transaction;
  if (context.steady_now < client.login_due) return can_wait ? Login::delayed : Login::unchecked;
  const bool has_waited = std::exchange(client.login_failed, false);
  if (const User* const user = context.services.users->log_in(name, password)) {
    client.user = user;
    client.authenticated = true;
    return Login::accepted;
  }
  if (has_waited) return Login::refused;
  note_failed_login(context, name);
  client.login_due = context.services.login_delay->note(context.steady_now);
  client.login_failed = can_wait && context.steady_now < client.login_due;
  return client.login_failed ? Login::delayed : Login::refused;
}

Next refuse_login(Context& context, Login login) {
  if (login == Login::delayed) return Next::delayed;
  return refuse(context, login == Login::refused ? text::wrong_password : text::login_unchecked);
}

// Sets the version of the client and of its reply: the answer to this request is in the new one already.
void set_protocol(Context& context, std::uint8_t protocol) {
  context.client.protocol = protocol;
  context.reply.set_version(protocol == 3 ? resp::Version::resp3 : resp::Version::resp2);
}

struct HelloRequest {
  std::optional<std::uint8_t> protocol;
  struct Credentials {
    std::string_view user;
    std::string_view password;
  };
  std::optional<Credentials> credentials;
  std::optional<std::string_view> name;
};

// The error of HELLO that is found before passwords are checked; empty if there is none.
std::string parse_hello(std::span<const std::string_view> words, HelloRequest& request) {
  if (words.empty()) return {};
  const std::optional<std::int64_t> protocol = parse_integer(words[0]);
  if (!protocol) return std::string(text::bad_protocol);
  if (*protocol != 2 && *protocol != 3) return std::string(text::no_protocol);
  request.protocol = static_cast<std::uint8_t>(*protocol);
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::size_t behind = words.size() - at - 1;
    if (equal_ignoring_case(words[at], "AUTH") && behind >= 2) {
      request.credentials = {.user = words[at + 1], .password = words[at + 2]};
      at += 2;
    } else if (equal_ignoring_case(words[at], "SETNAME") && behind >= 1) {
      request.name = words[++at];
      if (!fits_client_line(*request.name)) return std::string(text::bad_client_name);
    } else {
      return "ERR Syntax error in HELLO option '" + std::string(echoed(words[at])) + "'";
    }
  }
  return {};
}

void append_server(Context& context) {
  resp::Reply& reply = context.reply;
  reply.map(7);
  reply.field("server").bulk(server_name);
  reply.field("version").bulk(redis_version);
  reply.field("proto").integer(context.client.protocol);
  reply.field("id").integer_unsigned(context.client.id);
  reply.field("mode").bulk("standalone");
  reply.field("role").bulk("master");
  reply.bulk("modules");
  append_modules(reply);
}

// Answers with a word of the request. A long one is copied in parts.
Next answer_with(Context& context, std::string_view word) {
  if (word.size() <= whole_bytes_max) {
    context.reply.bulk(word);
    return Next::done;
  }
  if (context.partial == nullptr) context.partial = std::make_unique<PartialRun>();
  PartialRun& copied = *context.partial;
  const std::string_view part = word.substr(copied.cursor, part_bytes_max);
  copied.append_bytes(part);
  copied.cursor += part.size();
  if (copied.cursor < word.size()) return Next::more;
  context.reply.bulk_later(std::move(copied.pieces));
  return Next::done;
}

Next ping(Context& context) {
  constexpr std::size_t words_max = 2;
  if (context.words.size() > words_max) {
    context.reply.error(wrong_arity(context.spec.name));
  } else if (context.words.size() == words_max) {
    return answer_with(context, context.words[1]);
  } else {
    context.reply.simple("PONG");
  }
  return Next::done;
}

Next echo(Context& context) {
  return answer_with(context, context.words[1]);
}

// All words are read before the password is checked, and the name and the protocol are set behind the login.
// So a HELLO that is refused changes nothing, and one with a wrong option counts as no failed login.
Next hello(Context& context) {
  HelloRequest request;
  if (const std::string refused = parse_hello(context.words.subspan(1), request); !refused.empty())
    return refuse(context, refused);
  if (request.credentials) {
    const Login login = log_in(context, request.credentials->user, request.credentials->password);
    if (login != Login::accepted) return refuse_login(context, login);
  }
  // The dispatcher has let it pass (Flag::no_auth), because HELLO may be the login.
  if (!context.client.authenticated && !context.services.users->open())
    return refuse(context, text::hello_without_authentication);
  if (request.name) context.client.names_to_change().client = *request.name;
  if (request.protocol) set_protocol(context, *request.protocol);
  append_server(context);
  return Next::done;
}

Next authenticate(Context& context) {
  constexpr std::size_t words_with_user = 3;
  if (context.words.size() > words_with_user) return refuse(context, text::syntax);
  const bool with_user = context.words.size() == words_with_user;
  if (!with_user && !context.services.users->standard().needs_password())
    return refuse(context, text::no_password_set);
  const Login login =
      log_in(context, with_user ? context.words[1] : Users::default_name, context.words.back());
  if (login != Login::accepted) return refuse_login(context, login);
  return answer_ok(context);
}

Next quit(Context& context) {
  context.reply.ok();
  context.client.close_after_reply = true;
  return Next::close;
}

Next reset(Context& context) {
  ClientState& client = context.client;
  client.database = 0;
  if (client.names != nullptr) client.names->client.clear();
  client.no_evict = false;
  client.no_touch = false;
  client.replies = Replies::all;
  client.monitoring.reset();
  end_transaction(client);
  welcome(*context.services.users, client);
  // Before the reply, which a new connection would read as RESP2.
  set_protocol(context, 2);
  context.reply.simple("RESET");
  return Next::done;
}

Next select(Context& context) {
  if (const auto wrong = parse_database(context.words[1], context.client.database); !wrong.empty()) {
    context.reply.error(wrong);
  } else {
    context.reply.ok();
  }
  return Next::done;
}

constexpr Family connection_row{.group = "connection", .categories = Category::connection};
constexpr Family login_row{
    .group = "connection",
    .categories = Category::connection,
    .flags = Flag::no_script | Flag::loading | Flag::stale | Flag::allow_busy | Flag::no_auth | Flag::fast};

constexpr CommandSpec connection_family[] = {
    login_row("auth [username] password", -2, "1.0.0", "Authenticates the connection", authenticate),
    connection_row("echo message", 2, "1.0.0", "Answers what it is sent", echo,
                   Flag::loading | Flag::stale | Flag::fast),
    login_row(
        "hello [protover] [AUTH username password] [SETNAME clientname]", -1, "6.0.0",
        "Chooses the protocol's version, authenticates and names the connection, and describes the server",
        hello),
    connection_row("ping [message]", -1, "1.0.0", "Answers PONG, or what it is sent", ping, Flag::fast,
                   on_all_shards),
    login_row("quit", -1, "1.0.0", "Closes the connection once all replies are sent", quit, Flag::unqueued),
    login_row("reset", 1, "6.2.0", "Puts the connection into the state of a new one", reset, Flag::unqueued),
    connection_row("select index", 2, "1.0.0", "Chooses the connection's database", select,
                   Flag::loading | Flag::stale | Flag::fast),
};

}  // namespace

constinit const Rows connection_rows = connection_family;

}  // namespace sepal::command
