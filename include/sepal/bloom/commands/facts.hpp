// What BF.INFO and BF.DEBUG answer about a filter, in every host of the commands.
#pragma once

#include <sepal/bloom/filter/filter.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sepal::bloom {

// A field of BF.INFO.
struct InfoField {
  std::string_view argument;  // of BF.INFO, upper case
  std::string_view name;
  // Nothing: the reply is a null.
  std::optional<std::uint64_t> (*value)(const bloom::Filter&);
};
// In the order of the full reply.
[[nodiscard]] std::span<const InfoField> info_fields();
// By its argument, in any case; null when there is none.
[[nodiscard]] const InfoField* find_info_field(std::string_view argument);

// The line of a layer in BF.DEBUG: "bytes:144 bits:1152 hashes:8 hashwidth:128 capacity:100 size:1
// ratio:0.005". The names are the reference's, the figures those of Sepal's layers. "ratio" is the layer's
// error rate, as C's "%g" writes it.
[[nodiscard]] std::string debug_line(const bloom::LayerView& layer);

// The most words of a BF.RESERVE that the reference takes, and two more if EX is among the options.
[[nodiscard]] std::size_t reserve_words_max(std::span<const std::string_view> words);

}  // namespace sepal::bloom
