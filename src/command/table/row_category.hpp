// The names of the ACL categories.
#pragma once

#include <sepal/base/arguments.hpp>
#include <sepal/base/word_list.hpp>
#include <sepal/command/table/command_table.hpp>

#include <cstddef>
#include <iterator>
#include <string_view>

namespace sepal::command {

// By the number of the category.
inline constexpr std::string_view category_names[] = {
    "keyspace", "read",        "write",      "set",         "sortedset", "list",  "hash",  "string",
    "bitmap",   "hyperloglog", "geo",        "stream",      "pubsub",    "admin", "fast",  "slow",
    "blocking", "dangerous",   "connection", "transaction", "scripting", "bloom", "cuckoo"};
static_assert(std::size(category_names) == static_cast<std::size_t>(Category::cuckoo) + 1);

// The category of a name in any case, without an '@'; empty if there is none.
[[nodiscard]] constexpr Categories category_of(std::string_view name) {
  for (std::size_t at = 0; at < std::size(category_names); ++at)
    if (equal_ignoring_case(category_names[at], name)) return static_cast<Category>(at);
  return {};
}

// Takes names between blanks, each with an '@'.
[[nodiscard]] constexpr Categories categories_of(std::string_view names) {
  Categories categories;
  for_each_word(names, [&](std::string_view name) { categories = categories | category_of(name.substr(1)); });
  return categories;
}

template <class Visit>
void for_each_category(Categories categories, const Visit& visit) {
  for (std::size_t at = 0; at < std::size(category_names); ++at)
    if (categories.has(static_cast<Category>(at))) visit(category_names[at]);
}

}  // namespace sepal::command
