// What keeps a request from its handler.
#pragma once

#include <sepal/base/memory_reserve.hpp>
#include <sepal/command/run/context.hpp>

#include <cstdint>
#include <string>

#include "command/table/command_index.hpp"

namespace sepal::command {

// Whether the client must log in first. If `default` needs no password now, it did when the client came.
[[nodiscard]] bool must_log_in(const Services& services, const ClientState& client);

// Nearly every request meets no obstacle, so the text is made apart (obstacle_text()): obstacle_to() runs for
// each request, and allocates nothing.
enum class Obstacle : std::uint8_t {
  none,
  subcommand,
  arity,
  log_in,
  transaction,
  permission,
  memory,         // maxmemory
  system_memory,  // the system refuses it
  loading,
  script
};

// The part of obstacle_to() that depends on the client's user. Not called for a client that may do
// everything, and not inlined, so that such a client does not pay for it.
[[nodiscard]] Obstacle access_obstacle(const Services& services, const Request& request);

// The gate is reserved while a script is busy, so a command that needs it closed cannot run.
[[nodiscard]] inline bool runs_beside_script(const CommandSpec& spec) {
  return spec.flags.has(Flag::allow_busy) && !spec.flags.has(Flag::alone);
}

// The order is the reference's: a request with several faults gets the same error from both.
[[nodiscard]] inline Obstacle obstacle_to(const Services& services, const Request& request,
                                          const RunMode& mode) {
  const CommandSpec& spec = *request.spec;
  if (!spec.subcommands.empty() && request.words.size() > 1) return Obstacle::subcommand;
  if (!arity_fits(spec, request.words.size())) return Obstacle::arity;
  if (!request.client.authenticated || !request.client.user->unrestricted())
    if (const Obstacle obstacle = access_obstacle(services, request); obstacle != Obstacle::none)
      return obstacle;
  if (spec.flags.has(Flag::deny_oom)) {
    if (services.keyspace.over_memory_limit() && !mode.may_exceed_memory && !only_asks(spec, request.words))
      return Obstacle::memory;
    if (!memory_reserve::permits()) return Obstacle::system_memory;
  }
  if (services.load.running && !spec.flags.has(Flag::loading)) return Obstacle::loading;
  if (services.busy && !runs_beside_script(spec)) return Obstacle::script;
  return Obstacle::none;
}

// What the client is told. Not for a permission: Dispatcher::deny() has the texts for that.
[[nodiscard]] std::string obstacle_text(Obstacle obstacle, const Request& request);

}  // namespace sepal::command
