#include "command/server/config_fixed.hpp"
#include "command/server/config_table.hpp"
#include "settings/setting.hpp"
#include "support/catch.hpp"
#include "support/reference_words.hpp"
#include "world.hpp"

namespace config_commands_test {

using sepal::command::testing::World;

namespace {

std::string refused(std::string_view name, std::string_view why) {
  return "-ERR CONFIG SET failed (possibly related to argument '" + std::string(name) + "') - " +
         std::string(why);
}

constexpr const char* protocol_path = SEPAL_SOURCE_FOLDER "/docs/protocol.md";
constexpr std::string_view live_row = "| CONFIG SET changes them |";
constexpr std::string_view fact_row = "| read only |";

std::vector<std::string> protocol_lines() {
  std::ifstream file(protocol_path);
  REQUIRE(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_in_backticks(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t at = line.find('`'); at != std::string_view::npos; at = line.find('`', at)) {
    const std::size_t end = line.find('`', at + 1);
    words.emplace_back(line.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return words;
}

// The words between backticks in the table under "### Parameters of CONFIG" of docs/protocol.md: names, and
// patterns of names.
std::vector<std::string> documented_parameters() {
  std::vector<std::string> patterns;
  bool in_section = false;
  for (const std::string& line : protocol_lines()) {
    if (line.starts_with("#")) in_section = line == "### Parameters of CONFIG";
    if (!in_section || !line.starts_with("| ")) continue;
    for (std::string& word : words_in_backticks(line)) patterns.push_back(std::move(word));
  }
  return patterns;
}

// Adds a setting to its row of that table.
void document(const sepal::command::Configuration::Parameter& parameter) {
  std::vector<std::string> lines = protocol_lines();
  std::ofstream file(protocol_path);
  for (std::string& line : lines) {
    if (line.starts_with(parameter.live ? live_row : fact_row))
      line.replace(line.size() - 1, 1, "`" + std::string(parameter.name) + "` |");
    file << line << "\n";
  }
}

// The names in a reply to CONFIG GET under RESP3: "%{$hz=$10, $save=$3600 1}".
std::set<std::string> names_in(std::string_view reply) {
  std::set<std::string> names;
  for (std::size_t at = reply.find('$'); at != std::string_view::npos;) {
    names.emplace(reply.substr(at + 1, reply.find('=', at) - at - 1));
    const std::size_t next = reply.find(", $", at);
    at = next == std::string_view::npos ? next : next + 2;
  }
  return names;
}

}  // namespace

TEST_CASE("CONFIG GET knows every parameter of the reference") {
  World world;
  // The parameters of Redis 7.4.1 and their other names, without the hidden ones.
  for (const std::string& name : sepal::test::reference_words("config-parameters.txt")) {
    INFO(name);
    CHECK(world.send({"CONFIG", "GET", name}).starts_with("*[$" + name + ", $"));
  }
}

TEST_CASE("a parameter with one value takes it, and refuses another with the reason") {
  World world;
  for (const sepal::command::FixedGroup& group : sepal::command::fixed_groups) {
    for_each_parameter(group, [&](std::string_view name, std::string_view value) {
      INFO(name);
      CHECK(world.send({"CONFIG", "GET", name}) ==
            "*[$" + std::string(name) + ", $" + std::string(value) + "]");
      CHECK(world.send({"CONFIG", "SET", name, value}) == "+OK");
      CHECK(world.send({"CONFIG", "SET", name, "other"}) ==
            refused(name, std::string(group.why) + ": only '" + std::string(value) + "' can be set"));
    });
  }
}

TEST_CASE("docs/protocol.md gives the reason of each parameter with one value") {
  std::set<std::string> reasons;
  bool in_table = false;
  for (const std::string& line : protocol_lines()) {
    if (line == "| one value | why |") in_table = true;
    if (!line.starts_with("|")) in_table = false;
    if (in_table) reasons.insert(line.substr(line.find("| ", 2) + 2));
  }
  for (const sepal::command::FixedGroup& group : sepal::command::fixed_groups) {
    INFO(group.why);
    CHECK(reasons.contains(std::string(group.why) + " |"));
  }
}

TEST_CASE("docs/protocol.md lists the parameters of CONFIG; with SEPAL_WRITE=1 this test adds settings") {
  World world;
  world.send({"HELLO", "3"});
  const auto documented = [&] {
    std::set<std::string> names;
    for (const std::string& pattern : documented_parameters()) {
      INFO(pattern);
      const auto found = names_in(world.send({"CONFIG", "GET", pattern}));
      CHECK_FALSE(found.empty());
      names.insert(found.begin(), found.end());
    }
    return names;
  };
  if (std::getenv("SEPAL_WRITE") != nullptr) {
    const auto known = documented();
    for (const auto& parameter : world.configuration.parameters())
      if (!known.contains(std::string(parameter.name))) document(parameter);
  }
  CHECK(documented() == names_in(world.send({"CONFIG", "GET", "*"})));
}

TEST_CASE("docs/protocol.md names the parameters that CONFIG REWRITE does not keep") {
  constexpr std::string_view begin = "`CONFIG REWRITE` does not keep ";
  std::string documented;
  for (const std::string& line : protocol_lines())
    if (line.starts_with(begin)) documented = line.substr(begin.size());
  documented.resize(std::min(documented.find(':'), documented.size()));

  // The parameters that are no settings, with values that differ from the defaults.
  const std::map<std::string, std::string> values = {{"appendfsync", "always"},
                                                     {"appendonly", "no"},
                                                     {"hz", "20"},
                                                     {"latency-monitor-threshold", "7"},
                                                     {"latency-tracking", "no"},
                                                     {"latency-tracking-info-percentiles", "70"},
                                                     {"loglevel", "debug"},
                                                     {"lua-time-limit", "77"},
                                                     {"maxmemory-policy", "noeviction"},
                                                     {"save", "77 1"},
                                                     {"slowlog-log-slower-than", "77"},
                                                     {"slowlog-max-len", "77"}};
  std::set<std::string> lost;
  World world;
  const auto settings = world.configuration.parameters();
  for (const sepal::command::Parameter& parameter : sepal::command::parameters(world.configuration)) {
    const std::string name(parameter.name);
    const bool is_setting =
        std::ranges::find(settings, parameter.name, &sepal::command::Configuration::Parameter::name) !=
        settings.end();
    if (parameter.set == nullptr || !parameter.why.empty() || is_setting) continue;
    INFO(name);
    REQUIRE(values.contains(name));
    World other;
    CHECK(other.send({"CONFIG", "SET", name, values.at(name)}) == "+OK");
    const bool is_kept = std::ranges::any_of(sepal::settings::all_settings(), [&](const auto& setting) {
      return setting.get(other.settings) != setting.get(world.settings);
    });
    if (!is_kept && other.send({"CONFIG", "GET", name}) != world.send({"CONFIG", "GET", name}))
      lost.insert(name);
  }
  const auto told = words_in_backticks(documented);
  CHECK(lost == std::set(told.begin(), told.end()));
}

TEST_CASE("no setting has the name of another parameter of CONFIG") {
  World world;
  world.send({"HELLO", "3"});
  const std::string all = world.send({"CONFIG", "GET", "*"});
  const auto names = names_in(all);
  CHECK(static_cast<std::size_t>(std::ranges::count(all, '$')) == 2 * names.size());
}

TEST_CASE("CONFIG RESETSTAT sets every count to zero") {
  World world;
  world.send({"NOSUCH"});
  world.send({"BF.EXISTS", "k", "a"});
  world.workers[1].requests.add(5);
  world.send({"BF.ADD", "k", "a"});
  world.services.buffers.client_closed();
  CHECK(world.send({"CONFIG", "RESETSTAT"}) == "+OK");
  CHECK(world.services.buffers.closed_count() == 0);
  CHECK(world.workers[0].key_misses.get() == 0);
  CHECK(world.workers[0].error_replies.get() == 0);
  CHECK(world.workers[1].requests.get() == 0);
  // This count stays: the saver uses it to decide about a save.
  CHECK(world.workers[0].items_added.get() == 1);
  CHECK(world.clients.accepted == 0);
  CHECK(world.send({"INFO", "errorstats"}) == "$# Errorstats\r\n");
}

}  // namespace config_commands_test
