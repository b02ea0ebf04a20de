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

// A UNIX socket has a path, and TCP an address and a port.
struct Listener {
  std::string path;
  std::string address;
  std::uint16_t port = 0;
  friend bool operator==(const Listener&, const Listener&) = default;
};

// `port`: the one in use; 0 means no TCP. The path of a UNIX socket is absolute, so it is right in any
// folder.
[[nodiscard]] std::vector<Listener> listeners_of(const server::ServerOptions& options, std::uint16_t port);

// "127.0.0.1:6379", "[::1]:6379" or "/run/sepal/socket".
[[nodiscard]] std::string shown(const Listener& listener);

// A line of the notes, without its end: "unix PATH" or "tcp ADDRESS PORT". A line of another kind, perhaps of
// a later version, is no listener.
[[nodiscard]] std::string note_of(const Listener& listener);
[[nodiscard]] std::optional<Listener> listener_of(std::string_view note);

}  // namespace sepal::app
