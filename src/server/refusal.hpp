// The answers to clients that are refused when they connect, and the log lines about them.
#pragma once

#include <sepal/base/line_limit.hpp>

#include <chrono>
#include <span>
#include <string_view>

namespace sepal::server {

// Why a client is refused.
struct Refusal {
  std::string_view reply;   // the whole error, as it goes to the client; empty: it is told nothing
  std::string_view reason;  // for the log
  std::string_view advice;  // for the log: what the operator can do
};

inline constexpr Refusal no_place{.reply = "-ERR max number of clients reached\r\n",
                                  .reason = "maxclients are connected",
                                  .advice = "raise maxclients, or lower the number of connections"};
// It was connected already, and closes without a word.
inline constexpr Refusal stranger_displaced{
    .reply = {},
    .reason = "maxclients are connected, and this one had not logged in: a new one took its place",
    .advice = "keep strangers away from the port, or raise maxclients"};
inline constexpr Refusal no_descriptor{.reply = no_place.reply,
                                       .reason = "no descriptor is left for one more client",
                                       .advice = "raise ulimit -n"};
inline constexpr Refusal no_memory{.reply = "-ERR the system has no memory for one more client\r\n",
                                   .reason = "the system gives sepald no more memory",
                                   .advice = "give it more memory, or lower maxmemory"};
inline constexpr Refusal stranger{
    .reply =
        "-DENIED Sepal is in protected mode: the user 'default' has no password, so only clients on the "
        "machine of the server may connect. Do one of these: 1) Set a password (requirepass, or ACL "
        "SETUSER from that machine). 2) If no stranger can reach this port, start sepald with "
        "--protected-mode no, or send CONFIG SET protected-mode no from that machine.\r\n",
    .reason = "protected mode: the client is on another machine, and the user default has no password",
    .advice = "set requirepass, or protected_mode = \"no\" if no stranger can reach the port"};

// Sends the reply to a client that has just connected. The caller closes the socket. `scrap` is overwritten.
// Does not block.
void refuse(int descriptor, const Refusal& refusal, std::span<char> scrap);

// Ends the sending side of a client that has been told why. The caller closes the socket. `scrap` is
// overwritten. Does not block.
void part_from(int descriptor, std::span<char> scrap);

// Logs the first refusal at once. Later ones are counted and logged together, at most once a minute: a client
// that connects again and again must not fill the log. Confined to one thread.
class RefusalLog {
 public:
  void note(const Refusal& refusal, std::string_view address);

 private:
  LineLimit limit_{1, std::chrono::minutes(1)};
};

// Whether the peer of a TCP connection is on this machine by its address: 127.0.0.0/8, also as
// an IPv4 address within IPv6, or ::1. `text` is an address with its port, as the acceptor writes it.
[[nodiscard]] bool is_loopback(std::string_view text);

}  // namespace sepal::server
