#include "command/keys/dump_payload.hpp"

#include <sepal/base/endian.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/bloom/foreign/rdb.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace sepal::command {
namespace {

constexpr std::uint16_t payload_version = 1;
constexpr std::size_t version_bytes = sizeof payload_version;
constexpr std::size_t checksum_bytes = sizeof(std::uint64_t);
constexpr std::size_t footer_bytes = version_bytes + checksum_bytes;

Result<void> held(const Hold& hold, std::uint64_t byte_count) {
  return hold ? hold(byte_count) : Result<void>();
}

Result<bloom::FilterPtr> filter_of_rdb_dump(std::span<const std::byte> bytes,
                                            const bloom::FilterLimits& limits, const Hold& hold) {
  const auto dump = bloom::decode_rdb_dump(bytes, limits.layers_max);
  if (!dump) return dump.error();
  // The fields are read, and nothing of the filter is allocated yet: a client may claim any size.
  if (auto room = held(hold, dump->memory_bytes()); !room) return room.error();
  return bloom::filter_of(*dump, limits);
}

}  // namespace

std::uint64_t restored_bytes_max(std::string_view payload, std::uint32_t layers_max) {
  const auto bytes = std::as_bytes(std::span(payload));
  // A dump of few bytes can stand for a large filter, and a large dump takes long to check.
  if (bloom::is_rdb_dump(bytes))
    return std::max<std::uint64_t>(bloom::rdb_bitmap_bytes_max(bytes, layers_max), bytes.size());
  return payload.size() * (bloom::is_packed_rdb_string(bytes) ? bloom::rdb_growth_max : 1);
}

Result<bloom::FilterPtr> filter_of_payload(std::string_view payload, const bloom::FilterLimits& limits,
                                           const Hold& hold) {
  const auto bytes = std::as_bytes(std::span(payload));
  if (bloom::is_rdb_dump(bytes)) return filter_of_rdb_dump(bytes, limits, hold);
  if (bloom::is_rdb_string(bytes)) {
    if (auto room = held(hold, bytes.size()); !room) return room.error();
    return bloom::decode_rdb_string(bytes, limits);
  }
  if (bytes.size() < footer_bytes) return fail(Errc::damaged);
  const auto sealed = bytes.first(bytes.size() - checksum_bytes);
  const auto image = bytes.first(bytes.size() - footer_bytes);
  // The checksum comes first: without it, nothing that follows in the payload can be believed.
  if (load_little_endian<std::uint64_t>(bytes.data() + sealed.size()) != Checksum::of(sealed))
    return fail(Errc::damaged);
  if (load_little_endian<std::uint16_t>(bytes.data() + image.size()) != payload_version)
    return fail(Errc::damaged);
  if (auto room = held(hold, image.size()); !room) return room.error();
  auto filter = bloom::filter_of(image, limits);
  if (filter) return filter;
  // The checksum is right, so these bytes are as they were written: the payload is not damaged, but holds no
  // possible filter. RESTORE has different texts for the two.
  const Errc code = filter.error().code;
  const bool absurd = code == Errc::damaged || code == Errc::unsupported_version;
  return absurd ? fail(Errc::out_of_range, filter.error().detail) : filter.error();
}

}  // namespace sepal::command
