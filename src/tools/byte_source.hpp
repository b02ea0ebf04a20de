// Where items come from: the bytes of a file or of standard input, decompressed.
#pragma once

#include <sepal/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace sepal::tools {

// Confined. Blocks.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to into.size() bytes, of at least 1; none only at the end. Errors: io, damaged, with a sentence that
  // does not name the source.
  virtual Result<std::size_t> read(std::span<char> into) = 0;
  // How many bytes of the file itself were read, compressed as they are there.
  [[nodiscard]] virtual std::uint64_t position() const = 0;
};

// Standard input's name on the command line.
inline constexpr const char* standard_input = "-";
// For messages.
[[nodiscard]] std::string input_name(const std::string& path);

// gzip and zstd data are recognised by how they begin. Every call for a regular file begins where the first
// one did, also for standard input. Errors: not_found, io, with a sentence that does not name the source.
Result<std::unique_ptr<ByteSource>> open_input(const std::string& path);

struct InputKind {
  std::optional<std::uint64_t> byte_count;  // that ByteSource::position() will reach, where that is known
  // It costs little to read it twice: it is a file, and its bytes are the items' own.
  bool cheap_to_repeat = false;
};
// Takes nothing out of a pipe. Errors as open_input().
Result<InputKind> look_at_input(const std::string& path);

}  // namespace sepal::tools
