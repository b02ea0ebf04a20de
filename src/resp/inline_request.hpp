// The words of an inline request, which a person types into telnet, or redis-cli sends for its own tests.
#pragma once

#include <sepal/resp/request_parser.hpp>

#include <string>
#include <string_view>

namespace sepal::resp {

// Splits a line (without its end) into words, which replace what `words` held. Plain words are views into the
// line; words with quotes are views into `unquoted`, which is overwritten. False when a quote is not closed,
// or is closed in the middle of a word.
bool split_inline(std::string_view line, Words& words, std::string& unquoted);

}  // namespace sepal::resp
