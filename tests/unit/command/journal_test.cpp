// Commands and the journal: what is the same for all that write.
#include <sepal/command/table/command_table.hpp>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace journal_test {

namespace {

using namespace sepal;
using keyspace::Admission;

struct World : command::testing::World {
  World() : command::testing::World(keyspace::KeyspaceOptions{.seed = 1}) {
    services.logs = recording.all_logs();
  }
};

TEST_CASE("nothing is recorded or admitted without a journal") {
  World world;
  world.recording.recording = false;
  world.recording.admission = Admission::refused;
  CHECK(world.send({"BF.ADD", "a", "1"}) == ":1");
  CHECK(world.send({"DEL", "a"}) == ":1");
  CHECK(world.dispatcher.take_record().log == nullptr);
  CHECK(world.recording.operations().empty());
}

TEST_CASE("every command that writes is refused with the reason while the journal refuses") {
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

}  // namespace

}  // namespace journal_test
