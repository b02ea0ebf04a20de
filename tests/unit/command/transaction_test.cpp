// MULTI, EXEC, DISCARD, WATCH and UNWATCH. What the reference answers is in tests/golden; here is what only
// Sepal decides: the gate, the journal, the limits.
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/run/transaction.hpp>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace transaction_test {

namespace {

using namespace sepal;
using command::Transaction;
using command::testing::World;

struct JournaledWorld : World {
  JournaledWorld() : World(keyspace::KeyspaceOptions{.seed = 1}) { services.logs = recording.all_logs(); }
};

TEST_CASE("a transaction may record half of what the journal may hold") {
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

TEST_CASE("a client's memory counts what it has queued and what it watches") {
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

TEST_CASE("a transaction takes so many commands and bytes") {
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

TEST_CASE("a transaction that keeps all clients waiting for long ends its reads, and makes its changes") {
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

TEST_CASE("SCAN visits no more than 1024 keys in a transaction, whatever its COUNT") {
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

TEST_CASE("a transaction that is too long is refused") {
  World world;
  world.send({"MULTI"});
  Transaction& transaction = *world.connection("a").client.transaction;
  const std::vector<std::string_view> words{"BF.ADD", "a", "x"};
  for (std::size_t i = 0; i < command::transaction_commands_max; ++i)
    transaction.queue(*command::find_command("bf.add"), words, true);
  CHECK(world.send({"PING"}) ==
        "-ERR the transaction is longer than its limit allows: 1048576 commands, 268435456 bytes of memory");
  CHECK(world.send({"PING"}) == "+QUEUED");
  CHECK(world.send({"EXEC"}).starts_with("-EXECABORT "));
}

TEST_CASE("neighbours that differ in their last word are kept as one group") {
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
