// Rows of the BF commands that every host has.
#pragma once

#include <sepal/bloom/commands/commands.hpp>

#include "command/table/module_row.hpp"

namespace sepal::command {

template <class... Parts>
[[nodiscard]] consteval CommandSpec bloom_row(std::string_view name, Handler run, const Parts&... parts) {
  return module_row(bloom::facts_of_command(name), run, parts...);
}

}  // namespace sepal::command
