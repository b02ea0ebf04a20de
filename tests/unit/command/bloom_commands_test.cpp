#include "support/catch.hpp"
#include "world.hpp"

namespace bloom_commands_test {

using sepal::command::testing::World;

TEST_CASE("the new items of a request are counted, for any number of items") {
  World world;
  world.send({"BF.RESERVE", "k", "0.000001", "1000"});
  std::uint64_t expected = 0;
  for (std::size_t count = 1; count <= 40; ++count) {
    std::vector<std::string> items;
    for (std::size_t i = 0; i < count; ++i)
      items.push_back(i % 3 == 0 ? "known" : std::to_string(count) + ":" + std::to_string(i));
    std::vector<std::string_view> words{"BF.MADD", "k"};
    words.insert(words.end(), items.begin(), items.end());
    world.send_words("a", words);
    expected += count - (count + 2) / 3 + (count == 1 ? 1 : 0);
    CHECK(world.workers[0].items_added.get() == expected);
  }
}

}  // namespace bloom_commands_test
