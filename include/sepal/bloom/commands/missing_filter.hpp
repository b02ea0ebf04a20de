// What look-ups answer about a key that names no filter (docs/decisions/0054).
#pragma once

#include <sepal/base/choice.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace sepal::bloom {

enum class MissingFilter : std::uint8_t {
  absent,   // that no item is there, as RedisBloom does
  error,    // an error
  present,  // that each item may be there
};

}  // namespace sepal::bloom

template <>
inline constexpr std::array<std::string_view, 3> sepal::choice_names<sepal::bloom::MissingFilter>{
    "absent", "error", "present"};
