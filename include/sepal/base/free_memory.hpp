// Giving the memory of a text back.
#pragma once

#include <string>

namespace sepal {

// Empties it. To assign an empty string would keep what it has allocated: its few bytes are copied instead.
inline void free_memory(std::string& text) {
  std::string().swap(text);
}

}  // namespace sepal
