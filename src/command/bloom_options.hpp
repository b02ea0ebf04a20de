// The options of BF.RESERVE and BF.INSERT.
//
// Words are read by position, whole and in any case. (The reference looks for BF.RESERVE's option words
// anywhere, the key included, and tells BF.INSERT's by their first letters: accidents that would make a key's
// name matter.)
#pragma once

#include <sepal/filter/filter.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "parsed.hpp"

namespace sepal::command {

struct ReserveRequest {
  filter::FilterOptions options;
  std::optional<std::int64_t> seconds;  // that the key is to stay; above 0
};
// `words`: error_rate capacity [EXPANSION expansion] [NONSCALING] [EX seconds], what follows the key.
// `defaults` gives the expansion and the seed.
[[nodiscard]] Parsed<ReserveRequest> parse_reserve(std::span<const std::string_view> words,
                                                   const filter::FilterOptions& defaults);

struct InsertRequest {
  filter::FilterOptions options;
  bool create = true;
  std::span<const std::string_view> items;  // at least one
};
// `words`: what follows the key. Reports the first bad word from the left. A missing value and missing items
// are too_few_words.
struct TooFewWords {};
[[nodiscard]] std::variant<InsertRequest, Refusal, TooFewWords> parse_insert(
    std::span<const std::string_view> words, const filter::FilterOptions& defaults);

}  // namespace sepal::command
