#include "support/catch.hpp"
#include "world.hpp"

namespace stats_commands_test {

using sepal::command::testing::World;

namespace {

// The first value behind a name in a readable reply of RESP3. A number with a fraction begins with a comma.
std::string field(const std::string& reply, const std::string& name) {
  const std::size_t at = reply.find("$" + name + "=");
  if (at == std::string::npos) return "no field " + name;
  const std::size_t begin = at + name.size() + 2;
  return reply.substr(begin, reply.find_first_of(",}", begin + 1) - begin);
}

}  // namespace

TEST_CASE("BF.STATS tells how full and how right a filter is") {
  World world;
  world.send({"HELLO", "3"});
  world.send({"BF.RESERVE", "k", "0.01", "1000"});
  for (int i = 0; i < 500; ++i) world.send({"BF.ADD", "k", std::to_string(i)});
  const std::string reply = world.send({"BF.STATS", "k"});
  CHECK(field(reply, "capacity") == ":1000");
  CHECK(field(reply, "items") == world.send({"BF.CARD", "k"}));
  CHECK(std::stod(field(reply, "items_estimated").substr(1)) > 450);
  CHECK(std::stod(field(reply, "items_estimated").substr(1)) < 550);
  CHECK(std::stod(field(reply, "fill").substr(1)) > 0.2);
  CHECK(std::stod(field(reply, "fill").substr(1)) < 0.4);
  CHECK(std::stod(field(reply, "false_positive_rate_now").substr(1)) > 0);
  CHECK(std::stod(field(reply, "false_positive_rate_now").substr(1)) < 0.005);
  CHECK(field(reply, "false_positive_rate_asked") == ",0.01");
  CHECK(field(reply, "bits_counted") == "$all");
  CHECK(field(reply, "expansion") == ":2");
  CHECK(reply.find("$layers=*[%{$layout=$blocked, $capacity=:1000, $items=:") != std::string::npos);
}

}  // namespace stats_commands_test
