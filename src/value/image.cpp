#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <utility>

namespace sepal::value {
namespace {

// So much is copied at once.
constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;

// Calls step(offset, count) for all bytes of a body, piece after piece.
template <class Step>
Result<void> in_pieces(std::uint64_t body_bytes, std::uint64_t piece_bytes_max, const GoOn& go_on,
                       const Step& step) {
  SEPAL_ASSERT(piece_bytes_max > 0, "pieces of no bytes would never end");
  for (std::uint64_t done = 0; done < body_bytes;) {
    const std::uint64_t count = std::min(piece_bytes_max, body_bytes - done);
    step(done, static_cast<std::size_t>(count));
    done += count;
    if (go_on && !go_on(done)) return fail(Errc::io, "given up before the end, as asked");
  }
  return {};
}

std::span<std::byte> bytes_of(std::string& piece) {
  return std::as_writable_bytes(std::span(piece));
}

Result<ValuePtr> completed(Result<ValuePtr> made) {
  if (!made) return made;
  const auto complete = row_of(**made).complete;
  if (complete == nullptr) return made;
  const auto right = complete(**made);
  return right ? std::move(made) : right.error();
}

}  // namespace

Frozen::Frozen(ValuePtr value)
    : value_(std::move(value)), still_(row_of(*value_).freeze(*value_, numbers_)) {}

std::vector<std::byte> Frozen::head() const {
  const KindRow& row = row_of(*value_);
  std::vector<std::byte> head(row.head_bytes(view()));
  row.encode_head(view(), head);
  return head;
}

Result<ValuePtr> Frozen::copy(const Limits& limits, const GoOn& go_on) const {
  const KindRow& row = row_of(*value_);
  auto made = row.make(head(), limits, FilledBy::load);
  if (!made) return made;
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(piece_bytes, body_bytes())));
  const auto copied =
      in_pieces(body_bytes(), piece_bytes, go_on, [&](std::uint64_t offset, std::size_t count) {
        const auto some = std::span(piece).first(count);
        row.copy_body(view(), offset, some);
        // Where no bit is set, the copy is zeros already, and its pages take no memory until they are
        // touched.
        if (!all_zero(some)) row.fill_body(**made, offset, some);
      });
  if (!copied) return copied.error();
  return completed(std::move(made));
}

Result<void> write_image(const FrozenView& value, const std::function<void(std::string piece)>& take,
                         const GoOn& go_on) {
  const KindRow& row = row_of(value.value);
  std::string head(row.head_bytes(value), '\0');
  row.encode_head(value, bytes_of(head));
  take(std::move(head));
  const std::uint64_t body_bytes = row.body_bytes(value);
  return in_pieces(body_bytes, mapped_allocation_min, go_on, [&](std::uint64_t offset, std::size_t count) {
    std::string piece(count, '\0');
    row.copy_body(value, offset, bytes_of(piece));
    take(std::move(piece));
  });
}

std::vector<std::byte> image_of(const Value& value) {
  const KindRow& row = row_of(value);
  std::vector<std::uint64_t> numbers;
  const auto still = row.freeze(value, numbers);
  const FrozenView view{.value = value, .numbers = numbers, .still = still.get()};
  const std::size_t head_bytes = row.head_bytes(view);
  std::vector<std::byte> image(head_bytes + static_cast<std::size_t>(row.body_bytes(view)));
  row.encode_head(view, std::span(image).first(head_bytes));
  row.copy_body(view, 0, std::span(image).subspan(head_bytes));
  return image;
}

std::uint64_t image_bytes(const Value& value) {
  const KindRow& row = row_of(value);
  std::vector<std::uint64_t> numbers;
  const auto still = row.freeze(value, numbers);
  const FrozenView view{.value = value, .numbers = numbers, .still = still.get()};
  return row.head_bytes(view) + row.body_bytes(view);
}

Result<ValuePtr> value_of(std::span<const std::byte> image, const Limits& limits) {
  const KindRow* const row = row_of_image(image);
  if (row == nullptr) return fail(Errc::damaged, "this is the image of no value");
  const auto shape = row->read_head(image, limits.layers_max);
  if (!shape) return shape.error();
  const auto body = image.subspan(shape->head_bytes);
  if (body.size() != shape->body_bytes)
    return fail(Errc::damaged, "an image's body is not as long as its head says");
  auto made = row->make(image.first(shape->head_bytes), limits, FilledBy::load);
  if (!made) return made;
  row->fill_body(**made, 0, body);
  return completed(std::move(made));
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace sepal::value
