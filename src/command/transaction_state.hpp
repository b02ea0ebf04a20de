// What handlers and the dispatcher know of a client's transaction.
#pragma once

#include <sepal/command/dispatcher.hpp>

#include "handlers.hpp"

namespace sepal::command {

[[nodiscard]] inline bool is_exec(const CommandSpec& spec) {
  return spec.run == exec;
}

// Between MULTI and EXEC ends, and the client watches no key any more.
inline void end_transaction(ClientState& client) {
  client.transaction.reset();
  client.watch.reset();
}

}  // namespace sepal::command
