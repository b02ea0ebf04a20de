#include "app/system/client_log.hpp"

#include <sepal/log/event.hpp>

#include <utility>

namespace sepal::app {
namespace {

log::Level level_of(script::LogLevel level) {
  switch (level) {
    case script::LogLevel::debug:
    case script::LogLevel::verbose: return log::Level::debug;
    case script::LogLevel::notice: return log::Level::info;
    case script::LogLevel::warning: break;
  }
  return log::Level::warn;
}

// The kinds have a bound each: a flood of one kind leaves room for lines of another.
constexpr std::string_view of_scripts = "scripts";
constexpr std::string_view of_busy_scripts = "busy scripts";
constexpr std::string_view of_logins = "failed logins";
constexpr std::string_view of_commands = "commands";
constexpr std::string_view of_http = "HTTP requests";

void write_left_out(std::string_view kind, std::uint64_t count) {
  if (count > 0)
    log::warn("client_lines_left_out", "lines about clients left out", {{"kind", kind}, {"count", count}});
}

// Whether a line is written now; writes how many were left out before it.
bool takes(LineLimit& limit, std::string_view kind) {
  std::uint64_t left_out = 0;
  if (!limit.takes(std::chrono::steady_clock::now(), left_out)) return false;
  write_left_out(kind, left_out);
  return true;
}

double seconds_of(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

// The log escapes what cannot be printed.
std::string_view logged_part(std::string_view text) {
  return text.substr(0, client_text_bytes_max);
}

}  // namespace

void ClientLog::script(script::LogLevel level, std::string_view text) {
  // The level comes first: a line that it leaves out must not take the place of one that it shows.
  if (!log::is_on(level_of(level))) return;
  const MutexLock lock(mutex_);
  if (!takes(scripts_, of_scripts)) return;
  log::write(level_of(level), "script_says", "a script says", {{"text", logged_part(text)}});
}

void ClientLog::busy_script(const command::ClientState& client, std::string_view command,
                            std::chrono::nanoseconds duration) {
  const MutexLock lock(mutex_);
  busy_told_ = takes(busy_scripts_, of_busy_scripts);
  if (!busy_told_) return;
  log::warn("script_busy", "a script holds up all other clients: they are answered BUSY",
            {{"command", command},
             {"address", client.address},
             {"id", client.id},
             {"seconds", seconds_of(duration), 3},
             {"advice", "send SCRIPT KILL, or SHUTDOWN NOSAVE if the script has changed something"}});
}

void ClientLog::busy_script_ended(const command::ClientState& client, std::chrono::nanoseconds duration) {
  const MutexLock lock(mutex_);
  if (!std::exchange(busy_told_, false)) return;
  log::info("script_ended", "the script that held up all other clients has ended",
            {{"id", client.id}, {"seconds", seconds_of(duration), 3}});
}

void ClientLog::failed_login(const command::ClientState& client, std::string_view user) {
  const MutexLock lock(mutex_);
  if (!takes(logins_, of_logins)) return;
  log::warn("login_failed", "a login failed",
            {{"user", logged_part(user)}, {"address", client.address}, {"id", client.id}});
}

void ClientLog::administration(const command::ClientState& client,
                               const command::Administration& administration) {
  if (!log::is_on(log::Level::info)) return;
  const MutexLock lock(mutex_);
  if (!takes(commands_, of_commands)) return;
  log::info("client_administers", "a client administers",
            {{"command", logged_part(administration.words)},
             {"user", logged_part(administration.user)},
             {"address", client.address},
             {"id", client.id}});
}

void ClientLog::http_request(const command::ClientState& client) {
  const MutexLock lock(mutex_);
  if (!takes(http_, of_http)) return;
  log::warn("http_request_refused", "a client sent HTTP to the port for Redis: connection closed",
            {{"address", client.address}, {"id", client.id}});
}

void ClientLog::tell_left_out(SteadyTime now) {
  const MutexLock lock(mutex_);
  write_left_out(of_scripts, scripts_.take_left_out(now));
  write_left_out(of_busy_scripts, busy_scripts_.take_left_out(now));
  write_left_out(of_logins, logins_.take_left_out(now));
  write_left_out(of_commands, commands_.take_left_out(now));
  write_left_out(of_http, http_.take_left_out(now));
}

}  // namespace sepal::app
