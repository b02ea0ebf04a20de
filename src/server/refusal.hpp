// The answer to a client for which there is no place.
#pragma once

#include <span>

namespace sepal::server {

// Sends the error to a client that has just connected. The caller closes the socket. `scrap` is overwritten.
// Does not block.
void refuse(int descriptor, std::span<char> scrap);

}  // namespace sepal::server
