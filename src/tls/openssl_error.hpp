// OpenSSL's errors as sentences.
#pragma once

#include <string>

namespace sepal::tls {

// The reason of the oldest error in this thread's queue: "key values mismatch". Empties the queue.
[[nodiscard]] std::string take_reason();

}  // namespace sepal::tls
