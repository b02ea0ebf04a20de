#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>

#include "support/catch.hpp"
#include "world.hpp"

namespace command_commands_test {

using sepal::command::testing::World;

TEST_CASE("every HELP lists every subcommand") {
  World world;
  for (const char* name : {"CLIENT", "COMMAND", "CONFIG", "MEMORY", "MODULE", "OBJECT"}) {
    const std::string help = world.send({name, "HELP"});
    for (const auto& row : sepal::command::find_command(name)->subcommands)
      CHECK(help.find(std::string(row.summary)) != std::string::npos);
  }
}

TEST_CASE("COMMAND DOCS answers 4 MiB at most") {
  World world;
  std::vector<std::string_view> words{"COMMAND", "DOCS", "client"};
  world.send_words("a", words);
  // The head of the map is "*2\r\n", and has three digits more for many names.
  const std::size_t each_bytes = world.reply_bytes - 4;
  const std::size_t count = (sepal::command::described_bytes_max - 7) / each_bytes;
  REQUIRE(count < sepal::command::described_names_max);
  words.resize(2 + count, "client");
  CHECK_FALSE(world.send_words("a", words).starts_with("-"));
  words.emplace_back("client");
  CHECK(
      world.send_words("a", words) ==
      "-ERR the descriptions of these commands are longer than 4194304 bytes; ask for fewer of them at once");
}

}  // namespace command_commands_test
