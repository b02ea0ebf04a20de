// Handlers of CONFIG.

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/command/dispatcher.hpp>
#include <sepal/command/error_texts.hpp>
#include <sepal/command/glob.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "config_table.hpp"
#include "handlers.hpp"

namespace sepal::command {
namespace {

// A parameter for CONFIG GET to show. Its name is spelled as in the request, unless a pattern found it.
struct Shown {
  const Parameter* parameter;
  std::string_view name;
};

// A parameter asked for twice is shown once.
void show(std::vector<Shown>& shown, const Parameter& parameter, std::string_view name) {
  if (std::ranges::find(shown, &parameter, &Shown::parameter) == shown.end())
    shown.push_back({.parameter = &parameter, .name = name});
}

std::string set_failed(std::string_view name, std::string_view why) {
  std::string text = "ERR CONFIG SET failed (possibly related to argument '";
  text.append(name).append("') - ").append(why);
  return text;
}

std::string unknown_parameter(std::string_view name) {
  return "ERR Unknown option or number of arguments for CONFIG SET - '" + std::string(echoed(name)) + "'";
}

// The error in the names; empty if there is none. All names are checked before any value.
std::string refuse_names(std::span<const Parameter> parameters, std::span<const std::string_view> pairs) {
  std::vector<const Parameter*> seen;
  for (std::size_t at = 0; at < pairs.size(); at += 2) {
    const Parameter* const parameter = find_parameter(parameters, pairs[at]);
    if (parameter == nullptr) return unknown_parameter(pairs[at]);
    if (parameter->guarded) return set_failed(parameter->name, "can't set protected config");
    if (parameter->set == nullptr) return set_failed(parameter->name, "can't set immutable config");
    if (std::ranges::find(seen, parameter) != seen.end())
      return set_failed(parameter->name, "duplicate parameter");
    seen.push_back(parameter);
  }
  return {};
}

// As in the reference, only a changed value is compared with the system's limit.
std::string refuse_clients_max(Services& services, std::uint32_t wanted) {
  if (wanted == services.options.clients_max) return {};
  const std::uint64_t possible = services.control.clients_possible();
  if (wanted <= possible) return {};
  return set_failed("maxclients",
                    "The operating system is not able to handle the specified number of clients, try with " +
                        std::to_string(possible));
}

}  // namespace

Next config_get(Context& context) {
  const std::span<const std::string_view> names = context.words.subspan(2);
  if (names.size() > described_names_max) {
    context.reply.error(too_many_parameters());
    return Next::done;
  }
  const std::vector<Parameter> all = parameters(context.services.configuration);
  std::vector<Shown> shown;
  for (const std::string_view word : names) {
    if (!has_wildcard(word)) {
      if (const Parameter* const parameter = find_parameter(all, word)) show(shown, *parameter, word);
      continue;
    }
    for (const Parameter& parameter : all)
      if (matches(word, parameter.name, Case::ignored)) show(shown, parameter, parameter.name);
  }
  context.reply.map(shown.size());
  for (const auto& [parameter, name] : shown) {
    context.reply.bulk(name);
    context.reply.bulk(parameter->get(context, *parameter));
  }
  return Next::done;
}

Next config_set(Context& context) {
  const std::span<const std::string_view> pairs = context.words.subspan(2);
  if (pairs.size() % 2 != 0) {
    context.reply.error(text::syntax);
    return Next::done;
  }
  const std::vector<Parameter> all = parameters(context.services.configuration);
  if (const std::string refused = refuse_names(all, pairs); !refused.empty()) {
    context.reply.error(refused);
    return Next::done;
  }
  const std::unique_ptr<Configuration::Draft> draft = context.services.configuration.draft();
  for (std::size_t at = 0; at < pairs.size(); at += 2) {
    const Parameter* const found = find_parameter(all, pairs[at]);
    SEPAL_ASSERT(found != nullptr && found->set != nullptr, "a parameter is set whose name was refused");
    const Parameter& parameter = *found;
    if (const std::string wrong = parameter.set(*draft, parameter, pairs[at + 1]); !wrong.empty()) {
      context.reply.error(set_failed(parameter.name, wrong));
      return Next::done;
    }
  }
  if (const std::string refused = refuse_clients_max(context.services, draft->options().clients_max);
      !refused.empty()) {
    context.reply.error(refused);
    return Next::done;
  }
  if (const std::string wrong = draft->prepare(); !wrong.empty()) {
    context.reply.error("ERR CONFIG SET failed - " + wrong);
    return Next::done;
  }
  draft->apply();
  // Also if the value is the old one: ACL SETUSER may have given `default` another password.
  for (std::size_t at = 0; at < pairs.size(); at += 2)
    if (equal_ignoring_case(pairs[at], "requirepass"))
      context.services.users->set_default_password(context.services.options.password);
  context.reply.ok();
  return Next::done;
}

Next config_rewrite(Context& context) {
  if (context.services.control.rewrite_config_for(context.client.id)) return Next::wait;
  context.reply.error(text::no_config_file);
  return Next::done;
}

Next config_reset_stat(Context& context) {
  for (WorkerStats& worker : context.services.workers) worker.reset();
  context.services.clients.reset_counts();
  context.services.keyspace.reset_expired_count();
  context.services.rates->reset(context.steady_now);
  context.services.acl_log->reset_counts();
  context.reply.ok();
  return Next::done;
}

}  // namespace sepal::command
