#include <sepal/cuckoo/commands/chunks.hpp>
#include <sepal/cuckoo/commands/options.hpp>
#include <sepal/cuckoo/foreign/redis_header.hpp>

#include <algorithm>
#include <utility>

namespace sepal::cuckoo {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ScannedPiece piece_of_own(const Filter& filter, std::int64_t iterator) {
  if (iterator == 0) return {.iterator = 1, .made = header_piece(filter.plan()), .slots = {}};
  auto piece = filter.piece_at(static_cast<std::uint64_t>(iterator) - 1);
  if (!piece) return {};
  return {
      .iterator = static_cast<std::int64_t>(piece->next) + 1, .made = std::move(piece->bytes), .slots = {}};
}

ScannedPiece piece_of_redis(const RedisFilter& filter, std::int64_t iterator) {
  const RedisHeader& header = filter.header();
  if (header.item_count == 0) return {};
  if (iterator == 0) return {.iterator = 1, .made = text_of(encode_redis_header(header)), .slots = {}};
  const auto piece = redis_piece_at(header, iterator);
  if (!piece) return {};
  const std::uint64_t byte_count = std::min(piece->byte_count, slots_at_once_max);
  return {.iterator = iterator + static_cast<std::int64_t>(byte_count),
          .made = {},
          .slots = std::as_bytes(filter.table().slots(piece->layer).subspan(piece->offset, byte_count))};
}

}  // namespace

ScannedPiece scanned_piece(const Found& found, std::int64_t iterator) {
  return found.own != nullptr ? piece_of_own(*found.own, iterator)
                              : piece_of_redis(*found.of_redis, iterator);
}

std::string_view refusal_of(PieceOutcome outcome) {
  switch (outcome) {
    case PieceOutcome::loaded: return {};
    case PieceOutcome::gone: return text::not_found;
    case PieceOutcome::there: return text::chunk_there;
    case PieceOutcome::too_many_copies: return text::too_many_copies;
    case PieceOutcome::full: return text::full;
    case PieceOutcome::no_memory: return text::no_memory;
    case PieceOutcome::damaged:
    case PieceOutcome::more:
    case PieceOutcome::losing_key: break;
  }
  return text::bad_chunk;
}

}  // namespace sepal::cuckoo
