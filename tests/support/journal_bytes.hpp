// Reads the bytes of a journal as docs/formats.md describes them, independently of the product's reader.
// Tests of the writer compare with it. It does not know the record `mirrored`. It ends a segment at the first
// place without a frame.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/storage/format/journal_format.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sepal::test {

struct JournalOperation {
  storage::format::Operation operation{};
  std::uint32_t database = 0;
  std::string key;
  std::string target;
  std::vector<Fingerprint> fingerprints;

  friend bool operator==(const JournalOperation&, const JournalOperation&) = default;
};

struct JournalFrame {
  std::uint64_t position = 0;
  std::uint64_t synced_position = 0;
  bool filler = false;
  bool continues = false;  // the next frame is of the same group
  std::vector<JournalOperation> operations;
};

struct JournalFile {
  std::uint64_t number = 0;
  std::uint64_t first_position = 0;
  std::uint64_t end_position = 0;  // of its last whole frame
  std::vector<JournalFrame> frames;
};

class JournalBytes {
 public:
  explicit JournalBytes(std::span<const std::byte> bytes) : rest_(bytes) {}

  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }
  template <class Structure>
  Structure take() {
    Structure structure;
    std::memcpy(&structure, take_bytes(sizeof structure).data(), sizeof structure);
    return structure;
  }
  std::string take_text(std::size_t length) {
    const auto bytes = take_bytes(length);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::span<const std::byte> take_bytes(std::size_t count) {
    const auto taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> rest_;
};

inline std::vector<JournalOperation> journal_operations(std::span<const std::byte> body) {
  namespace format = storage::format;
  std::vector<JournalOperation> operations;
  JournalBytes bytes(body);
  while (!bytes.rest().empty()) {
    const auto head = bytes.take<format::OperationHead>();
    JournalOperation operation{.operation = static_cast<format::Operation>(head.operation),
                               .database = head.database,
                               .key = bytes.take_text(head.key_bytes),
                               .target = {},
                               .fingerprints = {}};
    if ((head.flags & format::operation_same_key) != 0) operation.key = operations.back().key;
    if (operation.operation == format::Operation::changed ||
        (operation.operation == format::Operation::made && (head.flags & format::operation_same_head) == 0))
      bytes.take_bytes(bytes.take<format::BytesHead>().byte_count);
    for (std::uint32_t i = 0; i < head.count; ++i) {
      const std::uint64_t low = bytes.take<format::U64>();
      operation.fingerprints.push_back({.low = low, .high = bytes.take<format::U64>()});
    }
    if (operation.operation == format::Operation::expires) bytes.take<format::DeadlineShape>();
    if (operation.operation == format::Operation::adopted)
      bytes.take_bytes(bytes.take<format::AdoptedShape>().image_bytes);
    if (operation.operation == format::Operation::moved || operation.operation == format::Operation::swapped)
      bytes.take<format::OtherDatabase>();
    if (operation.operation == format::Operation::renamed)
      operation.target = bytes.take_text(bytes.take<format::TargetHead>().key_bytes);
    operations.push_back(std::move(operation));
  }
  return operations;
}

// The segments in use, oldest first.
inline std::vector<JournalFile> journal_files(const std::map<std::string, std::vector<std::byte>>& files,
                                              const std::string& directory) {
  namespace format = storage::format;
  std::vector<JournalFile> segments;
  for (const auto& [name, contents] : files) {
    if (!name.starts_with(directory + "/")) continue;
    const auto number = format::segment_number(name.substr(directory.size() + 1));
    if (!number || contents.size() < sizeof(format::SegmentHeader)) continue;
    JournalBytes bytes(contents);
    const auto header = bytes.take<format::SegmentHeader>();
    if (header.checksum != format::segment_checksum(header)) continue;
    JournalFile segment{.number = *number,
                        .first_position = header.first_position,
                        .end_position = header.first_position,
                        .frames = {}};
    while (bytes.rest().size() > sizeof(format::FrameHead)) {
      const auto head = bytes.take<format::FrameHead>();
      if (head.body_bytes == 0 || head.body_bytes > bytes.rest().size()) break;
      const bool filler = (head.flags & format::frame_filler) != 0;
      const auto body = bytes.take_bytes(head.body_bytes);
      const std::uint64_t checksum = Checksum::of(filler ? std::span<const std::byte>() : body);
      if (format::frame_checksum(head, segment.end_position, checksum) != head.checksum) break;
      segment.frames.push_back(
          {.position = segment.end_position,
           .synced_position = head.synced_position,
           .filler = filler,
           .continues = (head.flags & format::frame_continues) != 0,
           .operations = filler ? std::vector<JournalOperation>() : journal_operations(body)});
      segment.end_position += format::frame_bytes(head.body_bytes);
      bytes.take_bytes(format::frame_bytes(head.body_bytes) - sizeof head - head.body_bytes);
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

// All operations below `position_max`, in order.
inline std::vector<JournalOperation> operations_of(const std::vector<JournalFile>& segments) {
  std::vector<JournalOperation> all;
  for (const JournalFile& segment : segments)
    for (const JournalFrame& frame : segment.frames)
      all.insert(all.end(), frame.operations.begin(), frame.operations.end());
  return all;
}

}  // namespace sepal::test
