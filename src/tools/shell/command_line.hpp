// The command line of sepal, on CLI11. The library only splits the words. Values are read here, and errors
// are reported here, in one line.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tools/shell/number.hpp"

namespace sepal::tools {

// The exit statuses.
inline constexpr int exit_good = 0;
inline constexpr int exit_refused = 1;  // damaged, or it could not be done
inline constexpr int exit_usage = 2;    // the command line is wrong
inline constexpr int exit_incomplete =
    3;  // done, but something was left out that should not be; the output says what

// Confined.
class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& version);

  // Adds a command. The caller then adds the options that `work` needs. `work` returns the exit status.
  CLI::App& add_command(const std::string& name, const std::string& description, std::function<int()> work);

  // Runs the command that the line names. Returns the exit status. `help` and `version` are commands as well:
  // they stand behind all others.
  int run(int argc, char** argv);

 private:
  // The command that the line names; null if it names none.
  [[nodiscard]] const CLI::App* command() const;
  // What is wrong with the words; empty: nothing is.
  [[nodiscard]] std::string unknown_word() const;
  [[nodiscard]] std::string unknown_command(const std::string& word) const;
  [[nodiscard]] std::string command_names() const;
  void add_own_commands();
  // Prints the help of the command of this name; empty: that of all.
  int print_help(const std::string& name);

  std::string version_;
  CLI::App tools_;
  std::function<int()> work_;
};

// The values of options. Each option checks its own value and reports what is wrong with it. If an option is
// repeated, the last value counts.

struct CountRange {
  std::uint64_t lowest = 0;
  std::uint64_t highest = std::numeric_limits<std::uint64_t>::max();
};

using TakeCount = std::function<void(std::uint64_t)>;
using TakeText = std::function<void(const std::string&)>;

// A count of at least 1 that may be large: see parse_count(). `take` gets it.
CLI::Option* add_count(CLI::App& command, const std::string& name, const std::string& help, TakeCount take);
CLI::Option* add_number(CLI::App& command, const std::string& name, const std::string& help, CountRange range,
                        TakeCount take);
CLI::Option* add_seed(CLI::App& command, const std::string& name, const std::string& help, TakeCount take);
CLI::Option* add_rate(CLI::App& command, const std::string& name, const std::string& help, double& rate);
// `take` gets the index in `choices`.
// A time above 0: see parse_duration(). `take` gets its milliseconds.
CLI::Option* add_duration(CLI::App& command, const std::string& name, const std::string& help,
                          TakeCount take);
CLI::Option* add_pace(CLI::App& command, const std::string& name, const std::string& help,
                      std::function<void(Pace)> take);
CLI::Option* add_choice(CLI::App& command, const std::string& name, const std::string& help,
                        std::vector<std::string> choices, std::function<void(std::size_t)> take);
CLI::Option* add_text(CLI::App& command, const std::string& name, const std::string& help,
                      std::size_t length_max, TakeText take);

}  // namespace sepal::tools
