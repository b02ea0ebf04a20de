// Opens the sockets that clients connect to.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/server/server.hpp>

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

#include "connection.hpp"
#include "descriptor.hpp"

namespace sepal::server {

// A socket that listens and does not block.
struct Listener {
  Descriptor descriptor;
  Connection::Kind kind = Connection::Kind::tcp;
  std::uint16_t port = 0;  // TCP
  std::string path;        // UNIX socket
  ino_t inode = 0;         // of the path
};

// Every address and the path of `options`. Blocks where a name must be resolved. With port 0 the system picks
// one, for all addresses the same. Errors: in_use, io; each with a sentence that names the address and what
// to do.
Result<std::vector<Listener>> open_listeners(const ServerOptions& options);

// Removes the path of a UNIX socket, unless another program has put its own there.
void remove_socket_file(const Listener& listener);

}  // namespace sepal::server
