// Sources that decompress the bytes of another source.
#pragma once

#include <memory>

#include "tools/build/byte_source.hpp"

namespace sepal::tools {

// The data is any number of members or frames, one behind the other. An end within one is damage.
[[nodiscard]] std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<ByteSource> compressed);
[[nodiscard]] std::unique_ptr<ByteSource> zstd_source(std::unique_ptr<ByteSource> compressed);

}  // namespace sepal::tools
