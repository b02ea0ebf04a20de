#include <sepal/command/run/client_memory.hpp>

#include <algorithm>

namespace sepal::command {

std::vector<std::uint64_t> choose_clients_to_close(ClientDirectory& clients, ClientBuffers& buffers,
                                                   std::uint64_t bytes_max) {
  std::uint64_t total = buffers.total();
  // The figures of a client may be a little behind the total, so the total may be less than their sum.
  const auto leave_out = [&total](std::uint64_t bytes) { total -= std::min(total, bytes); };
  std::vector<ClientState*> others;
  clients.for_each([&](ClientState& client) {
    if (client.to_be_closed) {
      leave_out(client.bytes_held());
    } else if (client.bytes_held() != 0) {
      others.push_back(&client);
    }
  });
  const auto has_less = [](const ClientState* one, const ClientState* other) {
    return one->bytes_held() < other->bytes_held();
  };
  // A heap, because mostly a few of many clients are closed.
  std::ranges::make_heap(others, has_less);
  std::vector<std::uint64_t> chosen;
  while (total > bytes_max && !others.empty()) {
    std::ranges::pop_heap(others, has_less);
    ClientState& most = *others.back();
    others.pop_back();
    most.to_be_closed = true;
    leave_out(most.bytes_held());
    buffers.client_closed();
    chosen.push_back(most.id);
  }
  return chosen;
}

}  // namespace sepal::command
