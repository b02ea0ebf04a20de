// Rows of the CF commands.
#pragma once

#include <sepal/cuckoo/commands/commands.hpp>

#include "command/table/module_row.hpp"

namespace sepal::command {

template <class... Parts>
[[nodiscard]] consteval CommandSpec cuckoo_row(std::string_view name, Handler run, const Parts&... parts) {
  return module_row(cuckoo::facts_of_command(name), run, parts...);
}

}  // namespace sepal::command
