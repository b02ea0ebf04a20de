#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/cuckoo/foreign/redis_header.hpp>

#include <algorithm>
#include <bit>

namespace sepal::cuckoo {
namespace {

// So that sums of slots and what comes on top of them cannot wrap.
constexpr std::uint64_t slots_max = std::uint64_t{1} << 62;

Error no_filter() {
  return fail(Errc::out_of_range, "no cuckoo filter of RedisBloom has this shape");
}

// Layer i has bucket_count << (i * growth_bits()) buckets.
std::uint32_t growth_bits(const RedisHeader& header) {
  return header.expansion == 0 ? 0 : static_cast<std::uint32_t>(std::countr_zero(header.expansion));
}

bool has_sound_fields(const RedisHeader& header) {
  const bool grows = header.expansion != 0;
  return header.layer_count >= 1 && header.layer_count <= redis_layers_max && header.bucket_slots >= 1 &&
         header.bucket_slots <= redis_bucket_slots_max && header.kicks_max >= 1 &&
         header.expansion <= redis_expansion_max && (!grows || std::has_single_bit(header.expansion)) &&
         (grows || header.layer_count == 1) && std::has_single_bit(header.bucket_count) &&
         header.bucket_count <= redis_buckets_max;
}

struct Place {
  std::uint32_t layer = 0;
  std::uint64_t offset = 0;
};

// The layer that has the slot with this offset in the dump. Nothing behind the last one.
std::optional<Place> find(const RedisHeader& header, std::uint64_t offset) {
  for (std::uint32_t layer = 0; layer < header.layer_count; ++layer) {
    const std::uint64_t slots = header.layer_slots(layer);
    if (offset < slots) return Place{.layer = layer, .offset = offset};
    offset -= slots;
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t RedisHeader::layer_buckets(std::uint32_t layer) const {
  return bucket_count << (std::uint64_t{layer} * growth_bits(*this));
}

std::uint64_t RedisHeader::slot_count() const {
  if (growth_bits(*this) == 0) return layer_slots(0) * layer_count;
  std::uint64_t sum = 0;
  for (std::uint32_t layer = 0; layer < layer_count; ++layer) sum += layer_slots(layer);
  return sum;
}

std::uint64_t RedisHeader::told_bytes() const {
  // The sizes of RedisBloom's structures on a machine of 64 bits.
  constexpr std::uint64_t filter_bytes = 40;
  constexpr std::uint64_t layer_bytes = 16;
  return filter_bytes + layer_bytes * layer_count + slot_count();
}

RedisHeader redis_header_of(const RedisOptions& options) {
  const std::uint64_t buckets = std::max<std::uint64_t>(options.capacity / options.bucket_slots, 1);
  const std::uint16_t expansion =
      options.expansion == 0 ? std::uint16_t{0} : std::bit_ceil(options.expansion);
  return {.bucket_count = std::bit_ceil(buckets),
          .bucket_slots = options.bucket_slots,
          .kicks_max = options.kicks_max,
          .expansion = expansion};
}

Result<void> check_redis_header(const RedisHeader& header) {
  if (!has_sound_fields(header)) return no_filter();
  // The newest layer is the largest.
  const std::uint64_t growth = std::uint64_t{header.layer_count - 1} * growth_bits(header);
  const auto first_bits = static_cast<std::uint64_t>(std::countr_zero(header.bucket_count));
  if (first_bits + growth > static_cast<std::uint64_t>(std::countr_zero(redis_buckets_max)))
    return no_filter();
  const auto slots = checked_multiply(header.layer_slots(header.layer_count - 1), header.layer_count);
  if (!slots || *slots > slots_max) return no_filter();
  return {};
}

std::array<std::byte, redis_header_bytes> encode_redis_header(const RedisHeader& header) {
  std::array<std::byte, redis_header_bytes> bytes{};
  FieldWriter writer(bytes);
  writer.integer(header.item_count);
  writer.integer(header.bucket_count);
  writer.integer(header.delete_count);
  writer.integer(std::uint64_t{header.layer_count});
  writer.integer(header.bucket_slots);
  writer.integer(header.kicks_max);
  writer.integer(header.expansion);
  return bytes;
}

Result<RedisHeader> decode_redis_header(std::span<const std::byte> bytes) {
  if (bytes.size() != redis_header_bytes) return damaged("this is no header of a cuckoo filter");
  FieldReader reader(bytes);
  RedisHeader header;
  header.item_count = reader.integer<std::uint64_t>();
  header.bucket_count = reader.integer<std::uint64_t>();
  header.delete_count = reader.integer<std::uint64_t>();
  const auto layer_count = reader.integer<std::uint64_t>();
  header.bucket_slots = reader.integer<std::uint16_t>();
  header.kicks_max = reader.integer<std::uint16_t>();
  header.expansion = reader.integer<std::uint16_t>();
  if (layer_count > redis_layers_max) return no_filter();
  header.layer_count = static_cast<std::uint32_t>(layer_count);
  if (auto sound = check_redis_header(header); !sound) return sound.error();
  return header;
}

std::optional<RedisPiece> redis_piece_at(const RedisHeader& header, std::int64_t iterator) {
  SEPAL_ASSERT(iterator > 0, "an iterator of 0 asks for the header");
  const auto place = find(header, static_cast<std::uint64_t>(iterator) - 1);
  if (!place) return std::nullopt;
  const std::uint64_t byte_count =
      std::min(redis_piece_bytes_max, header.layer_slots(place->layer) - place->offset);
  return RedisPiece{.layer = place->layer,
                    .offset = place->offset,
                    .byte_count = byte_count,
                    .iterator = iterator + static_cast<std::int64_t>(byte_count)};
}

std::optional<RedisPiece> redis_place_of(const RedisHeader& header, std::int64_t iterator,
                                         std::uint64_t byte_count) {
  if (iterator < 1 || byte_count == 0 || static_cast<std::uint64_t>(iterator) - 1 < byte_count)
    return std::nullopt;
  const auto place = find(header, static_cast<std::uint64_t>(iterator) - 1 - byte_count);
  if (!place || byte_count > header.layer_slots(place->layer) - place->offset) return std::nullopt;
  return RedisPiece{
      .layer = place->layer, .offset = place->offset, .byte_count = byte_count, .iterator = iterator};
}

}  // namespace sepal::cuckoo
