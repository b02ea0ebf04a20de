#include "storage/generation/record_writer.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace sepal::storage {
namespace {

// Reads the body of one value while other threads may change it. Pieces are multiples of 8 bytes.
class BodyStream final : public BitStream {
 public:
  explicit BodyStream(const value::FrozenView& value) : value_(value) {}

  Result<void> read(std::span<std::byte> to) override {
    value::row_of(value_.value).copy_body(value_, offset_, to);
    offset_ += to.size();
    return {};
  }

 private:
  const value::FrozenView& value_;
  std::uint64_t offset_ = 0;
};

}  // namespace

// What stands before a record's body. The head of the value's image is made of the value, or is there.
struct RecordStart {
  std::uint32_t database;
  std::string_view key;
  std::uint64_t journal_position;
  keyspace::Deadline deadline;
  std::uint64_t body_bytes;
  std::size_t image_bytes;
  const value::FrozenView* value;
  std::span<const std::byte> image{};

  [[nodiscard]] std::size_t byte_count() const {
    return sizeof(format::RecordHead) + key.size() + image_bytes;
  }
};

namespace {

RecordStart start_of(const Record& record) {
  const value::KindRow& row = value::row_of(record.value.value);
  return {.database = record.database,
          .key = record.key,
          .journal_position = record.journal_position,
          .deadline = record.deadline,
          .body_bytes = row.body_bytes(record.value),
          .image_bytes = row.head_bytes(record.value),
          .value = &record.value};
}

// Writes head, key and image header, one behind the other.
void fill_head(const RecordStart& head, std::span<std::byte> into) {
  SEPAL_ASSERT(into.size() == head.byte_count(), "the head of a record has another length than its place");
  const std::size_t image_at = sizeof(format::RecordHead) + head.key.size();
  format::RecordHead stored;
  stored.database = head.database;
  stored.key_bytes = static_cast<std::uint32_t>(head.key.size());
  stored.image_bytes = static_cast<std::uint32_t>(into.size() - image_at);
  stored.bitmap_bytes = head.body_bytes;
  stored.journal_position = head.journal_position;
  stored.deadline = static_cast<std::uint64_t>(head.deadline);
  std::memcpy(into.data(), &stored, sizeof stored);
  std::ranges::copy(std::as_bytes(std::span(head.key)), into.begin() + sizeof stored);
  if (head.value != nullptr) {
    value::row_of(head.value->value).encode_head(*head.value, into.subspan(image_at));
  } else {
    std::ranges::copy(head.image, into.begin() + static_cast<std::ptrdiff_t>(image_at));
  }
}

std::span<std::byte> take(std::span<std::byte>& from, std::size_t count) {
  const auto taken = from.first(count);
  from = from.subspan(count);
  return taken;
}

void seal(std::span<const std::byte> contents, std::span<std::byte>& into,
          std::vector<format::U64>& checksums) {
  const format::U64 checksum(Checksum::of(contents));
  std::ranges::copy(format::bytes_of(checksum), take(into, format::checksum_bytes).begin());
  checksums.push_back(checksum);
}

}  // namespace

std::size_t pack_record(const Record& record, std::span<std::byte> into,
                        std::vector<format::U64>& checksums) {
  const std::size_t room = into.size();
  const RecordStart start = start_of(record);
  SEPAL_ASSERT(start.body_bytes <= format::chunk_bytes, "a value of several chunks is packed");
  SEPAL_ASSERT(format::record_bytes(start.key.size(), start.image_bytes, start.body_bytes) <= room,
               "a record is packed into a smaller place");
  const auto head = take(into, start.byte_count());
  fill_head(start, head);
  seal(head, into, checksums);
  if (start.body_bytes != 0) {
    const auto body = take(into, static_cast<std::size_t>(start.body_bytes));
    value::row_of(record.value.value).copy_body(record.value, 0, body);
    // The checksum is that of the copy: the value may have changed since.
    seal(body, into, checksums);
  }
  return room - into.size();
}

Result<void> RecordWriter::write_header(std::uint64_t record_count) {
  format::FilterFileHeader header;
  header.record_count = record_count;
  const auto fields = format::bytes_of(header).first(sizeof header - format::checksum_bytes);
  if (auto done = writer_.append(fields); !done) return done;
  return writer_.append_checksum(Checksum::of(fields));
}

Result<void> RecordWriter::write_record(const Record& record) {
  BodyStream body(record.value);
  return write_whole(start_of(record), body);
}

Result<void> RecordWriter::write_streamed(const StreamedFilter& filter) {
  SEPAL_ASSERT(!filter.head.empty() && filter.bits != nullptr, "a value comes without head or body");
  return write_whole({.database = filter.database,
                      .key = filter.key,
                      // No journal knows the value: the stream comes from outside of the data directory.
                      .journal_position = 0,
                      .deadline = filter.deadline,
                      .body_bytes = filter.body_bytes,
                      .image_bytes = filter.head.size(),
                      .value = nullptr,
                      .image = filter.head},
                     *filter.bits);
}

Result<void> RecordWriter::write_whole(const RecordStart& head, BitStream& bits) {
  const std::uint64_t start = writer_.offset();
  if (auto done = write_head(head); !done) return done;
  if (auto done = write_bits(head.body_bytes, bits); !done) return done;
  const std::uint64_t head_bytes = head.byte_count() + format::checksum_bytes;
  SEPAL_ASSERT(writer_.offset() - start - head_bytes == format::stored_bitmap_bytes(head.body_bytes),
               "a record has another length than its head says");
  return {};
}

Result<void> RecordWriter::write_head(const RecordStart& head) {
  SEPAL_ASSERT(head.database < keyspace::database_count && head.image_bytes != 0,
               "a record of no database, or without the head of an image");
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
