// Lines that scripts write to the log. A script may write thousands in a second: some are left out.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/script/engine.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace sepal::app {

// The most lines of scripts in one second. The next line behind it says how many were left out.
inline constexpr std::uint64_t script_lines_max = 20;
// The part of a line that is logged.
inline constexpr std::size_t script_line_bytes_max = 1024;

// What is logged of a text: printable, without double quotes, cut.
[[nodiscard]] std::string printable_line(std::string_view text);

// Decides which lines are written. Confined to a thread, or guarded.
class ScriptLines {
 public:
  // Whether a line is written now. `left_out` then is the number of lines that were not, since the last one.
  [[nodiscard]] bool takes(SteadyTime now, std::uint64_t& left_out);

 private:
  SteadyTime second_began_{};
  std::uint64_t written_ = 0;   // in this second
  std::uint64_t left_out_ = 0;  // since the last line that was written
};

// Guarded by the gate: scripts run with the gate closed.
class ScriptLog {
 public:
  void write(script::LogLevel level, std::string_view text);

 private:
  ScriptLines lines_;
};

}  // namespace sepal::app
