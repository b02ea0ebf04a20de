#include "app/start/listeners.hpp"

#include <sepal/base/whole_number.hpp>

#include <filesystem>
#include <system_error>

namespace sepal::app {
namespace {

constexpr std::string_view unix_word = "unix ";
constexpr std::string_view tcp_word = "tcp ";
constexpr std::string_view tls_word = "tls ";

// Absolute, and without "..", because the path of a socket has at most 107 bytes.
std::string direct_path(const std::filesystem::path& path) {
  const std::filesystem::path whole = std::filesystem::absolute(path);
  std::error_code unreadable;
  const std::filesystem::path direct = std::filesystem::weakly_canonical(whole, unreadable);
  return unreadable ? whole.string() : direct.string();
}

}  // namespace

std::vector<Listener> listeners_of(const server::ServerOptions& options, std::uint16_t port) {
  std::vector<Listener> listeners;
  for (const bool tls : {false, true}) {
    const std::uint16_t number = tls ? options.tls_port : port;
    if (number == 0) continue;
    for (const std::string& address : options.bind)
      listeners.push_back({.path = {}, .address = address, .port = number, .tls = tls});
  }
  if (!options.unix_socket.empty())
    listeners.push_back({.path = direct_path(options.unix_socket), .address = {}});
  return listeners;
}

std::string shown(const Listener& listener) {
  if (!listener.path.empty()) return listener.path;
  const bool six = listener.address.find(':') != std::string::npos;
  return (listener.tls ? "tls://" : "") + (six ? "[" + listener.address + "]" : listener.address) + ":" +
         std::to_string(listener.port);
}

std::string note_of(const Listener& listener) {
  if (!listener.path.empty()) return std::string(unix_word) + listener.path;
  return std::string(listener.tls ? tls_word : tcp_word) + listener.address + " " +
         std::to_string(listener.port);
}

std::optional<Listener> listener_of(std::string_view note) {
  if (note.starts_with(unix_word)) {
    note.remove_prefix(unix_word.size());
    return note.empty() ? std::nullopt : std::optional(Listener{.path = std::string(note), .address = {}});
  }
  const bool tls = note.starts_with(tls_word);
  if (!tls && !note.starts_with(tcp_word)) return std::nullopt;
  static_assert(tls_word.size() == tcp_word.size());
  note.remove_prefix(tcp_word.size());
  const std::size_t blank = note.find(' ');
  // The file may be damaged or of another version, so nothing in a line is taken on trust.
  if (blank == 0 || blank == std::string_view::npos) return std::nullopt;
  Listener listener{.path = {}, .address = std::string(note.substr(0, blank)), .tls = tls};
  listener.port = parse_whole<std::uint16_t>(note.substr(blank + 1)).value_or(0);
  return listener.port == 0 ? std::nullopt : std::optional(listener);
}

}  // namespace sepal::app
