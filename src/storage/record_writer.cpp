#include "record_writer.hpp"

#include <sepal/base/assert.hpp>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace sepal::storage {
namespace {

// Reads the bitmaps of one filter as if they were one.
class BitmapReader {
 public:
  explicit BitmapReader(const Record& record)
      : layer_(record.layers.data()), end_(layer_ + record.layers.size()) {}

  // Fills `to`; the caller asks for no more bytes than are left.
  void copy_next(std::span<std::byte> to) {
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
  }

 private:
  const Snapshot::Layer* layer_;
  const Snapshot::Layer* end_;
  std::uint64_t offset_ = 0;
};

std::size_t head_bytes(const Record& record) {
  return sizeof(format::RecordHead) + record.key.size() + filter::image_bytes(record.layers.size());
}

}  // namespace

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
  SEPAL_ASSERT(record.database < keyspace::database_count && !record.layers.empty(),
               "a record of no database, or of a filter without layers");
  if (record.key.size() > std::numeric_limits<std::uint32_t>::max())
    return fail(Errc::too_large, "cannot save a key of " + std::to_string(record.key.size()) + " bytes");
  if (head_bytes(record) > SaveBuffer::capacity) {
    if (auto done = write_long_head(record); !done) return done;
    return write_bits(record);
  }
  const auto place = writer_.append_place(head_bytes(record));
  if (!place) return place.error();
  fill_head(record, *place);
  if (auto done = writer_.append_checksum(Checksum::of(*place)); !done) return done;
  return write_bits(record);
}

// For a key that does not fit into the buffer.
Result<void> RecordWriter::write_long_head(const Record& record) {
  std::vector<std::byte> head(head_bytes(record));
  fill_head(record, head);
  if (auto done = writer_.append(head); !done) return done;
  return writer_.append_checksum(Checksum::of(head));
}

// Writes head, key and image header, one behind the other.
void RecordWriter::fill_head(const Record& record, std::span<std::byte> into) {
  SEPAL_ASSERT(into.size() == head_bytes(record), "the head of a record has another length than its place");
  const std::size_t image_at = sizeof(format::RecordHead) + record.key.size();
  format::RecordHead head;
  head.database = record.database;
  head.key_bytes = static_cast<std::uint32_t>(record.key.size());
  head.image_bytes = static_cast<std::uint32_t>(into.size() - image_at);
  head.bitmap_bytes = bitmap_bytes_of(record.layers);
  head.journal_position = record.journal_position;
  head.deadline = static_cast<std::uint64_t>(record.deadline);
  std::memcpy(into.data(), &head, sizeof head);
  std::memcpy(into.data() + sizeof head, record.key.data(), record.key.size());
  image_.options = record.options;
  image_.layers.clear();
  for (const Snapshot::Layer& layer : record.layers)
    image_.layers.push_back({.plan = layer.view.plan(), .item_count = layer.item_count});
  filter::encode(image_, into.subspan(image_at));
}

Result<void> RecordWriter::write_bits(const Record& record) {
  BitmapReader bits(record);
  const std::uint64_t bitmap_bytes = bitmap_bytes_of(record.layers);
  for (std::uint64_t done = 0; done < bitmap_bytes;) {
    const std::uint64_t left = bitmap_bytes - done;
    const auto count = left < format::chunk_bytes ? static_cast<std::size_t>(left) : format::chunk_bytes;
    auto place = writer_.append_place(count);
    if (!place) return place.error();
    bits.copy_next(*place);
    if (auto sealed = writer_.append_checksum(Checksum::of(*place)); !sealed) return sealed;
    if (auto go_on = meter_.add(count); !go_on) return go_on;
    done += count;
  }
  return {};
}

}  // namespace sepal::storage
