// The lines that MONITOR shows: +1339518083.107412 [0 127.0.0.1:60866] "keys" "*"
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/command/run/client_state.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sepal::command {

// A longer word is cut, and says how many bytes were left out.
inline constexpr std::size_t monitor_word_bytes_max = 64 * 1024;
// Behind so many bytes a line has no further words, and says how many were left out.
inline constexpr std::size_t monitor_line_bytes_max = 1024 * 1024;

// `words` is not empty. Secrets are not shown.
void append_monitor_line(std::string& lines, WallTime now, const ClientState& client,
                         std::span<const std::string_view> words);

}  // namespace sepal::command
