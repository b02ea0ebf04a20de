// The parameters of CONFIG GET and CONFIG SET, under the names that Redis's tools know, and a few of Sepal's
// own.
//
// Four kinds of row:
//   live     CONFIG SET changes what Sepal does
//   kept     CONFIG SET stores the value, CONFIG GET gives it back; without effect
//            (RuntimeOptions::without_effect)
//   fact     read only: what the process is
//   fixed    read only: the only value that is true of Sepal, or that tools look for. To set it to the value
//            that it has is no error, so that a tool which makes sure of the value goes on.
#pragma once

#include <sepal/command/dispatcher.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sepal::command {

// The values that CONFIG SET has parsed so far. They take effect together, and only if all pairs are valid.
struct PendingConfig {
  RuntimeOptions options;
  std::uint64_t memory_max = 0;
  double error_rate = 0;
  std::uint64_t capacity = 0;
  std::uint32_t expansion = 0;
};

struct Parameter {
  std::string_view name;  // lower case
  std::string (*get)(const Context&, const Parameter&) = nullptr;
  // Returns the error in the value; empty if there is none. Null: the parameter cannot be set.
  std::string (*set)(PendingConfig&, const Parameter&, std::string_view value) = nullptr;
  std::string_view text{};  // a kept row's default; a fixed row's value
  std::int64_t least = 0;   // of a row with an integer
  std::int64_t greatest = 0;
  bool guarded = false;  // refused as "protected": the value would name a file
};

[[nodiscard]] std::span<const Parameter> parameters();
// By name in any case; null if there is none.
[[nodiscard]] const Parameter* find_parameter(std::string_view name);

}  // namespace sepal::command
