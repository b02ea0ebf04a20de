// Feeds arbitrary bytes to uploads, piece by piece, and to RESTORE as dumps of Redis. The bytes are refused
// or accepted, without reads or writes outside of them. An accepted filter answers look-ups, takes items, and
// can be dumped again.
//
//   pieces, one behind the other: 1 byte of flags (bit 0: the target puts the checksum of the piece right, so
//   that the code behind it is reached; bit 1: it is a header; bit 2: it is a dump of Redis), 2 bytes of
//   iterator, 2 bytes of length N, N bytes
#include <sepal/base/endian.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/bloom/filter/dump.hpp>
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/writers/uploads.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "../support/freeing_housekeeper.hpp"
#include "fuzz_target.hpp"

namespace sepal::fuzz_load_chunk_test {
namespace {

constexpr std::size_t head_bytes = 5;

struct Piece {
  bool is_header = false;
  bool is_rdb_dump = false;
  std::int64_t iterator = 0;
  std::vector<std::byte> bytes;
};

// Takes the next piece off the input. Returns nothing at its end.
bool take(std::span<const std::byte>& input, Piece& piece) {
  if (input.size() < head_bytes) return false;
  const auto flags = std::to_integer<unsigned>(input[0]);
  const std::size_t length =
      std::min<std::size_t>(load_little_endian<std::uint16_t>(input.data() + 3), input.size() - head_bytes);
  piece.is_header = (flags & 2) != 0;
  piece.is_rdb_dump = (flags & 4) != 0;
  piece.iterator = static_cast<std::int16_t>(load_little_endian<std::uint16_t>(input.data() + 1));
  const auto bytes = input.subspan(head_bytes, length);
  piece.bytes.assign(bytes.begin(), bytes.end());
  if ((flags & 1) != 0 && length >= 8) {
    const auto sealed = std::span(piece.bytes).first(length - 8);
    store_little_endian(piece.bytes.data() + sealed.size(),
                        piece.is_rdb_dump ? rdb::checksum(sealed) : Checksum::of(sealed));
  }
  input = input.subspan(head_bytes + length);
  return true;
}

void use(bloom::Filter& filter, const bloom::FilterLimits& limits) {
  const std::string_view item = "an item";
  bool present = false;
  if (filter.add_alone(item, limits).refusal == bloom::Filter::Refusal::none) {
    filter.contains({&item, 1}, {&present, 1});
    if (!present) std::abort();
  }
  const auto header = bloom::decode_dump_piece(bloom::dump_header(filter, 1), limits.layers_max);
  if (!header || !header->image) std::abort();
  std::uint64_t at = 0;
  while (const auto data = bloom::dump_data(filter, at, 1)) {
    if (!bloom::decode_dump_piece(data->piece, limits.layers_max)) std::abort();
    at = data->end;
  }
}

void restore(std::span<const std::byte> bytes, const bloom::FilterLimits& limits) {
  const auto dump = bloom::decode_rdb_dump(bytes, limits.layers_max);
  if (!dump) return;
  if (const auto filter = bloom::filter_of(*dump, limits)) use(**filter, limits);
}

}  // namespace

SEPAL_FUZZ_TARGET(fuzz_load_chunk) {
  test::FreeingHousekeeper housekeeper;
  keyspace::KeyspaceOptions options;
  options.memory_max = 1 << 20;
  keyspace::Keyspace keyspace(options, housekeeper);
  writers::Uploads uploads(keyspace);
  const keyspace::DatabaseKey key{.database = 0, .key = "k"};
  const WallTime now{std::chrono::seconds(1)};
  auto input = std::as_bytes(std::span(data, size));
  for (Piece piece; take(input, piece);) {
    if (piece.is_rdb_dump) {
      restore(piece.bytes, keyspace.value_limits());
      continue;
    }
    using Outcome = writers::Uploads::Outcome;
    Outcome outcome = Outcome::begins_anew;
    if (!piece.is_header)
      outcome = uploads.load(key, {.iterator = piece.iterator, .bytes = piece.bytes}, now);
    if (outcome == Outcome::begins_anew) {
      if (!uploads.begin(key, piece.bytes, {}, now)) continue;
      outcome = uploads.load(key, {.iterator = piece.iterator, .bytes = piece.bytes}, now);
    }
    const auto filter = uploads.take(key, now);
    if ((filter != nullptr) != (outcome == Outcome::whole)) std::abort();
    if (filter != nullptr) use(*filter, keyspace.value_limits());
  }
  return 0;
}

}  // namespace sepal::fuzz_load_chunk_test
