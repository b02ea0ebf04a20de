// The bytes of the journal (docs/formats.md has them in words). All numbers are little endian.
//
//     journal-000000000007  =  SegmentHeader  frame*  zeros          one segment, of a fixed size on disk
//     frame                 =  FrameHead  operation*  zeros up to a multiple of 8
//                           or FrameHead  zeros              a filler (frame_filler): nothing to apply
//     group                 =  frame*  frame                 all but the last have frame_continues
//
// A group has what one transaction changed. A journal that ends within a group ends before the group: the
// group is applied whole or not at all. Nothing else stands between the frames of a group.
//
// A position is a place in the whole journal, in bytes. A frame's position is its segment's first_position
// plus its offset behind the SegmentHeader. A segment ends where the next one begins. A segment file that
// begins with zeros was prepared and never used. Numbers rise, with gaps.
//
// What an operation is stands in journal_operations.hpp.
//
// The checksum of a frame covers its operations, its length, its position and what it says of the last sync.
// So a reader never believes old bytes, or bytes of another place. Each frame names a synced position
// (`synced_position`). Take the highest one in the later frames. Everything before it was on disk, so a bad
// frame there is damage. A bad frame after it is a torn tail.
//
// A filler ends what a sync writes at the end of a page, so that no page is stored to again after it was
// written: the store would wait for the file system, and a crash could tear what had been synced.
#pragma once

#include <sepal/storage/format/journal_operations.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sepal::storage::format {

// No journal gets there, and the sum of a position and a length does not wrap.
inline constexpr std::uint64_t position_max = std::uint64_t{1} << 62;

struct SegmentHeader {
  static constexpr std::array<char, 8> expected_magic{'S', 'E', 'P', 'A', 'L', 'J', 'R', 'N'};
  std::array<char, 8> magic = expected_magic;
  U32 version = journal_version;
  U32 flags = 0;
  U64 segment_number = 0;
  U64 first_position = 0;
  U64 segment_bytes = 0;  // the size of the file
  U64 identity = 0;       // lineage.hpp
  U32 run = 0;
  U32 run_before = 0;
  U64 checksum = 0;  // over the fields above
};
static_assert(sizeof(SegmentHeader) == 64 && alignof(SegmentHeader) == 1);

// In FrameHead::flags, one of them at most:
inline constexpr std::uint32_t frame_filler = 1;
inline constexpr std::uint32_t frame_continues = 2;  // the next frame is of the same group

struct FrameHead {
  U32 body_bytes = 0;  // bytes of the operations, without the zeros behind them; 0: no frame
  U32 flags = 0;
  U64 synced_position = 0;
  U64 checksum = 0;  // frame_checksum
};
static_assert(sizeof(FrameHead) == 24 && alignof(FrameHead) == 1);

// The length of a frame.
inline constexpr std::uint64_t frame_alignment = 8;
[[nodiscard]] constexpr std::uint64_t frame_bytes(std::uint64_t body_bytes) {
  return (sizeof(FrameHead) + body_bytes + frame_alignment - 1) / frame_alignment * frame_alignment;
}
// The most bytes of operations in a frame. Two keys of the greatest length fit, with much to spare. A filler
// is shorter as well.
inline constexpr std::uint32_t frame_body_bytes_max = std::uint32_t{256} << 10;

// The file SYNCED says how far the journal was on disk, so that a journal that ends earlier is known to have
// lost something. It has two slots, written in turn: a torn write leaves the other one.
inline constexpr std::uint32_t synced_version = 2;
inline constexpr std::uint32_t synced_version_without_identity = 1;  // is read as well
struct SyncedSlot {
  static constexpr std::array<char, 8> expected_magic{'S', 'E', 'P', 'A', 'L', 'S', 'Y', 'N'};
  std::array<char, 8> magic = expected_magic;
  U32 version = synced_version;
  U32 flags = 0;
  U64 segment_number = 0;  // the newest segment with something that is on disk
  U64 first_position = 0;  // where that segment begins
  U64 position = 0;        // everything before it is on disk; at most position_max
  U64 identity = 0;        // lineage.hpp
  U64 reserved = 0;
  U64 checksum = 0;  // over the fields above
};
static_assert(sizeof(SyncedSlot) == 64 && alignof(SyncedSlot) == 1);

// Where the slots begin: in blocks of their own, because a disk writes whole blocks.
inline constexpr std::array<std::uint64_t, 2> synced_slot_offsets{0, 4096};
inline constexpr std::uint64_t synced_file_bytes = synced_slot_offsets[1] + sizeof(SyncedSlot);

// What stands in `checksum`: over the fields before it.
[[nodiscard]] std::uint64_t segment_checksum(const SegmentHeader& header);
[[nodiscard]] std::uint64_t synced_checksum(const SyncedSlot& slot);

// The `checksum` of the frame at `position`: over a FrameSum. `head.checksum` is not looked at.
// `body_checksum` is Checksum::of the operations, or of no bytes for a filler. It is apart, so that it can be
// computed before the position is known.
struct FrameSum {
  U64 body_checksum = 0;
  U64 position = 0;
  U64 synced_position = 0;
  // `body_bytes` in the lower half, `flags` in the upper. Not two fields: the checksum reads words, and a
  // word that was written in two parts can only be read when both parts are in the cache, behind all earlier
  // writes.
  U64 body_bytes_and_flags = 0;
};
static_assert(sizeof(FrameSum) == 32 && alignof(FrameSum) == 1);
[[nodiscard]] std::uint64_t frame_checksum(const FrameHead& head, std::uint64_t position,
                                           std::uint64_t body_checksum);

inline constexpr std::uint64_t segment_number_max = 999'999'999'999;
// "journal-000000000007" for 7, and back; nothing for any other text.
[[nodiscard]] std::string segment_name(std::uint64_t number);
[[nodiscard]] std::optional<std::uint64_t> segment_number(std::string_view name);

// "adopted-000000000007" for 7, as segment_name.
inline constexpr std::uint64_t adopted_number_max = segment_number_max;
[[nodiscard]] std::string adopted_name(std::uint64_t number);
[[nodiscard]] std::optional<std::uint64_t> adopted_number(std::string_view name);

}  // namespace sepal::storage::format
