// Every text that a client sees when something is refused. Clients match on these: tests compare them byte for
// byte with the reference.
#pragma once

#include <string>
#include <string_view>

#include <sepal/base/result.hpp>

namespace sepal::command {

// For codes that reach a handler. Without the leading '-'.
[[nodiscard]] std::string_view text_of(Errc code);

// "ERR wrong number of arguments for 'bf.add' command"
[[nodiscard]] std::string wrong_arity(std::string_view command_name);

}  // namespace sepal::command
