#include "script_log.hpp"

#include <sepal/log/event.hpp>

#include <chrono>
#include <utility>

namespace sepal::app {
namespace {

log::Level level_of(script::LogLevel level) {
  switch (level) {
    case script::LogLevel::debug:
    case script::LogLevel::verbose:
      return log::Level::debug;
    case script::LogLevel::notice:
      return log::Level::info;
    case script::LogLevel::warning:
      break;
  }
  return log::Level::warn;
}

}  // namespace

std::string printable_line(std::string_view text) {
  std::string line(text.substr(0, script_line_bytes_max));
  for (char& letter : line) {
    if (letter < ' ' || letter > '~') letter = '?';
    if (letter == '"') letter = '\'';
  }
  return line;
}

bool ScriptLines::takes(SteadyTime now, std::uint64_t& left_out) {
  if (written_ == 0 || now - second_began_ >= std::chrono::seconds(1)) {
    second_began_ = now;
    written_ = 0;
  }
  if (written_ >= script_lines_max) {
    ++left_out_;
    return false;
  }
  ++written_;
  left_out = std::exchange(left_out_, 0);
  return true;
}

void ScriptLog::write(script::LogLevel level, std::string_view text) {
  if (!log::is_on(level_of(level))) return;
  std::uint64_t left_out = 0;
  if (!lines_.takes(std::chrono::steady_clock::now(), left_out)) return;
  if (left_out > 0) log::warn("script_lines_left_out", "lines of scripts left out", {{"count", left_out}});
  log::write(level_of(level), "script_says", "a script says", {{"text", printable_line(text)}});
}

}  // namespace sepal::app
