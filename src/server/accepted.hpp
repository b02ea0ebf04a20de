// A connection on its way from the acceptor to a worker.
#pragma once

#include <sepal/base/descriptor.hpp>

#include <cstdint>
#include <string>

#include "server/socket_stream.hpp"

namespace sepal::server {

struct Accepted {
  Descriptor descriptor;
  StreamKind kind;
  std::uint64_t id;
  bool from_this_machine;  // by a UNIX socket, or from a loopback address
  std::string address;
  std::string local_address;
  std::uint64_t network;  // of the address, see base/displace.hpp; 0: a UNIX socket
};

}  // namespace sepal::server
