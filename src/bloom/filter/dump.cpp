#include <sepal/base/assert.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/bloom/filter/dump.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace sepal::bloom {
namespace {

constexpr std::array<char, 4> dump_magic = {'S', 'P', 'L', 'C'};
constexpr std::uint16_t dump_version = 1;
constexpr std::size_t dump_head_bytes = 40;
constexpr std::size_t dump_checksum_bytes = 8;
static_assert(dump_data_bytes_max % sizeof(std::uint64_t) == 0, "pieces begin at whole words");

// A big layer's identity is unique in this process, and a filter keeps the layers that it has.
std::uint64_t identity_of(const Filter& filter, std::uint64_t process) {
  // A small layer has no identity. Then only the seed and the hash tell the filter from other filters of
  // this process.
  const FilterOptions options = filter.options();
  std::array<std::uint64_t, 4> facts = {process, options.seed, static_cast<std::uint64_t>(options.hash), 0};
  for (std::uint32_t i = 0; i < filter.layer_count() && facts[3] == 0; ++i)
    facts[3] = filter.layer(i).identity();
  return hash64({reinterpret_cast<const char*>(facts.data()), sizeof facts}, 0);
}

std::vector<std::byte> encode_piece(const DumpPiece& piece, std::size_t data_bytes) {
  const std::size_t header_bytes = piece.image ? image_bytes(piece.image->layers.size()) : 0;
  std::vector<std::byte> bytes(dump_head_bytes + header_bytes + data_bytes + dump_checksum_bytes);
  FieldWriter writer(bytes);
  for (const char letter : dump_magic) writer.integer(static_cast<std::uint8_t>(letter));
  writer.integer(dump_version);
  writer.integer(std::uint16_t{0});
  writer.integer(piece.identity);
  writer.integer(piece.offset);
  writer.integer(piece.total_bytes);
  writer.integer(static_cast<std::uint32_t>(header_bytes));
  writer.integer(static_cast<std::uint32_t>(data_bytes));
  if (piece.image) encode(*piece.image, std::span(bytes).subspan(dump_head_bytes, header_bytes));
  return bytes;
}

void seal(std::vector<std::byte>& bytes) {
  SEPAL_ASSERT(bytes.size() >= dump_head_bytes + dump_checksum_bytes,
               "a piece is sealed that has no place for its checksum");
  const auto sealed = std::span(bytes).first(bytes.size() - dump_checksum_bytes);
  store_little_endian(bytes.data() + sealed.size(), Checksum::of(sealed));
}

}  // namespace

std::vector<std::byte> dump_header(const Filter& filter, std::uint64_t process) {
  DumpPiece piece{.identity = identity_of(filter, process), .image = header_of(filter), .data = {}};
  piece.total_bytes = piece.image->bitmap_bytes();
  auto bytes = encode_piece(piece, 0);
  seal(bytes);
  return bytes;
}

std::optional<DumpedData> dump_data(const Filter& filter, std::uint64_t offset, std::uint64_t process) {
  const ImageHeader image = header_of(filter);
  const std::uint64_t total_bytes = image.bitmap_bytes();
  if (offset >= total_bytes) return std::nullopt;
  // Bits are copied by whole words. The client may ask for any offset.
  offset -= offset % sizeof(std::uint64_t);
  const auto data_bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(total_bytes - offset, dump_data_bytes_max));
  DumpPiece piece{.identity = identity_of(filter, process),
                  .offset = offset,
                  .total_bytes = total_bytes,
                  .image = {},
                  .data = {}};
  // Counted before the bits are read, so the bits have all items that it counts.
  if (offset == 0) piece.image = image;
  DumpedData dumped{.piece = encode_piece(piece, data_bytes), .end = offset + data_bytes};
  copy_bits(filter.layers(), offset,
            std::span(dumped.piece).last(data_bytes + dump_checksum_bytes).first(data_bytes));
  seal(dumped.piece);
  return dumped;
}

Result<DumpPiece> decode_dump_piece(std::span<const std::byte> bytes, std::uint32_t layers_max) {
  if (bytes.size() < dump_head_bytes + dump_checksum_bytes) return damaged("a piece of a dump is cut short");
  if (std::memcmp(bytes.data(), dump_magic.data(), dump_magic.size()) != 0)
    return damaged("this is no piece of a dump");
  FieldReader reader(bytes.subspan(dump_magic.size()));
  // Another version may keep its checksum elsewhere.
  if (reader.integer<std::uint16_t>() != dump_version) return damaged("a dump is of an unknown version");
  // The checksum comes next, so what follows only guards against bytes that were made on purpose.
  const auto sealed = bytes.first(bytes.size() - dump_checksum_bytes);
  if (load_little_endian<std::uint64_t>(sealed.data() + sealed.size()) != Checksum::of(sealed))
    return damaged("a piece of a dump is not what was written");
  if (reader.integer<std::uint16_t>() != 0) return damaged("a piece of a dump has unknown flags");
  DumpPiece piece;
  piece.identity = reader.integer<std::uint64_t>();
  piece.offset = reader.integer<std::uint64_t>();
  piece.total_bytes = reader.integer<std::uint64_t>();
  const std::size_t header_bytes = reader.integer<std::uint32_t>();
  const std::size_t data_bytes = reader.integer<std::uint32_t>();
  // Two numbers of 32 bits, added in 64: the sum does not wrap.
  if (sealed.size() != dump_head_bytes + header_bytes + data_bytes)
    return damaged("a piece of a dump has another length");
  piece.data = sealed.subspan(dump_head_bytes + header_bytes);
  // As differences, because offset and total may be any numbers of 64 bits.
  if (data_bytes > piece.total_bytes || piece.offset > piece.total_bytes - data_bytes)
    return damaged("a piece of a dump lies beyond its end");
  if (header_bytes == 0) return piece;
  const auto image = decode_image_header(sealed.subspan(dump_head_bytes, header_bytes), layers_max);
  if (!image) return image.error();
  if (image_bytes(image->layers.size()) != header_bytes || image->bitmap_bytes() != piece.total_bytes ||
      piece.offset != 0)
    return damaged("a piece of a dump contradicts its image header");
  piece.image = *image;
  return piece;
}

}  // namespace sepal::bloom
