// The end of a handler that answers an error.
#pragma once

#include <sepal/command/dispatcher.hpp>

#include <string_view>

namespace sepal::command {

inline Next refuse(Context& context, std::string_view error) {
  context.reply.error(error);
  return Next::done;
}

}  // namespace sepal::command
