#include <sepal/command/run/client_users.hpp>
#include <sepal/command/run/services.hpp>

#include <algorithm>
#include <functional>
#include <vector>

namespace sepal::command {

void welcome(const Users& users, ClientState& client) {
  client.user = &users.standard();
  client.authenticated = users.open();
}

bool dismiss(const RemovedUsers& removed, ClientDirectory& clients, const ClientState* asking) {
  if (removed.empty()) return false;
  std::vector<const User*> gone;
  for (const auto& user : removed) gone.push_back(user.get());
  // An ACL LOAD may remove many users. Sorted, they cost each client one short search.
  std::ranges::sort(gone, std::less<>());
  bool asking_is_one = false;
  clients.for_each([&](ClientState& client) {
    if (!std::ranges::binary_search(gone, client.user, std::less<>())) return;
    // What the client has sent may still run before it is closed.
    client.user = &User::without_rights();
    client.authenticated = false;
    if (&client == asking) {
      // The caller closes this client behind its reply.
      asking_is_one = true;
    } else {
      client.to_be_closed = true;
      clients.kill(client.id);
    }
  });
  return asking_is_one;
}

}  // namespace sepal::command
