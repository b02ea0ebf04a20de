// Waits until another thread has done its work.
#pragma once

#include <chrono>
#include <thread>

namespace sepal::test {

// For a machine that does much else, and for sanitizers.
inline constexpr std::chrono::seconds patience{300};

// Whether `condition` becomes true within the patience.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace sepal::test
