// CF.SCANDUMP and CF.LOADCHUNK in every host of the commands: the pieces of a filter of either kind, and what
// is said of a piece that comes. A Reply is as in answers.hpp, and has null.
#pragma once

#include <sepal/cuckoo/commands/found.hpp>
#include <sepal/cuckoo/native/pieces.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sepal::cuckoo {

// A piece of RedisBloom's slots that is answered, and the part of one that is written at once: so no other
// client waits for long. RedisBloom's pieces have up to 16 MiB; it takes shorter ones.
inline constexpr std::uint64_t slots_at_once_max = std::uint64_t{1} << 20;

struct ScannedPiece {
  std::int64_t iterator = 0;         // the next one; 0: there are no more pieces
  std::string made;                  // the bytes, or
  std::span<const std::byte> slots;  // those of the filter
};
// What CF.SCANDUMP answers for an iterator of at least 0. The iterator is that of RedisBloom: 0 asks for the
// header, 1 for what stands behind it. `found` has a filter.
[[nodiscard]] ScannedPiece scanned_piece(const Found& found, std::int64_t iterator);

template <class Reply>
void append_piece(Reply& reply, const ScannedPiece& piece) {
  reply.array(2);
  reply.integer(piece.iterator);
  if (piece.iterator == 0) return reply.null();
  reply.bulk(piece.made.empty()
                 ? std::string_view(reinterpret_cast<const char*>(piece.slots.data()), piece.slots.size())
                 : std::string_view(piece.made));
}

// The error for a piece of cells that ended so; empty if it is loaded.
[[nodiscard]] std::string_view refusal_of(PieceOutcome outcome);

}  // namespace sepal::cuckoo
