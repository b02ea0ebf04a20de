// What BF.INFO and BF.DEBUG answer about a filter, in every host of the commands.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/window/window_filter.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sepal::bloom {

// What BF.INFO knows of a filter.
struct InfoFacts {
  std::uint64_t capacity = 0;
  std::uint64_t byte_count = 0;
  std::uint64_t layers = 0;
  std::uint64_t items = 0;
  std::uint32_t expansion = 0;  // 0: none
};
// The value is a Bloom filter, or one that forgets. Nothing for another value, or null.
[[nodiscard]] std::optional<InfoFacts> info_of(const value::Value* found, WallTime now);

// A field of BF.INFO.
struct InfoField {
  std::string_view argument;  // of BF.INFO, upper case
  std::string_view name;
  // Nothing: the reply is a null.
  std::optional<std::uint64_t> (*value)(const InfoFacts&);
};
// In the order of the full reply.
[[nodiscard]] std::span<const InfoField> info_fields();
// By its argument, in any case; null when there is none.
[[nodiscard]] const InfoField* find_info_field(std::string_view argument);

// The error for an argument that is no field. It tells what there is instead of fields of Valkey's Bloom
// module.
[[nodiscard]] std::string_view bad_field_text(std::string_view argument);

// The line of a layer in BF.DEBUG: "bytes:144 bits:1152 hashes:8 hashwidth:128 capacity:100 size:1
// ratio:0.005". The names are the reference's, the figures those of Sepal's layers. "ratio" is the layer's
// error rate, as C's "%g" writes it.
[[nodiscard]] std::string debug_line(const bloom::LayerView& layer);
// The same for a filter that forgets with so many lanes: "capacity" is that of a generation, "ratio" that of
// all lanes.
[[nodiscard]] std::string debug_line(const WindowFilter::LayerFigures& layer, std::uint32_t lanes);

// The most words of a BF.RESERVE that the reference takes, and those of Sepal's own options that are there.
[[nodiscard]] std::size_t reserve_words_max(std::span<const std::string_view> words);

}  // namespace sepal::bloom
