// read() believes lengths that no checksum has confirmed. If one is wrong, the slice ends at a wrong place.
// That does no harm: decode() finds the wrong checksum at the record with that length, which comes first, and
// finds what any reader finds that goes from record to record.
#include "storage/generation/record_slice.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/format/sealed_reader.hpp"

namespace sepal::storage {

bool RecordSlice::takes(const format::RecordHead& head) {
  if (head.magic != format::RecordHead::expected_magic) return false;
  // Before the sum, which could wrap.
  return head.bitmap_bytes <= record_bytes_max &&
         format::record_bytes(head.key_bytes, head.image_bytes, head.bitmap_bytes) <= record_bytes_max;
}

Result<void> RecordSlice::read(File& file, const Place& place) {
  if (bytes_ == nullptr) bytes_ = std::make_unique_for_overwrite<std::byte[]>(capacity);
  place_ = place;
  byte_count_ = 0;
  record_count_ = 0;
  const auto wanted =
      static_cast<std::size_t>(std::min<std::uint64_t>(capacity, place.file_bytes - place.offset));
  const auto filled = file.read_at(place.offset, {bytes_.get(), wanted});
  if (!filled) return filled.error();
  while (record_count_ < place.record_count_max) {
    const auto end = end_of_record(byte_count_, *filled);
    if (!end) break;
    byte_count_ = *end;
    ++record_count_;
  }
  return {};
}

std::optional<std::size_t> RecordSlice::end_of_record(std::size_t at, std::size_t filled) const {
  format::RecordHead head;
  if (filled - at < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes_.get() + at, sizeof head);
  if (!takes(head)) return std::nullopt;
  const std::uint64_t bytes = format::record_bytes(head.key_bytes, head.image_bytes, head.bitmap_bytes);
  if (bytes > filled - at) return std::nullopt;
  return at + static_cast<std::size_t>(bytes);
}

Result<void> RecordSlice::decode(const value::Limits& limits, Bits bits) {
  values_.clear();
  checksums_.clear();
  item_count_ = 0;
  SealedReader reader({bytes_.get(), byte_count_}, place_.offset, place_.file_bytes, checksums_);
  const ProgressSink no_sink;
  ProgressMeter meter(no_sink, 0);
  RecordReader records(reader, limits, meter, bits);
  for (std::uint64_t record = 0; record < record_count_; ++record) {
    auto loaded = records.read_record();
    if (!loaded) return loaded.error();
    item_count_ += loaded->item_count;
    values_.push_back(std::move(*loaded));
  }
  return {};
}

}  // namespace sepal::storage
