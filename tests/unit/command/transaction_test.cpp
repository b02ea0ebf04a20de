// MULTI, EXEC, DISCARD, WATCH and UNWATCH. What the reference answers is in tests/golden; here is what only
// Sepal decides: the gate, the journal, the limits.
#include <sepal/command/run/transaction.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace transaction_test {

namespace {

using namespace sepal;
using command::Next;
using command::Transaction;
using command::testing::World;
using keyspace::Admission;
using test::Recorded;

constexpr std::string_view aborted = "-EXECABORT Transaction discarded because of previous errors.";

struct JournaledWorld : World {
  JournaledWorld() : World(keyspace::KeyspaceOptions{.seed = 1}) { services.logs = recording.all_logs(); }
};

TEST_CASE("one command of a transaction runs without closing the gate", "[command][transaction]") {
  World world;
  world.send({"BF.RESERVE", "a", "0.01", "100"});
  world.alone_runs = 0;
  world.send({"MULTI"});
  CHECK(world.send({"BF.ADD", "a", "x"}) == "+QUEUED");
  CHECK(world.send({"EXEC"}) == "*[:1]");
  CHECK(world.alone_runs == 0);
  SECTION("unless the command itself needs that") {
    world.send({"MULTI"});
    world.send({"BF.ADD", "new", "x"});
    CHECK(world.send({"EXEC"}) == "*[:1]");
    CHECK(world.alone_runs == 1);
  }
  SECTION("two commands close it once") {
    world.send({"MULTI"});
    world.send({"BF.ADD", "a", "x"});
    world.send({"BF.EXISTS", "a", "x"});
    CHECK(world.send({"EXEC"}) == "*[:0, :1]");
    CHECK(world.alone_runs == 1);
  }
}

TEST_CASE("a transaction is one group in the journal, with room for all of it", "[command][transaction]") {
  JournaledWorld world;
  world.send({"MULTI"});
  for (int i = 0; i < 200; ++i) {
    const std::string item = std::to_string(i);
    world.send({"BF.ADD", i % 3 == 0 ? "a" : "b", item});
  }
  world.send({"EXPIRE", "a", "100"});
  world.send({"RENAME", "b", "c"});
  const std::uint64_t admitted_before = world.recording.admitted_bytes();
  const int commits_before = world.recording.commits;
  world.send({"EXEC"});
  CHECK(world.recording.groups == 1);
  CHECK(world.recording.commits == commits_before + 2);  // where the group begins, and where it ends
  std::uint64_t bytes = 0;
  for (const Recorded& each : world.recording.operations()) bytes += each.bytes();
  CHECK(bytes > 200 * sizeof(Fingerprint));
  CHECK(bytes <= world.recording.admitted_bytes() - admitted_before);
  CHECK(world.send({"BF.CARD", "c"}) == ":133");
}

TEST_CASE("a transaction of look-ups records nothing", "[command][transaction]") {
  JournaledWorld world;
  world.send({"MULTI"});
  world.send({"BF.EXISTS", "a", "x"});
  world.send({"BF.EXISTS", "b", "x"});
  CHECK(world.send({"EXEC"}) == "*[:0, :0]");
  CHECK(world.recording.groups == 0);
}

TEST_CASE("EXEC waits for room in the journal, and its commands wait with it", "[command][transaction]") {
  JournaledWorld world;
  world.send({"MULTI"});
  world.send({"BF.ADD", "a", "x"});
  world.send({"BF.ADD", "a", "y"});
  world.recording.grants_left = 0;
  world.send({"EXEC"});
  CHECK(world.outcome.next == Next::later);
  CHECK(world.keyspace.total_size() == 0);
  world.recording.grants_left = 10;
  CHECK(world.send({"EXEC"}) == "*[:1, :1]");
}

TEST_CASE("a journal that refuses changes refuses the command, and then EXEC", "[command][transaction]") {
  JournaledWorld world;
  world.send({"MULTI"});
  world.send({"BF.ADD", "a", "x"});
  SECTION("while it is queued") {
    world.recording.admission = Admission::refused;
    CHECK(world.send({"BF.ADD", "a", "y"}).starts_with("-MISCONF Errors writing to the journal"));
    world.recording.admission = Admission::granted;
    CHECK(world.send({"EXEC"}) == aborted);
  }
  SECTION("when EXEC comes") {
    world.recording.admission = Admission::refused;
    CHECK(world.send({"EXEC"}).starts_with(
        "-EXECABORT Transaction discarded because of: MISCONF Errors writing to the journal"));
    world.recording.admission = Admission::granted;
    CHECK(world.send({"EXEC"}) == "-ERR EXEC without MULTI");
  }
  CHECK(world.keyspace.total_size() == 0);
}

TEST_CASE("a transaction that only removes keys is taken on a full disk", "[command][transaction]") {
  JournaledWorld world;
  for (const char* const key : {"a", "b"}) world.send({"BF.ADD", key, "x"});
  world.recording.admission = Admission::refused;
  world.recording.takes_freeing = true;
  world.send({"MULTI"});
  CHECK(world.send({"DEL", "a"}) == "+QUEUED");
  world.send({"BF.EXISTS", "a", "x"});
  world.send({"UNLINK", "b"});
  CHECK(world.send({"EXEC"}) == "*[:1, :0, :1]");
}

TEST_CASE("with a mirror, room is admitted for both keys of each item", "[command][transaction]") {
  JournaledWorld world;
  const std::string source(1000, 's');
  const std::string target(1000, 't');
  for (const std::string& key : {source, target})
    world.send({"BF.RESERVE", key, "0.01", "20", "EXPANSION", "1"});
  world.send({"BF.MIRROR", source, target});
  world.send({"MULTI"});
  for (int i = 0; i < 300; ++i) world.send({"BF.ADD", source, std::to_string(i)});
  const std::uint64_t admitted_before = world.recording.admitted_bytes();
  const std::size_t recorded_before = world.recording.operations().size();
  world.send({"EXEC"});
  const auto operations = world.recording.operations();
  std::uint64_t bytes = 0;
  for (std::size_t at = recorded_before; at < operations.size(); ++at) bytes += operations[at].bytes();
  CHECK(bytes <= world.recording.admitted_bytes() - admitted_before);
}

TEST_CASE("a transaction may record half of what the journal may hold", "[command][transaction]") {
  JournaledWorld world;
  world.options.journal_bytes_max = 4096;
  world.send({"MULTI"});
  world.send({"BF.ADD", "a", "x"});
  world.send({"BF.ADD", "a", "y"});
  CHECK(world.send({"EXEC"}) == "*[:1, :1]");
  world.send({"MULTI"});
  for (int i = 0; i < 20; ++i) world.send({"BF.ADD", std::to_string(i), "x"});
  CHECK(world.send({"EXEC"}) ==
        "-EXECABORT Transaction discarded because of: the transaction may record more than half of "
        "journal-size-max; send it in parts");
  CHECK(world.keyspace.total_size() == 1);
}

TEST_CASE("EXEC is refused where memory has run out for one of its commands", "[command][transaction]") {
  World world;
  world.send({"BF.RESERVE", "a", "0.01", "100"});
  world.send({"MULTI"});
  world.send({"BF.ADD", "a", "x"});
  world.keyspace.set_memory_max(1);
  CHECK(world.send({"EXEC"}) ==
        "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > "
        "'maxmemory'.");
  world.send({"MULTI"});
  world.send({"BF.EXISTS", "a", "x"});
  CHECK(world.send({"EXEC"}) == "*[:0]");
}

TEST_CASE("commands that end later are not taken into a transaction", "[command][transaction]") {
  const auto words =
      GENERATE(std::vector<std::string_view>{"SAVE"}, std::vector<std::string_view>{"SHUTDOWN"},
               std::vector<std::string_view>{"CONFIG", "REWRITE"},
               std::vector<std::string_view>{"CONFIG", "SET", "maxmemory", "0"},
               std::vector<std::string_view>{"BF.MIRROR", "a", "b"},
               std::vector<std::string_view>{"BF.IMPORT", "a", "file"},
               std::vector<std::string_view>{"BF.EXPORT", "a", "file"},
               std::vector<std::string_view>{"BF.LOADCHUNK", "a", "1", "data"});
  World world;
  world.send({"MULTI"});
  CHECK(world.send_words("a", words) == "-ERR Command not allowed inside a transaction");
  CHECK(world.send({"EXEC"}) == aborted);
}

TEST_CASE("a filter that a job of its own would copy is refused, and the other commands run",
          "[command][transaction]") {
  World world;
  world.send({"BF.RESERVE", "big", "0.01", "10000000"});
  world.send({"MULTI"});
  world.send({"COPY", "big", "other"});
  world.send({"DUMP", "big"});
  world.send({"BF.ADD", "big", "x"});
  const std::string answer = world.send({"EXEC"});
  CHECK(answer.starts_with("*[-ERR a filter or string as large as this one"));
  CHECK(answer.ends_with(", :1]"));
  CHECK(world.outcome.next == Next::done);
}

TEST_CASE("the session of a command within a transaction is that of the client", "[command][transaction]") {
  World world;
  world.send({"MULTI"});
  world.send({"CLIENT", "SETNAME", "me"});
  world.send({"SELECT", "3"});
  world.send({"BF.ADD", "a", "x"});
  world.send({"HELLO", "3"});
  world.send({"BF.EXISTS", "a", "x"});
  CHECK(world.send({"EXEC"}).ends_with("#t]"));
  CHECK(world.connection("a").client.database == 3);
  CHECK(world.connection("a").client.name == "me");
}

TEST_CASE("commands of a transaction count as calls, and their errors once", "[command][transaction]") {
  World world;
  const auto* const add = command::find_command("bf.add");
  const auto* const exec = command::find_command("exec");
  const auto& stats = world.workers[0];
  world.send({"MULTI"});
  for (const char* const item : {"x", "y", "z"}) world.send({"BF.ADD", "a", item});
  CHECK(stats.commands[command::command_row(*add)].calls.get() == 0);
  world.send({"BF.RESERVE", "a", "0.01", "100"});
  world.send({"EXEC"});
  CHECK(stats.commands[command::command_row(*add)].calls.get() == 3);
  CHECK(stats.error_replies.get() == 1);
  CHECK(stats.commands[command::command_row(*exec)].failed.get() == 0);
}

TEST_CASE("CLIENT LIST shows a transaction and a watch", "[command][transaction]") {
  World world;
  const auto line = [&] { return world.send({"CLIENT", "INFO"}); };
  CHECK(line().find("flags=N ") != std::string::npos);
  CHECK(line().find(" multi=-1 watch=0 ") != std::string::npos);
  world.send({"WATCH", "a", "b", "a"});
  CHECK(line().find(" multi=-1 watch=2 ") != std::string::npos);
  CHECK(world.send({"INFO", "clients"}).find("watching_clients:1") != std::string::npos);
  CHECK(world.send({"INFO", "clients"}).find("total_watched_keys:2") != std::string::npos);
  world.send({"MULTI"});
  world.send({"PING"});
  world.send({"CLIENT", "INFO"});
  CHECK(world.connection("a").client.transaction->command_count() == 2);
}

TEST_CASE("RESET ends a transaction and a watch", "[command][transaction]") {
  World world;
  world.send({"WATCH", "a"});
  world.send({"MULTI"});
  world.send({"BF.ADD", "a", "x"});
  CHECK(world.send({"RESET"}) == "+RESET");
  CHECK(world.send({"EXEC"}) == "-ERR EXEC without MULTI");
  CHECK(world.connection("a").client.watch == nullptr);
  CHECK(world.send({"INFO", "clients"}).find("watching_clients:0") != std::string::npos);
  CHECK(world.send({"INFO", "clients"}).find("total_watched_keys:0") != std::string::npos);
}

TEST_CASE("any change of a watched key makes EXEC answer null", "[command][transaction]") {
  const auto change = GENERATE(
      std::vector<std::string_view>{"BF.ADD", "a", "new"}, std::vector<std::string_view>{"DEL", "a"},
      std::vector<std::string_view>{"RENAME", "a", "b"},
      std::vector<std::string_view>{"RENAME", "other", "a"}, std::vector<std::string_view>{"MOVE", "a", "5"},
      std::vector<std::string_view>{"FLUSHDB"}, std::vector<std::string_view>{"FLUSHALL"},
      std::vector<std::string_view>{"SWAPDB", "0", "7"}, std::vector<std::string_view>{"EXPIRE", "a", "100"},
      std::vector<std::string_view>{"EXPIRE", "a", "-1"},
      std::vector<std::string_view>{"COPY", "other", "a", "REPLACE"});
  CAPTURE(change[0], change.back());
  World world;
  world.send({"BF.ADD", "a", "x"});
  world.send({"BF.ADD", "other", "x"});
  world.send({"WATCH", "a"});
  world.send_words("b", change);
  world.send({"MULTI"});
  world.send({"PING"});
  CHECK(world.send({"EXEC"}) == "*null");
  SECTION("and the watch has ended") {
    world.send({"MULTI"});
    world.send({"PING"});
    CHECK(world.send({"EXEC"}) == "*[+PONG]");
  }
}

TEST_CASE("what does not change a watched key does not matter", "[command][transaction]") {
  const auto no_change = GENERATE(
      std::vector<std::string_view>{"BF.ADD", "a", "x"}, std::vector<std::string_view>{"BF.EXISTS", "a", "y"},
      std::vector<std::string_view>{"DEL", "b"}, std::vector<std::string_view>{"RENAME", "other", "b"},
      std::vector<std::string_view>{"SWAPDB", "3", "7"}, std::vector<std::string_view>{"PERSIST", "a"});
  CAPTURE(no_change[0], no_change.back());
  World world;
  world.send({"BF.ADD", "a", "x"});
  world.send({"BF.ADD", "other", "x"});
  world.send({"WATCH", "a"});
  world.send_words("b", no_change);
  world.send({"MULTI"});
  world.send({"PING"});
  CHECK(world.send({"EXEC"}) == "*[+PONG]");
}

TEST_CASE("a key that was not there changes when it comes, whatever its way", "[command][transaction]") {
  const auto change = GENERATE(std::vector<std::string_view>{"BF.ADD", "new", "x"},
                               std::vector<std::string_view>{"RENAME", "a", "new"},
                               std::vector<std::string_view>{"COPY", "a", "new"},
                               std::vector<std::string_view>{"SWAPDB", "0", "1"});
  CAPTURE(change[0], change.back());
  World world;
  world.send({"BF.ADD", "a", "x"});
  world.send_from("b", {"SELECT", "1"});
  world.send_from("b", {"BF.ADD", "new", "x"});
  world.send_from("b", {"SELECT", "0"});
  world.send({"WATCH", "new"});
  world.send_words("b", change);
  world.send({"DEL", "new"});
  world.send({"MULTI"});
  world.send({"PING"});
  CHECK(world.send({"EXEC"}) == "*null");
}

TEST_CASE("the names of a connection's watched keys are bounded together", "[command][transaction]") {
  World world;
  const std::string too_long(512 * 1024, 'k');  // no key has this name
  const auto name = [](int number) { return std::to_string(1000 + number) + std::string(60'000, 'k'); };
  std::vector<std::string> keys;
  for (int i = 0; i < 17; ++i) keys.push_back(name(i));
  std::vector<std::string_view> words{"WATCH"};
  words.insert(words.end(), keys.begin(), keys.end());
  CHECK(world.send_words("a", words) == "+OK");  // 17 x 60,004 bytes
  CHECK(world.send({"WATCH", too_long, too_long, too_long}) == "+OK");
  const std::string_view refusal =
      "-ERR the names of the watched keys are too long: the limit of a connection is 1048576 bytes in all";
  CHECK(world.send({"WATCH", name(17)}) == refusal);
  CHECK(world.send({"WATCH", "a short one"}) == "+OK");
  world.send({"UNWATCH"});
  CHECK(world.send({"WATCH", name(17)}) == "+OK");
}

TEST_CASE("a name goes with the last client that watches it", "[command][transaction]") {
  World world;
  const keyspace::Watches& watches = world.keyspace.watches();
  CHECK(world.send_from("holder", {"WATCH", "held"}) == "+OK");
  for (int i = 0; i < 3; ++i) {
    CHECK(world.send({"WATCH", "held", std::to_string(i)}) == "+OK");
    CHECK(watches.kept_key_count() == 2);
    world.send({"UNWATCH"});
    CHECK(watches.kept_key_count() == 1);
  }
  world.send({"SELECT", "1"});
  world.send({"WATCH", "twice"});
  world.send({"SELECT", "2"});
  world.send({"WATCH", "twice"});
  CHECK(watches.kept_key_count() == 2);
  CHECK(watches.key_count() == 3);
  world.send({"UNWATCH"});
  CHECK(watches.kept_key_count() == 1);
  world.send_from("holder", {"MULTI"});
  world.send_from("holder", {"EXEC"});
  CHECK(watches.kept_key_count() == 0);
}

TEST_CASE("a client's memory counts what it has queued and what it watches", "[command][transaction]") {
  World world;
  const auto& client = world.connection("a").client;
  CHECK(client.bytes_for_exec() == 0);
  world.send({"WATCH", std::string(5000, 'k')});
  const std::uint64_t watched = client.bytes_for_exec();
  CHECK(watched > 5000);
  CHECK(watched < 6000);
  world.send({"WATCH", std::string(5000, 'k')});  // watched already
  CHECK(client.bytes_for_exec() == watched);
  world.send({"MULTI"});
  world.send({"PING", std::string(7000, 'x')});
  CHECK(client.bytes_for_exec() > watched + 7000);
  world.send({"EXEC"});
  CHECK(client.bytes_for_exec() == 0);
}

TEST_CASE("a connection watches so many keys", "[command][transaction]") {
  World world;
  std::vector<std::string> keys;
  for (int i = 0; i < 4096; ++i) keys.push_back(std::to_string(i));
  std::vector<std::string_view> words{"WATCH"};
  words.insert(words.end(), keys.begin(), keys.end());
  CHECK(world.send_words("a", words) == "+OK");
  CHECK(world.send({"WATCH", "one more"}) == "-ERR too many watched keys: the limit of a connection is 4096");
  world.send({"UNWATCH"});
  CHECK(world.send({"WATCH", "one more"}) == "+OK");
  SECTION("and watches that have ended are forgotten") {
    for (int round = 0; round < 10; ++round) {
      world.send_words("b", words);
      world.send_from("b", {"UNWATCH"});
    }
    CHECK(world.send({"BF.ADD", "17", "x"}) == ":1");
  }
}

TEST_CASE("a transaction takes so many commands and bytes", "[command][transaction]") {
  Transaction transaction;
  CHECK(transaction.takes(command::transaction_commands_max, 0, 0));
  CHECK_FALSE(transaction.takes(command::transaction_commands_max + 1, 0, 0));
  CHECK_FALSE(transaction.takes(1, 1, command::transaction_bytes_max));
  CHECK_FALSE(transaction.takes(1, command::transaction_bytes_max / sizeof(std::size_t), 0));
  const std::vector<std::string_view> words{"BF.ADD", "a", "item"};
  transaction.queue(*command::find_command("bf.add"), words, true);
  CHECK_FALSE(transaction.takes(command::transaction_commands_max, 0, 0));
  transaction.fail();
  CHECK(transaction.groups().empty());
}

TEST_CASE("a long request is queued whole, and runs whole", "[command][transaction]") {
  World world;
  std::vector<std::string> items;
  for (int i = 0; i < 3000; ++i) items.push_back(std::to_string(i));
  std::vector<std::string_view> words{"BF.MADD", "a"};
  words.insert(words.end(), items.begin(), items.end());
  world.send({"BF.RESERVE", "a", "1e-9", "10000"});
  world.send({"MULTI"});
  CHECK(world.send_words("a", words) == "+QUEUED");
  CHECK(world.send({"BF.CARD", "a"}) == "+QUEUED");
  CHECK(world.send({"EXEC"}).ends_with("], :3000]"));
}

TEST_CASE("the reply of a command stands whole before that of the next", "[command][transaction]") {
  World world;
  const std::string text(2 << 20, 'x');
  world.send({"MULTI"});
  world.send({"ECHO", text});
  world.send({"ECHO", text});
  world.send({"PING"});
  CHECK((world.send({"EXEC"}) == "*[$" + text + ", $" + text + ", +PONG]"));
  for (int i = 0; i < 100; ++i) world.send({"BF.ADD", std::string(60'000, 'k') + std::to_string(i), "x"});
  world.send({"MULTI"});
  world.send({"KEYS", "*"});
  world.send({"SELECT", "999"});
  CHECK(world.send({"EXEC"}).ends_with("], -ERR DB index is out of range]"));
}

TEST_CASE("a reply of a transaction that has no room is an error in its place, and changes are made",
          "[command][transaction]") {
  World world;
  const std::string text(1000, 'x');  // "$1000\r\n...\r\n" are 1009 bytes
  const std::string no_room =
      "-ERR the command was run, but its reply has no room: those of a transaction have 67108864 bytes, and "
      "no "
      "more than maxmemory-clients";
  const std::string not_run =
      "-ERR the transaction has run for 1000 milliseconds, or its replies have no room: a command that only "
      "reads is not run any more";
  const auto run = [&] {
    world.send({"MULTI"});
    for (int i = 0; i < 2; ++i) world.send({"ECHO", text});
    world.send({"BF.ADD", "a", "x"});
    world.send({"KEYS", "*"});
    world.send({"SELECT", "0"});
    return world.send({"EXEC"});
  };
  // Behind "*5\r\n", and before ":1\r\n", "*1\r\n$1\r\na\r\n" and "+OK\r\n".
  world.options.clients_memory_max = 4 + 2 * 1009 + 4 + 11 + 5;
  CHECK(run() == "*[$" + text + ", $" + text + ", :1, *[$a], +OK]");
  world.options.clients_memory_max = 4 + 2 * 1009 - 1;
  CHECK(run() == "*[$" + text + ", " + no_room + ", :0, " + not_run + ", +OK]");
  CHECK(world.workers[0].error_replies.get() == 2);
  CHECK(world.send({"BF.EXISTS", "a", "x"}) == ":1");
}

TEST_CASE("a transaction that keeps all clients waiting for long ends its reads, and makes its changes",
          "[command][transaction]") {
  World world;
  for (int i = 0; i < 600; ++i) world.send({"SET", "k" + std::to_string(i), "x"});
  static SteadyTime now;
  static std::chrono::milliseconds step;
  const auto run = [&](std::chrono::milliseconds each) {
    world.send({"MULTI"});
    world.send({"KEYS", "none"});  // in three parts
    world.send({"BITCOUNT", "k1"});
    world.send({"DEL", "k" + std::to_string(each.count())});
    world.send({"GET", "k2"});
    now = {};
    step = each;
    auto& client = world.connection("a");
    const std::vector<std::string_view> words{"EXEC"};
    world.dispatcher.run({.client = client.client,
                          .reply = client.reply,
                          .spec = command::row_for(words),
                          .words = words,
                          .partial = client.partial},
                         {.now = world.now, .steady_now = world.steady_now, .alone = true, .clock = [] {
                            return now += step;
                          }});
    std::string reply;
    client.reply.swap_out(reply);
    return command::testing::readable(reply);
  };
  // EXEC looks at the clock when it begins, at each command, behind each part but the last, and behind each
  // command: BITCOUNT begins at the sixth look.
  static_assert(command::transaction_time_max == std::chrono::milliseconds(1000));
  CHECK(run(std::chrono::milliseconds(199)) == "*[*[], :4, :1, $x]");
  const std::string refused =
      "-ERR the transaction has run for 1000 milliseconds, or its replies have no room: a command that only "
      "reads is not run any more";
  CHECK(run(std::chrono::milliseconds(200)) == "*[*[], " + refused + ", :1, $x]");
  CHECK(run(std::chrono::milliseconds(500)) == "*[" + refused + ", " + refused + ", :1, $x]");
}

TEST_CASE("SCAN visits no more than 1024 keys in a transaction, whatever its COUNT",
          "[command][transaction]") {
  World world;
  for (int i = 0; i < 3000; ++i) world.send({"SET", "k" + std::to_string(i), "x"});
  world.send({"MULTI"});
  world.send({"SCAN", "0", "COUNT", "1000000000"});
  const std::string reply = world.send({"EXEC"});
  const auto keys = static_cast<std::size_t>(std::ranges::count(reply, '$')) - 1;  // without the cursor
  CHECK(keys >= command::whole_items_max);
  CHECK(keys < 2 * command::whole_items_max);
  CHECK_FALSE(reply.starts_with("*[*[$0,"));
}

TEST_CASE("a transaction does not rename beside a mirror", "[command][transaction]") {
  JournaledWorld world;
  for (const char* const key : {"a", "b"}) world.send({"BF.RESERVE", key, "0.01", "100"});
  world.send({"BF.MIRROR", "a", "b"});
  world.send({"MULTI"});
  world.send({"RENAME", "b", "c"});
  world.send({"BF.ADD", "a", "x"});
  CHECK(world.send({"EXEC"}).starts_with(
      "-EXECABORT Transaction discarded because of: a transaction cannot rename a key"));
  CHECK(world.send({"EXISTS", "b"}) == ":1");
}

TEST_CASE("keys that can name no filter are not watched, and no key is kept that no client watches",
          "[command][transaction]") {
  World world;
  const std::string long_key(keyspace::key_bytes_max + 1, 'k');
  CHECK(world.send({"WATCH", "a", long_key}) == "+OK");
  CHECK(world.connection("a").client.watch->key_count() == 1);
  world.send({"UNWATCH"});
  CHECK(world.keyspace.watches().key_count() == 0);
  world.send({"BF.ADD", "b", "x"});
  CHECK(world.keyspace.watches().kept_key_count() == 0);
}

TEST_CASE("a transaction that is too long is refused", "[command][transaction]") {
  World world;
  world.send({"MULTI"});
  Transaction& transaction = *world.connection("a").client.transaction;
  const std::vector<std::string_view> words{"BF.ADD", "a", "x"};
  for (std::size_t i = 0; i < command::transaction_commands_max; ++i)
    transaction.queue(*command::find_command("bf.add"), words, true);
  CHECK(world.send({"PING"}) ==
        "-ERR the transaction is longer than its limit allows: 1048576 commands, 268435456 bytes of memory");
  CHECK(world.send({"PING"}) == "+QUEUED");
  CHECK(world.send({"EXEC"}) == aborted);
}

TEST_CASE("neighbours that differ in their last word are kept as one group", "[command][transaction]") {
  Transaction transaction;
  const auto& add = *command::find_command("bf.add");
  const auto queue = [&](std::vector<std::string_view> words, bool may_join = true) {
    transaction.queue(add, words, may_join);
  };
  queue({"BF.ADD", "a", "1"});
  queue({"bf.add", "a", "2"});
  queue({"BF.ADD", "b", "3"});
  queue({"BF.ADD", "b", "4", "5"});
  queue({"BF.ADD", "b", "4", "6"}, false);
  REQUIRE(transaction.groups().size() == 4);
  CHECK(transaction.command_count() == 5);
  CHECK(transaction.groups()[0].command_count == 2);
  CHECK(transaction.word(transaction.groups()[0].first_word + 3) == "2");
  CHECK(transaction.word(transaction.groups()[3].first_word + 3) == "6");
}

}  // namespace

}  // namespace transaction_test
