// What was turned away since the start or the last reset, by reason. The metrics and the status page tell it.
#pragma once

#include <sepal/command/run/context.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace sepal::command {

struct Rejection {
  std::string_view reason;  // a word for machines
  std::uint64_t count = 0;
};

// Connections and requests. All reasons, in a fixed order. Inside the gate.
[[nodiscard]] std::vector<Rejection> rejections(const Services& services);

// Items that were not added.
[[nodiscard]] std::vector<Rejection> refused_adds(const Services& services);

// TLS handshakes that did not succeed. Likewise.
[[nodiscard]] std::vector<Rejection> failed_handshakes(const Services& services);

}  // namespace sepal::command
