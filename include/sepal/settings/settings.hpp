// All settings of the daemon: built-in defaults, then a TOML file, then flags, into one checked struct.
#pragma once

#include <sepal/base/choice.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/server/server.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/journal/journal.hpp>
#include <sepal/tls/options.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::settings {

enum class LogFormat : std::uint8_t { text, json };

struct LogOptions {
  LogFormat format = LogFormat::text;
  std::string file;  // empty: standard error
};

// Pages for operators (http/server.hpp). They are read at the start only.
struct HttpOptions {
  std::uint16_t port = 0;          // 0: no HTTP
  std::string bind = "127.0.0.1";  // an address
  std::vector<std::string> hosts;  // that a Host header may name as well
  // The metrics have so many filters, the largest first, whose keys match the pattern.
  std::uint32_t metrics_filters_max = 100;
  std::string metrics_pattern = "*";
  command::Switch tls = command::Switch::no;  // with the certificate of Settings::tls
};

// Only app reads this.
struct Settings {
  server::ServerOptions server;
  command::RuntimeOptions runtime;
  keyspace::KeyspaceOptions keyspace;  // the app fills in machine_bytes and seed
  LogOptions log;
  HttpOptions http;
  tls::Options tls;  // CONFIG SET may change it
  std::string data_directory = "data";
  std::string import_directory;        // empty: none
  std::string acl_file;                // empty: none
  std::string password_file;           // empty: none; else runtime.password is what it had when it was read
  bool password_is_elsewhere = false;  // runtime.password is from that file or from the environment
  std::uint32_t threads = 0;           // 0: as many as can run; the result is server.worker_count
  std::optional<std::uint64_t> seed;   // fixed seed for new filters; none: the data directory's seed
  std::uint64_t journal_segment_bytes = storage::JournalOptions().segment_bytes;
  std::uint32_t storage_threads = 0;  // 0: as many as can run, up to a bound; the result is data.thread_count
  storage::DataDirectoryOptions data;
  std::uint64_t disk_reserve_bytes = std::uint64_t{32} << 20;  // 0: no reserve is kept
  std::uint32_t stop_seconds_max =
      60;                          // seconds after SIGTERM; then the process ends without a finished save
  std::string user;                // empty: none
  std::string config_file;         // the one that was read; empty: none
  bool address_is_flag = false;    // a flag says where sepald listens
  bool directory_is_flag = false;  // a flag says where the data is
};

// Whether any port speaks TLS.
[[nodiscard]] inline bool uses_tls(const Settings& settings) {
  return settings.server.tls_port != 0 ||
         (settings.http.port != 0 && settings.http.tls == command::Switch::yes);
}

struct Invocation {
  enum class Action : std::uint8_t { run, check_config, check_health, print_and_exit };
  Action action = Action::run;
  Settings settings;
  std::string text;  // help, version or a report to print, for print_and_exit and check_config
};

// `arguments` come without the program's name; `version` is what --version prints. Errors: invalid_setting,
// with the file and line or the flag, what was found, and what is allowed; those of read_password_file() when
// all settings are right.
Result<Invocation> read_invocation(std::span<const std::string> arguments, std::string_view version);

// One line for each setting that differs from its default: "port = 6380 (default 6379)". Passwords are
// hidden.
[[nodiscard]] std::vector<std::string> differences_from_defaults(const Settings& settings);

// Edits `settings.config_file` so that it says what `settings` say, and keeps its comments and order. The
// file is written aside and renamed. Blocks. Errors: not_found when there is no file; invalid_setting when
// the file is no configuration any more, or a value cannot be written as one; io.
Result<void> rewrite_config_file(const Settings& settings);

}  // namespace sepal::settings

template <>
inline constexpr std::array<std::string_view, 2> sepal::choice_names<sepal::settings::LogFormat>{"text",
                                                                                                 "json"};
