// A string, as Redis has them: bytes that clients read and write by position, and whose bits they set one by
// one. Clients that keep a Bloom filter of their own keep it in such a string.
//
// A string is a Filter without a hash (ItemHash::none). Its one layer has the bytes in place of blocks. So it
// is saved, recorded, copied and deleted as a filter is, and no format of its own is needed (decision 0027).
//
// Bit 0 is the highest bit of byte 0, as in Redis.
//
// A string of at least 256 KiB is sparse: only the pages of 4 KiB that were written to take memory. A string
// that grows is replaced by a larger one: a short one is copied, and a long one shares its memory. The system
// bounds how many sparse strings there are (limit_string_mappings() of memory.hpp).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/filter/image.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sepal::bloom {

// The longest string, as in Redis: its bits are the 2^32 that have a number.
inline constexpr std::uint64_t string_bytes_max = std::uint64_t{512} << 20;
inline constexpr std::uint64_t string_bits_max = string_bytes_max * 8;

// So many bits may be set in one call.
inline constexpr std::size_t bits_together_max = 64;

// The image's header of a string of so many bytes, at most string_bytes_max. Its bitmap is filled up with
// zeros to whole words.
[[nodiscard]] ImageHeader string_header(std::uint64_t byte_count);

// A range of bits, in bits from the first.
struct BitRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // behind the last; not below `begin`
};

// The string in a value of that kind. Valid as long as the value. Members are shared or exclusive, as
// those of Filter.
class BitString {
 public:
  // A string of no bytes, with room for `byte_count` and perhaps some more. Errors: too_large, out_of_memory,
  // mapping_limit.
  static Result<value::ValuePtr> with_room(std::uint64_t byte_count, const FilterLimits& limits);
  // A string of these bytes. Errors: too_large, out_of_memory, mapping_limit.
  static Result<value::ValuePtr> of(std::string_view bytes, const FilterLimits& limits);

  explicit BitString(const value::Value& string);

  // --- shared ---------------------------------------------------------------------------------------------

  [[nodiscard]] std::uint64_t length() const;    // in bytes
  [[nodiscard]] std::uint64_t capacity() const;  // in bytes: what write() takes
  // False beyond the end.
  [[nodiscard]] bool bit(std::uint64_t position) const;
  // Asks for the word of a bit from memory, before a look at it.
  void prefetch(std::uint64_t position) const;
  // Sets a bit, and returns whether it was set. Of several threads that set a clear bit, one gets false.
  // Nothing, with nothing done, if the bit lies beyond the end or in a page without memory: then the string
  // needs write(). `recorder`, if given, is told the position of a bit that was clear, as the low half of a
  // fingerprint.
  [[nodiscard]] std::optional<bool> try_set(std::uint64_t position, AddRecorder* recorder);
  // Sets bits, and says for each whether it was set. False, with nothing done, if one of them needs write().
  // At most bits_together_max.
  [[nodiscard]] bool try_set(std::span<const std::uint64_t> positions, std::span<bool> were_set,
                             AddRecorder* recorder);
  // Copies bytes [offset, offset + to.size()), which lie within the string. Outside the gate as well: then
  // bytes that are written meanwhile may be copied before or after that.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  // The same as text; bytes beyond the end are left out.
  [[nodiscard]] std::string text(std::uint64_t offset = 0, std::uint64_t byte_count = string_bytes_max) const;
  // The bits that are set in a range within the string.
  [[nodiscard]] std::uint64_t count(BitRange range) const;
  // The first bit of a range within the string that has this value.
  [[nodiscard]] std::optional<std::uint64_t> find(bool value, BitRange range) const;

  // The memory that write() of these bytes takes in addition.
  [[nodiscard]] std::uint64_t bytes_to_touch(std::uint64_t offset, std::uint64_t byte_count) const;

  // --- exclusive ------------------------------------------------------------------------------------------

  // Writes bytes within the capacity. Bytes between the end and `offset` are zero then.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  // A string with the same bytes, and room for `byte_count` and for more. A large one shares its memory with
  // this one: what is written to one of them is in both. Errors: too_large, out_of_memory, mapping_limit.
  [[nodiscard]] Result<value::ValuePtr> grown(std::uint64_t byte_count, const FilterLimits& limits) const;
  // Writes bytes that may lie beyond the capacity. Returns null if they are in this string, else a larger one
  // that has them, and takes this one's place. Bytes between the end and `offset` are zero then. `bytes_max`
  // is what the string may take in addition. Errors: too_large (longer than a string can be), memory_limit,
  // out_of_memory, mapping_limit.
  [[nodiscard]] Result<value::ValuePtr> write_or_grow(std::uint64_t offset, std::span<const std::byte> bytes,
                                                      std::uint64_t bytes_max);
  // Sets bits whose positions were recorded. False if one lies beyond the end.
  [[nodiscard]] bool set_recorded(std::span<const Fingerprint> positions);

 private:
  [[nodiscard]] std::uint64_t* word_of_byte(std::uint64_t byte) const;
  [[nodiscard]] bool has_memory(std::uint64_t byte) const;
  template <class Visit>
  void each_word_of(const BitRange& range, const Visit& visit) const;
  void write_part(std::uint64_t offset, std::span<const std::byte> bytes);
  void clear(std::uint64_t begin, std::uint64_t end);

  Layer& layer_;
};

}  // namespace sepal::bloom
