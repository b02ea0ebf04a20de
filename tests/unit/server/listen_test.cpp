#include <sepal/server/server.hpp>

#include <sys/stat.h>

#include "support/catch.hpp"
#include "unit/server/folder.hpp"
#include "unit/server/server_world.hpp"

namespace sepal::server::listen_test {
namespace {

using namespace test;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";

ServerOptions on_path(const std::string& path) {
  ServerOptions options = any_port();
  options.unix_socket = path;
  return options;
}

TEST_CASE("the error for a taken port names the port, and says what to do") {
  ServerWorld first;
  first.start();
  ServerOptions options = any_port();
  options.port = first.server.port();
  ServerWorld second(options);
  const Result<void> started = second.server.start();
  REQUIRE_FALSE(started.ok());
  CHECK(started.error().code == Errc::in_use);
  CHECK(started.error().detail == "cannot listen on 127.0.0.1:" + std::to_string(options.port) +
                                      ": the port is taken by another program; choose another with --port");
}

TEST_CASE("several addresses share the port that the system picks") {
  ServerOptions options = any_port();
  options.bind = {"127.0.0.1", "127.0.0.2", "-::1"};
  StartedWorld world(options);
  CHECK(world.connect()->ask(ping, pong.size()) == pong);
}

TEST_CASE("an address that this machine lacks is an error, unless it is marked as optional") {
  ServerOptions options = any_port();
  options.bind = {"127.0.0.1", "192.0.2.1"};
  ServerWorld strict(options);
  const Result<void> started = strict.server.start();
  REQUIRE_FALSE(started.ok());
  CHECK(started.error().detail.find("192.0.2.1") != std::string::npos);
  CHECK(started.error().detail.find("correct --bind") != std::string::npos);

  options.bind = {"127.0.0.1", "-192.0.2.1"};
  ServerWorld lenient(options);
  lenient.start();
  CHECK(lenient.connect()->ask(ping, pong.size()) == pong);
  lenient.server.stop(stop_patience);

  options.bind = {"-192.0.2.1"};
  ServerWorld nowhere(options);
  CHECK_FALSE(nowhere.server.start().ok());
}

TEST_CASE("a UNIX socket serves clients, has its configured mode, and is removed at the stop") {
  const Folder folder;
  ServerOptions options = on_path(folder.file("sepal.sock"));
  options.unix_socket_mode = 0770;
  StartedWorld world(options);
  struct stat status {};
  REQUIRE(::lstat(options.unix_socket.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0770);
  SocketClient client(options.unix_socket);
  CHECK(client.ask(ping, pong.size()) == pong);
  CHECK(world.clients().at(0).address == options.unix_socket + ":0");
  world.server.stop(stop_patience);
  CHECK(client.receive_until_closed().empty());
  CHECK_FALSE(std::filesystem::exists(options.unix_socket));
}

TEST_CASE("with a UNIX socket port 0 means no TCP") {
  const Folder folder;
  ServerOptions options = on_path(folder.file("sepal.sock"));
  options.bind = {"127.0.0.1", "192.0.2.1"};  // not used
  StartedWorld world(options);
  CHECK(world.server.port() == 0);
  CHECK(SocketClient(options.unix_socket).ask(ping, pong.size()) == pong);
}

TEST_CASE("requests from a UNIX socket are run even if the client has gone") {
  const Folder folder;
  StartedWorld world(on_path(folder.file("sepal.sock")));
  SocketClient(folder.file("sepal.sock")).send(request({"SELECT", "1"}));
  CHECK(test::eventually([&] { return world.ground.workers[0].requests.get() == 1; }));
  CHECK(test::eventually([&] { return world.server.count() == 0; }));
}

TEST_CASE("a socket of a killed server is replaced, a socket in use is not") {
  const Folder folder;
  const ServerOptions options = on_path(folder.file("sepal.sock"));
  std::filesystem::path kept = folder.file("kept.sock");
  {
    ServerWorld killed(options);
    killed.start();
    ServerWorld second(options);
    const Result<void> started = second.server.start();
    REQUIRE_FALSE(started.ok());
    CHECK(started.error().code == Errc::in_use);
    std::filesystem::rename(options.unix_socket, kept);
    killed.server.stop(stop_patience);
  }
  std::filesystem::rename(kept, options.unix_socket);
  ServerWorld next(options);
  next.start();
  CHECK(SocketClient(options.unix_socket).ask(ping, pong.size()) == pong);
}

TEST_CASE("a file that is no socket is left alone") {
  const Folder folder;
  std::ofstream(folder.file("notes.txt")) << "keep me";
  ServerWorld world(on_path(folder.file("notes.txt")));
  const Result<void> started = world.server.start();
  REQUIRE_FALSE(started.ok());
  CHECK(started.error().code == Errc::in_use);
  CHECK(std::filesystem::file_size(folder.file("notes.txt")) == 7);
}

TEST_CASE("the longest path that the system allows works; one byte more is an error that says so") {
  const Folder folder;
  constexpr std::size_t path_bytes_max = 107;
  const std::string base = folder.file("");
  const std::string longest = base + std::string(path_bytes_max - base.size(), 's');
  StartedWorld world(on_path(longest));
  world.server.stop(stop_patience);
  ServerWorld too_long(on_path(longest + "s"));
  const Result<void> started = too_long.server.start();
  REQUIRE_FALSE(started.ok());
  CHECK(started.error().detail.find("too long") != std::string::npos);
}

}  // namespace
}  // namespace sepal::server::listen_test
