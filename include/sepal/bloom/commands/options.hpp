// The options of BF.RESERVE and BF.INSERT.
//
// Options are read by position, as whole words in any case. The reference differs: it looks for BF.RESERVE's
// option words anywhere, even in the key, and knows BF.INSERT's options by their first letters. Sepal does
// not copy this, because a key's name must not change the meaning of a request (docs/decisions/0004).
#pragma once

#include <sepal/base/parsed.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/window/plan.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace sepal::bloom {

struct ReserveRequest {
  bloom::FilterOptions options;
  std::optional<std::int64_t> seconds;  // the key's time to live; above 0
  std::optional<WindowOptions> window;  // the filter forgets; then `options` has nothing more to say
};
// `words` follow the key: error_rate capacity [EXPANSION expansion] [NONSCALING] [EX seconds] [WINDOW seconds
// | LAST] [GENERATIONS generations] [REFRESH]. `defaults` gives the expansion and the seed.
[[nodiscard]] Parsed<ReserveRequest> parse_reserve(std::span<const std::string_view> words,
                                                   const bloom::FilterOptions& defaults);

// The value of one option, by BF.RESERVE's rules. They return the error; empty if there is none.
[[nodiscard]] std::string_view read_capacity(std::string_view word, std::uint64_t& capacity);
[[nodiscard]] std::string_view read_rate(std::string_view word, double& rate);
[[nodiscard]] std::string_view read_expansion(std::string_view word, std::uint32_t& expansion);

struct InsertRequest {
  bloom::FilterOptions options;
  bool create = true;
  std::span<const std::string_view> items;  // at least one
  std::optional<std::int64_t> seconds;      // these two as in ReserveRequest, for a filter that is created
  std::optional<WindowOptions> window;
};
// `words` follow the key. Reports the first bad word from the left. A missing value or missing items give
// TooFewWords.
struct TooFewWords {};
[[nodiscard]] std::variant<InsertRequest, Refusal, TooFewWords> parse_insert(
    std::span<const std::string_view> words, const bloom::FilterOptions& defaults);

}  // namespace sepal::bloom
