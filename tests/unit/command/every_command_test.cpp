// Each command, with words at random, within a script and within a transaction. There it must have its reply
// at once: a reply that comes later would reach no client.

#include "command/table/command_index.hpp"
#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace sepal::command::every_command_test {
namespace {

using testing::World;

// "large" and "long" are so large that a job would copy them.
void make_keys(World& world) {
  world.send({"BF.RESERVE", "filter", "0.01", "100"});
  world.send({"BF.RESERVE", "large", "0.001", "1000000"});
  world.send({"SET", "string", "1", "NX"});
  world.send({"SETRANGE", "long", "2000000", "x"});
}

class RandomWords {
 public:
  std::vector<std::string_view> after(std::vector<std::string_view> words, const CommandSpec& row) {
    const auto count_min = static_cast<std::size_t>(row.arity < 0 ? -row.arity : row.arity);
    const std::size_t count = count_min + (row.arity < 0 ? random_() % 4 : 0);
    // The name of a subcommand has two words, which the row counts.
    const std::size_t named = row.name.find('|') == std::string_view::npos ? 1 : 2;
    for (std::size_t at = named; at < count; ++at) words.push_back(pool[random_() % std::size(pool)]);
    return words;
  }

 private:
  static constexpr std::string_view pool[] = {
      "filter", "large", "string", "long",     "free",   "free2", "0",        "1",
      "-1",     "20",    "0.01",   "*",        "AND",    "NOT",   "CAPACITY", "REPLACE",
      "NX",     "GET",   "EX",     "DB",       "SCHEME", "ALL",   "u8",       "#1",
      "ITEMS",  "MATCH", "COUNT",  "NOCREATE", "OFF",    "LOAD",  "RESET",    "p"};
  std::mt19937 random_{7};
};

std::vector<std::string> words_of_name(std::string_view name) {
  const std::size_t bar = name.find('|');
  if (bar == std::string_view::npos) return {std::string(name)};
  return {std::string(name.substr(0, bar)), std::string(name.substr(bar + 1))};
}

constexpr int tries = 30;

TEST_CASE("every command answers at once within a script") {
  RandomWords random;
  for_each_row([&](const CommandSpec& row) {
    if (row.flags.has(Flag::no_script) || row.name.find('|') != std::string_view::npos) return;
    CAPTURE(row.name);
    World world;
    for (int attempt = 0; attempt < tries; ++attempt) {
      make_keys(world);
      const std::string reply = world.send_words(
          "a", random.after({"EVAL", "return {redis.pcall(unpack(ARGV))}", "0", row.name}, row));
      CHECK(world.outcome.next == Next::done);
      CHECK(!reply.empty());
    }
  });
}

TEST_CASE("every command answers at once within a transaction") {
  RandomWords random;
  for_each_row([&](const CommandSpec& row) {
    if (row.flags.has(Flag::no_multi) || row.flags.has(Flag::outside_multi)) return;
    CAPTURE(row.name);
    const std::vector<std::string> name = words_of_name(row.name);
    for (int attempt = 0; attempt < tries; ++attempt) {
      // A world for each: a command may pause clients, or end its connection.
      World world;
      make_keys(world);
      world.send({"MULTI"});
      world.send_words("a", random.after({name.begin(), name.end()}, row));
      world.send({"EXEC"});
      CHECK((world.outcome.next == Next::done || world.outcome.next == Next::close));
    }
  });
}

}  // namespace
}  // namespace sepal::command::every_command_test
