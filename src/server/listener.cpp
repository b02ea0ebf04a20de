#include "server/listener.hpp"

#include <sepal/base/assert.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace sepal::server {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

std::string address_text(std::string_view host, std::uint16_t port) {
  const bool six = host.find(':') != std::string_view::npos;
  const std::string inner(host);
  return (six ? "[" + inner + "]" : inner) + ":" + std::to_string(port);
}

// ---- TCP ------------------------------------------------------------------------------------------------

Error cannot_listen(const std::string& where, StreamKind kind, const error_code& error) {
  const std::string flag = kind == StreamKind::tls ? "--tls-port" : "--port";
  const std::string start = "cannot listen on " + where + ": ";
  if (error == boost::asio::error::address_in_use) {
    return fail(Errc::in_use, start + "the port is taken by another program; choose another with " + flag);
  }
  if (error == boost::asio::error::access_denied) {
    return fail(Errc::io, start + "permission denied; choose a port of 1024 or above with " + flag);
  }
  if (error.value() == EADDRNOTAVAIL) {
    return fail(Errc::io, start + "this machine has no such address; correct --bind");
  }
  return fail(Errc::io, start + error.message());
}

// The errors that a leading '-' forgives: this machine lacks the address or the whole protocol, or the name
// is unknown.
bool is_absent(const error_code& error) {
  return error.value() == EADDRNOTAVAIL || error.value() == EAFNOSUPPORT ||
         error.value() == EPROTONOSUPPORT || error.category() == boost::asio::error::get_netdb_category() ||
         error.category() == boost::asio::error::get_addrinfo_category();
}

error_code listen_on(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, std::uint32_t backlog) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  // Without this, a restart cannot bind while connections of the process before are in TIME_WAIT.
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  // Without this, a socket at "::" takes IPv4 as well, and the bind to "0.0.0.0" at the same port fails.
  if (!error && endpoint.address().is_v6()) {
    acceptor.set_option(boost::asio::ip::v6_only(true), error);
  }
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(static_cast<int>(backlog), error);
  // The server's acceptor calls accept4() until no connection waits. A blocking call would not come back.
  if (!error) acceptor.native_non_blocking(true, error);
  return error;
}

struct Address {
  std::string_view host;
  std::uint16_t port;
};

// The reference's names for "every address of this machine".
std::string_view literal_of(std::string_view host) {
  if (host == "*") return "0.0.0.0";
  if (host == "::*") return "::";
  return host;
}

error_code open_tcp(Address address, std::uint32_t backlog, Listener& listener) {
  boost::asio::io_context context;
  tcp::resolver resolver(context);
  error_code error;
  const auto found = resolver.resolve(literal_of(address.host), std::to_string(address.port),
                                      tcp::resolver::numeric_service | tcp::resolver::passive, error);
  if (error) return error;
  tcp::acceptor acceptor(context);
  error = listen_on(acceptor, found.begin()->endpoint(), backlog);
  if (error) return error;
  const tcp::endpoint local = acceptor.local_endpoint(error);
  if (error) return error;
  // This context ends here. The descriptor is watched by another one.
  const int number = acceptor.release(error);
  if (error) return error;
  listener = {.descriptor = Descriptor(number), .kind = StreamKind::tcp, .port = local.port(), .path = {}};
  return error;
}

// One port at several addresses.
struct PortAt {
  std::span<const std::string> addresses;
  std::uint16_t port;
  StreamKind kind;
};

Result<void> open_port(const PortAt& wanted, std::uint32_t backlog, std::vector<Listener>& listeners) {
  std::uint16_t port = wanted.port;
  for (const std::string& entry : wanted.addresses) {
    const bool forgiven = entry.starts_with('-');
    const Address address{.host = std::string_view(entry).substr(forgiven ? 1 : 0), .port = port};
    Listener listener;
    if (const error_code error = open_tcp(address, backlog, listener)) {
      if (forgiven && is_absent(error)) continue;
      return cannot_listen(address_text(address.host, port), wanted.kind, error);
    }
    // With port 0 the system picks the port of the first address; the other addresses use the same.
    port = listener.port;
    listener.kind = wanted.kind;
    listeners.push_back(std::move(listener));
  }
  return {};
}

// ---- UNIX socket ----------------------------------------------------------------------------------------

std::string system_text(int error) {
  return std::generic_category().message(error);
}

std::optional<sockaddr_un> socket_address(const std::string& path) {
  SEPAL_ASSERT(!path.empty(), "a socket without a path would be one without a name");
  static_assert(sizeof(sockaddr_un) <= sizeof(sockaddr_storage));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// The reason of the system, and what to do if the user of sepald may not make files there.
std::string reason_at(const std::string& path, int error) {
  if (error != EACCES) return system_text(error);
  const std::string folder = std::filesystem::path(path).parent_path();
  return system_text(error) + "; sepald's user has to write to the folder " +
         (folder.empty() ? "." : folder) +
         ": give it the folder (chown), or choose another path with --unixsocket";
}

// A server that was killed leaves its socket file behind. The file is removed if no process listens on it.
Result<void> make_room(const std::string& path, const sockaddr_un& address) {
  const std::string start = "cannot listen on " + path + ": ";
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    const int reason = errno;
    const std::string folder = std::filesystem::path(path).parent_path();
    if (reason == ENOENT && !folder.empty() && ::access(folder.c_str(), F_OK) != 0)
      return fail(Errc::io, start + "there is no folder " + folder);
    if (reason == ENOENT) return {};
    return fail(Errc::io, start + reason_at(path, reason));
  }
  // lstat() does not follow a link, so a link is refused, too. The unlink below would remove the operator's
  // link.
  if (!S_ISSOCK(status.st_mode)) {
    return fail(Errc::in_use, start + "a file that is no socket is there; move it, or choose another path");
  }
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!probe.is_open()) return fail(Errc::io, start + system_text(errno));
  // Only ECONNREFUSED says that no process listens. A process with a full backlog answers EAGAIN.
  if (::connect(probe.number(), generic(address), sizeof address) == 0 || errno != ECONNREFUSED) {
    return fail(Errc::in_use, start + "the path is taken by another program; choose another");
  }
  if (::unlink(path.c_str()) != 0) return fail(Errc::io, start + reason_at(path, errno));
  return {};
}

Result<Listener> open_unix(const ServerOptions& options) {
  const std::string& path = options.unix_socket;
  const std::string start = "cannot listen on " + path + ": ";
  const auto address = socket_address(path);
  if (!address) {
    return fail(Errc::io, start + "the path is too long; the system allows " +
                              std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes");
  }
  if (const auto room = make_room(path, *address); !room) return room.error();
  Listener listener{
      .descriptor = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      .kind = StreamKind::unix_socket,
      .path = path};
  const int number = listener.descriptor.number();
  // The mode is set before listen(), and a client cannot connect before that: so it holds for the first
  // client.
  struct stat status {};
  if (!listener.descriptor.is_open() || ::bind(number, generic(*address), sizeof *address) != 0 ||
      ::chmod(path.c_str(), static_cast<mode_t>(options.unix_socket_mode)) != 0 ||
      ::lstat(path.c_str(), &status) != 0 ||
      ::listen(number, static_cast<int>(options.listen_backlog)) != 0) {
    return fail(Errc::io, start + reason_at(path, errno));
  }
  listener.inode = status.st_ino;
  return listener;
}

}  // namespace

std::span<const std::string> tcp_addresses(const ServerOptions& options) {
  if (options.port == 0 && (options.tls_port != 0 || !options.unix_socket.empty())) return {};
  return options.bind;
}

Result<std::vector<Listener>> open_listeners(const ServerOptions& options) {
  std::vector<Listener> listeners;
  const PortAt plain{.addresses = tcp_addresses(options), .port = options.port, .kind = StreamKind::tcp};
  if (auto opened = open_port(plain, options.listen_backlog, listeners); !opened) return opened.error();
  const PortAt encrypted{.addresses = options.bind, .port = options.tls_port, .kind = StreamKind::tls};
  if (options.tls_port != 0)
    if (auto opened = open_port(encrypted, options.listen_backlog, listeners); !opened) return opened.error();
  if (!options.unix_socket.empty()) {
    Result<Listener> listener = open_unix(options);
    if (!listener) return listener.error();
    listeners.push_back(std::move(*listener));
  }
  if (listeners.empty()) return fail(Errc::io, "there is no address to listen on; correct --bind");
  return listeners;
}

void remove_socket_file(const Listener& listener) {
  struct stat status {};
  if (listener.path.empty() || ::lstat(listener.path.c_str(), &status) != 0) return;
  // Another server may have put its own socket under the path: that file has another inode. If the removal
  // fails, the next start removes the file.
  if (status.st_ino == listener.inode) static_cast<void>(::unlink(listener.path.c_str()));
}

}  // namespace sepal::server
