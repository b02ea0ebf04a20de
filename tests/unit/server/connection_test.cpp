#include "../../../src/server/connection.hpp"

#include <boost/asio/io_context.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <sys/socket.h>

#include "support/catch.hpp"
#include "unit/server/session_world.hpp"
#include "unit/server/world.hpp"

namespace sepal::server {
namespace {

using Then = Connection::Then;
using test::request;
using test::SessionWorld;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";

// A connection, and the other end of its socket.
struct ConnectionWorld : SessionWorld {
  ConnectionWorld() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
    peer = Descriptor(ends[1]);
    REQUIRE(readiness.open().ok());
    connection = std::make_unique<Connection>(Descriptor(ends[0]), Connection::Kind::unix_socket, environment,
                                              spares, readiness, client(true));
    REQUIRE(readiness.add(ends[0], connection.get(), readable).ok());
  }

  Then serve(const std::string& bytes) {
    REQUIRE(::send(peer.number(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    REQUIRE(connection->on_ready(readable) == Then::run);
    return connection->run();
  }

  // What has arrived.
  std::string received() {
    std::string bytes(1 << 20, ' ');
    const ssize_t count = ::recv(peer.number(), bytes.data(), bytes.size(), 0);
    bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return bytes;
  }

  boost::asio::io_context context;
  Readiness readiness{context};
  SpareBuffers spares;
  Descriptor peer;
  std::unique_ptr<Connection> connection;
};

TEST_CASE("replies are kept, and sent on demand", "[server]") {
  ConnectionWorld world;
  for (int i = 0; i < 2; ++i) {
    CHECK(world.serve(ping) == Then::send);
    CHECK(world.received().empty());
    CHECK(world.connection->send_kept() == Then::keep);
    CHECK(world.received() == pong);
  }
}

TEST_CASE("replies before the end of a connection are not kept", "[server]") {
  ConnectionWorld world;
  CHECK(world.serve(ping + request({"QUIT"}) + ping) == Then::close);
  CHECK(world.received() == pong + "+OK\r\n");
}

TEST_CASE("kept replies of which the socket takes a part follow when it takes more", "[server]") {
  ConnectionWorld world;
  const std::string item(50'000, 'x');
  const std::string echo = request({"ECHO", item});
  const std::string reply = "$50000\r\n" + item + "\r\n";
  std::string expected;
  std::string received;
  // Until the socket is full: nobody reads.
  while (world.connection->session().client().bytes_unsent == 0 && expected.size() < 64'000'000) {
    CHECK(world.serve(echo) == Then::send);
    CHECK(world.connection->send_kept() == Then::keep);
    expected += reply;
  }
  REQUIRE(world.connection->session().client().bytes_unsent > 0);
  for (int i = 0; i < 100 && received.size() < expected.size(); ++i) {
    received += world.received();
    CHECK(world.connection->on_ready(writable) == Then::keep);
  }
  CHECK((received == expected));
  CHECK(world.serve(ping) == Then::send);
  CHECK(world.connection->send_kept() == Then::keep);
  CHECK(world.received() == pong);
}

TEST_CASE("the memory of replies that were sent is there for those that are kept next", "[server]") {
  ConnectionWorld world;
  const std::string echo = request({"ECHO", std::string(10'000, 'x')});
  CHECK(world.serve(echo) == Then::send);
  // What another session of the worker grew meanwhile.
  world.reply_buffer.reserve(50'000);
  CHECK(world.connection->send_kept() == Then::keep);
  CHECK(world.serve(echo) == Then::send);
  CHECK(world.reply_buffer.capacity() > 10'000);
  CHECK(world.reply_buffer.capacity() < 50'000);
}

TEST_CASE("spare memory is lent to what has none, and is bounded", "[server]") {
  SpareBuffers spares;
  std::string text;
  spares.lend(text);
  CHECK(text.capacity() == std::string().capacity());
  const auto take_back = [&](std::size_t bytes) {
    std::string full(bytes, 'x');
    spares.take_back(full);
    CHECK(full.empty());
    CHECK(full.capacity() == std::string().capacity());
  };
  take_back(1);
  take_back(SpareBuffers::spare_bytes_max + 1);
  spares.lend(text);
  CHECK(text.capacity() == std::string().capacity());
  take_back(SpareBuffers::spare_bytes_max);
  spares.lend(text);
  CHECK(text.capacity() == SpareBuffers::spare_bytes_max);
  for (std::size_t i = 0; i <= SpareBuffers::spares_max; ++i) take_back(1000);
  std::size_t lent = 0;
  while (true) {
    std::string each;
    spares.lend(each);
    if (each.capacity() < 1000) break;
    CHECK(each.empty());
    ++lent;
  }
  CHECK(lent == SpareBuffers::spares_max);
  take_back(1000);
  std::string has_memory(5000, 'x');
  spares.lend(has_memory);
  CHECK(has_memory.size() == 5000);
}

TEST_CASE("a client that went while its replies were kept is closed", "[server]") {
  ConnectionWorld world;
  CHECK(world.serve(ping) == Then::send);
  world.peer.close();
  CHECK(world.connection->send_kept() == Then::close);
}

}  // namespace
}  // namespace sepal::server
