#include <sepal/base/displace.hpp>

#include "support/catch.hpp"

namespace displace_test {

namespace {

using namespace sepal;

constexpr std::size_t place_count = 85;  // the handshakes of one of two workers

// Places that strangers fill, and through which clients pass. Time is counted in the stranger's connections.
class Places {
 public:
  explicit Places(std::uint64_t seed) : random_(seed) {}

  // Returns the number of the connection.
  std::uint64_t connect(std::uint64_t network) {
    if (networks_.size() == place_count) {
      const std::size_t out = displaced_index(networks_, random_());
      networks_.erase(networks_.begin() + static_cast<std::ptrdiff_t>(out));
      numbers_.erase(numbers_.begin() + static_cast<std::ptrdiff_t>(out));
    }
    networks_.push_back(network);
    numbers_.push_back(++last_number_);
    return last_number_;
  }
  bool leave(std::uint64_t number) {
    const auto found = std::ranges::find(numbers_, number);
    if (found == numbers_.end()) return false;
    networks_.erase(networks_.begin() + (found - numbers_.begin()));
    numbers_.erase(found);
    return true;
  }
  std::uint64_t draw() { return random_(); }

 private:
  std::mt19937_64 random_;
  std::vector<std::uint64_t> networks_;
  std::vector<std::uint64_t> numbers_;
  std::uint64_t last_number_ = 0;
};

constexpr int client_count = 200;

// How many of these clients get through, while the stranger opens `meanwhile` connections for each of them.
template <class NetworkOfStranger>
int clients_served(std::uint64_t client_network, int meanwhile, NetworkOfStranger stranger) {
  Places places(1);
  for (int i = 0; i < 200; ++i) places.connect(stranger(places.draw()));
  int served = 0;
  for (int client = 0; client < client_count; ++client) {
    const std::uint64_t number = places.connect(client_network);
    for (int i = 0; i < meanwhile; ++i) places.connect(stranger(places.draw()));
    served += places.leave(number) ? 1 : 0;
  }
  return served;
}

}  // namespace

TEST_CASE("strangers of one network do not push out the clients of others") {
  const auto one_network = [](std::uint64_t) { return 7; };
  CHECK(clients_served(1, 1, one_network) == client_count);
  CHECK(clients_served(1, 300, one_network) == client_count);
  const auto ten_networks = [](std::uint64_t random) { return 100 + random % 10; };
  CHECK(clients_served(1, 300, ten_networks) == client_count);
}

TEST_CASE("clients of the stranger's own network have time, and then a chance") {
  const auto same = [](std::uint64_t) { return 1; };
  CHECK(clients_served(1, 0, same) == client_count);
  CHECK(clients_served(1, place_count / 2, same) == client_count);
  // (1 - 2/85)^(85 - 42) of them; 28 is four standard deviations.
  CHECK(std::abs(clients_served(1, place_count, same) - 72) < 28);
  CHECK(clients_served(1, 2 * place_count, same) > 0);
}

TEST_CASE("a stranger with more networks than places leaves a client its chance") {
  const auto any = [](std::uint64_t random) { return random; };
  CHECK(clients_served(1, place_count / 2, any) == client_count);
  CHECK(clients_served(1, place_count, any) > 40);
}

TEST_CASE("the network with the most gives up one of its older half, and each of these may be it") {
  const std::array<std::uint64_t, 6> networks{5, 6, 5, 7, 6, 8};
  std::set<std::size_t> chosen;
  for (std::uint64_t random = 0; random < 100; ++random) chosen.insert(displaced_index(networks, random));
  CHECK(chosen == std::set<std::size_t>{0, 1});
  CHECK(displaced_index(std::array<std::uint64_t, 1>{9}, ~std::uint64_t{0}) == 0);
  CHECK(displaced_index(std::array<std::uint64_t, 4>{1, 9, 9, 9}, 1) == 2);
}

TEST_CASE("an IPv4 address is a network, and so are the first 64 bits of an IPv6 address") {
  using V4 = std::array<unsigned char, 4>;
  using V6 = std::array<unsigned char, 16>;
  const V6 mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  CHECK(network_of(V4{10, 0, 0, 1}) == network_of(mapped));
  CHECK(network_of(V4{10, 0, 0, 1}) != network_of(V4{10, 0, 0, 2}));
  const V6 one{0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1};
  V6 neighbour = one;
  neighbour[15] = 2;
  V6 elsewhere = one;
  elsewhere[7] = 2;
  CHECK(network_of(one) == network_of(neighbour));
  CHECK(network_of(one) != network_of(elsewhere));
}

}  // namespace displace_test
