// Reads fields of the RDB format, which may be anything: of a dump that is in memory, or of a file of any
// size.
//
//     length   by the first byte: 00nnnnnn six bits; 01nnnnnn and one byte, 14 bits; 0x80 and 4 bytes;
//              0x81 and 8 bytes; all big endian
//     string   length and bytes
//              or 0xc3, packed length, length, and bytes that are packed as LZF
//              or 0xc0, 0xc1, 0xc2 and a signed number of 1, 2 or 4 bytes, little endian: its decimal digits
//
// A module's value is a list of fields:
//
//     field    opcode (length) and value: 1 and 2 a length; 3 a float and 4 a double, little endian;
//              5 a string; 0 the end, with no value
#pragma once

#include <sepal/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sepal::rdb {

// CRC-64 of Jones, reflected, from 0. Confined.
class Checksum {
 public:
  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

 private:
  std::uint64_t remainder_ = 0;
};
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes);

// Gives the bytes of a file, one piece after the other. Confined.
class Source {
 public:
  virtual ~Source() = default;
  // The bytes behind those that it gave before; none at the end and after an error, which the source keeps.
  // Valid until the next call of a member.
  virtual std::span<const std::byte> more() = 0;
  // Leaves out so many bytes behind those that it gave. False: there are not so many.
  virtual bool skip(std::uint64_t byte_count) = 0;
};

// A string of the input, and where its bytes are.
struct String {
  enum class Kind : std::uint8_t { plain, packed, number };
  Kind kind = Kind::plain;
  std::uint64_t offset = 0;          // of its bytes, behind the lengths
  std::uint64_t byte_count = 0;      // of them
  std::uint64_t unpacked_bytes = 0;  // of the string; 0 for a number

  [[nodiscard]] bool is_empty() const { return kind != Kind::number && unpacked_bytes == 0; }
};

// LZF makes at most so many bytes of each packed one.
inline constexpr std::uint64_t growth_max = 88;

// Once a field is not as it should be, all that is read is 0, and failed() says so. Confined.
class Reader {
 public:
  enum class Summing : std::uint8_t { no, yes };

  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // Summing::yes: computes the checksum of all that it reads, so it reads what it skips.
  Reader(Source& source, Summing summing) : source_(&source), sums_(summing == Summing::yes) {}

  [[nodiscard]] bool failed() const { return failed_; }
  // May ask the source for more.
  [[nodiscard]] bool at_end();
  // The bytes that were read or skipped so far.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  // Over these bytes; only with Summing::yes.
  [[nodiscard]] std::uint64_t checksum();

  std::uint8_t byte();
  std::uint64_t length();
  // A number of 1 to 8 bytes, little endian.
  std::uint64_t integer(std::size_t byte_count);
  void skip(std::uint64_t byte_count);
  void read(std::span<std::byte> into);
  // Skips the string's bytes.
  String string();
  // The string itself; nothing, and skipped, where it has more than `bytes_max`.
  std::optional<std::string> text(std::size_t bytes_max);

  // Fields of a module's value, with their opcodes.
  std::uint64_t number();
  double real();
  String string_field();                                         // as string()
  String bits();                                                 // a string that is not a number
  std::optional<std::string> text_field(std::size_t bytes_max);  // as text()
  void end();
  // Skips fields of any kind, up to the end and with it.
  void skip_fields();

 private:
  enum class Opcode : std::uint8_t {
    end = 0,
    signed_number = 1,
    number = 2,
    single = 3,
    real = 4,
    string = 5
  };

  bool refill();
  void advance(std::size_t byte_count);
  void expect(Opcode opcode);
  std::uint64_t big_endian(std::size_t byte_count);
  String string_head();
  void skip_field(std::uint64_t opcode);

  std::span<const std::byte> bytes_;  // what is left of the piece at hand
  std::span<const std::byte>
      unsummed_;  // of that piece, the part that the checksum lacks; it ends with bytes_
  Source* source_ = nullptr;
  std::uint64_t offset_ = 0;
  Checksum checksum_;
  bool sums_ = false;
  bool failed_ = false;
};

// Reads bytes of the input at any place. Confined.
class Bytes {
 public:
  virtual ~Bytes() = default;
  // Fills all of `into`. Errors: those of a disk; damaged where the input ends before.
  virtual Result<void> read_at(std::uint64_t offset, std::span<std::byte> into) = 0;
};

class BytesInMemory final : public Bytes {
 public:
  explicit BytesInMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Result<void> read_at(std::uint64_t offset, std::span<std::byte> into) override;

 private:
  std::span<const std::byte> bytes_;
};

// The decimal digits of a string that is a number. Errors: those of `bytes`.
Result<std::string> digits_of(const String& number, Bytes& bytes);

// Unpacks a string from front to back, in fixed memory, whatever its length. Confined.
class StringReader {
 public:
  // `string` is plain or packed.
  StringReader(const String& string, Bytes& bytes);
  // The next bytes of the string, which has so many left. Errors: damaged where they cannot be unpacked, or
  // where packed bytes are left behind the last of them; those of `bytes`.
  Result<void> read(std::span<std::byte> into);

 private:
  // Unpacked bytes, and packed ones. The unpacked ones begin with those that a repetition may mean.
  struct Buffers;
  struct Free {
    void operator()(Buffers* buffers) const;
  };

  Result<void> unpack();
  Result<std::uint8_t> packed_byte();
  Result<void> copy_literal(std::size_t byte_count);
  Result<void> repeat(std::uint8_t first);

  Bytes& bytes_;
  bool packed_;
  std::uint64_t offset_;                    // of the bytes that are not read yet
  std::uint64_t bytes_left_;                // from there on
  std::uint64_t string_left_;               // bytes of the string that read() has not given yet
  std::unique_ptr<Buffers, Free> buffers_;  // only of a packed string
};

}  // namespace sepal::rdb
