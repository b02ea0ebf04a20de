// A filter in pieces, which a client carries from one server to another, for filters of any size. The server
// keeps nothing between two pieces: the client tells it where the next one begins.
//
//     header        the image header, and no bits
//     data          some bytes of the bitmaps, which are taken one behind the other, oldest layer first
//     first data    has the image header as well: of the instant at which its bits were taken
//
// docs/formats.md, "Pieces of a dump", has the bytes.
//
// Clients may add meanwhile. The items that the header counts are in the bits, because the bits are read
// later and never go back to 0. The bits may also have a part of what came after. A filter whose layers are
// all small has no identity of its own, but it fits into one piece, so this piece is all of it at one
// instant. A filter that grows during the dump has pieces behind the end that the header names: the receiver
// leaves them out.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/filter/image.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sepal::bloom {

// So much is copied and summed in a tenth of a millisecond.
inline constexpr std::size_t dump_data_bytes_max = 256 << 10;

struct DumpPiece {
  std::uint64_t identity = 0;
  std::uint64_t offset = 0;
  std::uint64_t total_bytes = 0;
  std::optional<ImageHeader> image;
  std::span<const std::byte> data;  // points into the bytes that were decoded
};

// `process` is a number that no other process has. Shared gate; with the gate closed the counts are those of
// one instant.
[[nodiscard]] std::vector<std::byte> dump_header(const Filter& filter, std::uint64_t process);

struct DumpedData {
  std::vector<std::byte> piece;
  std::uint64_t end = 0;  // the offset behind it
};
// The piece that begins at `offset`, or a few bytes before it; nothing when the bitmaps end there. Shared
// gate.
[[nodiscard]] std::optional<DumpedData> dump_data(const Filter& filter, std::uint64_t offset,
                                                  std::uint64_t process);

// Errors: damaged. Believes nothing: `bytes` may be anything.
Result<DumpPiece> decode_dump_piece(std::span<const std::byte> bytes, std::uint32_t layers_max);

}  // namespace sepal::bloom
