// Which connection gives up its place to a new one, when connections that have proved nothing yet have taken
// all places: TLS handshakes, clients that have not logged in, clients of the HTTP port.
//
// A stranger can keep its own connections busy or silent, and can open new ones as fast as it likes. So what
// a connection has sent may not decide, and age alone may not either. The network with the most connections
// gives up one of the older half of them; which one is chance. (Networks that have equally many count as
// one.)
//
//   - A stranger of other networks pushes out only its own connections, however many it opens.
//   - Among `n` connections of the stranger's own network, a client keeps its place until n/2 newer ones have
//     come. From then on each new one takes it with the probability 2/n. The client may try again: no try
//     makes the next one worse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sepal {

// A number for the network of an address of 4 or 16 bytes: all of an IPv4 address, also where it stands in an
// IPv6 address; of another IPv6 address the first 64 bits, behind which one machine may have any address.
[[nodiscard]] std::uint64_t network_of(std::span<const unsigned char> address);

// The index of the connection that gives up its place. `networks` are those of the connections, the oldest
// first, and not empty. `random` decides; strangers cannot guess it. Any thread.
[[nodiscard]] std::size_t displaced_index(std::span<const std::uint64_t> networks, std::uint64_t random);

}  // namespace sepal
