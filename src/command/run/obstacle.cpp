// The requests that get no handler, and what their clients are told.
#include "command/run/obstacle.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/command/users/acl_log.hpp>
#include <sepal/command/users/users.hpp>

#include <optional>
#include <string_view>

#include "command/run/client_text.hpp"
#include "command/run/refuse.hpp"
#include "command/run/transaction_state.hpp"
#include "command/table/absent_commands.hpp"
#include "command/table/command_row.hpp"

namespace sepal::command {
namespace {

// "NOPERM ACLs rules changed ...": a command was allowed when it was queued, and is no longer.
std::string no_permission_at_exec(const Denial& denial) {
  // The text is the reference's, and clients match on it.
  const bool is_key = denial.reason == Denial::Reason::key;
  return no_permission(
      std::string("ACLs rules changed between the moment the transaction was accumulated and the EXEC call. "
                  "This command is no longer allowed for the following reason: ") +
      (is_key ? "no permission to touch the specified keys"
              : "no permission to execute the command or subcommand"));
}

std::string unknown_command(std::span<const std::string_view> words) {
  std::string arguments;
  // The text is the reference's, but it is bounded: it need not repeat the whole request.
  for (const std::string_view word : words.subspan(1)) {
    if (arguments.size() >= echoed_bytes_max) break;
    const std::size_t room = echoed_bytes_max - arguments.size();
    arguments.append("'").append(word.substr(0, room)).append("' ");
  }
  std::string text = "ERR unknown command '";
  text.append(echoed(words[0])).append("', with args beginning with: ").append(arguments);
  return text;
}

std::string unknown_subcommand(const CommandSpec& container, std::string_view word) {
  std::string text = "ERR unknown subcommand '";
  text.append(echoed(word)).append("'. Try ");
  text.append(upper_case(container.name)).append(" HELP.");
  return text;
}

// A web page can make a browser post to this port (cross-protocol scripting). The browser's bytes begin like
// this, and it gets no reply.
bool comes_from_a_browser(std::string_view name) {
  return equal_ignoring_case(name, "post") || equal_ignoring_case(name, "host:");
}

}  // namespace

bool must_log_in(const Services& services, const ClientState& client) {
  return !client.authenticated && !services.users->open();
}

Obstacle access_obstacle(const Services& services, const Request& request) {
  const CommandSpec& spec = *request.spec;
  if (spec.flags.has(Flag::not_enabled)) return Obstacle::none;
  if (must_log_in(services, request.client) && !spec.flags.has(Flag::no_auth)) return Obstacle::log_in;
  if (request.client.transaction != nullptr && spec.flags.has(Flag::no_multi)) return Obstacle::transaction;
  // Parts that the dispatcher cuts have words of their own. All others have those of the whole request, which
  // may name thousands of keys.
  PartialRun* const partial = spec.items_at == nullptr ? request.partial.get() : nullptr;
  const std::uint64_t revision = services.users->revision();
  if (partial != nullptr && partial->permitted_at == revision) return Obstacle::none;
  if (request.client.user->denied(spec, request.words)) return Obstacle::permission;
  if (partial != nullptr) partial->permitted_at = revision;
  return Obstacle::none;
}

std::string obstacle_text(Obstacle obstacle, const Request& request) {
  switch (obstacle) {
    case Obstacle::subcommand: return unknown_subcommand(*request.spec, request.words[1]);
    case Obstacle::arity: return wrong_arity(request.spec->name);
    case Obstacle::log_in: return std::string(text::no_authentication);
    case Obstacle::transaction: return std::string(text::not_in_transaction);
    case Obstacle::memory: return std::string(text::over_memory);
    case Obstacle::system_memory: return std::string(text::no_memory);
    case Obstacle::loading: return std::string(text::loading);
    case Obstacle::script: return std::string(text::busy_script);
    case Obstacle::none:
    case Obstacle::permission: break;
  }
  SEPAL_ASSERT(false, "a request is refused without a text");
  return {};
}

// Commands of rows with Flag::adds, so many with as many words. A malformed one has no items.
void Dispatcher::count_refused_adds(const CommandSpec& spec, std::span<const std::string_view> words,
                                    RefusedAdd reason, std::uint64_t times) {
  constexpr std::size_t items_behind_key = 2;
  if (!spec.flags.has(Flag::adds)) return;
  const std::size_t at = spec.items_at == nullptr ? items_behind_key : spec.items_at(words);
  if (at != 0) count_refused(stats_, reason, times * (words.size() - at));
}

Dispatcher::Outcome Dispatcher::reject_add(const Request& request, std::string_view text, bool has_begun,
                                           RefusedAdd reason) {
  count_refused_adds(*request.spec, request.words, reason);
  if (is_exec(*request.spec) && request.client.transaction != nullptr)
    count_refused_adds(*request.client.transaction, reason);
  return reject(request, text, has_begun);
}

// A request of which a part has run is a call that failed: only then the session gets the row, and adds the
// time to it. A refused command ends in the failure of the transaction that it was to be part of; a refused
// EXEC ends the transaction.
Dispatcher::Outcome Dispatcher::reject(const Request& request, std::string_view text, bool has_begun) {
  if (is_exec(*request.spec)) {
    end_transaction(request.client);
    request.reply.error(transaction_discarded(text));
  } else {
    if (request.client.transaction != nullptr) request.client.transaction->fail();
    request.reply.error(text);
  }
  CommandStats& row = stats_.commands[command_row(*request.spec)];
  (has_begun ? row.failed : row.rejected).add();
  count_errors(text, 1);
  return {.next = Next::done, .spec = has_begun ? request.spec : nullptr};
}

// Refuses what the client's user may not do. EXEC asks for each command once more: the user may have changed
// since the command was queued.
Dispatcher::Outcome Dispatcher::deny(const Request& request, const RunMode& mode, bool has_begun) {
  const std::optional<Denial> found = request.client.user->denied(*request.spec, request.words);
  SEPAL_ASSERT(found.has_value(), "a request is denied that the client's user may run");
  const Denial& denial = *found;
  const bool is_queued = mode.in_transaction || request.client.transaction != nullptr;
  note_denial(denial, request.client, *request.spec, request.words,
              is_queued ? AclPlace::transaction : AclPlace::toplevel, mode);
  const std::string text = mode.in_transaction
                               ? no_permission_at_exec(denial)
                               : no_permission(denial_text(denial, *request.client.user, *request.spec));
  return reject(request, text, has_begun);
}

// Not const, because it changes the log of denials.
// NOLINTNEXTLINE(readability-make-member-function-const)
void Dispatcher::note_denial(const Denial& denial, const ClientState& client, const CommandSpec& spec,
                             std::span<const std::string_view> words, AclPlace place, const RunMode& mode) {
  const bool is_key = denial.reason == Denial::Reason::key;
  services_.acl_log->note({.reason = is_key ? AclReason::key : AclReason::command,
                           .place = place,
                           .object = std::string(is_key ? echoed(words[denial.word]) : spec.name),
                           .user_name = client.user->name(),
                           .client = client_line(client, mode.steady_now)},
                          mode.now, services_.options.acl_log_max);
}

Dispatcher::Outcome Dispatcher::run_unknown(const Request& request) {
  if (comes_from_a_browser(request.words[0])) {
    stats_.http_requests.add();
    services_.control.log_http_request(request.client);
    return {.next = Next::close, .spec = nullptr};
  }
  if (request.client.transaction != nullptr) request.client.transaction->fail();
  const AbsentGroup* const absent = find_absent(request.words[0]);
  if (absent == nullptr) {
    request.reply.error(unknown_command(request.words));
  } else if (must_log_in(services_, request.client)) {
    // The reference has these commands, so it asks for the password first.
    request.reply.error(text::no_authentication);
  } else {
    request.reply.error(absent_command(*absent));
  }
  count_errors(request.reply.last_error(), 1);
  return {.next = Next::done, .spec = nullptr};
}

void refuse_items(Context& context, Errc code, std::uint64_t items) {
  switch (code) {
    case Errc::too_large:
    case Errc::memory_limit:
    case Errc::out_of_memory: count_refused(context.stats, RefusedAdd::memory, items); break;
    case Errc::key_limit: count_refused(context.stats, RefusedAdd::keys, items); break;
    // Not the server's matter: the key is too long, for example.
    default: break;
  }
  context.reply.error(text_of(code));
}

Next answer_refusal(Context& context) {
  return refuse(context, context.spec.refusal);
}

}  // namespace sepal::command
