// Opens the sockets that clients connect to.
#pragma once

#include <sepal/base/descriptor.hpp>
#include <sepal/base/result.hpp>
#include <sepal/server/server.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

#include "server/socket_stream.hpp"

namespace sepal::server {

// A socket that listens, in non-blocking mode.
struct Listener {
  Descriptor descriptor;
  StreamKind kind = StreamKind::tcp;
  std::uint16_t port = 0;  // TCP and TLS
  std::string path;        // UNIX socket
  ino_t inode = 0;         // of the UNIX socket's file
};

// The addresses to listen on with plain TCP. If there is a UNIX socket or a TLS port, port 0 means no plain
// TCP, as in the reference.
[[nodiscard]] std::span<const std::string> tcp_addresses(const ServerOptions& options);

// Opens every address and the path of `options`. Blocks if a name must be resolved. With port 0 the system
// picks one port, and all addresses use it. Errors: in_use, io; each with a sentence that says which address
// failed and what the operator can do.
Result<std::vector<Listener>> open_listeners(const ServerOptions& options);

// The most listeners that open_listeners() makes of these options.
[[nodiscard]] inline std::uint64_t listeners_max(const ServerOptions& options) {
  return tcp_addresses(options).size() + (options.tls_port == 0 ? 0 : options.bind.size()) +
         (options.unix_socket.empty() ? 0 : 1);
}

// Removes the file of a UNIX socket, unless another program has put its own under that path.
void remove_socket_file(const Listener& listener);

}  // namespace sepal::server
