// The type of both kinds of cuckoo filters in sepal.so. A server knows it by the name of RedisBloom's, so it
// reads RedisBloom's files. What sepal.so saves has an encoding version of its own, and the head of the image
// says of which kind the filter is.
#pragma once

#include <sepal/value/module_type.hpp>

namespace sepal::cuckoo {

// Far above RedisBloom's versions.
inline constexpr int sepal_encoding = 512;

extern const value::ModuleType module_type;

}  // namespace sepal::cuckoo
