#include "support/catch.hpp"
#include "world.hpp"

namespace mirror_commands_test {

TEST_CASE("a key that became a target while the adopter made the filter is not replaced") {
  sepal::command::testing::World world;
  for (const char* key : {"s", "t"}) world.send({"BF.ADD", key, "before"});
  REQUIRE(world.send({"BF.MIRROR", "s", "t"}) == "+OK");
  using sepal::Errc;
  const auto may = [&](const char* key, bool replace) {
    return sepal::command::may_adopt(world.keyspace, {.database = 0, .key = key}, replace);
  };
  CHECK(may("t", true).error().code == Errc::in_use);
  CHECK(may("t", false).error().code == Errc::key_exists);
  CHECK(may("s", true));
  CHECK(may("none", false));
}

}  // namespace mirror_commands_test
