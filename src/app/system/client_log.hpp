// What clients do that is logged: lines of scripts, scripts that hold up other clients, failed logins,
// commands that administer the server, and HTTP requests. A client may do thousands of these in a second, so
// some lines are left out; a line says how many.
#pragma once

#include <sepal/base/line_limit.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/command/run/client_state.hpp>
#include <sepal/script/engine.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sepal::app {

// The most lines of scripts in one second.
inline constexpr std::uint64_t script_lines_max = 20;
// The most scripts in a minute that are told to hold up other clients.
inline constexpr std::uint64_t busy_scripts_max = 10;
// The most lines of commands in ten seconds: an operator sends few, and a program may send FLUSHDB in a loop.
inline constexpr std::uint64_t command_lines_max = 10;
// The most lines of failed logins in a minute.
inline constexpr std::uint64_t failed_logins_max = 10;
// The most lines of HTTP requests in a minute.
inline constexpr std::uint64_t http_lines_max = 2;
// The part of a client's text that is logged.
inline constexpr std::size_t client_text_bytes_max = 1024;

// Synchronised.
class ClientLog {
 public:
  void script(script::LogLevel level, std::string_view text);
  // A script has run for so long that other clients are refused; and it has ended.
  void busy_script(const command::ClientState& client, std::string_view command,
                   std::chrono::nanoseconds duration);
  void busy_script_ended(const command::ClientState& client, std::chrono::nanoseconds duration);
  void failed_login(const command::ClientState& client, std::string_view user);
  void administration(const command::ClientState& client, const command::Administration& administration);
  void http_request(const command::ClientState& client);
  // Says how many lines were left out in periods that are over at `now`, if no line has said so yet.
  void tell_left_out(SteadyTime now);

 private:
  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside but the log's own mutex.
  LineLimit scripts_ SEPAL_GUARDED_BY(mutex_){script_lines_max, std::chrono::seconds(1)};
  LineLimit busy_scripts_ SEPAL_GUARDED_BY(mutex_){busy_scripts_max, std::chrono::minutes(1)};
  bool busy_told_ SEPAL_GUARDED_BY(mutex_) = false;  // the log has a line about the script that is busy
  LineLimit commands_ SEPAL_GUARDED_BY(mutex_){command_lines_max, std::chrono::seconds(10)};
  LineLimit logins_ SEPAL_GUARDED_BY(mutex_){failed_logins_max, std::chrono::minutes(1)};
  LineLimit http_ SEPAL_GUARDED_BY(mutex_){http_lines_max, std::chrono::minutes(1)};
};

}  // namespace sepal::app
