#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/bloom/foreign/client_bitmap.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "bloom/plan/probe.hpp"

namespace sepal::bloom {
namespace {

constexpr std::uint64_t bitmap_word_bytes = word_bits / 8;
constexpr std::uint64_t guava_head_bytes = 6;
// So much is read at once.
constexpr std::uint64_t bitmap_piece_bytes = std::uint64_t{1} << 20;
// A bitmap with the right number of bits ends as early as this one with less than this probability.
constexpr double unlikely_end = 1e-15;

std::uint64_t words_of(std::uint64_t bit_count) {
  return (bit_count + word_bits - 1) / word_bits;
}

// The bits of each byte in the opposite order.
std::uint64_t bits_reversed(std::uint64_t word) {
  word = ((word >> 1) & 0x5555555555555555) | ((word & 0x5555555555555555) << 1);
  word = ((word >> 2) & 0x3333333333333333) | ((word & 0x3333333333333333) << 2);
  return ((word >> 4) & 0x0f0f0f0f0f0f0f0f) | ((word & 0x0f0f0f0f0f0f0f0f) << 4);
}

// The bytes of the word in the opposite order.
std::uint64_t bytes_reversed(std::uint64_t word) {
  std::uint64_t reversed = 0;
  for (std::uint64_t byte = 0; byte < bitmap_word_bytes; ++byte)
    reversed |= ((word >> (8 * byte)) & 0xff) << (8 * (bitmap_word_bytes - 1 - byte));
  return reversed;
}

// Reads a string as the words of a layer.
class BitmapReader {
 public:
  BitmapReader(const BitmapString& string, const ClientBitmap& bitmap)
      : string_(string),
        form_(bitmap.form),
        bit_count_(bitmap.bits.bit_count),
        head_bytes_(bitmap.form == BitmapForm::guava ? guava_head_bytes : 0),
        length_(string_.length()) {}

  [[nodiscard]] std::uint64_t byte_count() const { return words_of(bit_count_) * bitmap_word_bytes; }

  // Calls use(offset, words) for all words of the layer, a piece at a time. `offset` is in bytes. Errors: io.
  template <class Use>
  Result<void> each_piece(std::uint64_t bytes_before, const value::GoOn& go_on, const Use& use) {
    std::vector<std::byte> bytes(std::min(bitmap_piece_bytes, byte_count()));
    for (std::uint64_t offset = 0; offset < byte_count(); offset += bytes.size()) {
      bytes.resize(std::min<std::uint64_t>(bytes.size(), byte_count() - offset));
      read(offset, bytes);
      use(offset, std::span<const std::byte>(bytes));
      if (go_on && !go_on(bytes_before + offset + bytes.size()))
        return fail(Errc::io, "given up before the end, as asked");
    }
    return {};
  }

 private:
  void read(std::uint64_t offset, std::span<std::byte> bytes) const {
    const std::uint64_t from = head_bytes_ + offset;
    // A string by SETBIT ends with the last byte that a client wrote. The bitmap goes on with zeros.
    const std::uint64_t there = std::min<std::uint64_t>(from < length_ ? length_ - from : 0, bytes.size());
    if (there > 0) string_.read(from, bytes.first(there));
    std::ranges::fill(bytes.subspan(there), std::byte{0});
    // SETBIT counts bits from the highest of each byte; Guava writes the highest byte of a word first.
    for (std::uint64_t at = 0; at < bytes.size(); at += bitmap_word_bytes) {
      const auto word = load_little_endian<std::uint64_t>(bytes.data() + at);
      store_little_endian(bytes.data() + at,
                          form_ == BitmapForm::guava ? bytes_reversed(word) : bits_reversed(word));
    }
    if (offset + bytes.size() == byte_count()) leave_unused_out(bytes);
  }

  // A client may set a bit behind the last position after goes_beyond() has looked. The
  // estimates from the layer's bits rely on its unused bits being clear.
  void leave_unused_out(std::span<std::byte> bytes) const {
    std::byte* const last = bytes.data() + bytes.size() - bitmap_word_bytes;
    const std::uint64_t unused = words_of(bit_count_) * word_bits - bit_count_;
    store_little_endian(last, load_little_endian<std::uint64_t>(last) & (~std::uint64_t{0} >> unused));
  }

  const BitmapString& string_;
  BitmapForm form_;
  std::uint64_t bit_count_;
  std::uint64_t head_bytes_;
  std::uint64_t length_;
};

struct Measured {
  std::uint64_t bits_set = 0;
  std::uint64_t end = 0;  // behind the last bit that is set
};

Result<Measured> measure(BitmapReader& reader, const value::GoOn& go_on) {
  Measured measured;
  const auto measured_all =
      reader.each_piece(0, go_on, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
        for (std::uint64_t at = 0; at < bytes.size(); at += bitmap_word_bytes) {
          const auto word = load_little_endian<std::uint64_t>(bytes.data() + at);
          if (word == 0) continue;
          measured.bits_set += static_cast<std::uint64_t>(std::popcount(word));
          measured.end = (offset + at) * 8 + static_cast<std::uint64_t>(std::bit_width(word));
        }
      });
  if (!measured_all) return measured_all.error();
  return measured;
}

// With m bits of which a share f is set, the last g bits are clear with the probability (1 - f)^g.
bool ends_too_early(const ClientBits& bits, const Measured& measured) {
  const std::uint64_t reach = reach_of(bits);
  if (measured.end >= reach) return false;
  const double share = std::min(1.0, static_cast<double>(measured.bits_set) / static_cast<double>(reach));
  return static_cast<double>(reach - measured.end) * std::log1p(-share) < std::log(unlikely_end);
}

Filter::LayerState layer_of(const ClientBitmap& bitmap, const Measured& measured) {
  const std::uint64_t items = items_of(bitmap.bits, measured.bits_set);
  const std::uint64_t words = words_of(bitmap.bits.bit_count);
  return {.plan = {.capacity = std::max(bitmap.capacity, items),
                   .error_rate = bitmap.error_rate,
                   .block_count = words,
                   .block_bits = word_bits,
                   .probe_count = bitmap.bits.probe_count,
                   .layout = Layout::client,
                   .scheme = bitmap.bits.scheme,
                   .unused_bits = static_cast<std::uint8_t>(words * word_bits - bitmap.bits.bit_count),
                   .first_seed = bitmap.bits.first_seed},
          .item_count = items};
}

}  // namespace

Result<ClientBits> bits_of_guava(const BitmapString& string) {
  if (string.length() < guava_head_bytes) return damaged("the string is too short for Guava's form");
  std::array<std::byte, guava_head_bytes> head{};
  string.read(0, head);
  const auto byte = [&](std::size_t at) { return std::to_integer<std::uint64_t>(head[at]); };
  const std::uint64_t words = byte(2) << 24 | byte(3) << 16 | byte(4) << 8 | byte(5);
  const ClientBits bits{.scheme = byte(0) == 0 ? Scheme::guava_32 : Scheme::guava_64,
                        .bit_count = words * word_bits,
                        .probe_count = static_cast<std::uint32_t>(byte(1)),
                        .first_seed = 0};
  // A string of another kind seldom has a length that its own bytes 2 to 5 name.
  if (byte(0) > 1 || !is_sound(bits) || string.length() != guava_head_bytes + words * bitmap_word_bytes)
    return damaged("the string is not in Guava's form");
  return bits;
}

Result<FilterPtr> filter_of_bitmap(const BitmapString& string, const ClientBitmap& bitmap,
                                   const FilterLimits& limits, const value::GoOn& go_on) {
  SEPAL_ASSERT(is_sound(bitmap.bits), "a bitmap has a shape that no scheme has");
  BitmapReader reader(string, bitmap);
  if (bitmap.form == BitmapForm::by_setbit && string.has_bit_from(bitmap.bits.bit_count))
    return fail(Errc::out_of_range, "a bit is set behind the last position");
  // Two passes: the shape of the layer follows from the bits that are set, and only then is there a place to
  // copy them to. Bits that clients set in between are copied and not counted; the count is an estimate
  // anyway (decisions/0030).
  const auto measured = measure(reader, go_on);
  if (!measured) return measured.error();
  // Guava's form says its number of bits itself, so it cannot be a wrong one.
  if (bitmap.form == BitmapForm::by_setbit && ends_too_early(bitmap.bits, *measured))
    return damaged("no bit is set near the end of the bitmap");
  const Filter::LayerState layer = layer_of(bitmap, *measured);
  auto made = Filter::restore({.error_rate = bitmap.error_rate,
                               .capacity = layer.plan.capacity,
                               .expansion = bitmap.expansion,
                               .seed = bitmap.seed,
                               .hash = ItemHash::xxh3_above_bitmap},
                              {&layer, 1}, limits);
  if (!made) return made;
  const auto filled = reader.each_piece(
      reader.byte_count(), go_on,
      [&](std::uint64_t offset, std::span<const std::byte> bytes) { (*made)->fill_bits(0, offset, bytes); });
  if (!filled) return filled.error();
  return made;
}

}  // namespace sepal::bloom
