// Names in a data directory that end in a number of a fixed length, so that they sort as their numbers do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sepal::storage::format {

inline constexpr std::uint64_t name_number_max = 999'999'999'999;

// `number` is at most name_number_max.
[[nodiscard]] std::string numbered_name(std::string_view prefix, std::uint64_t number);
// Empty for any other text.
[[nodiscard]] std::optional<std::uint64_t> number_in_name(std::string_view prefix, std::string_view name);

}  // namespace sepal::storage::format
