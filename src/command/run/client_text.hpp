// Clients as text: the lines of CLIENT LIST, and which texts may be fields of a line.
#pragma once

#include <sepal/command/run/client_state.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace sepal::command {

// The most bytes of a connection's name, of its library's name, and of its library's version.
inline constexpr std::size_t client_field_bytes_max = 1024;

// Whether a text may become a field of a line: not too long, no spaces, no line ends, nothing outside
// printable ASCII. A NUL passes, as in the reference.
[[nodiscard]] bool fits_client_line(std::string_view text);

// "id=3 addr=127.0.0.1:50412 ... lib-ver=\n"
void append_client_line(std::string& text, const ClientState& client, SteadyTime now);
// The same, without the end of the line.
[[nodiscard]] std::string client_line(const ClientState& client, SteadyTime now);

}  // namespace sepal::command
