// The clients of a worker that had not logged in when they connected.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/displace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "session/client.hpp"

namespace sepal::session {

// Confined to its worker.
class Strangers {
 public:
  // The choice looks at so many: it must not take long, however many there are.
  static constexpr std::size_t sampled_max = 64;

  void add(Client& client) {
    client.place_of_stranger = clients_.size();
    client.is_among_strangers = true;
    clients_.push_back(&client);
  }
  // Does nothing if the client is not here.
  void remove(Client& client) {
    if (!std::exchange(client.is_among_strangers, false)) return;
    SEPAL_ASSERT(clients_[client.place_of_stranger] == &client, "a stranger is at another's place");
    clients_[client.place_of_stranger] = clients_.back();
    clients_[client.place_of_stranger]->place_of_stranger = client.place_of_stranger;
    clients_.pop_back();
  }

  // One that gives up its place (base/displace.hpp); null: all have logged in. A login tells nothing here, so
  // clients that have logged in are taken off now.
  Client* choose(std::uint64_t random) {
    std::vector<Client*> sample;
    std::size_t at = clients_.empty() ? 0 : random % clients_.size();
    while (sample.size() < std::min(sampled_max, clients_.size())) {
      Client& client = *clients_[at % clients_.size()];
      if (client.session.client().authenticated) {
        remove(client);
        continue;
      }
      sample.push_back(&client);
      ++at;
    }
    if (sample.empty()) return nullptr;
    std::ranges::sort(sample, {}, [](Client* client) { return client->id(); });
    std::vector<std::uint64_t> networks;
    networks.reserve(sample.size());
    for (const Client* const client : sample) networks.push_back(client->network);
    return sample[displaced_index(networks, random >> 32)];
  }

 private:
  std::vector<Client*> clients_;
};

}  // namespace sepal::session
