// Where sepald listens: for its log, and for the notes in the data directory by which `sepald --healthcheck`
// finds it.
#pragma once

#include <sepal/settings/settings.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::app {

// A UNIX socket has a path, and TCP an address and a port, which may speak TLS.
struct Listener {
  std::string path;
  std::string address;
  std::uint16_t port = 0;
  bool tls = false;
  friend bool operator==(const Listener&, const Listener&) = default;
};

// `port`: the one in use without TLS; 0 means none. The path of a UNIX socket is absolute, so it is right in
// any folder.
[[nodiscard]] std::vector<Listener> listeners_of(const server::ServerOptions& options, std::uint16_t port);

// "127.0.0.1:6379", "tls://[::1]:6380" or "/run/sepal/socket".
[[nodiscard]] std::string shown(const Listener& listener);

// A line of the notes, without its end: "unix PATH", "tcp ADDRESS PORT" or "tls ADDRESS PORT". A line of
// another kind, perhaps of a later version, is no listener.
[[nodiscard]] std::string note_of(const Listener& listener);
[[nodiscard]] std::optional<Listener> listener_of(std::string_view note);

}  // namespace sepal::app
