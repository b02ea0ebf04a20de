#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/bloom/filter/frozen.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace sepal::bloom {
namespace {

// So much is copied at once.
constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;

// Calls step(offset, count) for all bytes of the bitmaps, piece after piece.
template <class Step>
Result<void> in_pieces(std::uint64_t bitmap_bytes, std::uint64_t piece_bytes_max, const GoOn& go_on,
                       const Step& step) {
  SEPAL_ASSERT(piece_bytes_max > 0, "pieces of no bytes would never end");
  for (std::uint64_t done = 0; done < bitmap_bytes;) {
    const std::uint64_t count = std::min(piece_bytes_max, bitmap_bytes - done);
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
  const auto copied =
      in_pieces(bitmap_bytes, piece_bytes, go_on, [&](std::uint64_t offset, std::size_t count) {
        const auto some = std::span(piece).first(count);
        copy_bits(layers_, offset, some);
        // Where no bit is set, the copy is zeros already, and its pages take no memory until they are
        // touched.
        if (!all_zero(some)) fill_bits(**made, offset, some);
      });
  if (!copied) return copied.error();
  return made;
}

Result<void> Frozen::image(const std::function<void(std::string piece)>& take, const GoOn& go_on) const {
  const auto bytes_of = [](std::string& piece) { return std::as_writable_bytes(std::span(piece)); };
  std::string header(image_bytes(header_.layers.size()), '\0');
  encode(header_, bytes_of(header));
  take(std::move(header));
  return in_pieces(header_.bitmap_bytes(), mapped_allocation_min, go_on,
                   [&](std::uint64_t offset, std::size_t count) {
                     std::string piece(count, '\0');
                     copy_bits(layers_, offset, bytes_of(piece));
                     take(std::move(piece));
                   });
}

}  // namespace sepal::bloom
