#include "server/refusal.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/log/event.hpp>

#include <sys/socket.h>

namespace sepal::server {

// The send takes the whole reply, because the send buffer of a new socket is empty.
void refuse(int descriptor, const Refusal& refusal, std::span<char> scrap) {
  SEPAL_ASSERT(descriptor >= 0 && !scrap.empty(),
               "a client is refused on a closed socket, or without memory to read into");
  if (!refusal.reply.empty())
    static_cast<void>(::send(descriptor, refusal.reply.data(), refusal.reply.size(), MSG_NOSIGNAL));
  part_from(descriptor, scrap);
}

// Input that the client has already sent is read and thrown away: to close a socket with unread input resets
// the connection, and the client would lose what it was told.
void part_from(int descriptor, std::span<char> scrap) {
  static_cast<void>(::shutdown(descriptor, SHUT_WR));
  // One read only: a client that sends on and on must not keep the thread here.
  static_cast<void>(::recv(descriptor, scrap.data(), scrap.size(), MSG_DONTWAIT));
}

void RefusalLog::note(const Refusal& refusal, std::string_view address) {
  std::uint64_t left_out = 0;
  if (!limit_.takes(std::chrono::steady_clock::now(), left_out)) return;
  log::warn(
      "connections_refused", "connections refused",
      {{"count", left_out + 1}, {"last", address}, {"reason", refusal.reason}, {"advice", refusal.advice}});
}

bool is_loopback(std::string_view text) {
  return text.starts_with("127.") || text.starts_with("[::1]:") || text.starts_with("[::ffff:127.");
}

}  // namespace sepal::server
