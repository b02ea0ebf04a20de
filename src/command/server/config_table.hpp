// The parameters of CONFIG GET and CONFIG SET: the settings under the names of their rows, and beside them
// what Redis's tools know and expect.
//
// Five kinds of row:
//   setting  a row of the table of settings; CONFIG SET may change it if it is live
//   other    another name or another form of a setting: CONFIG SET changes what Sepal does
//   kept     CONFIG SET stores the value, CONFIG GET gives it back; without effect
//            (RuntimeOptions::without_effect)
//   fact     read only: what the process is
//   fixed    a row of config_fixed.hpp: one value is true of Sepal. To set it to the value that it has is no
//            error, so that a tool which makes sure of the value goes on. Any other value is refused with the
//            reason.
#pragma once

#include <sepal/command/run/context.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command/server/config_values.hpp"

namespace sepal::command {

struct Parameter {
  std::string_view name;  // lower case
  std::string (*get)(const Context&, const Parameter&) = nullptr;
  // Returns the error in the value; empty if there is none. Null: the parameter cannot be set.
  std::string (*set)(Configuration::Draft&, const Parameter&, std::string_view value) = nullptr;
  std::string_view text{};  // a kept row's default; a fixed row's value
  std::string_view why{};   // of a fixed row: why it takes no other value
  IntegerRange range{};     // of a kept row with an integer
  bool guarded = false;     // refused as "protected": the value would name a file
};

// The value of "hz" until a client sets another.
inline constexpr std::string_view default_hz = "10";

// Sorted by name.
[[nodiscard]] std::vector<Parameter> parameters(const Configuration& configuration);
// By name in any case; null if there is none.
[[nodiscard]] const Parameter* find_parameter(std::span<const Parameter> parameters, std::string_view name);

}  // namespace sepal::command
