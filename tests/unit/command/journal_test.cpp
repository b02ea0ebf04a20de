// Commands and the journal: which changes are recorded, which requests are refused, and which wait.
#include <sepal/command/table/command_table.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace journal_test {

namespace {

using namespace sepal;
using command::BatchRecord;
using command::Next;
using keyspace::Admission;
using test::Recorded;

struct World : command::testing::World {
  World() : command::testing::World(keyspace::KeyspaceOptions{.seed = 1}) {
    services.logs = recording.all_logs();
  }

  // The operations that the request recorded until the gate opened again.
  std::vector<Recorded> recorded(std::initializer_list<std::string_view> words) {
    const std::size_t before = recording.operations().size();
    const std::uint64_t admitted_before = recording.admitted_bytes();
    send(words);
    dispatcher.commit();
    auto all = recording.operations();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before));
    std::uint64_t bytes = 0;
    for (const Recorded& each : all) bytes += each.bytes();
    CHECK(bytes <= recording.admitted_bytes() - admitted_before);
    return all;
  }
};

TEST_CASE("a request's changes are recorded, and at least as many bytes were admitted before", "[command]") {
  World world;
  using Kind = Recorded::Kind;
  const auto reserved = world.recorded({"BF.RESERVE", "a", "0.001", "500", "EXPANSION", "4"});
  REQUIRE(reserved.size() == 1);
  CHECK(reserved[0].kind == Kind::created);
  CHECK(reserved[0].options.expansion == 4);

  const auto added = world.recorded({"BF.MADD", "a", "1", "2", "1"});
  REQUIRE(added.size() == 1);
  CHECK(added[0].key == "a");
  CHECK(added[0].fingerprints == std::vector{fingerprint_of("1", 1), fingerprint_of("2", 1)});
  CHECK(world.recorded({"BF.ADD", "a", "1"}).empty());
  CHECK(world.recorded({"BF.EXISTS", "a", "1"}).empty());

  const auto created = world.recorded({"BF.ADD", "b", "1"});
  REQUIRE(created.size() == 2);
  CHECK(created[0].kind == Kind::created);
  CHECK(created[1].kind == Kind::added);
  const auto inserted = world.recorded({"BF.INSERT", "c", "CAPACITY", "1", "ITEMS", "1", "2", "3"});
  REQUIRE(inserted.size() == 4);
  CHECK(inserted[2].kind == Kind::grown);

  const auto renamed = world.recorded({"RENAME", "a", "b"});
  REQUIRE(renamed.size() == 1);
  CHECK(renamed[0].target == "b");
  CHECK(world.recorded({"RENAMENX", "b", "c"}).empty());
  CHECK(world.recorded({"RENAMENX", "b", "d"}).size() == 1);
  CHECK(world.recorded({"DEL", "c", "missing"}).size() == 1);
  CHECK(world.recorded({"UNLINK", "d"}).size() == 1);
  CHECK(world.recorded({"FLUSHDB"}).empty());
  world.recorded({"BF.ADD", "a", "1"});
  CHECK(world.recorded({"MOVE", "a", "3"})[0].other == 3);
  CHECK(world.recorded({"MOVE", "a", "3"}).empty());
  CHECK(world.recorded({"SWAPDB", "0", "3"})[0].kind == Kind::swapped);
  CHECK(world.recorded({"SWAPDB", "0", "0"}).empty());
  world.recorded({"DEL", "a"});
  world.recorded({"BF.ADD", "a", "1"});
  CHECK(world.recorded({"FLUSHDB"})[0].kind == Kind::flushed);
  world.recorded({"BF.ADD", "a", "1"});
  CHECK(world.recorded({"FLUSHALL"})[0].kind == Kind::flushed_all);
}

TEST_CASE("nothing is recorded or admitted without a journal", "[command]") {
  World world;
  world.recording.recording = false;
  world.recording.admission = Admission::refused;
  CHECK(world.send({"BF.ADD", "a", "1"}) == ":1");
  CHECK(world.send({"DEL", "a"}) == ":1");
  CHECK(world.dispatcher.take_record().log == nullptr);
  CHECK(world.recording.operations().empty());
}

TEST_CASE("every command that writes is refused with the reason while the journal refuses", "[command]") {
  World world;
  world.send({"BF.ADD", "a", "1"});
  world.recording.admission = Admission::refused;
  world.journal.state.refusal = "no space left on the disk";
  const std::string refusal = "-MISCONF Errors writing to the journal: no space left on the disk";
  std::size_t writing_rows = 0;
  for (const command::CommandSpec& spec : command::command_table()) {
    if (!spec.flags.has(command::Flag::write)) continue;
    ++writing_rows;
    const auto word_count = static_cast<std::size_t>(spec.arity < 0 ? -spec.arity : spec.arity);
    std::vector<std::string_view> words(word_count, "a");
    words[0] = spec.name;
    // With so few words, these commands only ask.
    if (command::only_asks(spec, words)) words.emplace_back("OFF");
    CAPTURE(spec.name);
    CHECK(world.send_words("a", words) == refusal);
    CHECK(world.workers[0].commands[command::command_row(spec)].rejected.get() == 1);
  }
  CHECK(writing_rows >= 10);
  CHECK(world.send({"BF.EXISTS", "a", "1"}) == ":1");
  CHECK(world.send({"PING"}) == "+PONG");
  CHECK(world.send({"SAVE"}).empty());
  world.recording.admission = Admission::granted;
  CHECK(world.send({"BF.ADD", "a", "2"}) == ":1");
}

TEST_CASE("only requests that remove keys are admitted as removals", "[command]") {
  World world;
  for (const std::string_view key : {"a", "b", "c", "d", "e", "f"}) world.send({"BF.ADD", key, "1"});
  world.recording.admission = Admission::refused;
  world.recording.takes_freeing = true;
  CHECK(world.send({"DEL", "a"}) == ":1");
  CHECK(world.send({"UNLINK", "b"}) == ":1");
  CHECK(world.send({"EXPIRE", "c", "-1"}) == ":1");
  CHECK(world.send({"PEXPIRE", "d", "0"}) == ":1");
  CHECK(world.send({"EXPIREAT", "e", "1"}) == ":1");
  CHECK(world.send({"PEXPIREAT", "f", "1"}) == ":1");
  CHECK(world.send({"DBSIZE"}) == ":0");
  CHECK(world.send({"FLUSHDB"}) == "+OK");
  CHECK(world.send({"FLUSHALL"}) == "+OK");
  for (const auto& request :
       std::initializer_list<std::initializer_list<std::string_view>>{{"EXPIRE", "a", "100"},
                                                                      {"PEXPIRE", "a", "100000"},
                                                                      {"EXPIREAT", "a", "99999999999"},
                                                                      {"PEXPIREAT", "a", "99999999999999"},
                                                                      {"EXPIRE", "a", "x"},
                                                                      {"PERSIST", "a"},
                                                                      {"RENAME", "a", "b"},
                                                                      {"MOVE", "a", "1"},
                                                                      {"SWAPDB", "0", "1"},
                                                                      {"BF.ADD", "a", "1"}})
    CHECK(world.send(request).starts_with("-MISCONF"));
}

TEST_CASE("a request that has to wait for room in the journal does nothing, and answers later", "[command]") {
  World world;
  world.send({"BF.ADD", "a", "1"});
  world.recording.admission = Admission::later;
  CHECK(world.send({"BF.ADD", "a", "2"}).empty());
  CHECK(world.outcome.next == Next::later);
  CHECK(world.send({"FLUSHALL"}).empty());
  CHECK(world.outcome.next == Next::later);
  CHECK(world.send({"BF.EXISTS", "a", "2"}) == ":0");
  CHECK(world.workers[0].requests.get() == 2);
  world.recording.admission = Admission::granted;
  CHECK(world.send({"BF.ADD", "a", "2"}) == ":1");
}

TEST_CASE("a batch says whether a change was admitted, and whether an item was answered as known",
          "[command]") {
  World world;
  const auto record_of = [&](std::initializer_list<std::string_view> words) {
    world.send(words);
    return world.dispatcher.take_record();
  };
  record_of({"BF.RESERVE", "a", "0.01", "2", "NONSCALING"});
  const BatchRecord read = record_of({"BF.EXISTS", "a", "1"});
  CHECK(read.log == nullptr);
  const BatchRecord first = record_of({"BF.ADD", "a", "1"});
  CHECK(first.log == world.services.logs[0]);
  CHECK_FALSE(first.answered_known);
  CHECK(record_of({"BF.ADD", "a", "1"}).answered_known);
  CHECK(record_of({"BF.MADD", "a", "1", "2"}).answered_known);
  // The filter is full.
  CHECK(record_of({"BF.ADD", "a", "2"}).answered_known);
  CHECK(record_of({"PING"}).log == nullptr);
}

}  // namespace

}  // namespace journal_test
