// The bytes of a file or of standard input, decompressed: items are read from them.
#pragma once

#include <sepal/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tools/build/item_format.hpp"

namespace sepal::tools {

// Confined. Blocks.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to into.size() bytes (which is at least 1); 0 bytes only at the end. Errors: io, damaged, with a
  // sentence that does not name the source.
  virtual Result<std::size_t> read(std::span<char> into) = 0;
  // How many bytes of the file itself were read, before decompression.
  [[nodiscard]] virtual std::uint64_t position() const = 0;
};

inline constexpr const char* standard_input = "-";
[[nodiscard]] std::string input_name(const std::string& path);

// The bytes of the items: see list_source(). For a regular file, every call begins at the same place as the
// first one, also for standard input. Errors: not_found, io, those of list_source(), with a sentence that
// does not name the source.
Result<std::unique_ptr<ByteSource>> open_input(const std::string& path, ItemFormat format);

struct InputKind {
  std::optional<std::uint64_t> byte_count;  // the final ByteSource::position(), if known
  // Reading it twice is cheap: it is a regular file and not compressed.
  bool cheap_to_repeat = false;
};
// Reads nothing from a pipe. Errors as open_input().
Result<InputKind> look_at_input(const std::string& path, ItemFormat format);

}  // namespace sepal::tools
