// Settings as parameters of CONFIG. Their error texts are in unit/command/config_commands_test.cpp.
#include <sepal/settings/configuration.hpp>
#include <sepal/settings/container.hpp>

#include "settings/setting.hpp"
#include "support/catch.hpp"

namespace sepal::settings::configuration_test {
namespace {

struct World {
  Settings settings;
  int changes = 0;
  Configuration configuration{settings, {.changed = [this] { ++changes; }}};

  // Returns the error.
  std::string set(std::string_view name, std::string_view value) {
    const auto draft = configuration.draft();
    std::string wrong = draft->set(name, value);
    if (wrong.empty()) draft->apply();
    return wrong;
  }
};

std::string value_for(const Setting& setting) {
  if (setting.kind == Kind::rate) return "0.5";
  if (setting.kind == Kind::text) return "x";
  if (setting.kind == Kind::choice) return std::string(setting.choices.back());
  return std::to_string(setting.range.max);
}

TEST_CASE("setting an option of TLS reads the files, before it has effect and also if nothing changes") {
  Settings settings;
  int read = 0;
  int adopted = 0;
  std::string problem;
  Configuration configuration{settings,
                              {.changed = [] {},
                               .read_tls = [&](const tls::Options& options) -> Result<Configuration::Adopt> {
                                 CHECK(options.key_file == "key");
                                 ++read;
                                 if (!problem.empty()) return fail(Errc::invalid_setting, problem);
                                 return Configuration::Adopt([&] { ++adopted; });
                               }}};
  const auto set_key = [&] {
    const auto draft = configuration.draft();
    CHECK(draft->set("tls-key-file", "key").empty());
    const std::string wrong = draft->prepare();
    if (wrong.empty()) draft->apply();
    return wrong;
  };
  problem = "key: no key";
  CHECK(set_key() == problem);
  CHECK(settings.tls.key_file.empty());
  problem.clear();
  CHECK(set_key().empty());
  CHECK(settings.tls.key_file == "key");
  CHECK(set_key().empty());
  CHECK((read == 3 && adopted == 2));
  const auto other = configuration.draft();
  CHECK(other->set("timeout", "5").empty());
  CHECK(other->prepare().empty());
  CHECK(read == 3);
}

TEST_CASE("CONFIG shows each live setting as it was set") {
  World world;
  int live = 0;
  for (const Setting& setting : all_settings()) {
    if (setting.config != InConfig::live) continue;
    INFO(setting.key);
    const std::string value = value_for(setting);
    CHECK(world.set(setting.parameter_name(), value).empty());
    CHECK(world.configuration.get(setting.parameter_name()) == value);
    ++live;
  }
  CHECK(live > 0);
  CHECK(world.changes == live);
}

TEST_CASE("CONFIG knows the names of settings, and which of them may change") {
  World world;
  const auto all = world.configuration.parameters();
  const auto live = [&](std::string_view name) {
    const auto found = std::ranges::find(all, name, &Configuration::Parameter::name);
    return found == all.end() ? "none" : found->live ? "live" : "shown";
  };
  CHECK(live("tcp-keepalive") == std::string_view("live"));
  CHECK(live("bf-initial-size") == std::string_view("live"));
  CHECK(live("bf-capacity") == std::string_view("none"));
  CHECK(live("keys-max") == std::string_view("shown"));
  CHECK(live("seed") == std::string_view("none"));
}

TEST_CASE("settings that CONFIG cannot change are shown as they are") {
  World world;
  world.settings.server.bind = {"127.0.0.1", "-::1"};
  world.settings.log.file = "/var/log/sepal";
  world.settings.disk_reserve_bytes = 1 << 20;
  CHECK(world.configuration.get("bind") == "127.0.0.1 -::1");
  CHECK(world.configuration.get("logfile") == "/var/log/sepal");
  CHECK(world.configuration.get("disk-reserve") == "1048576");
}

TEST_CASE("a draft changes nothing until it is applied") {
  World world;
  const auto draft = world.configuration.draft();
  CHECK(draft->set("timeout", "7").empty());
  CHECK(draft->set("maxmemory", "1gb").empty());
  draft->options().log_level = command::LogLevel::error;
  CHECK(world.configuration.get("timeout") == "0");
  CHECK(world.changes == 0);
  draft->apply();
  CHECK(world.settings.runtime.idle_timeout == std::chrono::seconds(7));
  CHECK(world.settings.runtime.log_level == command::LogLevel::error);
  CHECK(world.settings.keyspace.memory_max == 1u << 30);
  CHECK(world.changes == 1);
}

TEST_CASE("CONFIG SET takes the units of the file, and is strict where the reference is") {
  World world;
  CHECK(world.set("timeout", "10m").empty());
  CHECK(world.configuration.get("timeout") == "600");
  CHECK(world.set("save-interval", "2H").empty());
  CHECK(world.configuration.get("save-interval") == "7200");
  CHECK(world.set("save-bandwidth", "1mb").empty());
  CHECK(world.configuration.get("save-bandwidth") == "1048576");
  for (const char* word : {"", "07", "+7", "m", "1.5m", "10x", "9223372036854775808"})
    CHECK(world.set("timeout", word) == "argument couldn't be parsed into an integer");
  CHECK(world.set("timeout", "-1") == "argument must be between 0 and 2147483647 inclusive");
  CHECK(world.set("timeout", "24856d") == "argument must be between 0 and 2147483647 inclusive");
  CHECK(world.set("maxclients", "1k") == "argument couldn't be parsed into an integer");
  for (const char* word : {"", "lots", "-1", "1.5gb", "b", "1pb", "0%", "101%", "18446744073709551616",
                           "18446744073709551615kb"})
    CHECK(world.set("maxmemory", word) == "argument must be a memory value");
  CHECK(world.set("save-bandwidth", "50%") == "argument must be a memory value");
  CHECK(world.set("maxmemory", "4GiB").empty());
  CHECK(world.configuration.get("maxmemory") == "4294967296");
  CHECK(world.set("maxmemory", "50%").empty());
  CHECK(world.settings.keyspace.memory_max == memory_bytes() / 2 >> 20 << 20);
  CHECK(world.set("bf-error-rate", "+1e-3").empty());
  CHECK(world.configuration.get("bf-error-rate") == "0.001");
}

TEST_CASE("the journal keeps the policy that it had before it was off") {
  World world;
  CHECK(world.set("journal", "Always").empty());
  CHECK(world.set("journal", "off").empty());
  CHECK(world.settings.runtime.journal == keyspace::JournalPolicy::off);
  CHECK(world.settings.runtime.journal_when_on == keyspace::JournalPolicy::always);
}

}  // namespace
}  // namespace sepal::settings::configuration_test
