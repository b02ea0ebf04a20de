#include "refusal.hpp"

#include <sepal/base/assert.hpp>

#include <string_view>
#include <sys/socket.h>

namespace sepal::server {
namespace {

constexpr std::string_view clients_max_reply = "-ERR max number of clients reached\r\n";

}  // namespace

// The send takes the whole reply, because the send buffer of a new socket is empty. Input
// that the client has already sent is read and thrown away: to close a socket with unread input resets the
// connection, and the client would lose the reply.
void refuse(int descriptor, std::span<char> scrap) {
  SEPAL_ASSERT(descriptor >= 0 && !scrap.empty(),
               "a client is refused on a closed socket, or without memory to read into");
  static_cast<void>(::send(descriptor, clients_max_reply.data(), clients_max_reply.size(), MSG_NOSIGNAL));
  static_cast<void>(::shutdown(descriptor, SHUT_WR));
  static_cast<void>(::recv(descriptor, scrap.data(), scrap.size(), MSG_DONTWAIT));
}

}  // namespace sepal::server
