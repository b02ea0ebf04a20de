// OpenSSL's errors as sentences.
#pragma once

#include <string>
#include <string_view>

namespace sepal::tls {

// The reason of the oldest error in this thread's queue: "key values mismatch". Empties the queue.
[[nodiscard]] std::string take_reason();
// The same about a file. "it has no " and `part`, if the file has no such part at all.
[[nodiscard]] std::string take_reason_without(std::string_view part);

}  // namespace sepal::tls
