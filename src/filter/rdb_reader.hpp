// Reads fields of the RDB format (filter/rdb.hpp) from bytes that may be anything.
#pragma once

#include <sepal/filter/rdb.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sepal::filter {

// The first byte of a string that is packed.
inline constexpr std::uint8_t first_of_packed = 0xc3;

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

  // A string without an opcode. `digits` keeps those of a number: the bytes point there.
  RdbBits string(std::string& digits);

 private:
  enum class Opcode : std::uint8_t { end = 0, number = 2, real = 4, string = 5 };

  void expect(Opcode opcode);
  RdbBits plain_or_packed();
  std::span<const std::byte> take(std::uint64_t byte_count);
  std::uint64_t big_endian(std::uint64_t byte_count);

  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

}  // namespace sepal::filter
