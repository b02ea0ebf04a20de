#include <string>

#include "support/catch.hpp"
#include "world.hpp"

namespace replication_commands_test {

using sepal::command::testing::World;
using sepal::keyspace::JournalPolicy;

TEST_CASE("WAIT answers at once that there are no replicas", "[command]") {
  World world;
  CHECK(world.send({"WAIT", "0", "0"}) == ":0");
  CHECK(world.send({"WAIT", "5", "0"}) == ":0");
  CHECK(world.send({"WAIT", "-1", "10"}) == ":0");
  CHECK(world.send({"COMMAND", "INFO", "wait"})
            .starts_with("*[*[$wait, :3, *[+blocking], :0, :0, :0, *[+@slow, +@blocking, +@connection]"));
}

TEST_CASE("WAIT and WAITAOF check their numbers from the left", "[command]") {
  World world;
  CHECK(world.send({"WAIT", "x", "y"}) == "-ERR value is not an integer or out of range");
  CHECK(world.send({"WAIT", "1", "y"}) == "-ERR timeout is not an integer or out of range");
  CHECK(world.send({"WAIT", "1", "-1"}) == "-ERR timeout is negative");
  CHECK(world.send({"WAIT", "1", "9223372036854775807"}) == "-ERR timeout is out of range");
  CHECK(world.send({"WAITAOF", "x", "y", "z"}) == "-ERR value is not an integer or out of range");
  CHECK(world.send({"WAITAOF", "2", "y", "z"}) == "-ERR value is out of range, value must between 0 and 1");
  CHECK(world.send({"WAITAOF", "1", "y", "z"}) == "-ERR value is out of range, must be positive");
  CHECK(world.send({"WAITAOF", "1", "-1", "z"}) == "-ERR value is out of range, must be positive");
  CHECK(world.send({"WAITAOF", "1", "0", "z"}) == "-ERR timeout is not an integer or out of range");
  CHECK(world.send({"WAITAOF", "1", "0", "-1"}) == "-ERR timeout is negative");
  CHECK(world.send({"WAITAOF", "1", "0"}) == "-ERR wrong number of arguments for 'waitaof' command");
}

// A server whose journal has been written up to position 100.
struct JournalWorld : World {
  explicit JournalWorld(JournalPolicy policy) {
    services.logs = recording.all_logs();
    options.set_journal(policy);
    journal.state.position = 100;
  }
  // Whether the replies of the last requests wait for the disk.
  bool waits_for_disk() { return dispatcher.take_record().log != nullptr; }
};

TEST_CASE("WAITAOF answers whether the journal is on the disk", "[command]") {
  JournalWorld world(JournalPolicy::everysec);
  world.journal.durable = 99;
  CHECK(world.send({"WAITAOF", "1", "0", "0"}) == "*[:0, :0]");
  CHECK(world.send({"WAITAOF", "0", "7", "10"}) == "*[:0, :0]");
  world.journal.durable = 100;
  CHECK(world.send({"WAITAOF", "1", "0", "0"}) == "*[:1, :0]");
  CHECK(world.send({"WAITAOF", "0", "7", "10"}) == "*[:1, :0]");
  CHECK_FALSE(world.waits_for_disk());
  world.journal.state.accepting = false;
  CHECK(world.send({"WAITAOF", "1", "0", "0"}) == "*[:0, :0]");
}

TEST_CASE("WAITAOF commits what the worker has recorded before it compares positions", "[command]") {
  JournalWorld world(JournalPolicy::everysec);
  world.journal.durable = 100;
  world.send({"BF.ADD", "k", "a"});
  const std::size_t before = world.recording.operations().size();
  world.send({"DEL", "k"});
  CHECK(world.send({"WAITAOF", "1", "0", "0"}) == "*[:1, :0]");
  CHECK(world.recording.operations().size() > before);
}

TEST_CASE("under always, the reply of WAITAOF waits for the disk if the client asks for it", "[command]") {
  JournalWorld world(JournalPolicy::always);
  world.journal.durable = 99;
  CHECK(world.send({"WAITAOF", "0", "0", "0"}) == "*[:0, :0]");
  CHECK_FALSE(world.waits_for_disk());
  CHECK(world.send({"WAITAOF", "1", "0", "0"}) == "*[:1, :0]");
  CHECK(world.waits_for_disk());
  world.journal.state.accepting = false;
  CHECK(world.send({"WAITAOF", "1", "0", "0"}) == "*[:0, :0]");
  CHECK_FALSE(world.waits_for_disk());
}

TEST_CASE("WAITAOF answers 0 while the journal does not know yet what it lacks", "[command]") {
  for (const JournalPolicy policy : {JournalPolicy::everysec, JournalPolicy::always}) {
    JournalWorld world(policy);
    world.journal.durable = 100;
    world.journal.state.resumes = true;
    CHECK(world.send({"WAITAOF", "1", "0", "0"}) == "*[:0, :0]");
  }
}

TEST_CASE("in a transaction, WAITAOF does not know whether the transaction is on the disk", "[command]") {
  JournalWorld world(JournalPolicy::everysec);
  world.journal.durable = 100;
  world.send({"MULTI"});
  world.send({"BF.ADD", "k", "a"});
  world.send({"WAITAOF", "1", "0", "0"});
  CHECK(world.send({"EXEC"}) == "*[:1, *[:0, :0]]");
  world.options.set_journal(JournalPolicy::always);
  world.send({"MULTI"});
  world.send({"BF.ADD", "k", "b"});
  world.send({"WAITAOF", "1", "0", "0"});
  CHECK(world.send({"EXEC"}) == "*[:1, *[:1, :0]]");
  CHECK(world.waits_for_disk());
}

TEST_CASE("without a journal, WAITAOF is refused if the client waits for it", "[command]") {
  World world;
  world.options.set_journal(JournalPolicy::off);
  CHECK(world.send({"WAITAOF", "0", "0", "0"}) == "*[:0, :0]");
  CHECK(world.send({"WAITAOF", "1", "0", "0"}) ==
        "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
}

TEST_CASE("REPLICAOF takes NO ONE only", "[command]") {
  World world;
  for (const char* name : {"REPLICAOF", "SLAVEOF"}) {
    CHECK(world.send({name, "no", "One"}) == "+OK");
    CHECK(world.send({name, "127.0.0.1", "6379"}).starts_with("-ERR Sepal does not replicate: "));
    CHECK(world.send({name, "127.0.0.1", "65535"}).find("docs/protocol.md") != std::string::npos);
    CHECK(world.send({name, "127.0.0.1", "65536"}) == "-ERR Invalid master port");
    CHECK(world.send({name, "127.0.0.1", "-1"}) == "-ERR Invalid master port");
    CHECK(world.send({name, "NO", "x"}) == "-ERR Invalid master port");
  }
  CHECK(world.send({"SLAVEOF", "NO"}) == "-ERR wrong number of arguments for 'slaveof' command");
}

TEST_CASE("what replicas send is refused, and the error names the way to back up", "[command]") {
  World world;
  const std::string error = "-ERR Sepal has no replicas: docs/operations/data.md says how to make a backup";
  CHECK(world.send({"SYNC"}) == error);
  CHECK(world.send({"PSYNC", "?", "-1"}) == error);
  CHECK(world.send({"REPLCONF", "listening-port", "6380"}) == error);
  world.send({"MULTI"});
  CHECK(world.send({"SYNC"}) == "-ERR Command not allowed inside a transaction");
}

TEST_CASE("FAILOVER, CLUSTER and ASKING answer as a server alone does", "[command]") {
  World world;
  CHECK(world.send({"FAILOVER"}) == "-ERR FAILOVER requires connected replicas.");
  CHECK(world.send({"FAILOVER", "ABORT"}) == "-ERR No failover in progress.");
  CHECK(world.send({"CLUSTER", "INFO"}) == "-ERR This instance has cluster support disabled");
  CHECK(world.send({"CLUSTER", "SLOTS"}) == "-ERR This instance has cluster support disabled");
  CHECK(world.send({"CLUSTER"}) == "-ERR wrong number of arguments for 'cluster' command");
  CHECK(world.send({"ASKING"}) == "-ERR This instance has cluster support disabled");
}

}  // namespace replication_commands_test
