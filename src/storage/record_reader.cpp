#include "record_reader.hpp"

#include <sepal/base/checked.hpp>

#include <cstring>
#include <optional>
#include <utility>

#include "damage.hpp"

namespace sepal::storage {
namespace {

// Nothing when the sizes of the layers have no sum that can be represented.
std::optional<std::uint64_t> bitmap_bytes_of(const filter::ImageHeader& image) {
  std::optional<std::uint64_t> total = 0;
  for (const auto& layer : image.layers) {
    const auto bits = checked_multiply(layer.plan.block_count, layer.plan.block_bits);
    if (bits && total) total = checked_add(*total, *bits / 8);
    if (!bits || !total) return std::nullopt;
  }
  return total;
}

Error refused(std::uint64_t start, const Error& error, const std::string& what) {
  return fail(error.code, "has a filter at offset " + std::to_string(start) + " that " + what);
}

// Deals the bytes of a filter's bitmaps out to its layers, in order.
class BitmapFiller {
 public:
  BitmapFiller(filter::Filter& filter, const filter::ImageHeader& image) : filter_(filter), image_(image) {}

  void fill_next(std::span<const std::byte> from) {
    while (!from.empty()) {
      const std::uint64_t left = image_.layers[layer_].plan.byte_count() - offset_;
      const std::size_t count = left < from.size() ? static_cast<std::size_t>(left) : from.size();
      filter_.fill_bits(layer_, offset_, from.first(count));
      from = from.subspan(count);
      offset_ += count;
      if (offset_ < image_.layers[layer_].plan.byte_count()) continue;
      ++layer_;
      offset_ = 0;
    }
  }

 private:
  filter::Filter& filter_;
  const filter::ImageHeader& image_;
  std::uint32_t layer_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace

Result<std::uint64_t> RecordReader::read_header() {
  const auto header = reader_.take_structure<format::FilterFileHeader>();
  if (!header) return header.error();
  if (header->magic != format::FilterFileHeader::expected_magic)
    return damaged_at(0, "it does not begin as a file of filters does");
  if (!format::is_known(header->version) || header->flags != 0)
    return unsupported(header->version, format::version);
  const auto fields = format::bytes_of(*header).first(sizeof *header - format::checksum_bytes);
  if (auto right = reader_.accept(header->checksum, Checksum::of(fields), 0, "the header"); !right)
    return right.error();
  if (auto go_on = meter_.add(sizeof *header); !go_on) return go_on.error();
  version_ = header->version;
  return std::uint64_t{header->record_count};
}

Result<LoadedFilter> RecordReader::read_record() {
  const std::uint64_t start = reader_.offset();
  auto head = read_head();
  if (!head) return head.error();
  if (auto go_on = meter_.add(reader_.offset() - start); !go_on) return go_on.error();
  auto filter = make_filter(start, *head);
  if (!filter) return filter.error();
  if (auto filled = read_bits(**filter, *head); !filled) return filled.error();
  return LoadedFilter{.database = head->database,
                      .key = std::move(head->key),
                      .filter = std::move(*filter),
                      .journal_position = head->journal_position,
                      .offset = start};
}

Result<format::RecordHead> RecordReader::take_fixed_head() {
  const auto bytes = reader_.take(format::head_bytes<format::RecordHead>(version_));
  if (!bytes) return bytes.error();
  format::RecordHead head;
  std::memcpy(&head, bytes->data(), bytes->size());
  return head;
}

Result<RecordReader::Head> RecordReader::read_head() {
  const std::uint64_t start = reader_.offset();
  const auto fixed = take_fixed_head();
  if (!fixed) return fixed.error();
  if (fixed->magic != format::RecordHead::expected_magic) return damaged_at(start, "no record begins here");
  if (auto fits = check_lengths(start, fixed->key_bytes, fixed->image_bytes, fixed->bitmap_bytes); !fits)
    return fits.error();
  Head head{.database = fixed->database,
            .key = {},
            .bitmap_bytes = fixed->bitmap_bytes,
            .journal_position = fixed->journal_position,
            .image = {}};
  auto key = reader_.take_text(fixed->key_bytes);
  if (!key) return key.error();
  head.key = std::move(*key);
  const auto image_bytes = reader_.take_text(fixed->image_bytes);
  if (!image_bytes) return image_bytes.error();
  Checksum checksum;
  checksum.update(format::bytes_of(*fixed).first(format::head_bytes<format::RecordHead>(version_)));
  checksum.update(format::bytes_of(std::string_view(head.key)));
  checksum.update(format::bytes_of(std::string_view(*image_bytes)));
  if (auto right = reader_.take_checksum(checksum.value(), start, "a record's head"); !right)
    return right.error();
  if (head.database >= keyspace::database_count) return damaged_at(start, "there is no such database");
  auto image = decode_image(start, format::bytes_of(std::string_view(*image_bytes)));
  if (!image) return image.error();
  head.image = std::move(*image);
  return head;
}

Result<void> RecordReader::check_lengths(std::uint64_t start, std::uint64_t key_bytes,
                                         std::uint64_t image_bytes, std::uint64_t bitmap_bytes) const {
  // Key and image header are 32-bit lengths, so that their sum fits.
  if (key_bytes + image_bytes > reader_.remaining())
    return damaged_at(start, "a record's key or image header is longer than the file");
  const auto stored = format::stored_bitmap_bytes(bitmap_bytes);
  if (!stored || *stored > reader_.remaining() - key_bytes - image_bytes)
    return damaged_at(start, "a record's bitmap is longer than the file");
  return {};
}

Result<filter::ImageHeader> RecordReader::decode_image(std::uint64_t start,
                                                       std::span<const std::byte> bytes) const {
  const std::uint64_t layers_bytes_max = std::uint64_t{limits_.layers_max} * filter::image_layer_bytes;
  if (bytes.size() > filter::image_header_bytes &&
      bytes.size() - filter::image_header_bytes > layers_bytes_max)
    return fail(Errc::too_large, "has a filter at offset " + std::to_string(start) + " with more than " +
                                     std::to_string(limits_.layers_max) +
                                     " layers, the limit; raise layers_max");
  auto image = filter::decode_image_header(bytes, limits_.layers_max);
  if (!image && image.error().code == Errc::unsupported_version)
    return refused(start, image.error(), "is of an unknown version");
  if (!image) return damaged_at(start, "an image header contradicts itself");
  if (bytes.size() != filter::image_header_bytes + image->layers.size() * filter::image_layer_bytes)
    return damaged_at(start, "something stands behind an image header");
  return image;
}

Result<keyspace::FilterPtr> RecordReader::make_filter(std::uint64_t start, const Head& head) const {
  // The file holds these bytes, check_lengths has seen to it: a lie about a filter's size allocates nothing.
  if (bitmap_bytes_of(head.image) != head.bitmap_bytes)
    return damaged_at(start, "a bitmap is not as long as its layers");
  if (head.bitmap_bytes > limits_.bytes_max)
    return fail(Errc::too_large, "has a filter at offset " + std::to_string(start) + " of " +
                                     std::to_string(head.bitmap_bytes) + " bytes, more than the limit of " +
                                     std::to_string(limits_.bytes_max) + "; raise maxmemory");
  auto filter = filter::Filter::restore(head.image.options, head.image.layers, limits_);
  if (filter) return filter;
  if (filter.error().code == Errc::out_of_range) return damaged_at(start, "a filter's layers contradict it");
  if (filter.error().code == Errc::out_of_memory)
    return refused(start, filter.error(), "the system has no memory for");
  return refused(start, filter.error(), "exceeds the memory limit; raise maxmemory");
}

Result<void> RecordReader::read_bits(filter::Filter& filter, const Head& head) {
  BitmapFiller bits(filter, head.image);
  for (std::uint64_t done = 0; done < head.bitmap_bytes;) {
    const std::uint64_t left = head.bitmap_bytes - done;
    const auto count = left < format::chunk_bytes ? static_cast<std::size_t>(left) : format::chunk_bytes;
    const auto chunk = reader_.take_sealed(count, "a bitmap");
    if (!chunk) return chunk.error();
    bits.fill_next(*chunk);
    if (auto go_on = meter_.add(count + format::checksum_bytes); !go_on) return go_on;
    done += count;
  }
  return {};
}

}  // namespace sepal::storage
