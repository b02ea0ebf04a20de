// The bytes of the journal (docs/formats.md has them in words). All numbers are little endian.
//
//     journal-000000000007  =  SegmentHeader  frame*  zeros          one segment, of a fixed size on disk
//     frame                 =  FrameHead  operation*  zeros up to a multiple of 8
//
// A position is a place in the whole journal, in bytes: that of a frame is its segment's first_position and
// its offset behind the SegmentHeader. A segment ends where the next one begins.
//
//     operation  =  OperationHead  [key]  what its kind says
//       added        `count` fingerprints of 16 bytes, low half first
//       created      FilterShape  LayerShape
//       grown        LayerShape
//       removed      -
//       renamed      TargetHead  target key
//       flushed      -               (of the database)
//       flushed_all  -
//       resumed      -               the journal was off before: what happened until here is not in it
//
// The checksum of a frame covers its operations, its length, its position and what it says of the last sync,
// so neither old bytes nor another place's can be believed. `synced_position` makes damage known from a torn
// tail: below the highest that any later frame names, everything was on disk once.
#pragma once

#include <sepal/storage/snapshot_format.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sepal::storage::format {

inline constexpr std::uint32_t journal_version = 1;

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

struct FrameHead {
  U32 body_bytes = 0;  // of the operations, without the zeros behind them; 0: no frame
  U32 flags = 0;
  U64 synced_position = 0;
  U64 checksum = 0;
};
static_assert(sizeof(FrameHead) == 24 && alignof(FrameHead) == 1);

enum class Operation : std::uint8_t {
  added = 1,
  created = 2,
  grown = 3,
  removed = 4,
  renamed = 5,
  flushed = 6,
  flushed_all = 7,
  resumed = 8,
};

struct OperationHead {
  std::uint8_t operation = 0;
  std::uint8_t database = 0;
  std::array<unsigned char, 2> flags{};  // first byte, bit 0: the key is that of the operation before it
  U32 count = 0;                         // of fingerprints
  U32 key_bytes = 0;                     // of the key that follows
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

// "journal-000000000007" for 7, and back; nothing for any other text.
[[nodiscard]] std::string segment_name(std::uint64_t number);
[[nodiscard]] std::optional<std::uint64_t> segment_number(std::string_view name);

}  // namespace sepal::storage::format
