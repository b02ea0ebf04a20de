// Sources of bytes that another source has compressed.
#pragma once

#include <memory>

#include "byte_source.hpp"

namespace sepal::tools {

// Any number of members or frames, one behind the other. Ending within one is damage.
[[nodiscard]] std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<ByteSource> compressed);
[[nodiscard]] std::unique_ptr<ByteSource> zstd_source(std::unique_ptr<ByteSource> compressed);

}  // namespace sepal::tools
