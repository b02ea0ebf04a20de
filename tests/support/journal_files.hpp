// A journal as the files that it would leave, written by a test: every frame, sync and segment where the test
// wants it.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/journal_format.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../src/storage/operation_encoder.hpp"
#include "simulated_disk.hpp"

namespace sepal::test {

// Confined.
class JournalFiles final : public keyspace::MutationLog {
 public:
  explicit JournalFiles(std::uint64_t first_position = 0, std::uint64_t segment_bytes = 1 << 16)
      : position_(first_position), segment_bytes_(segment_bytes) {
    begin_segment();
  }

  // What is told from now on is in the frame, until it is ended.
  [[nodiscard]] bool recording() const override { return true; }
  void begin_add() override {}
  void added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override {
    if (!fingerprints.empty()) body_.added(key, fingerprints);
  }
  void created(keyspace::DatabaseKey key, const filter::FilterOptions& options,
               const filter::LayerPlan& first_layer) override {
    body_.created(key, options, first_layer);
  }
  void grown(keyspace::DatabaseKey key, const filter::LayerPlan& layer) override { body_.grown(key, layer); }
  void removed(keyspace::DatabaseKey key) override { body_.removed(key); }
  void expires(keyspace::DatabaseKey key, keyspace::Deadline deadline) override {
    body_.expires(key, deadline);
  }
  void renamed(std::uint32_t database, std::string_view from, std::string_view to) override {
    body_.renamed(database, from, to);
  }
  void adopted(keyspace::DatabaseKey key, const keyspace::AdoptedFilter& filter) override {
    if (filter.file.number != 0) end_frame();
    body_.adopted(key, filter);
  }
  void mirrored(const keyspace::Mirror& mirror) override { body_.mirrored(mirror); }
  void flushed(std::uint32_t database) override { body_.flushed(database); }
  void moved(keyspace::DatabaseKey from, std::uint32_t to_database) override {
    body_.moved(from, to_database);
  }
  void swapped(std::uint32_t database, std::uint32_t other) override { body_.swapped(database, other); }
  void flushed_all() override { body_.flushed_all(); }
  void resumed() { body_.resumed(); }

  // Frames of nothing are none. A frame that does not fit begins a segment.
  void end_frame() {
    if (body_.empty()) return;
    put_frame(0, static_cast<std::uint32_t>(body_.bytes().size()), body_.bytes());
    body_.clear();
  }
  // Any bytes as operations.
  void frame_of(std::span<const std::byte> body) {
    put_frame(0, static_cast<std::uint32_t>(body.size()), body);
  }
  void filler(std::uint32_t body_bytes) { put_frame(storage::format::frame_filler, body_bytes, {}); }
  // What frames say from now on.
  void sync() { synced_position_ = position_; }

  void begin_segment() {
    storage::format::SegmentHeader header;
    header.segment_number = ++number_;
    header.first_position = position_;
    header.segment_bytes = segment_bytes_;
    header.checksum = storage::format::segment_checksum(header);
    Bytes file(static_cast<std::size_t>(segment_bytes_));
    std::memcpy(file.data(), &header, sizeof header);
    newest_ = storage::format::segment_name(number_);
    files_[newest_] = std::move(file);
    used_ = sizeof header;
  }
  // One that was never used.
  void prepare_segment() {
    files_[storage::format::segment_name(++number_)] = Bytes(static_cast<std::size_t>(segment_bytes_));
  }

  // Of the next frame.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  // Of the newest segment: how much of it has something.
  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] const std::string& newest_name() const { return newest_; }
  [[nodiscard]] std::map<std::string, Bytes>& files() { return files_; }

  void put(SimulatedDisk& disk, const storage::Path& directory) const {
    for (const auto& [name, contents] : files_) disk.put(directory / name, contents);
  }

 private:
  void put_frame(std::uint32_t flags, std::uint32_t body_bytes, std::span<const std::byte> body) {
    const auto length = static_cast<std::size_t>(storage::format::frame_bytes(body_bytes));
    if (length > segment_bytes_ - used_) begin_segment();
    storage::format::FrameHead head;
    head.body_bytes = body_bytes;
    head.flags = flags;
    head.synced_position = synced_position_;
    head.checksum = storage::format::frame_checksum(head, position_, Checksum::of(body));
    Bytes& file = files_.at(newest_);
    std::memcpy(file.data() + used_, &head, sizeof head);
    std::ranges::copy(body, file.begin() + static_cast<std::ptrdiff_t>(used_ + sizeof head));
    used_ += length;
    position_ += length;
  }

  std::map<std::string, Bytes> files_;
  storage::OperationEncoder body_;
  std::uint64_t position_;
  std::uint64_t segment_bytes_;
  std::uint64_t synced_position_ = 0;
  std::uint64_t number_ = 0;
  std::string newest_;
  std::size_t used_ = 0;
};

// Puts the right checksums into a segment, as far as its lengths make sense; its number is that of its name.
inline void reseal_segment(const std::string& path, Bytes& file) {
  namespace format = storage::format;
  const auto number = format::segment_number(path);
  format::SegmentHeader header;
  if (!number || file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  if (header.magic != format::SegmentHeader::expected_magic) return;
  header.segment_number = *number;
  header.checksum = format::segment_checksum(header);
  std::memcpy(file.data(), &header, sizeof header);
  format::FrameHead head;
  for (std::size_t at = sizeof header; file.size() - at >= sizeof head;) {
    std::memcpy(&head, file.data() + at, sizeof head);
    const std::uint64_t length = format::frame_bytes(head.body_bytes);
    if (head.body_bytes == 0 || length > file.size() - at) return;
    const std::size_t covered = head.flags == format::frame_filler ? 0 : std::size_t{head.body_bytes};
    const auto body = std::span<const std::byte>(file).subspan(at + sizeof head, covered);
    head.checksum =
        format::frame_checksum(head, header.first_position + at - sizeof header, Checksum::of(body));
    std::memcpy(file.data() + at, &head, sizeof head);
    at += static_cast<std::size_t>(length);
  }
}

}  // namespace sepal::test
