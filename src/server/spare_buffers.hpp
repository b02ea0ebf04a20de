// Memory of replies that were sent, for those that are kept next: else each batch whose replies are kept
// would allocate, and grow, a buffer of its own.
#pragma once

#include <sepal/base/free_memory.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace sepal::server {

// Confined to its worker. Holds at most spares_max * spare_bytes_max bytes.
class SpareBuffers {
 public:
  static constexpr std::size_t spares_max = 16;
  static constexpr std::size_t spare_bytes_max = 64 * 1024;

  // Gives memory to a text that has allocated none, if there is some.
  void lend(std::string& text) {
    if (spares_.empty() || text.capacity() > std::string().capacity()) return;
    spares_.back().swap(text);
    spares_.pop_back();
  }

  // Empties it, and keeps its memory or frees it.
  void take_back(std::string& text) {
    const std::size_t bytes = text.capacity();
    if (bytes > std::string().capacity() && bytes <= spare_bytes_max && spares_.size() < spares_max) {
      spares_.emplace_back().swap(text);
      spares_.back().clear();
    }
    free_memory(text);
  }

 private:
  std::vector<std::string> spares_;  // empty texts
};

}  // namespace sepal::server
