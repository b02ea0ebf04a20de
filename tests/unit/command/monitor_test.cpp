// MONITOR: what is shown, and how.
#include <sepal/command/observe/monitors.hpp>

#include "support/catch.hpp"
#include "world.hpp"

namespace sepal::command::monitor_test {
namespace {

using testing::World;

// A world in which client 1 is a monitor of worker 0.
struct MonitoredWorld : World {
  MonitoredWorld() {
    connection("a");
    connection("b").client.address = "127.0.0.1:60866";
    REQUIRE(send({"MONITOR"}) == "+OK");
    shown();
  }
  // The lines since the last call, without their time and address.
  std::string shown() {
    static_cast<void>(dispatcher.take_record());
    std::string lines = std::exchange(clients.pushed, {});
    for (const std::string_view head : {"0/1 ", "+1700000000.123456 ", "[0 127.0.0.1:60866] "})
      for (std::size_t at = lines.find(head); at != std::string::npos; at = lines.find(head))
        lines.erase(at, head.size());
    return lines;
  }
};

}  // namespace

TEST_CASE("MONITOR shows time, database, address and words of each command that ran") {
  MonitoredWorld world;
  world.send_from("b", {"Ping", "a\"\\\n\r\t\a\b\x01\x7f\xff z", ""});
  world.send_from("b", {"ping", std::string_view("a\"\\\n\r\t\a\b\x01\x7f\xff z\0", 14)});
  static_cast<void>(world.dispatcher.take_record());
  CHECK(std::exchange(world.clients.pushed, {}) ==
        "0/1 +1700000000.123456 [0 127.0.0.1:60866] \"Ping\" \"a\\\"\\\\\\n\\r\\t\\a\\b\\x01\\x7f\\xff z\" "
        "\"\"\r\n+1700000000.123456 [0 127.0.0.1:60866] \"ping\" "
        "\"a\\\"\\\\\\n\\r\\t\\a\\b\\x01\\x7f\\xff z\\x00\"\r\n");
  world.connection("c").client.address = "/run/sepal.sock:0";
  world.send_from("c", {"SELECT", "3"});
  CHECK(world.shown() == "[3 unix:/run/sepal.sock] \"SELECT\" \"3\"\r\n");
}

TEST_CASE("RESET ends MONITOR, and so does the end of its client") {
  MonitoredWorld world;
  CHECK(world.send({"CLIENT", "INFO"}).find(" flags=O ") != std::string::npos);
  CHECK(world.send({"MONITOR"}) == "+OK");
  CHECK(world.services.monitors.count() == 1);
  CHECK(world.send({"RESET"}) == "+RESET");
  CHECK_FALSE(world.services.monitors.any());
  world.send_from("b", {"PING"});
  CHECK(world.shown().empty());
  {
    const Monitoring monitoring(world.services.monitors, {.client_id = 7, .worker = 1});
    CHECK(world.services.monitors.any());
  }
  CHECK_FALSE(world.services.monitors.any());
}

TEST_CASE("a line of MONITOR cuts a long word, and ends behind a mebibyte") {
  MonitoredWorld world;
  constexpr std::size_t word_bytes_max = 64 * 1024;
  const std::string longest(word_bytes_max, 'z');
  const std::string longer = longest + "y";
  world.send_from("b", {"PING", longest});
  CHECK(world.shown() == "\"PING\" \"" + longest + "\"\r\n");
  world.send_from("b", {"PING", longer});
  CHECK(world.shown() == "\"PING\" \"" + longest + "... (1 more bytes)\"\r\n");
  std::vector<std::string_view> words(20, longest);
  words[0] = "EXISTS";
  world.send_words("b", words);
  const std::string shown = world.shown();
  CHECK(shown.ends_with("z\" \"... (3 more arguments)\"\r\n"));
  CHECK(shown.size() < 1024 * 1024 + 2 * word_bytes_max);
}

TEST_CASE("lines on their way to monitors are bounded, and monitors that cannot follow are closed") {
  MonitoredWorld world;
  Monitors& monitors = world.services.monitors;
  constexpr std::uint64_t bytes_max = 5'000'000;  // a quarter
  world.options.clients_memory_max = 4 * bytes_max;
  auto all = monitors.on_their_way(std::string(bytes_max, 'x'), bytes_max);
  REQUIRE(all != nullptr);
  CHECK(monitors.bytes_on_their_way() == bytes_max);
  CHECK(monitors.on_their_way("x", bytes_max) == nullptr);
  world.send_from("b", {"PING"});
  CHECK(world.shown().empty());
  CHECK(world.clients.killed == std::vector<std::uint64_t>{1});
  CHECK_FALSE(monitors.any());
  CHECK(world.services.buffers.closed_count() == 1);
  all.reset();
  CHECK(monitors.bytes_on_their_way() == 0);
  CHECK(monitors.on_their_way(std::string(bytes_max, 'x'), bytes_max) != nullptr);
  CHECK(monitor_bytes_of(0) == monitor_bytes_max);
  CHECK(monitor_bytes_of(1) == monitor_bytes_min);
  CHECK(monitor_bytes_of(4 * monitor_bytes_max + 4) == monitor_bytes_max);
}

TEST_CASE("many lines of one batch are handed over before it ends") {
  MonitoredWorld world;
  const std::string bytes(monitor_piece_bytes / 4, 'x');
  for (int i = 0; i < 3; ++i) world.send_from("b", {"PING", bytes});
  CHECK(world.clients.pushed.empty());
  world.send_from("b", {"PING", bytes});
  CHECK(world.clients.pushed.size() > monitor_piece_bytes);
}

}  // namespace sepal::command::monitor_test
