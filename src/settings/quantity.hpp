// Numbers with units.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sepal::settings {

// As in redis.conf: digits and one of b, k (1000), kb (1024), m, mb, g, gb, t, tb, or KiB (1024) and the
// like, in either case. Empty if the text is written otherwise or the number does not fit.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);
// The same, or a share of `memory_bytes` of at least a megabyte, from "1%" to "100%". 0: they are not known.
[[nodiscard]] std::optional<std::uint64_t> parse_memory(std::string_view text, std::uint64_t memory_bytes);
// Digits and one of s, m, h, d, or no unit: seconds.
[[nodiscard]] std::optional<std::uint64_t> parse_seconds(std::string_view text);

// Written with the largest unit that divides the number: "64mb", "1h"; without a unit if none divides it.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
[[nodiscard]] std::string seconds_text(std::uint64_t seconds);

}  // namespace sepal::settings
