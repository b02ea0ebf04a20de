// A string, as Redis has them: bytes that clients read and write by position, and whose bits they set one by
// one. Clients that keep a Bloom filter of their own keep it in such a string. Two ways to keep the bytes:
//
//     short   | header | bytes, in words of 8 ... |      one allocation; a larger string is a copy
//     long    | header |--> StringMemory                 from sparse_bytes_min on: only the pages that
//                                                        were written to take memory; a larger string
//                                                        shares it
//
// A string that grows is replaced by a larger one (decisions/0027). The system bounds how many long strings
// there are (limit_mappings()). Bit 0 is the highest bit of byte 0, as in Redis.
//
// Threads. Members are *guarded* by the gate (base/gate.hpp) in one of two ways, said at each:
//   shared     any number of threads at once, each holding its side of the gate
//   exclusive  the caller has closed the gate, or is the only one to know the string
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/value/add_recorder.hpp>
#include <sepal/value/value.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sepal::strings {

// The longest string, as in Redis: its bits are the 2^32 that have a number.
inline constexpr std::uint64_t string_bytes_max = std::uint64_t{512} << 20;
inline constexpr std::uint64_t string_bits_max = string_bytes_max * 8;

// So many bits may be set in one call.
inline constexpr std::size_t bits_together_max = 64;

// Each long string reserves 512 MiB of addresses, in two mappings. Where the system gives a process no
// further mapping, it gives it no memory at all. So long strings take at most three quarters of the mappings
// that a process may have, and in any case half of the addresses of an x86-64.
inline constexpr std::uint64_t sparse_strings_max = 131'072;

// Begins that limit: `process_max` is how many mappings the system allows the process. From now on a further
// long string is refused with mapping_limit; those that are there stay, and may grow. Several threads that
// make strings at once may pass the limit by one each. Before the call there is no limit, so that a start
// loads whatever was saved. Any thread.
void limit_mappings(std::uint64_t process_max);

// A range of bits, in bits from the first.
struct BitRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // behind the last; not below `begin`
};

class StringMemory;
using StringMemoryPtr = boost::intrusive_ptr<StringMemory>;
class String;
using StringPtr = boost::intrusive_ptr<String>;

// The object stands at the beginning of an allocation; the bytes of a short string follow it.
class String final : public value::Value {
 public:
  static constexpr value::Kind own_kind = value::Kind::string;

  // A string of no bytes, with room for `byte_count` and perhaps some more. Errors: too_large, out_of_memory,
  // mapping_limit.
  static Result<StringPtr> with_room(std::uint64_t byte_count, const value::Limits& limits);
  // A string of these bytes. Errors: as with_room().
  static Result<StringPtr> of(std::string_view bytes, const value::Limits& limits);
  // A string of so many zeros, with just this capacity: an image's. `capacity` is a multiple of 8 from 8 to
  // string_bytes_max, and not below the length. Errors: as with_room().
  static Result<StringPtr> of_shape(std::uint64_t capacity, std::uint64_t length,
                                    const value::Limits& limits);

  ~String();
  String(const String&) = delete;
  String& operator=(const String&) = delete;
  static void operator delete(void* allocated);

  // --- shared ---------------------------------------------------------------------------------------------

  [[nodiscard]] std::uint64_t length() const { return length_.load(std::memory_order_relaxed); }  // in bytes
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }  // in bytes: what write() takes
  [[nodiscard]] std::uint64_t byte_count() const;                     // all memory of this string
  // False beyond the end.
  [[nodiscard]] bool bit(std::uint64_t position) const;
  // Asks for the word of a bit from memory, before a look at it.
  void prefetch(std::uint64_t position) const;
  // Sets a bit, and returns whether it was set. Of several threads that set a clear bit, one gets false.
  // Nothing, with nothing done, if the bit lies beyond the end or in a page without memory: then the string
  // needs write(). `recorder`, if given, is told the position of a bit that was clear, as the low half of a
  // fingerprint.
  [[nodiscard]] std::optional<bool> try_set(std::uint64_t position, value::AddRecorder* recorder);
  // Sets bits, and says for each whether it was set. False, with nothing done, if one of them needs write().
  // At most bits_together_max.
  [[nodiscard]] bool try_set(std::span<const std::uint64_t> positions, std::span<bool> were_set,
                             value::AddRecorder* recorder);
  // Copies bytes [offset, offset + to.size()), which lie within the capacity. Outside the gate as well: then
  // bytes that are written meanwhile may be copied before or after that.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  // The same where offset and length are multiples of 8.
  void read_words(std::uint64_t offset, std::span<std::byte> to) const;
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
  // A string with the same bytes, and room for `byte_count` and for more. A long one shares its memory with
  // this one: what is written to one of them is in both. Errors: as with_room().
  [[nodiscard]] Result<StringPtr> grown(std::uint64_t byte_count, const value::Limits& limits) const;
  // Writes bytes that may lie beyond the capacity. Returns null if they are in this string, else a larger one
  // that has them, and takes this one's place. Bytes between the end and `offset` are zero then. `bytes_max`
  // is what the string may take in addition. Errors: too_large (longer than a string can be), memory_limit,
  // out_of_memory, mapping_limit.
  [[nodiscard]] Result<StringPtr> write_or_grow(std::uint64_t offset, std::span<const std::byte> bytes,
                                                std::uint64_t bytes_max);
  // Sets bits whose positions were recorded. False if one lies beyond the end.
  [[nodiscard]] bool set_recorded(std::span<const Fingerprint> positions);
  // Sets bytes of an image's body, and leaves the length. Offset and length are multiples of 8 within the
  // capacity. Several threads may set different bytes at once, and no other thread knows the string.
  void fill(std::uint64_t offset, std::span<const std::byte> from);

 private:
  String(std::uint64_t capacity, std::uint64_t length, StringMemoryPtr memory);
  static Result<StringPtr> allocate(std::uint64_t capacity, std::uint64_t length, StringMemoryPtr memory);
  [[nodiscard]] std::uint64_t& word_of_byte(std::uint64_t byte) const;
  [[nodiscard]] bool has_memory(std::uint64_t byte) const;
  void copy_words(std::uint64_t offset, std::span<std::byte> to) const;
  template <class Visit>
  void each_word_of(const BitRange& range, const Visit& visit) const;
  void write_part(std::uint64_t offset, std::span<const std::byte> bytes);
  void clear(std::uint64_t begin, std::uint64_t end);

  std::atomic<std::uint32_t> length_;
  const std::uint32_t capacity_;
  std::uint64_t* const words_;    // behind this object, or those of memory_; little-endian
  const StringMemoryPtr memory_;  // null where the string is short
};

}  // namespace sepal::strings
