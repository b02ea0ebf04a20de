// Which connection gives up its place to a new one, when connections that have proved nothing yet have taken
// all places: TLS handshakes, clients that have not logged in, clients of the HTTP port.
//
// A stranger can keep its own connections young, busy or silent, and can open new ones as fast as it likes.
// So neither age nor what a connection has sent may decide. The network with the most connections gives one
// up; which of them is chance. (Networks that have equally many count as one.)
//
//   - A stranger of other networks pushes out only its own connections, however many it opens.
//   - Among `n` connections of the stranger's own network, a client that needs as long as the stranger needs
//     for `k` new connections keeps its place with the probability (1 - 1/n)^k, about e^(-k/n). It may try
//     again: no try makes the next one worse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sepal {

// A number for the network of an address of 4 or 16 bytes: all of an IPv4 address, also where it stands in an
// IPv6 address; of another IPv6 address the first 64 bits, behind which one machine may have any address.
[[nodiscard]] std::uint64_t network_of(std::span<const unsigned char> address);

// The index of the connection that gives up its place. `networks` are those of the connections, and not
// empty. `random` decides; strangers cannot guess it. Any thread.
[[nodiscard]] std::size_t displaced_index(std::span<const std::uint64_t> networks, std::uint64_t random);

}  // namespace sepal
