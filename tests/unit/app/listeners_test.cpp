#include "app/start/listeners.hpp"

#include "support/catch.hpp"

namespace sepal::app {
namespace {

Listener tcp(const std::string& address, std::uint16_t port) {
  return {.path = {}, .address = address, .port = port};
}
Listener tls(const std::string& address, std::uint16_t port) {
  return {.path = {}, .address = address, .port = port, .tls = true};
}
Listener unix_socket(const std::string& path) {
  return {.path = path, .address = {}};
}

TEST_CASE("a server listens at each address, and at its UNIX socket, whose path becomes absolute") {
  server::ServerOptions options;
  options.bind = {"127.0.0.1", "-::1"};
  CHECK(listeners_of(options, 7000) == std::vector{tcp("127.0.0.1", 7000), tcp("-::1", 7000)});
  options.unix_socket = "socket";
  const Listener local = unix_socket((std::filesystem::current_path() / "socket").string());
  CHECK(listeners_of(options, 0) == std::vector{local});
  CHECK(listeners_of(options, 1).back() == local);
  options.tls_port = 8000;
  CHECK(listeners_of(options, 0) == std::vector{tls("127.0.0.1", 8000), tls("-::1", 8000), local});
  CHECK(listeners_of(options, 7000).front() == tcp("127.0.0.1", 7000));
}

TEST_CASE("addresses are shown as clients write them") {
  CHECK(shown(tcp("127.0.0.1", 6379)) == "127.0.0.1:6379");
  CHECK(shown(tcp("::1", 6379)) == "[::1]:6379");
  CHECK(shown(tls("::1", 6379)) == "tls://[::1]:6379");
  CHECK(shown(unix_socket("/run/a b")) == "/run/a b");
}

TEST_CASE("a note is read as the listener that it was made of") {
  for (const Listener& listener :
       {tcp("127.0.0.1", 1), tcp("*", 65535), tcp("-::1", 6379), unix_socket("/run/a b"), tls("*", 6380)})
    CHECK(listener_of(note_of(listener)) == listener);
}

TEST_CASE("a line that is no listener is left out") {
  for (const char* const note :
       {"", "unix", "unix ", "tcp", "tcp ", "tcp 1.2.3.4", "tcp 1.2.3.4 ", "tcp  6379", "tcp 1.2.3.4 0",
        "tcp 1.2.3.4 65536", "tls 1.2.3.4", "tcp 1.2.3.4 -1", "tcp 1.2.3.4 6379 ", "pigeon a 1"})
    CHECK_FALSE(listener_of(note));
}

}  // namespace
}  // namespace sepal::app
