#include "tools/redis/redis_connection.hpp"

#include <csignal>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "tools/shell/held_signals.hpp"
#include "unit/server/folder.hpp"

namespace sepal::test::redis_connection {

// A server in the test's own thread: it listens, and the test accepts.
class Listener {
 public:
  explicit Listener(const std::string& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof(address.sun_path));
    std::memcpy(address.sun_path, path.c_str(), path.size());
    REQUIRE(::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(::listen(descriptor_, 1) == 0);
  }
  ~Listener() { ::close(descriptor_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void accept_and_close() const {
    const int client = ::accept(descriptor_, nullptr, nullptr);
    REQUIRE(client >= 0);
    ::close(client);
  }

 private:
  int descriptor_;
};

TEST_CASE("a server that has closed the connection is an error, and ends no program") {
  const server::test::Folder folder;
  const std::string path = folder.file("socket");
  const Listener listener(path);
  tools::RedisAddress address;
  address.path = path;
  auto connection = tools::RedisConnection::open(address, "");
  REQUIRE(connection);
  listener.accept_and_close();
  (*connection)->add({"PING"});
  const auto sent = (*connection)->flush();
  REQUIRE_FALSE(sent);
  CHECK(sent.error().code == Errc::io);
}

TEST_CASE("a signal that is held back ends the wait for an answer") {
  const server::test::Folder folder;
  const std::string path = folder.file("socket");
  const Listener listener(path);
  tools::RedisAddress address;
  address.path = path;
  const tools::HeldSignals held;
  auto connection = tools::RedisConnection::open(address, "");
  REQUIRE(connection);
  std::raise(SIGTERM);
  const auto answer = (*connection)->ask({"PING"});
  // The signal would end the tests when `held` goes.
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  const timespec at_once{};
  REQUIRE(sigtimedwait(&ending, nullptr, &at_once) == SIGTERM);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().detail.ends_with("a signal has ended the wait for an answer"));
}

}  // namespace sepal::test::redis_connection
