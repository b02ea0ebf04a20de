#include "client_log.hpp"

#include <spdlog/spdlog.h>

namespace sepal::app {
namespace {

spdlog::level::level_enum level_of(script::LogLevel level) {
  switch (level) {
    case script::LogLevel::debug:
    case script::LogLevel::verbose:
      return spdlog::level::debug;
    case script::LogLevel::notice:
      return spdlog::level::info;
    case script::LogLevel::warning:
      break;
  }
  return spdlog::level::warn;
}

}  // namespace

std::string printable_line(std::string_view text) {
  std::string line(text.substr(0, client_text_bytes_max));
  for (char& letter : line) {
    if (letter < ' ' || letter > '~') letter = '?';
    if (letter == '"') letter = '\'';
  }
  return line;
}

bool ClientLog::takes(LineLimit& limit, std::string_view kind) {
  std::uint64_t left_out = 0;
  if (!limit.takes(std::chrono::steady_clock::now(), left_out)) return false;
  if (left_out > 0) spdlog::warn("lines of {} left out: count={}", kind, left_out);
  return true;
}

void ClientLog::script(script::LogLevel level, std::string_view text) {
  if (!spdlog::should_log(level_of(level))) return;
  const MutexLock lock(mutex_);
  if (takes(scripts_, "scripts"))
    spdlog::log(level_of(level), "a script says: text=\"{}\"", printable_line(text));
}

void ClientLog::failed_login(const command::ClientState& client, std::string_view user) {
  const MutexLock lock(mutex_);
  if (takes(logins_, "failed logins"))
    spdlog::warn("a login failed: user=\"{}\" address={} id={}", printable_line(user), client.address,
                 client.id);
}

void ClientLog::administration(const command::ClientState& client, std::string_view words) {
  if (!spdlog::should_log(spdlog::level::info)) return;
  const MutexLock lock(mutex_);
  if (takes(commands_, "commands that administer the server"))
    spdlog::info("a client administers: command=\"{}\" user=\"{}\" address={} id={}", printable_line(words),
                 printable_line(client.user->name()), client.address, client.id);
}

}  // namespace sepal::app
