// Handlers of CONFIG.
//
// CONFIG SET changes all of its parameters or none. So it works on a draft, a copy of the settings. Each step
// but the last may refuse the request:
//
//     refuse_names()         the names, before any value is looked at
//     Parameter::set         each value, into the draft
//     refuse_clients_max()   what the system allows
//     Draft::prepare()       reads the files that the new values name
//     Draft::apply()         makes the draft the settings
//
// The gate is closed all the while (Flag::alone), because workers read the settings inside the gate without a
// further lock.

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/base/glob.hpp>
#include <sepal/command/observe/rate_sampler.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/run/scripts.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/command/users/acl_log.hpp>
#include <sepal/command/users/users.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "command/run/refuse.hpp"
#include "command/server/config_table.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

// A parameter for CONFIG GET to show. Its name is spelled as in the request, unless a pattern found it.
struct Shown {
  const Parameter* parameter;
  std::string_view name;
};

// A parameter asked for twice is shown once. So `shown` is never longer than the list of parameters, however
// many patterns a client sends.
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

// The error in the names; empty if there is none. All names are checked before any value. A second mention of
// a parameter ends the loop, so `seen` is never longer than the list of parameters.
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

// As in the reference, only a changed value is compared with the system's limit. A request that sets other
// parameters never fails for it.
std::string refuse_clients_max(Services& services, std::uint32_t wanted) {
  if (wanted == services.options.clients_max) return {};
  const std::uint64_t possible = services.control.clients_possible();
  if (wanted <= possible) return {};
  return set_failed("maxclients",
                    "The operating system is not able to handle the specified number of clients, try with " +
                        std::to_string(possible));
}

Next config_get(Context& context) {
  // Each of these names may be a pattern, and a pattern is compared with every parameter.
  const std::span<const std::string_view> names = context.words.subspan(2);
  if (names.size() > described_names_max) return refuse(context, too_many_parameters());
  const std::vector<Parameter> all = parameters(context.services.configuration);
  std::vector<Shown> shown;
  for (const std::string_view word : names) {
    if (!has_wildcard(word)) {
      // An unknown name is no error: the reply lacks it, as in the reference.
      if (const Parameter* const parameter = find_parameter(all, word)) show(shown, *parameter, word);
      continue;
    }
    for (const Parameter& parameter : all)
      if (matches_name(word, parameter.name)) show(shown, parameter, parameter.name);
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
  if (pairs.size() % 2 != 0) return refuse(context, text::syntax);
  const std::vector<Parameter> all = parameters(context.services.configuration);
  if (const std::string refused = refuse_names(all, pairs); !refused.empty()) return refuse(context, refused);
  const std::unique_ptr<Configuration::Draft> draft = context.services.configuration.draft();
  for (std::size_t at = 0; at < pairs.size(); at += 2) {
    const Parameter* const found = find_parameter(all, pairs[at]);
    SEPAL_ASSERT(found != nullptr && found->set != nullptr, "a parameter is set whose name was refused");
    const Parameter& parameter = *found;
    if (const std::string wrong = parameter.set(*draft, parameter, pairs[at + 1]); !wrong.empty())
      return refuse(context, set_failed(parameter.name, wrong));
  }
  if (const std::string refused = refuse_clients_max(context.services, draft->options().clients_max);
      !refused.empty())
    return refuse(context, refused);
  // The last step that can fail. It reads files of certificates while the gate is closed (decisions/0031), so
  // a request with another error ends before it.
  if (const std::string wrong = draft->prepare(); !wrong.empty())
    return refuse(context, "ERR CONFIG SET failed - " + wrong);
  draft->apply();
  // After apply(): `services.options` has the new password only now. Done even if the value is the old one,
  // because ACL SETUSER may have given `default` another password.
  for (std::size_t at = 0; at < pairs.size(); at += 2)
    if (equal_ignoring_case(pairs[at], "requirepass"))
      context.services.users->set_default_password(context.services.options.password);
  return answer_ok(context);
}

Next config_rewrite(Context& context) {
  // A thread in the background writes the file and then answers the client, because no worker waits for the
  // disk.
  if (context.services.control.rewrite_config_for(context.client.id)) return Next::wait;
  return refuse(context, text::no_config_file);
}

Next config_reset_stat(Context& context) {
  // The gate is closed (Flag::alone). A worker counts with a plain load and store, so a reset beside it could
  // be overwritten.
  for (WorkerStats& worker : context.services.workers) worker.reset();
  context.services.clients.reset_counts();
  context.services.buffers.reset_closed_count();
  context.services.scripts->library.reset_evicted_count();
  context.services.keyspace.reset_expired_count();
  // The sampler remembers earlier values of the counters. Compared with these, the next rates would be 0.
  context.services.rates->reset(context.steady_now);
  context.services.acl_log->reset_counts();
  return answer_ok(context);
}

constexpr Family config_row{.group = "server",
                            .flags = Flag::admin | Flag::no_script | Flag::loading | Flag::stale};

constexpr CommandSpec config_subcommands[] = {
    config_row("config|get parameter [parameter ...]", -3, "2.0.0", "Answers parameters, by name or pattern",
               config_get, Cost{"O(N) where N is the number of names and patterns"}),
    config_row.help("config|help", "5.0.0"),
    config_row("config|resetstat", 2, "2.0.0", "Sets the statistics of INFO to zero", config_reset_stat,
               Flag::alone, on_all_nodes),
    config_row("config|rewrite", 2, "2.8.0",
               "Writes each setting whose value differs from the file, those of flags too, into the "
               "configuration file",
               config_rewrite, Flag::alone | Flag::administers | Flag::outside_multi, on_all_nodes),
    config_row("config|set parameter value [parameter value ...]", -4, "2.0.0",
               "Changes parameters, all or none", config_set,
               Flag::alone | Flag::administers | Flag::outside_multi,
               Cost{"O(N) where N is the number of parameters"}, on_all_nodes),
};

constexpr CommandSpec config_family[] = {
    config_row.container("config", "2.0.0", "Commands about parameters", config_subcommands),
};

}  // namespace

constinit const Rows config_rows = config_family;

}  // namespace sepal::command
