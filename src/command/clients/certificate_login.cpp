#include <sepal/base/arguments.hpp>
#include <sepal/command/clients/certificate_login.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/users/acl_log.hpp>
#include <sepal/command/users/users.hpp>

#include <chrono>
#include <string>

#include "command/run/client_text.hpp"

namespace sepal::command {

void log_in_by_certificate(Services& services, ClientState& client, std::string_view name) {
  if (name.empty()) return;
  const User* const user = services.users->find(name);
  if (user != nullptr && user->is_on()) {
    client.user = user;
    client.authenticated = true;
    return;
  }
  services.acl_log->note({.reason = AclReason::certificate,
                          .place = AclPlace::toplevel,
                          .object = {},
                          .user_name = std::string(echoed(name)),
                          .client = client_line(client, std::chrono::steady_clock::now())},
                         std::chrono::system_clock::now(), services.options.acl_log_max);
}

}  // namespace sepal::command
