#include "refusal.hpp"

#include <sepal/base/assert.hpp>

#include <spdlog/spdlog.h>

#include <chrono>
#include <string_view>
#include <sys/socket.h>
#include <utility>

namespace sepal::server {
namespace {

constexpr std::chrono::seconds refusal_log_period{60};

}  // namespace

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
  static_cast<void>(::recv(descriptor, scrap.data(), scrap.size(), MSG_DONTWAIT));
}

void RefusalLog::note(const Refusal& refusal, std::string_view address) {
  ++unlogged_;
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now < due_) return;
  due_ = now + refusal_log_period;
  spdlog::warn("connections refused: count={} last={} reason=\"{}\" advice=\"{}\"",
               std::exchange(unlogged_, 0), address, refusal.reason, refusal.advice);
}

bool is_loopback(std::string_view text) {
  return text.starts_with("127.") || text.starts_with("[::1]:") || text.starts_with("[::ffff:127.");
}

}  // namespace sepal::server
