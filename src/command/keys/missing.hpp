// What look-ups answer about a key that names no filter: the setting missing_filter (decisions/0054).
#pragma once

#include <sepal/command/run/context.hpp>

#include <cstdint>
#include <span>

namespace sepal::command {

// Answers `present` as the setting says, and counts what `requests` of them ask. `found` is what the key
// names: null, or a value of another kind. False, with nothing counted: each of them answers an error, see
// refuse_missing().
[[nodiscard]] bool answer_missing(Context& context, const value::Value* found, std::span<bool> present,
                                  std::uint64_t requests);

// Answers the error of a look-up of the first key of the request, and counts a hit or a miss.
Next refuse_missing(Context& context);
// The same for what the key names.
Next refuse_missing(Context& context, const value::Value* found);

}  // namespace sepal::command
