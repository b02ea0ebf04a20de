// Handlers of CONFIG.

#include <sepal/command/dispatcher.hpp>
#include <sepal/command/error_texts.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "config_table.hpp"
#include "glob.hpp"
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
std::string refuse_names(std::span<const std::string_view> pairs) {
  std::vector<const Parameter*> seen;
  for (std::size_t at = 0; at < pairs.size(); at += 2) {
    const Parameter* const parameter = find_parameter(pairs[at]);
    if (parameter == nullptr) return unknown_parameter(pairs[at]);
    if (parameter->guarded) return set_failed(parameter->name, "can't set protected config");
    if (parameter->set == nullptr) return set_failed(parameter->name, "can't set immutable config");
    if (std::ranges::find(seen, parameter) != seen.end())
      return set_failed(parameter->name, "duplicate parameter");
    seen.push_back(parameter);
  }
  return {};
}

PendingConfig pending_from(const Services& services) {
  const keyspace::KeyspaceOptions& options = services.keyspace.options();
  return {.options = services.options,
          .memory_max = options.memory_max,
          .error_rate = options.error_rate,
          .capacity = options.capacity,
          .expansion = options.expansion};
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

void apply(Services& services, const PendingConfig& pending) {
  services.options = pending.options;
  if (services.keyspace.options().memory_max != pending.memory_max)
    services.keyspace.set_memory_max(pending.memory_max);
  services.keyspace.set_defaults(pending.error_rate, pending.capacity, pending.expansion);
  services.control.options_changed(services.options);
}

}  // namespace

Next config_get(Context& context) {
  std::vector<Shown> shown;
  for (const std::string_view word : context.words.subspan(2)) {
    if (!has_wildcard(word)) {
      if (const Parameter* const parameter = find_parameter(word)) show(shown, *parameter, word);
      continue;
    }
    for (const Parameter& parameter : parameters())
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
  if (const std::string refused = refuse_names(pairs); !refused.empty()) {
    context.reply.error(refused);
    return Next::done;
  }
  PendingConfig pending = pending_from(context.services);
  for (std::size_t at = 0; at < pairs.size(); at += 2) {
    const Parameter& parameter = *find_parameter(pairs[at]);
    if (const std::string wrong = parameter.set(pending, parameter, pairs[at + 1]); !wrong.empty()) {
      context.reply.error(set_failed(parameter.name, wrong));
      return Next::done;
    }
  }
  if (const std::string refused = refuse_clients_max(context.services, pending.options.clients_max);
      !refused.empty()) {
    context.reply.error(refused);
    return Next::done;
  }
  apply(context.services, pending);
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
  context.reply.ok();
  return Next::done;
}

}  // namespace sepal::command
