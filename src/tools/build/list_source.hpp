// What an input has before its items: compression, or a byte order mark. And what is no list of items.
#pragma once

#include <sepal/base/result.hpp>

#include <memory>

#include "tools/build/byte_source.hpp"
#include "tools/build/item_format.hpp"

namespace sepal::tools {

struct ListSource {
  std::unique_ptr<ByteSource> bytes;  // of the items
  bool compressed = false;
};

// Reads the first bytes of `file`. Decompresses gzip and zstd, and leaves out the byte order mark of UTF-8.
// Errors: out_of_range for a format that is recognised and not read, with a sentence that does not name the
// input. An error of `file` comes when the items are read.
Result<ListSource> list_source(std::unique_ptr<ByteSource> file, ItemFormat format);

}  // namespace sepal::tools
