// Numbers of databases in requests.
#pragma once

#include <sepal/base/arguments.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace sepal::command {

// Nothing if there is no such database.
[[nodiscard]] inline std::optional<std::uint32_t> database_of(std::int64_t number) {
  if (number < 0 || number >= keyspace::database_count) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

// Sets `database`. Returns the error in the word, as the reference has it for SELECT and COPY; empty if there
// is none.
[[nodiscard]] inline std::string_view parse_database(std::string_view word, std::uint32_t& database) {
  using Int = std::numeric_limits<std::int32_t>;
  const auto number = parse_integer(word);
  if (!number) return text::not_an_integer;
  if (*number < Int::min() || *number > Int::max()) return text::database_not_int;
  const auto known = database_of(*number);
  if (!known) return text::database_range;
  database = *known;
  return {};
}

}  // namespace sepal::command
