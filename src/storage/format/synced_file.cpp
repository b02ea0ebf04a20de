#include "storage/format/synced_file.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/storage/format/journal_format.hpp>

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "storage/disk/damage.hpp"

namespace sepal::storage {
namespace {

Result<SyncedMark> decode_slot(std::span<const std::byte> bytes, std::uint64_t offset) {
  format::SyncedSlot slot;
  if (bytes.size() < sizeof slot) return damaged_at(offset, "it ends inside a slot");
  std::memcpy(&slot, bytes.data(), sizeof slot);
  if (slot.magic != format::SyncedSlot::expected_magic)
    return damaged_at(offset, "it does not begin as a slot does");
  // The version is checked before the checksum, because another version may keep its checksum elsewhere.
  constexpr KnownVersions known{.first = format::synced_version_without_identity,
                                .last = format::synced_version};
  if (!known.has(slot.version) || slot.flags != 0) return unsupported(slot.version, known);
  if (slot.checksum != format::synced_checksum(slot))
    return damaged_at(offset, "its checksum does not match");
  if (slot.position > format::position_max)
    return damaged_at(offset, "it names a position that none can have");
  return SyncedMark{.segment_number = slot.segment_number,
                    .first_position = slot.first_position,
                    .position = slot.position,
                    .identity = slot.identity};
}

}  // namespace

Path synced_path(const Path& directory) {
  return directory / "SYNCED";
}

Result<std::optional<SyncedMark>> read_synced(Disk& disk, const Path& path) {
  auto file = disk.open(path);
  if (!file && file.error().code == Errc::not_found) return std::optional<SyncedMark>();
  if (!file) return file.error();
  // One right slot is enough, because a crash may have torn the other.
  std::optional<SyncedMark> newest;
  std::optional<Error> refusal;
  for (const std::uint64_t offset : format::synced_slot_offsets) {
    std::array<std::byte, sizeof(format::SyncedSlot)> bytes{};
    const auto count = (*file)->read_at(offset, bytes);
    if (!count) return count.error();
    const auto mark = decode_slot(std::span(bytes).first(*count), offset);
    // A position never falls from one mark to the next, so the slot with the higher one is newer.
    if (mark && (!newest || mark->position >= newest->position)) newest = *mark;
    if (!mark && !refusal) refusal = mark.error();
  }
  if (newest) return newest;
  return with_advice(about(path.string(), *refusal),
                     "restore it from a backup; or remove it: then only the journal itself tells how long it "
                     "should be");
}

Result<void> SyncedFile::write(const SyncedMark& mark) {
  SEPAL_ASSERT(mark.segment_number != 0 && mark.position <= format::position_max,
               "SYNCED names no segment, or a position that none can have");
  if (file_ == nullptr) return make(mark);
  Result<void> done = write_slot(next_slot_, mark);
  if (done) done = file_->sync();
  next_slot_ = (next_slot_ + 1) % format::synced_slot_offsets.size();
  if (!done) file_ = nullptr;
  return done;
}

// Works like replace_file(), but the file stays open: later marks are written in place, without a rename and
// a sync of the directory. Both slots get the mark, so that either of them may be the first that is
// overwritten.
Result<void> SyncedFile::make(const SyncedMark& mark) {
  const Path path = synced_path(directory_);
  auto aside = disk_.create_aside(path);
  if (!aside) return aside.error();
  file_ = std::move(aside->file);
  Result<void> done;
  for (std::size_t slot = 0; done && slot < format::synced_slot_offsets.size(); ++slot)
    done = write_slot(slot, mark);
  if (done) done = file_->sync();
  const Result<void> renamed = done ? disk_.rename(aside->path, path) : done;
  // Reports the first error, not one of the clean-up.
  if (!renamed) static_cast<void>(disk_.remove(aside->path));
  done = renamed ? disk_.sync_directory(directory_) : renamed;
  if (!done) file_ = nullptr;
  return done;
}

// The caller syncs: two slots of a new file need one sync only.
Result<void> SyncedFile::write_slot(std::size_t slot, const SyncedMark& mark) {
  SEPAL_ASSERT(slot < format::synced_slot_offsets.size(), "a slot that SYNCED does not have");
  format::SyncedSlot bytes;
  bytes.segment_number = mark.segment_number;
  bytes.first_position = mark.first_position;
  bytes.position = mark.position;
  bytes.identity = mark.identity;
  bytes.checksum = format::synced_checksum(bytes);
  return file_->write_at(format::synced_slot_offsets[slot], format::bytes_of(bytes));
}

}  // namespace sepal::storage
