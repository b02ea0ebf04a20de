// What handlers and the dispatcher know of a client's transaction.
#pragma once

#include <sepal/command/run/context.hpp>

namespace sepal::command {

// The handler of EXEC.
Next exec(Context& context);

[[nodiscard]] inline bool is_exec(const CommandSpec& spec) {
  return spec.run == exec;
}

// A script may change something unless its command says that it does not.
[[nodiscard]] inline bool may_change(const CommandSpec& spec) {
  return spec.flags.has(Flag::write) ||
         (spec.flags.has(Flag::runs_script) && !spec.flags.has(Flag::read_only));
}

// Whether a transaction runs the command even if its time is over: a transaction makes all of its changes,
// and a command with Flag::fast takes little time.
[[nodiscard]] inline bool runs_late(const CommandSpec& spec) {
  return may_change(spec) || spec.flags.has(Flag::fast);
}

// Between MULTI and EXEC ends, and the client watches no key any more.
inline void end_transaction(ClientState& client) {
  client.transaction.reset();
  client.watch.reset();
}

}  // namespace sepal::command
