#include <sepal/command/run/worker_stats.hpp>

#include <array>
#include <string>

#include "support/catch.hpp"
#include "world.hpp"

namespace refused_adds_test {

namespace {

using namespace sepal;
using namespace sepal::command;
using sepal::command::testing::World;

std::uint64_t refused(const World& world, RefusedAdd reason) {
  std::uint64_t sum = 0;
  for (const WorkerStats& worker : world.workers)
    sum += worker.adds_refused[static_cast<std::size_t>(reason)].get();
  return sum;
}

std::uint64_t refused(const World& world) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < refused_add_count; ++at) sum += refused(world, static_cast<RefusedAdd>(at));
  return sum;
}

// Different items, one request each.
void add(World& world, const std::string& command, const std::string& key, int count) {
  for (int i = 0; i < count; ++i) world.send({command, key, "item:" + std::to_string(i)});
}

}  // namespace

TEST_CASE("an item that a full filter refuses counts, one that is taken or known does not") {
  World world;
  world.send({"BF.RESERVE", "b", "0.0001", "10", "NONSCALING"});
  add(world, "BF.ADD", "b", 10);
  add(world, "BF.ADD", "b", 10);
  CHECK(refused(world) == 0);
  add(world, "BF.ADD", "b", 15);
  CHECK(refused(world, RefusedAdd::full) == 5);
  // The first item that is refused ends the answer, and the items behind it are not tried.
  world.send({"BF.MADD", "b", "item:0", "new:1", "new:2", "new:3"});
  CHECK(refused(world, RefusedAdd::full) == 6);

  world.send({"CF.RESERVE", "c", "10", "EXPANSION", "0"});
  add(world, "CF.ADDNX", "c", 10);
  add(world, "CF.ADDNX", "c", 10);
  CHECK(refused(world, RefusedAdd::full) == 6);
  world.send({"CF.INSERTNX", "c", "ITEMS", "item:0", "new:1", "new:2"});
  CHECK(refused(world, RefusedAdd::full) == 8);
  add(world, "CF.ADD", "c", 3);
  CHECK(refused(world, RefusedAdd::full) == 11);

  world.send({"BF.RESERVE", "w", "0.01", "40", "NONSCALING", "WINDOW", "40"});
  add(world, "BF.ADD", "w", 13);
  CHECK(refused(world, RefusedAdd::full) == 14);
  CHECK(refused(world) == 14);
  world.send({"CONFIG", "RESETSTAT"});
  CHECK(refused(world) == 0);
}

TEST_CASE("an item that the target of a mirror has counts apart") {
  World world;
  world.send({"BF.RESERVE", "s", "0.0001", "10", "NONSCALING"});
  world.send({"BF.RESERVE", "t", "0.0001", "1000"});
  add(world, "BF.ADD", "s", 10);
  world.send({"BF.MIRROR", "s", "t"});
  add(world, "BF.ADD", "s", 12);
  CHECK(refused(world, RefusedAdd::mirrored) == 2);
  CHECK(refused(world) == 2);
  CHECK(world.send({"BF.EXISTS", "t", "item:11"}) == ":1");
}

TEST_CASE("a filter with all its layers refuses items, and they count") {
  World world({.layers_max = 2, .cuckoo_layers_max = 1});
  world.send({"BF.RESERVE", "b", "0.0001", "10", "EXPANSION", "1"});
  add(world, "BF.ADD", "b", 23);
  CHECK(refused(world, RefusedAdd::layers) == 3);
  // A rate so low leaves no bits to grow by.
  World other;
  other.send({"CF.RESERVE", "c", "8", "ERROR", "1e-12"});
  add(other, "CF.ADD", "c", 100);
  CHECK(refused(other, RefusedAdd::layers) > 10);
  CHECK(refused(other, RefusedAdd::full) == 0);
}

TEST_CASE("items that find no memory, no key or no journal count") {
  World world({.memory_max = 1 << 20, .keys_max = 1});
  world.send({"BF.RESERVE", "b", "0.01", "1000"});
  for (const char* command : {"BF.MADD", "CF.ADD"}) world.send({command, "other", "item"});
  world.send({"BF.INSERT", "other", "WINDOW", "60", "CAPACITY", "10", "ITEMS", "1", "2"});
  CHECK(refused(world, RefusedAdd::keys) == 4);

  World small({.memory_max = 1 << 10});
  small.send({"BF.MADD", "b", "1", "2", "3"});
  CHECK(refused(small, RefusedAdd::memory) == 3);
  small.send({"BF.INSERT", "b", "CAPACITY", "1000000", "ITEMS", "1", "2"});
  CHECK(refused(small, RefusedAdd::memory) == 5);
  small.send({"CF.INSERT", "b", "CAPACITY", "1000000000", "EXPANSION", "0", "ITEMS", "1"});
  CHECK(refused(small, RefusedAdd::memory) == 6);
}

TEST_CASE("items count that the journal does not take") {
  World world;
  world.services.logs = world.recording.all_logs();
  world.recording.admission = keyspace::Admission::refused;
  world.send({"BF.MADD", "b", "1", "2", "3"});
  world.send({"DEL", "b"});
  CHECK(refused(world, RefusedAdd::journal) == 3);
  world.recording.admission = keyspace::Admission::never;
  world.send({"BF.ADD", "b", "1"});
  CHECK(refused(world) == 4);
}

TEST_CASE("an add that is refused before it runs counts with its items") {
  World world({.memory_max = 1});
  world.send({"SET", "s", "text"});
  world.keyspace.count_others(100);
  world.send({"BF.MADD", "b", "1", "2", "3"});
  world.send({"BF.ADD", "b", "1"});
  world.send({"CF.INSERT", "b", "ITEMS", "1", "2"});
  world.send({"CF.ADDNX", "b", "1"});
  CHECK(refused(world, RefusedAdd::memory) == 7);
  // Neither of these adds items: one is malformed, and the others add none.
  world.send({"CF.INSERT", "b", "NOCREATE", "x", "y"});
  world.send({"SETBIT", "s", "7", "1"});
  world.send({"BF.RESERVE", "b", "0.01", "10"});
  CHECK(refused(world) == 7);
}

TEST_CASE("adds that a script or a transaction sends count when they are refused") {
  const std::string script =
      "redis.pcall('BF.MADD', 'b', '1', '2') redis.pcall('CF.ADD', 'c', '1') redis.pcall('DEL', 'b')";
  World over({.memory_max = 1});
  over.keyspace.count_others(100);
  over.send({"EVAL", script, "0"});
  CHECK(refused(over, RefusedAdd::memory) == 3);
  CHECK(refused(over) == 3);

  World world;
  world.services.logs = world.recording.all_logs();
  for (const auto admission : {keyspace::Admission::refused, keyspace::Admission::never}) {
    world.recording.admission = admission;
    world.send({"EVAL", script, "0"});
  }
  CHECK(refused(world, RefusedAdd::journal) == 6);

  // The journal refuses when they are queued, and here only when they run.
  world.recording.admission = keyspace::Admission::refused;
  world.send({"MULTI"});
  world.send({"BF.MADD", "b", "1", "2"});
  world.send({"DISCARD"});
  CHECK(refused(world, RefusedAdd::journal) == 8);
  world.recording.admission = keyspace::Admission::granted;
  world.send({"MULTI"});
  for (const char* item : {"1", "2", "3"}) world.send({"BF.ADD", "b", item});
  world.send({"BF.MADD", "b", "4", "5"});
  world.send({"GET", "s"});
  world.recording.admission = keyspace::Admission::refused;
  CHECK(world.send({"EXEC"}).starts_with("-EXECABORT"));
  CHECK(refused(world, RefusedAdd::journal) == 13);
  CHECK(refused(world) == 13);

  World small({.memory_max = 100'000});
  small.send({"MULTI"});
  for (const char* item : {"1", "2", "3"}) small.send({"BF.ADD", "b", item});
  small.send({"CF.INSERT", "c", "ITEMS", "4", "5"});
  small.keyspace.count_others(100'000);
  CHECK(small.send({"EXEC"}).starts_with("-EXECABORT"));
  CHECK(refused(small, RefusedAdd::memory) == 5);
  CHECK(refused(small) == 5);
}

}  // namespace refused_adds_test
