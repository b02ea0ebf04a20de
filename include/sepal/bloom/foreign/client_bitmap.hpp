// Turns a string, in which a client program kept a Bloom filter of its own, into a filter. The bitmap becomes
// the oldest layer (Layout::client): it answers as the program did, and takes no items. New items get into
// Sepal's own layers above it.
//
//     string, as the program wrote it --> layer 0, in Sepal's order of bits
//
//     by_setbit   bit p is bit 7 - p % 8, from the least significant, of byte p / 8, as Redis' SETBIT has it
//     guava       what Guava's BloomFilter.writeTo() wrote: 1 byte strategy (0: guava-32, 1: guava-64),
//                 1 byte positions of an item, 4 bytes number of words, all big-endian; then the words of
//                 8 bytes, big-endian. Bit p is bit p % 64, from the least significant, of word p / 64
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/plan/schemes.hpp>
#include <sepal/value/kind_row.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace sepal::bloom {

enum class BitmapForm : std::uint8_t { by_setbit, guava };

struct ClientBitmap {
  BitmapForm form = BitmapForm::by_setbit;
  ClientBits bits;              // sound; of a string in Guava's form: as bits_of_guava() gives them
  std::uint64_t capacity = 0;   // items of the first layer above the bitmap, at least 1
  double error_rate = 0;        // of the bitmap, as far as anyone knows, and of all layers above it together
  std::uint32_t expansion = 2;  // at least 1
  std::uint64_t seed = 0;       // of the layers above
};

// The string that has the bitmap. Its bytes may change while they are read.
class BitmapString {
 public:
  virtual ~BitmapString() = default;
  [[nodiscard]] virtual std::uint64_t length() const = 0;  // in bytes
  // Copies bytes [offset, offset + to.size()), which lie within the length.
  virtual void read(std::uint64_t offset, std::span<std::byte> to) const = 0;
  // Whether a bit at `position` or behind it is set, as SETBIT counts bits. It may lie behind the end.
  [[nodiscard]] virtual bool has_bit_from(std::uint64_t position) const = 0;
};

// The bits of a string in Guava's form. Errors: damaged (it is not in this form). Shared gate.
Result<ClientBits> bits_of_guava(const BitmapString& string);

// Makes the filter. The string may be changed meanwhile: what was set before the call is in the filter, and
// what is set later may be. If the bitmap has more items than `capacity`, by an estimate, that estimate takes
// its place. Outside the gate. `go_on` hears of the bytes done. Errors: out_of_range (a bit is set that no
// position has, so the program's number of bits is another one), damaged (no bit is set near the end, though
// many are set, so it is another one, too), too_large, out_of_memory, io (given up).
Result<FilterPtr> filter_of_bitmap(const BitmapString& string, const ClientBitmap& bitmap,
                                   const FilterLimits& limits, const value::GoOn& go_on);

}  // namespace sepal::bloom
