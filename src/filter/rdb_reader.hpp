// Reads fields of the RDB format (filter/rdb.hpp) from bytes that may be anything.
#pragma once

#include <sepal/filter/rdb.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace sepal::filter {

// Once a field is not as it should be, all that is read is 0, and failed() says so. Confined.
class RdbReader {
 public:
  explicit RdbReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

  std::uint8_t byte();
  std::uint64_t length();

  // Fields, with their opcodes.
  std::uint64_t number();
  double real();
  RdbBits bits();
  void end();

 private:
  enum class Opcode : std::uint8_t { end = 0, number = 2, real = 4, string = 5 };

  void expect(Opcode opcode);
  std::span<const std::byte> take(std::uint64_t byte_count);
  std::uint64_t big_endian(std::uint64_t byte_count);

  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

}  // namespace sepal::filter
