// Whether a Host header names this server.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sepal::http {

// `host` is the header. `arrived_at` is the address of this end of the connection, as text. Accepts
// "localhost", loopback addresses, `arrived_at` and the names in `hosts` in lower or upper case, each with a
// port or without.
[[nodiscard]] bool names_this_server(std::string_view host, std::string_view arrived_at,
                                     const std::vector<std::string>& hosts);

}  // namespace sepal::http
