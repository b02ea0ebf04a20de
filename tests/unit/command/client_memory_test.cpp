// Which clients are closed when all of them together hold more than maxmemory_clients.
#include <sepal/command/run/client_memory.hpp>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace client_memory_test {

using namespace sepal::command;

namespace {

using Ids = std::vector<std::uint64_t>;

// Clients 1, 2, 3 ... that hold these bytes.
struct Holders {
  explicit Holders(const std::vector<std::uint64_t>& bytes) : states(bytes.size()) {
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      states[at].id = at + 1;
      states[at].bytes_of_requests = bytes[at] / 2;
      states[at].bytes_unsent = bytes[at] - bytes[at] / 2;
      buffers.change_requests(0, bytes[at] / 2);
      buffers.change_replies(0, bytes[at] - bytes[at] / 2);
      clients.clients[at + 1] = &states[at];
    }
  }
  Ids chosen(std::uint64_t bytes_max) { return choose_clients_to_close(clients, buffers, bytes_max); }

  std::vector<ClientState> states;
  testing::FakeClients clients;
  ClientBuffers buffers;
};

}  // namespace

TEST_CASE("clients are closed until the others fit, the one with most first") {
  Holders holders({10, 50, 0, 30, 40});
  CHECK(holders.chosen(130).empty());
  CHECK(holders.chosen(129) == Ids{2});
  CHECK(holders.buffers.closed_count() == 1);
  // Client 2 is still there, but it is as good as gone.
  CHECK(holders.chosen(80).empty());
  CHECK(holders.chosen(39) == Ids{5, 4});
  CHECK(holders.chosen(1) == Ids{1});
  CHECK(holders.chosen(0).empty());
  CHECK(holders.buffers.closed_count() == 4);
}

TEST_CASE("what no client holds closes no client that holds nothing") {
  Holders holders({0, 5});
  holders.buffers.change_replies(0, 100);  // the figures of clients are behind the sum
  CHECK(holders.chosen(50) == Ids{2});
  CHECK(holders.chosen(50).empty());
}

}  // namespace client_memory_test
