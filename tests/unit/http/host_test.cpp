#include "http/host.hpp"

#include "support/catch.hpp"

namespace host_test {

using sepal::http::names_this_server;

namespace {

const std::vector<std::string> none;

}  // namespace

TEST_CASE("localhost and loopback addresses name this server, with a port and without") {
  for (const char* host : {"localhost", "LocalHost", "localhost:9121", "127.0.0.1", "127.0.0.1:80",
                           "127.1.2.3", "[::1]", "[::1]:9121"})
    CHECK(names_this_server(host, "10.0.0.5", none));
}

TEST_CASE("the address at which a connection arrived names this server") {
  CHECK(names_this_server("10.0.0.5", "10.0.0.5", none));
  CHECK(names_this_server("10.0.0.5:9121", "10.0.0.5", none));
  CHECK(names_this_server("10.0.0.5", "::ffff:10.0.0.5", none));
  CHECK(names_this_server("[fd00::1]:9121", "fd00::1", none));
  CHECK_FALSE(names_this_server("10.0.0.6", "10.0.0.5", none));
}

TEST_CASE("the names that the operator allows name this server") {
  const std::vector<std::string> hosts{"filters.example", "10.1.1.1"};
  CHECK(names_this_server("filters.example", "10.0.0.5", hosts));
  CHECK(names_this_server("Filters.Example:9121", "10.0.0.5", hosts));
  CHECK(names_this_server("10.1.1.1", "10.0.0.5", hosts));
  CHECK_FALSE(names_this_server("filters.example.evil", "10.0.0.5", hosts));
}

TEST_CASE("other names do not name this server") {
  for (const char* host : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                           "localhost:x", "localhost:123456", "localhost:80:80", "[::1", "[::1]x", "::1",
                           "10.0.0.5", "user@localhost", "localhost/", ":80", "0.0.0.0"})
    CHECK_FALSE(names_this_server(host, "192.168.0.1", none));
}

}  // namespace host_test
