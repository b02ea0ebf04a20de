// Digests that the Redis protocol shows in hexadecimal: SHA-1 names a script, SHA-256 keeps a password.
// Computed by OpenSSL's libcrypto. Not for the request path: a digest costs about a microsecond. Without
// memory they throw std::bad_alloc.
#pragma once

#include <string>
#include <string_view>

namespace sepal {

// 40 lower-case hexadecimal digits (FIPS 180-4).
[[nodiscard]] std::string sha1_hex(std::string_view bytes);

// 64 lower-case hexadecimal digits (FIPS 180-4).
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace sepal
