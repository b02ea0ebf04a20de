// The parameters of CONFIG GET and CONFIG SET, under the names that Redis's tools know, and a few of Sepal's
// own.
//
// Four kinds of row:
//   live     means something here: read and set for real
//   kept     taken and given back, without effect (RuntimeOptions::without_effect)
//   fact     read only: what the process is
//   fixed    read only: the one value that is true of Sepal, or that tools look for. "Setting" it to that
//   very
//            value is no error, so that a tool which makes sure of it goes on.
#pragma once

#include <sepal/command/dispatcher.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sepal::command {

// What CONFIG SET has changed so far; nothing is, until all of its pairs are fine.
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
  // The text of what is wrong with the value, or nothing. Null for what cannot be set.
  std::string (*set)(PendingConfig&, const Parameter&, std::string_view value) = nullptr;
  std::string_view text{};  // a kept row's default; a fixed row's value
  std::int64_t least = 0;   // of a kept integer
  std::int64_t greatest = 0;
  bool guarded = false;  // refused as "protected": it would name files
};

[[nodiscard]] std::span<const Parameter> parameters();
// By name in any case; null when there is none.
[[nodiscard]] const Parameter* find_parameter(std::string_view name);

}  // namespace sepal::command
