// All settings of the daemon: built-in defaults, then a TOML file, then flags, into one checked struct.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/command/services.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/server/server.hpp>
#include <sepal/storage/journal.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sepal::settings {

struct LogOptions {
  std::string level = "info";   // trace debug info warning error
  std::string format = "text";  // text json
  std::string file;             // empty: standard error
};

// Only app reads this.
struct Settings {
  server::ServerOptions server;
  command::RuntimeOptions runtime;
  keyspace::KeyspaceOptions keyspace;  // machine_bytes and seed are the app's to fill in
  LogOptions log;
  std::string data_directory = "data";
  std::string import_directory;       // empty: none
  std::uint32_t threads = 0;          // 0: one for each core; server.worker_count is what it comes to
  std::optional<std::uint64_t> seed;  // fixed seed for new filters; none: the data directory's
  std::uint64_t journal_segment_bytes = storage::JournalOptions().segment_bytes;
  std::uint32_t stop_seconds_max = 60;  // after SIGTERM; then the process ends without a finished save
  std::string config_file;              // the one that was read; empty: none
};

struct Invocation {
  enum class Action : std::uint8_t { run, check_config, print_and_exit };
  Action action = Action::run;
  Settings settings;
  std::string text;  // help, version or a report to print, for print_and_exit and check_config
};

// `arguments` without the program's name. Errors: invalid_setting, with file and line or the flag, what was
// found, and what is allowed.
Result<Invocation> read_invocation(std::span<const std::string> arguments);

// One line for each setting that differs from its default: "port = 6380 (default 6379)". Passwords are
// hidden.
[[nodiscard]] std::vector<std::string> differences_from_defaults(const Settings& settings);

// Edits `settings.config_file` so that it says what `settings` say, keeping its comments and order; written
// aside and renamed. Blocks. Errors: not_found when there is no file, invalid_setting when what it holds by
// now is no configuration or a value cannot be written as one, io.
Result<void> rewrite_config_file(const Settings& settings);

}  // namespace sepal::settings
