#include <sepal/command/table/error_texts.hpp>

#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "world.hpp"

namespace command_commands_test {

using sepal::command::testing::World;

TEST_CASE("COMMAND INFO answers arity, flags, keys, categories, tips and key specifications", "[command]") {
  World world;
  CHECK(world.send({"COMMAND", "INFO", "bf.info", "nosuch"}) ==
        "*[*[$bf.info, :-2, *[+readonly, +module, +fast], :1, :1, :1, *[+@read, +@fast, +@bloom], "
        "*[$dont_cache], "
        "*[*[$flags, *[+RO], $begin_search, *[$type, $index, $spec, *[$index, :1]], $find_keys, "
        "*[$type, $range, $spec, *[$lastkey, :0, $keystep, :1, $limit, :0]]]], *[]], $null]");
  world.send({"HELLO", "3"});
  CHECK(world.send({"COMMAND", "INFO", "client|id"}) ==
        "*[*[$client|id, :2, ~[+noscript, +loading, +stale], :0, :0, :0, ~[+@slow, +@connection], ~[], ~[], "
        "~[]]]");
  CHECK(world.send({"COMMAND", "INFO", "nosuch"}) == "*[_]");
}

TEST_CASE("keys that a command uses differently have separate specifications", "[command]") {
  World world;
  const std::string rename = world.send({"COMMAND", "INFO", "RENAME"});
  CHECK(rename.find(
            "*[*[$flags, *[+RW, +access, +delete], $begin_search, *[$type, $index, $spec, *[$index, :1]]") !=
        std::string::npos);
  CHECK(rename.find("*[$flags, *[+OW, +update], $begin_search, *[$type, $index, $spec, *[$index, :2]]") !=
        std::string::npos);
  CHECK(world.send({"COMMAND", "GETKEYSANDFLAGS", "RENAME", "a", "b"}) ==
        "*[*[$a, *[+RW, +access, +delete]], *[$b, *[+OW, +update]]]");
}

TEST_CASE("what a command does with its keys may depend on its options", "[command]") {
  World world;
  const auto flags = [&](std::vector<std::string_view> words) {
    words.insert(words.begin(), {"COMMAND", "GETKEYSANDFLAGS"});
    return world.send_words("a", words);
  };
  const std::string overwrites = "*[*[$k, *[+OW, +update]]]";
  const std::string changes = "*[*[$k, *[+RW, +access, +update]]]";
  const std::string reads = "*[*[$k, *[+RO, +access]]]";
  CHECK(flags({"SET", "k", "v"}) == overwrites);
  CHECK(flags({"SET", "k", "get", "EX", "9"}) == overwrites);
  CHECK(flags({"SET", "k", "v", "EX", "9", "get"}) == changes);
  CHECK(flags({"BITFIELD", "k", "get", "u8", "0", "GET", "u8", "8"}) == reads);
  CHECK(flags({"BITFIELD", "k", "OVERFLOW", "SAT", "GET", "u8", "0"}) == reads);
  CHECK(flags({"BITFIELD", "k", "GET", "u8", "0", "SET", "u8", "0", "1"}) == changes);
  CHECK(flags({"BITFIELD", "k", "GET", "u8"}) == changes);
  CHECK(flags({"GETEX", "k"}) == changes);
  CHECK(flags({"BF.MIRROR", "k"}) == reads);
  CHECK(flags({"BF.MIRROR", "k", "COMMIT", "FORCE"}) == changes);
  CHECK(flags({"BF.MIRROR", "k", "t"}) ==
        "*[*[$k, *[+RW, +access, +update]], *[$t, *[+RW, +access, +update]]]");
  const std::string set = world.send({"COMMAND", "INFO", "set"});
  CHECK(set.find(
            "*[*[$notes, $RW and ACCESS due to the optional `GET` argument, $flags, *[+RW, +access, +update, "
            "+variable_flags], ") != std::string::npos);
  CHECK(world.send({"COMMAND", "INFO", "bitop"}).find("$lastkey, :-1") != std::string::npos);
  CHECK(world.send({"COMMAND", "INFO", "bf.debug"})
            .starts_with(
                "*[*[$bf.debug, :-1, *[+readonly, +module, +fast], :1, :1, :1, *[+@read, +@bloom], *[], "
                "*[*[$flags, *[+RW, +access, +update]"));
}

TEST_CASE("COMMAND GETKEYS finds the keys of a request", "[command]") {
  World world;
  CHECK(world.send({"COMMAND", "GETKEYS", "BF.INSERT", "k", "CAPACITY", "10", "ITEMS", "a"}) == "*[$k]");
  CHECK(world.send({"COMMAND", "GETKEYS", "DEL", "a", "b", "c"}) == "*[$a, $b, $c]");
  CHECK(world.send({"COMMAND", "GETKEYSANDFLAGS", "DEL", "a", "b"}) ==
        "*[*[$a, *[+RM, +delete]], *[$b, *[+RM, +delete]]]");
  CHECK(world.send({"COMMAND", "GETKEYS", "PING"}) == "-ERR The command has no key arguments");
  CHECK(world.send({"COMMAND", "GETKEYS", "CLIENT", "ID"}) == "-ERR The command has no key arguments");
  CHECK(world.send({"COMMAND", "GETKEYS", "NOSUCH", "x"}) == "-ERR Invalid command specified");
  CHECK(world.send({"COMMAND", "GETKEYS", "BF.ADD"}) ==
        "-ERR Invalid number of arguments specified for command");
  CHECK(world.send({"COMMAND", "GETKEYS"}) == "-ERR wrong number of arguments for 'command|getkeys' command");
}

TEST_CASE("COMMAND LIST filters by module, category and pattern", "[command]") {
  World world;
  const std::string bloom =
      "*[$bf.add, $bf.card, $bf.debug, $bf.exists, $bf.export, $bf.import, $bf.importbitmap, $bf.info, "
      "$bf.insert, "
      "$bf.loadchunk, "
      "$bf.madd, "
      "$bf.mexists, $bf.mirror, $bf.reserve, $bf.scandump, $bf.stats]";
  CHECK(world.send({"COMMAND", "LIST", "FILTERBY", "MODULE", "bf"}) == bloom);
  CHECK(world.send({"COMMAND", "LIST", "filterby", "aclcat", "BLOOM"}) == bloom);
  CHECK(world.send({"COMMAND", "LIST", "FILTERBY", "PATTERN", "bf.*"}) == bloom);
  CHECK(world.send({"COMMAND", "LIST", "FILTERBY", "PATTERN", "client|id"}) == "*[$client|id]");
  CHECK(world.send({"COMMAND", "LIST", "FILTERBY", "MODULE", "nosuch"}) == "*[]");
  CHECK(world.send({"COMMAND", "LIST", "FILTERBY", "FOO", "x"}) == "-ERR syntax error");
  CHECK(world.send({"COMMAND", "LIST", "FILTERBY"}) == "-ERR syntax error");
}

TEST_CASE("COMMAND DOCS answers the facts of a row", "[command]") {
  World world;
  CHECK(world.send({"COMMAND", "DOCS", "nosuch"}) == "*[]");
  const std::string reserve = world.send({"COMMAND", "DOCS", "bf.reserve"});
  CHECK(reserve.find(
            "$module, $bf, $arguments, *[*[$name, $key, $type, $key, $display_text, $key, $key_spec_index, "
            ":0], "
            "*[$name, $error_rate, $type, $double, $display_text, $error_rate], "
            "*[$name, $capacity, $type, $integer, $display_text, $capacity], "
            "*[$name, $expansion, $type, $block, $token, $EXPANSION, $flags, *[+optional], $arguments, "
            "*[*[$name, $expansion, $type, $integer, $display_text, $expansion]]], "
            "*[$name, $nonscaling, $type, $pure-token, $display_text, $nonscaling, $token, $NONSCALING, "
            "$flags, "
            "*[+optional]], "
            "*[$name, $ex, $type, $block, $token, $EX, $flags, *[+optional], $arguments, "
            "*[*[$name, $seconds, $type, $integer, $display_text, $seconds]]]]") != std::string::npos);
  const std::string rename = world.send({"COMMAND", "DOCS", "rename"});
  CHECK(rename.find("$newkey, $key_spec_index, :1") != std::string::npos);
  const std::string config = world.send({"COMMAND", "DOCS", "CONFIG"});
  CHECK(config.find("$subcommands, *[$config|get, *[$summary, ") != std::string::npos);
}

TEST_CASE("every HELP lists every subcommand", "[command]") {
  World world;
  for (const char* name : {"CLIENT", "COMMAND", "CONFIG", "MEMORY", "MODULE", "OBJECT"}) {
    const std::string help = world.send({name, "HELP"});
    for (const auto& row : sepal::command::find_command(name)->subcommands)
      CHECK(help.find(std::string(row.summary)) != std::string::npos);
  }
}

TEST_CASE("COMMAND INFO and DOCS take as many names as allowed; one more is refused", "[command]") {
  using sepal::command::described_names_max;
  for (const char* subcommand : {"INFO", "DOCS"}) {
    World world;
    std::vector<std::string_view> words{"COMMAND", subcommand};
    words.insert(words.end(), described_names_max, "nosuch");
    CHECK_FALSE(world.send_words("a", words).starts_with("-"));
    words.emplace_back("nosuch");
    CHECK(world.send_words("a", words) == "-ERR too many command names: the limit is 1024");
  }
}

TEST_CASE("COMMAND DOCS answers 4 MiB at most", "[command]") {
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

TEST_CASE("a command for which all clients wait takes 65536 words", "[command]") {
  World world;
  std::vector<std::string_view> words{"CLIENT", "LIST", "ID"};
  words.resize(sepal::command::at_once_max, "7");
  CHECK(world.send_words("a", words) == "$");
  CHECK(world.alone_runs == 1);
  words.emplace_back("7");
  CHECK(world.send_words("a", words) ==
        "-ERR all other clients wait for this command, so it takes at most 65536 words");
  CHECK(world.alone_runs == 1);
  CHECK(world.workers[0].error_replies.get() == 1);
}

}  // namespace command_commands_test
