#include "settings/quantity.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/base/whole_number.hpp>

#include <algorithm>
#include <array>
#include <span>

namespace sepal::settings {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

// The units that are written come first, the largest of 1024 before those of 1000.
constexpr std::array<Unit, 13> byte_units{{{"tb", 1ull << 40},
                                           {"gb", 1ull << 30},
                                           {"mb", 1ull << 20},
                                           {"kb", 1ull << 10},
                                           {"tib", 1ull << 40},
                                           {"gib", 1ull << 30},
                                           {"mib", 1ull << 20},
                                           {"kib", 1ull << 10},
                                           {"t", 1'000'000'000'000},
                                           {"g", 1'000'000'000},
                                           {"m", 1'000'000},
                                           {"k", 1'000},
                                           {"b", 1}}};
constexpr std::size_t units_of_1024 = 4;
constexpr std::span<const Unit> written_byte_units{byte_units.data(), units_of_1024};
constexpr std::uint64_t percents = 100;

constexpr std::array<Unit, 4> second_units{{{"d", 86'400}, {"h", 3'600}, {"m", 60}, {"s", 1}}};

constexpr bool are_written(std::span<const Unit> units) {
  return std::ranges::is_sorted(units, std::ranges::greater_equal{}, &Unit::factor) &&
         std::ranges::none_of(units, [](const Unit& unit) { return unit.name.empty(); });
}
static_assert(are_written(written_byte_units) && are_written(second_units),
              "the largest unit comes first, and each has a name");

std::optional<std::uint64_t> parse_quantity(std::string_view text, std::span<const Unit> units) {
  // The number ends at the first byte that is no digit, and the rest must be a unit. A product that does not
  // fit is refused: wrapped, it would pass as a small quantity.
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_whole<std::uint64_t>(text.substr(0, digits));
  if (!number) return std::nullopt;
  const std::string name = lower_case(text.substr(digits));
  if (name.empty()) return number;
  const auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == name; });
  return unit == units.end() ? std::nullopt : checked_multiply(*number, unit->factor);
}

std::string quantity_text(std::uint64_t quantity, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    // Each unit divides 0, which is written without a unit.
    if (quantity == 0 || quantity % unit.factor != 0) continue;
    return std::to_string(quantity / unit.factor) + std::string(unit.name);
  }
  return std::to_string(quantity);
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  return parse_quantity(text, byte_units);
}
std::optional<std::uint64_t> parse_seconds(std::string_view text) {
  return parse_quantity(text, second_units);
}

// Whole megabytes, so that the number can be read, and is written with a unit.
std::optional<std::uint64_t> parse_memory(std::string_view text, std::uint64_t memory_bytes) {
  if (!text.ends_with('%')) return parse_bytes(text);
  const auto percent = parse_whole<std::uint64_t>(text.substr(0, text.size() - 1));
  if (!percent || *percent == 0 || *percent > percents) return std::nullopt;
  constexpr std::uint64_t megabyte = 1ull << 20;
  const std::uint64_t share = memory_bytes / percents * *percent;
  return share < megabyte ? std::nullopt : std::optional(share / megabyte * megabyte);
}

std::string bytes_text(std::uint64_t bytes) {
  return quantity_text(bytes, written_byte_units);
}
std::string seconds_text(std::uint64_t seconds) {
  return quantity_text(seconds, second_units);
}

}  // namespace sepal::settings
