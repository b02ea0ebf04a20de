// Numbers as INFO and CONFIG write them.
#pragma once

#include <cstdint>
#include <string>

namespace sepal::command {

// "1.50M", as the reference writes sizes for people.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);
[[nodiscard]] std::string fixed_point(double value, int digits);
// With no more digits than the value needs: "50", "99.9".
[[nodiscard]] std::string shortest_text(double value);
[[nodiscard]] inline double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace sepal::command
