// A client whose certificate names its user.
#pragma once

#include <sepal/command/run/client_state.hpp>
#include <sepal/command/run/services.hpp>

#include <string_view>

namespace sepal::command {

struct Services;

// Makes a client that has just connected this user, if there is such a user and it is on. Otherwise the
// client stays what it is, and that is noted for ACL LOG. An empty name: the client has shown none. Inside
// the gate.
void log_in_by_certificate(Services& services, ClientState& client, std::string_view name);

}  // namespace sepal::command
