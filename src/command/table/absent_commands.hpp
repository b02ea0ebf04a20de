// The commands of the reference that Sepal does not have, because they are about something that Sepal does
// not have. They are no rows of the command table: tools read COMMAND to find out what a server can do.
//
// A client that sends one of them learns from the error that no retry and no newer release will help. All
// other names are unknown commands.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sepal::command {

// Commands about one thing. docs/protocol.md lists them under "What Sepal does not have"; a test compares.
struct AbsentGroup {
  std::string_view what;    // "lists"
  std::string_view reason;  // of its absence
  std::string_view names;  // lower case, sorted, blank separated; "cf.*" stands for all that begin with "cf."
  std::string_view lacks{};  // what the error says instead of "no " and `what`; empty: those
};

[[nodiscard]] std::span<const AbsentGroup> absent_groups();

// The group of a command by its name in any case; null if the name is in none. Takes a few comparisons, and
// allocates nothing.
[[nodiscard]] const AbsentGroup* find_absent(std::string_view name);

// "ERR Sepal has no lists: ... (docs/protocol.md, ...)"
[[nodiscard]] std::string absent_command(const AbsentGroup& group);

}  // namespace sepal::command
