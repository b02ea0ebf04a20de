// The ACL categories of rows.
#pragma once

#include <sepal/base/arguments.hpp>
#include <sepal/base/word_list.hpp>
#include <sepal/command/table/command_table.hpp>

#include <string_view>

namespace sepal::command {

// `category` is in any case and has no '@'.
[[nodiscard]] inline bool in_category(const CommandSpec& row, std::string_view category) {
  bool found = false;
  for_each_word(row.categories, [&](std::string_view each) {
    found = found || equal_ignoring_case(each.substr(1), category);  // behind the '@'
  });
  return found;
}

}  // namespace sepal::command
