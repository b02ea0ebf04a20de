// Scripts. What the reference answers is in tests/golden; here are limits of Sepal.
#include <sepal/command/run/scripts.hpp>
#include <sepal/command/table/error_texts.hpp>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace script_commands_test {

namespace {

using namespace sepal;
using command::testing::World;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST_CASE("texts of loaded scripts take no more than a quarter of script_memory_max") {
  World world;
  world.options.script_memory_max = 16u << 20;
  const std::uint64_t bytes_max = command::script_text_max(world.options.script_memory_max);
  const auto text = [](std::size_t size, char letter) {
    std::string code = "return 1 --";
    return code.append(size - code.size(), letter);
  };
  const std::size_t longest = bytes_max - script::Library::entry_bytes;
  CHECK(has(world.send({"SCRIPT", "LOAD", text(bytes_max + 1, 'a')}), "longer than a quarter"));
  CHECK(has(world.send({"EVAL", text(bytes_max + 1, 'a'), "0"}), "longer than a quarter"));
  CHECK(world.send({"SCRIPT", "LOAD", text(longest + 1, 'a')}) ==
        "-" + std::string(command::text::scripts_full));
  CHECK(world.send({"EVAL", text(longest, 'b'), "0"}) == ":1");
  const std::string loaded = world.send({"SCRIPT", "LOAD", text(longest, 'a')}).substr(1);
  CHECK(loaded.size() == script::sha_digits);
  CHECK(has(world.send({"INFO", "memory"}), "used_memory_scripts:" + std::to_string(bytes_max) + "\r\n"));
  CHECK(has(world.send({"INFO", "stats"}), "evicted_scripts:1\r\n"));
  CHECK(world.send({"SCRIPT", "LOAD", "return 2"}) == "-" + std::string(command::text::scripts_full));
  CHECK(world.control.scripts_full == 1);
  CHECK(world.send({"EVAL", "return 3", "0"}) == ":3");
  CHECK(world.send({"EVALSHA", loaded, "0"}) == ":1");
  world.send({"SCRIPT", "FLUSH"});
  CHECK(world.send({"SCRIPT", "LOAD", "return 2"}).starts_with("$"));
}

TEST_CASE("the reply of a command has room in the memory of its script, or is refused") {
  World world;
  world.options.script_memory_max = 16u << 20;
  world.send({"SET", "m", std::string(1 << 20, 'x')});
  const std::string many =
      "local keys = {} for i = 1, 1000 do keys[i] = 'm' end return redis.pcall('MGET', unpack(keys))";
  CHECK(world.send({"EVAL", many, "0"}) == "-" + std::string(command::text::script_reply_too_long));
  CHECK(world.send({"EVAL", "return #redis.call('MGET', 'm', 'm', 'm')[3]", "0"}) == ":1048576");
  CHECK(world.services.scripts->memory_bytes[0] < (16u << 20));
}

TEST_CASE("the engine forgets what a script has taken in small pieces") {
  World world;
  world.send({"EVAL", "local t = {} for i = 1, 1e6 do t[i] = {} end", "0"});
  CHECK(world.send({"EVAL", "return 1", "0"}) == ":1");
  CHECK(world.services.scripts->memory_bytes[0] < (2u << 20));
}

}  // namespace

}  // namespace script_commands_test
