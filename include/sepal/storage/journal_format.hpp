// The bytes of the journal (docs/formats.md has them in words). All numbers are little endian.
//
//     journal-000000000007  =  SegmentHeader  frame*  zeros          one segment, of a fixed size on disk
//     frame                 =  FrameHead  operation*  zeros up to a multiple of 8
//                           or FrameHead  zeros                      a filler (frame_filler), nothing to
//                           apply
//
// A position is a place in the whole journal, in bytes: that of a frame is its segment's first_position and
// its offset behind the SegmentHeader. A segment ends where the next one begins. One that begins with zeros
// was prepared and never used. Numbers rise, with gaps.
//
//     operation  =  OperationHead  [key]  what its kind says
//       added        `count` fingerprints of 16 bytes, low half first
//       created      CreatedShape, or nothing with operation_same_shape; then `count` fingerprints: the first
//                    items
//       grown        LayerShape
//       removed      -
//       expires      DeadlineShape
//       renamed      TargetHead  target key    (in the same database; the deadline goes along)
//       adopted      AdoptedShape  image        (a filter that came whole; without an image it is in a file,
//                                               and the operation is the first of its frame)
//       moved        OtherDatabase  (to the same key there, with the deadline)
//       swapped      OtherDatabase
//       mirrored     MirrorShape  TargetHead  target key    (that of a mirror that ends is empty)
//       flushed      -               (of the database)
//       flushed_all  -
//       resumed      -               the journal was off before: what happened until here is not in it
//
// The checksum of a frame covers its operations, its length, its position and what it says of the last sync,
// so neither old bytes nor another place's can be believed. `synced_position` makes damage known from a torn
// tail: below the highest that any later frame names, everything was on disk once.
//
// A filler ends what a sync writes at the end of a page, so that no page is stored to again once it was
// written: the store would wait for the file system, and a crash could tear what had been synced.
#pragma once

#include <sepal/storage/snapshot_format.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sepal::storage::format {

inline constexpr std::uint32_t journal_version = 4;
// Those before it are read as well: 1 had no `expires`, 2 no shared shapes and no operation behind that, 3 no
// items in `created`.
[[nodiscard]] constexpr bool is_known_journal(std::uint32_t found) {
  return found >= 1 && found <= journal_version;
}

// No journal gets there, and no sum of a position and a length wraps.
inline constexpr std::uint64_t position_max = std::uint64_t{1} << 62;

struct SegmentHeader {
  static constexpr std::array<char, 8> expected_magic{'S', 'E', 'P', 'A', 'L', 'J', 'R', 'N'};
  std::array<char, 8> magic = expected_magic;
  U32 version = journal_version;
  U32 flags = 0;
  U64 segment_number = 0;
  U64 first_position = 0;
  U64 segment_bytes = 0;  // of the file
  std::array<unsigned char, 16> reserved{};
  U64 checksum = 0;  // over the fields above
};
static_assert(sizeof(SegmentHeader) == 64 && alignof(SegmentHeader) == 1);

inline constexpr std::uint32_t frame_filler = 1;  // in FrameHead::flags

struct FrameHead {
  U32 body_bytes = 0;  // of the operations, without the zeros behind them; 0: no frame
  U32 flags = 0;
  U64 synced_position = 0;
  U64 checksum = 0;  // frame_checksum
};
static_assert(sizeof(FrameHead) == 24 && alignof(FrameHead) == 1);

// What a frame takes.
inline constexpr std::uint64_t frame_alignment = 8;
[[nodiscard]] constexpr std::uint64_t frame_bytes(std::uint64_t body_bytes) {
  return (sizeof(FrameHead) + body_bytes + frame_alignment - 1) / frame_alignment * frame_alignment;
}
// No operations are longer: two keys of the greatest length, and much to spare. A filler is shorter as well.
inline constexpr std::uint32_t frame_body_bytes_max = std::uint32_t{256} << 10;

// In the first byte of OperationHead::flags.
inline constexpr unsigned char operation_same_key = 1;    // the key of the operation before it in this frame
inline constexpr unsigned char operation_same_shape = 2;  // the shapes of the last `created` before it there

enum class Operation : std::uint8_t {
  added = 1,
  created = 2,
  grown = 3,
  removed = 4,
  renamed = 5,
  flushed = 6,
  flushed_all = 7,
  resumed = 8,
  expires = 9,
  adopted = 10,
  mirrored = 11,
  swapped = 12,
  moved = 13,
};
inline constexpr Operation last_operation = Operation::moved;
// Whether fingerprints end it.
[[nodiscard]] constexpr bool may_have_items(Operation operation) {
  return operation == Operation::added || operation == Operation::created;
}

struct OperationHead {
  std::uint8_t operation = 0;
  std::uint8_t database = 0;
  std::array<unsigned char, 2> flags{};
  U32 count = 0;      // of fingerprints
  U32 key_bytes = 0;  // of the key that follows; 0 where it is the same one
  U32 reserved = 0;
};
static_assert(sizeof(OperationHead) == 16 && alignof(OperationHead) == 1);

struct FilterShape {
  U64 seed = 0;
  U64 error_rate = 0;  // bits of an IEEE 754 double
  U64 capacity = 0;
  U32 expansion = 0;
  U32 reserved = 0;
};
static_assert(sizeof(FilterShape) == 32 && alignof(FilterShape) == 1);

struct LayerShape {
  U64 capacity = 0;
  U64 error_rate = 0;  // bits of an IEEE 754 double
  U64 block_count = 0;
  U32 block_bits = 0;
  U32 probe_count = 0;
};
static_assert(sizeof(LayerShape) == 32 && alignof(LayerShape) == 1);

struct CreatedShape {
  FilterShape filter;
  LayerShape first_layer;
};
static_assert(sizeof(CreatedShape) == 64 && alignof(CreatedShape) == 1);

struct DeadlineShape {
  U64 deadline = 0;  // in milliseconds since 1970-01-01 00:00 UTC; 0: none
};
static_assert(sizeof(DeadlineShape) == 8 && alignof(DeadlineShape) == 1);

struct AdoptedShape {
  U64 deadline = 0;     // as in DeadlineShape
  U64 file_number = 0;  // of adopted_name; 0: the image follows
  U64 file_seal = 0;    // of that file (snapshot_format.hpp)
  U32 image_bytes = 0;  // of the image that follows; 0: it is in a file
  U32 reserved = 0;
};
static_assert(sizeof(AdoptedShape) == 32 && alignof(AdoptedShape) == 1);

struct MirrorShape {
  U32 state = 0;  // keyspace::MirrorState
  U32 reserved = 0;
  U64 items_before = 0;  // that the source had when the mirror began
};
static_assert(sizeof(MirrorShape) == 16 && alignof(MirrorShape) == 1);

struct TargetHead {
  U32 key_bytes = 0;  // of the key that follows
  U32 reserved = 0;
};
static_assert(sizeof(TargetHead) == 8 && alignof(TargetHead) == 1);

struct OtherDatabase {
  U32 database = 0;
  U32 reserved = 0;
};
static_assert(sizeof(OtherDatabase) == 8 && alignof(OtherDatabase) == 1);

// What stands in `checksum`: over the fields before it.
[[nodiscard]] std::uint64_t segment_checksum(const SegmentHeader& header);

// What stands in `checksum` of the frame at `position`: over a FrameSum. `head.checksum` is not looked at.
// `body_checksum` is Checksum::of the operations, and of no bytes for a filler; it is apart, so that it can
// be known before the position is.
struct FrameSum {
  U64 body_checksum = 0;
  U64 position = 0;
  U64 synced_position = 0;
  // The first in the lower half. Not two fields: the checksum reads words, and one that was written in two
  // parts is not to be had before both are in the cache, behind all that was written earlier.
  U64 body_bytes_and_flags = 0;
};
static_assert(sizeof(FrameSum) == 32 && alignof(FrameSum) == 1);
[[nodiscard]] std::uint64_t frame_checksum(const FrameHead& head, std::uint64_t position,
                                           std::uint64_t body_checksum);

// Numbers are at most segment_number_max.
inline constexpr std::uint64_t segment_number_max = 999'999'999'999;
// "journal-000000000007" for 7, and back; nothing for any other text.
[[nodiscard]] std::string segment_name(std::uint64_t number);
[[nodiscard]] std::optional<std::uint64_t> segment_number(std::string_view name);

// "adopted-000000000007" for 7, as segment_name.
inline constexpr std::uint64_t adopted_number_max = segment_number_max;
[[nodiscard]] std::string adopted_name(std::uint64_t number);
[[nodiscard]] std::optional<std::uint64_t> adopted_number(std::string_view name);

}  // namespace sepal::storage::format
