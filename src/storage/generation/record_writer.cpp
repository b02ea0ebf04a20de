#include "storage/generation/record_writer.hpp"

#include <sepal/base/assert.hpp>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace sepal::storage {
namespace {

// Reads the bitmaps of one filter as if they were one, while other threads may add to them. copy_bits() takes
// whole words of 8 bytes. Bitmaps and chunks are multiples of that, so each piece here is one as well, also
// where a chunk goes over the end of a layer.
class BitmapReader final : public BitStream {
 public:
  explicit BitmapReader(const Record& record)
      : layer_(record.layers.data()), end_(layer_ + record.layers.size()) {}

  Result<void> read(std::span<std::byte> to) override {
    while (!to.empty()) {
      SEPAL_ASSERT(layer_ != end_, "more bits are copied than the filter has");
      const std::uint64_t left = layer_->view.plan().byte_count() - offset_;
      const std::size_t count = left < to.size() ? static_cast<std::size_t>(left) : to.size();
      layer_->view.copy_bits(offset_, to.first(count));
      to = to.subspan(count);
      offset_ += count;
      if (offset_ < layer_->view.plan().byte_count()) continue;
      ++layer_;
      offset_ = 0;
    }
    return {};
  }
  [[nodiscard]] bool at_end() const { return layer_ == end_; }

 private:
  const Snapshot::Layer* layer_;
  const Snapshot::Layer* end_;
  std::uint64_t offset_ = 0;
};

}  // namespace

// What stands before a record's bits.
struct RecordWriter::Head {
  std::uint32_t database;
  std::string_view key;
  std::uint64_t journal_position;
  keyspace::Deadline deadline;
  const bloom::ImageHeader& image;

  [[nodiscard]] std::size_t byte_count() const {
    return sizeof(format::RecordHead) + key.size() + bloom::image_bytes(image.layers.size());
  }
};

std::uint64_t bitmap_bytes_of(std::span<const Snapshot::Layer> layers) {
  std::uint64_t bytes = 0;
  for (const Snapshot::Layer& layer : layers) bytes += layer.view.plan().byte_count();
  return bytes;
}

Result<void> RecordWriter::write_header(std::uint64_t record_count) {
  format::FilterFileHeader header;
  header.record_count = record_count;
  const auto fields = format::bytes_of(header).first(sizeof header - format::checksum_bytes);
  if (auto done = writer_.append(fields); !done) return done;
  return writer_.append_checksum(Checksum::of(fields));
}

Result<void> RecordWriter::write_record(const Record& record) {
  // image_ keeps its memory from one record to the next: a pack may have millions of them.
  image_.options = record.options;
  image_.layers.clear();
  for (const Snapshot::Layer& layer : record.layers)
    image_.layers.push_back({.plan = layer.view.plan(), .item_count = layer.item_count});
  BitmapReader bits(record);
  auto done = write_whole({.database = record.database,
                           .key = record.key,
                           .journal_position = record.journal_position,
                           .deadline = record.deadline,
                           .image = image_},
                          bits);
  SEPAL_ASSERT(!done || bits.at_end(), "a record has fewer bits than its filter");
  return done;
}

Result<void> RecordWriter::write_streamed(const StreamedFilter& filter) {
  SEPAL_ASSERT(filter.header != nullptr && filter.bits != nullptr, "a filter comes without header or bits");
  return write_whole({.database = filter.database,
                      .key = filter.key,
                      // No journal knows the filter: the stream comes from outside of the data directory.
                      .journal_position = 0,
                      .deadline = filter.deadline,
                      .image = *filter.header},
                     *filter.bits);
}

Result<void> RecordWriter::write_whole(const Head& head, BitStream& bits) {
  const std::uint64_t start = writer_.offset();
  const std::uint64_t bitmap_bytes = head.image.bitmap_bytes();
  if (auto done = write_head(head); !done) return done;
  if (auto done = write_bits(bitmap_bytes, bits); !done) return done;
  const std::uint64_t head_bytes = head.byte_count() + format::checksum_bytes;
  SEPAL_ASSERT(writer_.offset() - start - head_bytes == format::stored_bitmap_bytes(bitmap_bytes),
               "a record has another length than its head says");
  return {};
}

Result<void> RecordWriter::write_head(const Head& head) {
  SEPAL_ASSERT(head.database < keyspace::database_count && !head.image.layers.empty(),
               "a record of no database, or of a filter without layers");
  if (head.key.size() > std::numeric_limits<std::uint32_t>::max())
    return fail(Errc::too_large, "cannot save a key of " + std::to_string(head.key.size()) + " bytes");
  if (head.byte_count() <= SaveBuffer::capacity) {
    const auto place = writer_.append_place(head.byte_count());
    if (!place) return place.error();
    fill_head(head, *place);
    return writer_.append_checksum(Checksum::of(*place));
  }
  // Such a head does not fit into the buffer: its filter has very many layers. It is made beside the buffer,
  // and goes through it in pieces.
  std::vector<std::byte> bytes(head.byte_count());
  fill_head(head, bytes);
  if (auto done = writer_.append(bytes); !done) return done;
  return writer_.append_checksum(Checksum::of(bytes));
}

// Writes head, key and image header, one behind the other.
void RecordWriter::fill_head(const Head& head, std::span<std::byte> into) {
  SEPAL_ASSERT(into.size() == head.byte_count(), "the head of a record has another length than its place");
  const std::size_t image_at = sizeof(format::RecordHead) + head.key.size();
  format::RecordHead stored;
  stored.database = head.database;
  stored.key_bytes = static_cast<std::uint32_t>(head.key.size());
  stored.image_bytes = static_cast<std::uint32_t>(into.size() - image_at);
  stored.bitmap_bytes = head.image.bitmap_bytes();
  stored.journal_position = head.journal_position;
  stored.deadline = static_cast<std::uint64_t>(head.deadline);
  std::memcpy(into.data(), &stored, sizeof stored);
  std::memcpy(into.data() + sizeof stored, head.key.data(), head.key.size());
  bloom::encode(head.image, into.subspan(image_at));
}

Result<void> RecordWriter::write_bits(std::uint64_t bitmap_bytes, BitStream& bits) {
  for (std::uint64_t done = 0; done < bitmap_bytes;) {
    const std::uint64_t left = bitmap_bytes - done;
    const auto count = left < format::chunk_bytes ? static_cast<std::size_t>(left) : format::chunk_bytes;
    auto place = writer_.append_place(count);
    if (!place) return place.error();
    if (auto read = bits.read(*place); !read) return read;
    // The checksum is that of the copy. The bits in the filter may have changed since they were copied.
    if (auto sealed = writer_.append_checksum(Checksum::of(*place)); !sealed) return sealed;
    if (auto go_on = meter_.add(count); !go_on) return go_on;
    done += count;
  }
  return {};
}

}  // namespace sepal::storage
