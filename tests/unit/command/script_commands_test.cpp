// Scripts. What the reference answers is in tests/golden; here is what only Sepal decides: the gate, the
// journal, the limits, and other clients beside a script that runs for long.
#include <sepal/command/run/scripts.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace script_commands_test {

namespace {

using namespace sepal;
using command::Next;
using command::testing::World;
using keyspace::Admission;

constexpr std::string_view add = "return redis.call('BF.ADD', KEYS[1], ARGV[1])";
constexpr std::string_view for_ever = "while true do end";
constexpr std::string_view busy =
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

struct JournaledWorld : World {
  JournaledWorld() : World(keyspace::KeyspaceOptions{.seed = 1}) { services.logs = recording.all_logs(); }
};

// A world in which a script is suspended at its first question.
struct BusyWorld : JournaledWorld {
  BusyWorld() { options.busy_reply_threshold = std::chrono::milliseconds(0); }
  ~BusyWorld() { services.scripts->kill_asked = true; }

  // Runs the suspended script until it ends. Returns its reply.
  std::string wait_for_script() {
    while (!dispatcher.resume_script()) {
    }
    resp::Reply reply;
    dispatcher.finish_script(reply);
    reply.fill_whole();
    return command::testing::readable(reply.bytes());
  }
};

TEST_CASE("a script closes the gate once, and is one group in the journal", "[command][script]") {
  JournaledWorld world;
  world.send({"EVAL", add, "1", "a", "x"});
  world.recording.groups = 0;
  world.alone_runs = 0;
  CHECK(world.send({"EVAL",
                    "redis.call('BF.MADD', KEYS[1], 'p', 'q') redis.call('EXPIRE', KEYS[1], 100) "
                    "redis.call('RENAME', KEYS[1], KEYS[2]) return redis.call('BF.CARD', KEYS[2])",
                    "2", "a", "b"}) == ":3");
  CHECK(world.recording.groups == 1);
  CHECK(world.alone_runs == 1);
  std::uint64_t bytes = 0;
  for (const test::Recorded& each : world.recording.operations()) bytes += each.bytes();
  CHECK(bytes <= world.recording.admitted_bytes());
}

TEST_CASE("a script of look-ups records nothing", "[command][script]") {
  JournaledWorld world;
  CHECK(world.send({"EVAL", "return redis.call('BF.EXISTS', 'a', 'x')", "0"}) == ":0");
  CHECK(world.send({"EVALSHA_RO", "ffffffffffffffffffffffffffffffffffffffff", "0"}) ==
        "-NOSCRIPT No matching script. Please use EVAL.");
  CHECK(world.recording.groups == 0);
}

TEST_CASE("scripts of a transaction are in its group", "[command][script]") {
  JournaledWorld world;
  world.send({"MULTI"});
  CHECK(world.send({"EVAL", add, "1", "a", "x"}) == "+QUEUED");
  world.send({"BF.ADD", "b", "y"});
  world.send({"EVAL", add, "1", "b", "y"});
  CHECK(world.send({"EXEC"}) == "*[:1, :1, :0]");
  CHECK(world.recording.groups == 1);
  world.send({"MULTI"});
  world.send({"EVAL", add, "1", "c", "x"});
  CHECK(world.send({"EXEC"}) == "*[:1]");
  CHECK(world.recording.groups == 2);
}

TEST_CASE("a script whose first change has no room in the journal runs again later", "[command][script]") {
  JournaledWorld world;
  world.recording.grants_left = 0;
  world.send({"EVAL", "redis.pcall('BF.ADD', 'a', 'x') return 'went on'", "0"});
  CHECK(world.outcome.next == Next::later);
  CHECK(world.keyspace.total_size() == 0);
  world.recording.grants_left = 10;
  CHECK(world.send({"EVAL", "redis.pcall('BF.ADD', 'a', 'x') return 'went on'", "0"}) == "$went on");
}

TEST_CASE("a later change without room in the journal fails, and the earlier ones stay",
          "[command][script]") {
  JournaledWorld world;
  world.recording.grants_left = 1;
  CHECK(has(world.send({"EVAL", "redis.call('BF.ADD', 'a', 'x') redis.call('BF.ADD', 'a', 'y')", "0"}),
            "the journal has no room for further changes of this script"));
  CHECK(world.send({"BF.CARD", "a"}) == ":1");
  CHECK(world.recording.groups == 1);
}

TEST_CASE("a journal that refuses changes refuses those of scripts", "[command][script]") {
  JournaledWorld world;
  world.recording.admission = Admission::refused;
  CHECK(has(world.send({"EVAL", add, "1", "a", "x"}), "MISCONF Errors writing to the journal"));
  CHECK(world.send({"EVAL", "return redis.call('BF.EXISTS', 'a', 'x')", "0"}) == ":0");
  world.recording.takes_freeing = true;
  CHECK(world.send({"EVAL", "return redis.call('DEL', 'a')", "0"}) == ":0");
}

TEST_CASE("what scripts may not call", "[command][script]") {
  World world;
  for (const auto& [call, error] : std::vector<std::pair<std::string, std::string>>{
           {"'SAVE'", "-ERR This Redis command is not allowed from script"},
           {"'EVAL', 'return 1', '0'", "-ERR This Redis command is not allowed from script"},
           {"'MULTI'", "-ERR This Redis command is not allowed from script"},
           {"'BF.ADD', 'a'", "-ERR Wrong number of args calling Redis command from script"},
           {"'CONFIG', 'NOSUCH'", "-ERR Unknown Redis command called from script"},
           {"'NOSUCH'", "-ERR Unknown Redis command called from script"}}) {
    CAPTURE(call);
    CHECK(world.send({"EVAL", "return redis.pcall(" + call + ")", "0"}) == error);
  }
  CHECK(has(world.send({"EVAL_RO", "redis.call('DEL', 'a')", "0"}), "Write commands are not allowed"));
}

TEST_CASE("above maxmemory a script may look up and remove, and finishes what it began",
          "[command][script]") {
  World world;
  world.send({"BF.RESERVE", "a", "0.01", "1000"});
  world.keyspace.set_memory_max(1);
  CHECK(has(world.send({"EVAL", add, "1", "a", "x"}), "OOM command not allowed"));
  CHECK(world.send({"EVAL", "return redis.call('BF.EXISTS', 'a', 'x')", "0"}) == ":0");
  CHECK(has(world.send({"EVAL", "#!lua\nreturn 1", "0"}), "OOM allow-oom flag is not set on the script"));
  CHECK(world.send({"EVAL", "#!lua flags=no-writes\nreturn 1", "0"}) == ":1");
  CHECK(world.send({"EVAL", "#!lua flags=allow-oom\nreturn redis.call('BF.ADD', 'a', 'x')", "0"}) == ":1");
}

TEST_CASE("an error of a script is counted once", "[command][script]") {
  World world;
  world.send({"EVAL", "return redis.call('BF.RESERVE', 'a', '2', '1')", "0"});
  CHECK(world.workers[0].error_replies.get() == 1);
  world.send({"EVAL", "error('mine')", "0"});
  CHECK(world.workers[0].error_replies.get() == 2);
  world.send({"EVAL", "return redis.call('NOSUCH')", "0"});
  CHECK(world.workers[0].error_replies.get() == 3);
}

TEST_CASE("SCRIPT LOAD, EXISTS, FLUSH, HELP, DEBUG", "[command][script]") {
  World world;
  const std::string digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
  CHECK(world.send({"SCRIPT", "LOAD", "return 1"}) == "$" + digest);
  CHECK(world.send({"EVALSHA", digest, "0"}) == ":1");
  CHECK(world.send({"EVALSHA_RO", digest, "0"}) == ":1");
  CHECK(world.send({"SCRIPT", "EXISTS", digest, std::string(1 << 20, 'x')}) == "*[:1, :0]");
  CHECK(has(world.send({"INFO", "memory"}), "number_of_cached_scripts:1"));
  CHECK(world.send({"SCRIPT", "FLUSH"}) == "+OK");
  CHECK(world.send({"EVALSHA", digest, "0"}).starts_with("-NOSCRIPT"));
  CHECK(world.send({"EVAL", "return 1", "0"}) == ":1");
  CHECK(has(world.send({"SCRIPT", "HELP"}), "SCRIPT <subcommand>"));
  CHECK(world.send({"SCRIPT", "DEBUG", "NO"}) == "+OK");
  CHECK(world.send({"SCRIPT", "DEBUG", "YES"}).starts_with("-ERR Sepal has no debugger"));
  CHECK(world.send({"SCRIPT", "DEBUG", "what"}) == "-ERR Use SCRIPT DEBUG YES/SYNC/NO");
  CHECK(world.send({"SCRIPT", "KILL"}) == "-NOTBUSY No scripts in execution right now.");
}

TEST_CASE("INFO counts the scripts that the server has forgotten to make room", "[command][script]") {
  World world;
  for (std::size_t i = 0; i <= script::Library::passing_max; ++i)
    world.send({"EVAL", "return " + std::to_string(i), "0"});
  CHECK(has(world.send({"INFO", "stats"}), "evicted_scripts:1\r\n"));
}

TEST_CASE("functions are refused", "[command][script]") {
  World world;
  CHECK(world.send({"FCALL", "f", "0"}) == "-ERR Function not found");
  CHECK(world.send({"FCALL_RO", "f", "0"}) == "-ERR Function not found");
  CHECK(world.send({"FUNCTION", "LIST"}) == "*[]");
  CHECK(world.send({"FUNCTION", "FLUSH"}) == "+OK");
  CHECK(world.send({"FUNCTION", "KILL"}) == "-NOTBUSY No scripts in execution right now.");
  CHECK(world.send({"FUNCTION", "STATS"}) ==
        "*[$running_script, $null, $engines, *[$LUA, *[$libraries_count, :0, $functions_count, :0]]]");
  CHECK(world.send({"FUNCTION", "DELETE", "f"}).starts_with("-ERR Sepal has no libraries of functions"));
  CHECK(world.send({"FUNCTION", "LOAD", "#!lua name=f\n"}).starts_with("-ERR Sepal has no libraries"));
  CHECK(has(world.send({"FUNCTION", "HELP"}), "FUNCTION <subcommand>"));
}

TEST_CASE("COMMAND GETKEYS finds the keys of a script", "[command][script]") {
  World world;
  CHECK(world.send({"COMMAND", "GETKEYS", "EVAL", "return 1", "2", "a", "b", "c"}) == "*[$a, $b]");
  for (const char* const count : {"3", "-1", "x", "9223372036854775807"})
    CHECK(
        world.send({"COMMAND", "GETKEYS", "EVAL", "return 1", count, "a", "b"}).starts_with("-ERR Invalid"));
}

TEST_CASE("redis.log goes to the server's log", "[command][script]") {
  World world;
  world.send({"EVAL", "redis.log(redis.LOG_NOTICE, 'here')", "0"});
  CHECK(world.control.script_lines == std::vector<std::string>{"here"});
}

TEST_CASE("beside a script that runs for long, other clients are told so", "[command][script]") {
  BusyWorld world;
  world.send({"EVAL", for_ever, "0"});
  CHECK(world.outcome.next == Next::wait);
  CHECK(world.dispatcher.suspended_client() == 1);
  for (const std::vector<std::string_view>& words : {std::vector<std::string_view>{"PING"},
                                                     {"BF.ADD", "a", "x"},
                                                     {"EVAL", "return 1", "0"},
                                                     {"INFO"},
                                                     {"WATCH", "a"},
                                                     {"SHUTDOWN"},
                                                     {"FLUSHALL"}}) {
    CAPTURE(words[0]);
    CHECK(world.send_words("b", words) == busy);
  }
  CHECK(world.send_from("b", {"MULTI"}) == "+OK");
  CHECK(world.send_from("b", {"DISCARD"}) == "+OK");
  CHECK(world.control.stops.empty());
  CHECK(!world.dispatcher.resume_script());
  CHECK(world.send_from("b", {"SCRIPT", "KILL"}) == "+OK");
  world.options.slow_log_microseconds = 0;
  CHECK(has(world.wait_for_script(), "Script killed by user with SCRIPT KILL"));
  CHECK(world.dispatcher.suspended_client() == 0);
  CHECK(world.send_from("b", {"PING"}) == "+PONG");
  CHECK(world.send_from("b", {"SCRIPT", "KILL"}).starts_with("-NOTBUSY"));
  CHECK(has(world.send({"SLOWLOG", "GET"}), "*[$EVAL, $while true do end, $0]"));
}

TEST_CASE("a script that has changed something is not killed", "[command][script]") {
  BusyWorld world;
  const std::string_view text =
      "redis.call('BF.ADD', 'a', 'x') for i = 1, 3e6 do end return redis.call('BF.CARD', 'a')";
  world.options.busy_reply_threshold = std::chrono::seconds(5);
  world.send({"SCRIPT", "LOAD", text});  // so that it is not suspended while it is compiled
  world.options.busy_reply_threshold = std::chrono::milliseconds(0);
  world.send({"EVAL", text, "0"});
  REQUIRE(world.dispatcher.suspended_client() == 1);
  CHECK(world.send_from("b", {"SCRIPT", "KILL"}).starts_with("-UNKILLABLE"));
  CHECK(world.wait_for_script() == ":1");
  CHECK(world.recording.groups == 1);
  world.dispatcher.commit();
  CHECK(world.recording.operations().size() == 2);  // the filter is created, and has an item
}

TEST_CASE("a script that was suspended and has no room for its first change is answered",
          "[command][script]") {
  BusyWorld world;
  world.send({"EVAL", "for i = 1, 3e6 do end return redis.call('BF.ADD', 'a', 'x')", "0"});
  REQUIRE(world.dispatcher.suspended_client() == 1);
  world.recording.grants_left = 0;
  CHECK(has(world.wait_for_script(), "the journal has no room for further changes of this script"));
  CHECK(world.keyspace.total_size() == 0);
}

TEST_CASE("SCRIPT KILL ends one script of a transaction", "[command][script]") {
  BusyWorld world;
  world.send({"MULTI"});
  world.send({"EVAL", for_ever, "0"});
  world.send({"EVAL", "for i = 1, 3e6 do end return 5", "0"});
  world.send({"EXEC"});
  REQUIRE(world.dispatcher.suspended_client() == 1);
  CHECK(world.send_from("b", {"SCRIPT", "KILL"}) == "+OK");
  const std::string replies = world.wait_for_script();
  CHECK(has(replies, "Script killed by user with SCRIPT KILL"));
  CHECK(replies.ends_with(", :5]"));
}

TEST_CASE("a transaction with a long script is suspended as a whole", "[command][script]") {
  BusyWorld world;
  world.send({"MULTI"});
  world.send({"BF.ADD", "a", "x"});
  world.send({"EVAL", "for i = 1, 3e6 do end return 5", "0"});
  world.send({"BF.ADD", "a", "y"});
  world.send({"EXEC"});
  REQUIRE(world.dispatcher.suspended_client() == 1);
  CHECK(world.send_from("b", {"BF.EXISTS", "a", "x"}) == busy);
  CHECK(world.wait_for_script() == "*[:1, :5, :1]");
  CHECK(world.send_from("b", {"BF.CARD", "a"}) == ":2");
  CHECK(world.recording.groups == 1);
}

TEST_CASE("a script takes no more memory than script_memory_max", "[command][script]") {
  World world;
  world.options.script_memory_max = 16u << 20;
  CHECK(has(world.send({"EVAL", "return #('x'):rep(32 * 1024 * 1024)", "0"}), "not enough memory"));
  CHECK(world.send({"EVAL", "return #('x'):rep(4 * 1024 * 1024)", "0"}) == ":4194304");
}

TEST_CASE("texts of loaded scripts take no more than a quarter of script_memory_max", "[command][script]") {
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

TEST_CASE("the reply of a command has room in the memory of its script, or is refused", "[command][script]") {
  World world;
  world.options.script_memory_max = 16u << 20;
  world.send({"SET", "m", std::string(1 << 20, 'x')});
  const std::string many =
      "local keys = {} for i = 1, 1000 do keys[i] = 'm' end return redis.pcall('MGET', unpack(keys))";
  CHECK(world.send({"EVAL", many, "0"}) == "-" + std::string(command::text::script_reply_too_long));
  CHECK(world.send({"EVAL", "return #redis.call('MGET', 'm', 'm', 'm')[3]", "0"}) == ":1048576");
  CHECK(world.services.scripts->memory_bytes[0] < (16u << 20));
}

TEST_CASE("between the parts of a command a script is suspended", "[command][script]") {
  BusyWorld world;
  for (int i = 0; i < 1000; ++i) world.send({"SET", std::to_string(i), "x"});
  world.send({"EVAL", "return #redis.call('KEYS', '*')", "0"});
  REQUIRE(world.dispatcher.suspended_client() == 1);
  CHECK(world.wait_for_script() == ":1000");
  world.send({"EVAL", "while true do redis.call('KEYS', '*') end", "0"});
  CHECK(world.send_from("b", {"SCRIPT", "KILL"}) == "+OK");
  CHECK(has(world.wait_for_script(), "Script killed by user with SCRIPT KILL"));
}

TEST_CASE("SCRIPT KILL reaches a script that is compiled", "[command][script]") {
  BusyWorld world;
  std::string text = "return ";
  for (int i = 0; i < 1000; ++i) text += "a and ";
  text += "a";
  for (const std::vector<std::string_view>& words :
       {std::vector<std::string_view>{"EVAL", text, "0"}, {"SCRIPT", "LOAD", text}}) {
    world.send_words("a", words);
    REQUIRE(world.dispatcher.suspended_client() == 1);
    CHECK(world.send_from("b", {"SCRIPT", "KILL"}) == "+OK");
    CHECK(world.wait_for_script() == "-ERR Script killed by user with SCRIPT KILL...");
  }
  world.options.busy_reply_threshold = std::chrono::seconds(5);
  CHECK(world.send({"SCRIPT", "LOAD", text}).starts_with("$"));
}

TEST_CASE("the replies of a transaction's scripts share one limit", "[command][script]") {
  World world;
  world.options.script_memory_max = 16u << 20;
  const std::string_view text = "return ('x'):rep(2e6)";
  world.send({"MULTI"});
  for (int i = 0; i < 9; ++i) world.send({"EVAL", text, "0"});
  world.send({"EXEC"});
  CHECK(world.workers[0].error_replies.get() == 1);
}

TEST_CASE("a long reply of a script is whole", "[command][script]") {
  BusyWorld world;
  world.send({"EVAL", "return {1, ('x'):rep(1e6), 2}", "0"});
  CHECK(world.wait_for_script() == "*[:1, $" + std::string(1'000'000, 'x') + ", :2]");
}

TEST_CASE("the engine forgets what a script has taken in small pieces", "[command][script]") {
  World world;
  world.send({"EVAL", "local t = {} for i = 1, 1e6 do t[i] = {} end", "0"});
  CHECK(world.send({"EVAL", "return 1", "0"}) == ":1");
  CHECK(world.services.scripts->memory_bytes[0] < (2u << 20));
}

}  // namespace

TEST_CASE("the words of a script are bounded, because all clients wait while they are copied",
          "[command][script]") {
  World world;
  constexpr std::size_t words_bytes_max = std::size_t{16} << 20;
  const std::string_view text = "return #ARGV[1]";
  const std::string refused =
      "-ERR the words of a request that runs or loads a script have at most 16777216 bytes";
  const std::string longest(words_bytes_max - text.size() - std::string_view("EVAL0").size(), 'x');
  CHECK(world.send({"EVAL", text, "0", longest}) == ":" + std::to_string(longest.size()));
  CHECK(world.send({"EVAL", text, "0", longest + "x"}) == refused);
  world.send({"MULTI"});
  world.send({"EVAL", text, "0", longest + "x"});
  world.send({"PING"});
  CHECK(world.send({"EXEC"}) == "*[" + refused + ", +PONG]");
  const std::string comment = "return 1 --" + std::string(words_bytes_max, 'x');
  CHECK(world.send({"SCRIPT", "LOAD", comment}) == refused);
}

}  // namespace script_commands_test
