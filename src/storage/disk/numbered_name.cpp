#include "storage/disk/numbered_name.hpp"

#include <sepal/base/assert.hpp>

namespace sepal::storage::format {
namespace {

constexpr std::size_t digit_count = 12;

}  // namespace

std::string numbered_name(std::string_view prefix, std::uint64_t number) {
  SEPAL_ASSERT(number <= name_number_max, "a number outgrew its name");
  const std::string digits = std::to_string(number);
  return std::string(prefix) + std::string(digit_count - digits.size(), '0') + digits;
}

// Strict, because a file that only looks like one of Sepal's must not be read or removed. So many digits
// cannot overflow the number.
std::optional<std::uint64_t> number_in_name(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  if (name.size() != digit_count) return std::nullopt;
  std::uint64_t number = 0;
  for (const char c : name) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

}  // namespace sepal::storage::format
