#include <sepal/base/assert.hpp>
#include <sepal/filter/frozen.hpp>

#include <algorithm>
#include <utility>

namespace sepal::filter {
namespace {

// Copied at once.
constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;

// Calls step(offset, count) for all bytes of the bitmaps, a piece after the other.
template <class Step>
Result<void> in_pieces(std::uint64_t bitmap_bytes, const GoOn& go_on, const Step& step) {
  for (std::uint64_t done = 0; done < bitmap_bytes;) {
    const std::uint64_t count = std::min(piece_bytes, bitmap_bytes - done);
    step(done, static_cast<std::size_t>(count));
    done += count;
    if (go_on && !go_on(done)) return fail(Errc::io, "given up before the end, as asked");
  }
  return {};
}

}  // namespace

Frozen::Frozen(FilterPtr filter)
    : filter_(std::move(filter)), header_(header_of(*filter_)), layers_(filter_->layers()) {}

std::uint64_t Frozen::image_byte_count() const {
  return image_bytes(header_.layers.size()) + header_.bitmap_bytes();
}

Result<FilterPtr> Frozen::copy(const FilterLimits& limits, const GoOn& go_on) const {
  auto made = Filter::restore(header_.options, header_.layers, limits);
  if (!made) return made;
  const std::uint64_t bitmap_bytes = header_.bitmap_bytes();
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(piece_bytes, bitmap_bytes)));
  const auto copied = in_pieces(bitmap_bytes, go_on, [&](std::uint64_t offset, std::size_t count) {
    const auto some = std::span(piece).first(count);
    copy_bits(layers_, offset, some);
    fill_bits(**made, offset, some);
  });
  if (!copied) return copied.error();
  return made;
}

Result<void> Frozen::image_into(std::span<std::byte> into, const GoOn& go_on) const {
  SEPAL_ASSERT(into.size() == image_byte_count(), "an image of another length");
  const std::size_t header_bytes = image_bytes(header_.layers.size());
  encode(header_, into.first(header_bytes));
  const auto bits = into.subspan(header_bytes);
  return in_pieces(bits.size(), go_on, [&](std::uint64_t offset, std::size_t count) {
    copy_bits(layers_, offset, bits.subspan(static_cast<std::size_t>(offset), count));
  });
}

}  // namespace sepal::filter
