// Keeps the memory of replies that were sent, for the replies that are kept next. Without it, each batch
// whose replies are kept would allocate a buffer of its own and grow it in several steps.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace sepal::session {

// Confined to its worker. Holds at most spares_max * spare_bytes_max bytes.
class SpareBuffers {
 public:
  static constexpr std::size_t spares_max = 16;
  static constexpr std::size_t spare_bytes_max = 64 * 1024;

  // Gives spare memory to a text that has allocated none. Does nothing if there is no spare.
  void lend(std::string& text) {
    if (spares_.empty() || text.capacity() > std::string().capacity()) return;
    SEPAL_ASSERT(text.empty(), "a text would lose its bytes for spare memory");
    spares_.back().swap(text);
    spares_.pop_back();
  }

  // Empties the text, and keeps its memory as a spare or frees it.
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

}  // namespace sepal::session
