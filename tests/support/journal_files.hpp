// The files of a journal, written by a test: it decides where each frame, sync and segment is.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/format/lineage.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>

#include "catch.hpp"
#include "simulated_disk.hpp"
#include "storage/format/operation_encoder.hpp"
#include "storage/format/synced_file.hpp"
#include "telling.hpp"

namespace sepal::test {

// What a test tells an encoder. Confined.
class TellingEncoder final : public storage::OperationEncoder, public Telling<TellingEncoder> {};

// Confined.
class JournalFiles final : public keyspace::MutationLog, public Telling<JournalFiles> {
 public:
  // The first segment has the number behind `number`.
  explicit JournalFiles(std::uint64_t first_position = 0, std::uint64_t segment_bytes = 1 << 16,
                        std::uint64_t number = 0, const storage::Lineage& lineage = {})
      : position_(first_position), segment_bytes_(segment_bytes), number_(number), lineage_(lineage) {
    begin_segment();
  }

  // Operations go into the frame until end_frame().
  [[nodiscard]] bool recording() const override { return true; }
  void begin_add() override {}
  void added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override {
    if (!fingerprints.empty()) body_.added(key, fingerprints);
  }
  void added_some(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override {
    added(key, fingerprints);
  }
  void wait_for_adds() override {}
  void gather(const keyspace::Mutation& change) override { record(change); }
  void gathered_all(const value::Value&) override {}
  void append() override { end_frame(); }
  void append_others() override {}
  void gather_added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override {
    begin_add();
    added(key, fingerprints);
  }
  void record(const keyspace::Mutation& change) override {
    if (storage::begins_frame(change)) end_frame();
    body_.record(change);
  }
  void resumed() { body_.resumed(); }

  // Writes no frame without operations. A frame that does not fit begins a segment.
  void end_frame() { end_frame(0); }
  // The same; the next frame is of the same group.
  void continue_group() { end_frame(storage::format::frame_continues); }
  // Any bytes as operations.
  void frame_of(std::span<const std::byte> body, std::uint32_t flags = 0) {
    put_frame(flags, static_cast<std::uint32_t>(body.size()), body);
  }
  void filler(std::uint32_t body_bytes) { put_frame(storage::format::frame_filler, body_bytes, {}); }
  // Further frames have the present position as their synced position.
  void sync() { synced_position_ = position_; }

  // Writes SYNCED as if the whole journal were on disk.
  void mark() {
    SimulatedDisk disk;
    disk.put("d/file", {});
    REQUIRE(storage::SyncedFile(disk, "d").write({.segment_number = number_,
                                                  .first_position = first_position_,
                                                  .position = position_,
                                                  .identity = lineage_.identity}));
    files_["SYNCED"] = disk.files().at("d/SYNCED");
  }

  void begin_segment() {
    first_position_ = position_;
    storage::format::SegmentHeader header;
    header.segment_number = ++number_;
    header.first_position = position_;
    header.segment_bytes = segment_bytes_;
    header.identity = lineage_.identity;
    header.run = lineage_.run;
    header.run_before = lineage_.run_before;
    header.checksum = storage::format::segment_checksum(header);
    Bytes file(static_cast<std::size_t>(segment_bytes_));
    std::memcpy(file.data(), &header, sizeof header);
    newest_ = storage::format::segment_name(number_);
    files_[newest_] = std::move(file);
    used_ = sizeof header;
  }
  // Adds a segment that was never used.
  void prepare_segment() {
    files_[storage::format::segment_name(++number_)] = Bytes(static_cast<std::size_t>(segment_bytes_));
  }

  // The position of the next frame.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  // How many bytes of the newest segment are used.
  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] const std::string& newest_name() const { return newest_; }
  [[nodiscard]] std::map<std::string, Bytes>& files() { return files_; }

  void put(SimulatedDisk& disk, const storage::Path& directory) const {
    for (const auto& [name, contents] : files_) disk.put(directory / name, contents);
  }

 private:
  void end_frame(std::uint32_t flags) {
    if (body_.empty()) return;
    put_frame(flags, static_cast<std::uint32_t>(body_.bytes().size()), body_.bytes());
    body_.clear();
  }
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
  std::uint64_t first_position_ = 0;  // of the newest segment
  std::uint64_t segment_bytes_;
  std::uint64_t synced_position_ = 0;
  std::uint64_t number_;
  storage::Lineage lineage_;
  std::string newest_;
  std::size_t used_ = 0;
};

// Puts the right checksums into a segment, as far as its lengths make sense, and the number of its name.
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
