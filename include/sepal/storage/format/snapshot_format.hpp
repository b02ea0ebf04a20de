// The bytes of a generation (docs/formats.md has them in words). All numbers are little endian, and every
// byte of every file is under a checksum: XXH3, 64 bits, over the bytes that stand before it as drawn here.
//
//     filter file  =  FilterFileHeader  record*                     pack-0, filter-1-0, filter-1-1, ...
//     record       =  RecordHead  key  image header  checksum  chunk*
//     chunk        =  up to chunk_bytes of the bitmaps, layer behind layer, oldest first;  checksum
//
//     MANIFEST     =  ManifestHead  text: the version of Sepal that wrote it
//                     file*         each a ManifestFile and its name
//                     checksum
//
//     CURRENT, SEED:  one line of text (sealed_line)
//
// The seal of a filter file is the checksum over all checksums in it, in their order. The MANIFEST holds it,
// so neither a chunk nor a file can take another's place. A chunk is verified before its bits are believed.
// That takes a buffer of one chunk, and tells which chunk is damaged.
//
// A structure has no padding and no alignment, because its fields are bytes; its size is the size on disk.
#pragma once

#include <sepal/base/endian.hpp>
#include <sepal/base/result.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sepal::storage::format {

// An integer as it stands on disk.
template <class Integer>
class Little {
 public:
  Little() = default;
  Little(Integer value) { store_little_endian(bytes_, value); }
  operator Integer() const { return load_little_endian<Integer>(bytes_); }

 private:
  unsigned char bytes_[sizeof(Integer)] = {};
};
using U32 = Little<std::uint32_t>;
using U64 = Little<std::uint64_t>;

// Sepal 0.1.0 wrote version 4 of both; no release wrote an older one.
inline constexpr std::uint32_t version = 4;  // of the filter files
inline constexpr std::uint32_t manifest_version = 5;
// This version of the MANIFEST is read as well. Fields of the head that it lacks are then 0.
inline constexpr std::uint32_t manifest_version_without_identity = 4;
inline constexpr std::size_t checksum_bytes = 8;
inline constexpr std::size_t chunk_bytes = std::size_t{1} << 20;
static_assert(chunk_bytes % 8 == 0, "bitmaps are copied in 64-bit words");

struct FilterFileHeader {
  static constexpr std::array<char, 8> expected_magic{'S', 'E', 'P', 'A', 'L', 'F', 'L', 'T'};
  std::array<char, 8> magic = expected_magic;
  U32 version = format::version;
  U32 flags = 0;
  U64 record_count = 0;
  U64 checksum = 0;  // over the fields above
};
static_assert(sizeof(FilterFileHeader) == 32 && alignof(FilterFileHeader) == 1);

struct RecordHead {
  static constexpr std::array<char, 4> expected_magic{'S', 'P', 'L', 'R'};
  std::array<char, 4> magic = expected_magic;
  U32 database = 0;
  U32 key_bytes = 0;
  U32 image_bytes = 0;       // the image header (filter/image.hpp)
  U64 bitmap_bytes = 0;      // all layers, without the checksums of the chunks
  U64 journal_position = 0;  // at which the layers and counts of the image header were taken
  U64 deadline = 0;          // the key's, in milliseconds since 1970-01-01 00:00 UTC; 0: none
};
static_assert(sizeof(RecordHead) == 40 && alignof(RecordHead) == 1);

struct ManifestHead {
  static constexpr std::array<char, 8> expected_magic{'S', 'E', 'P', 'A', 'L', 'M', 'A', 'N'};
  std::array<char, 8> magic = expected_magic;
  U32 version = manifest_version;
  U32 flags = 0;
  U64 generation = 0;  // the number in the folder's name
  U64 taken_at = 0;    // time of the cut, in milliseconds since 1970-01-01 00:00 UTC
  U64 filter_count = 0;
  U64 item_count = 0;  // in all filters
  U64 byte_count = 0;  // in the listed files
  U32 file_count = 0;
  U32 writer_bytes = 0;      // the version text that follows
  U64 journal_position = 0;  // at the cut
  U32 mirror_count = 0;
  U32 reserved = 0;
  U64 identity = 0;  // lineage.hpp
  U32 run = 0;
  U32 reserved_too = 0;
};
static_assert(sizeof(ManifestHead) == 96 && alignof(ManifestHead) == 1);

// The size of the head of a MANIFEST of version `found`, which a reader knows.
[[nodiscard]] constexpr std::size_t manifest_head_bytes(std::uint32_t found) {
  return found == manifest_version_without_identity ? offsetof(ManifestHead, identity) : sizeof(ManifestHead);
}

struct ManifestFile {
  U32 name_bytes = 0;  // the name that follows
  U32 flags = 0;
  U64 byte_count = 0;
  U64 record_count = 0;
  U64 seal = 0;
};
static_assert(sizeof(ManifestFile) == 32 && alignof(ManifestFile) == 1);

struct ManifestMirror {
  U32 database = 0;
  U32 state = 0;  // keyspace::MirrorState, never off
  U64 items_before = 0;
  U32 source_bytes = 0;  // the source's key, which follows,
  U32 target_bytes = 0;  // and of the target's, behind it
};
static_assert(sizeof(ManifestMirror) == 24 && alignof(ManifestMirror) == 1);

// The limits keep a MANIFEST small enough to be read whole. A filter beyond the files goes into the pack.
inline constexpr std::uint32_t manifest_files_max = 16384;
inline constexpr std::size_t file_name_bytes_max = 32;
inline constexpr std::size_t writer_bytes_max = 64;
inline constexpr std::size_t manifest_bytes_max =
    sizeof(ManifestHead) + writer_bytes_max +
    manifest_files_max * (sizeof(ManifestFile) + file_name_bytes_max) +
    keyspace::mirrors_max * (sizeof(ManifestMirror) + 2 * keyspace::key_bytes_max) + checksum_bytes;
static_assert(manifest_bytes_max < std::size_t{36} << 20);

// How many bytes a bitmap takes in a filter file, checksums included; nothing when that cannot be
// represented.
[[nodiscard]] std::optional<std::uint64_t> stored_bitmap_bytes(std::uint64_t bitmap_bytes);

// How many bytes a record takes with a key, the head of an image and a body that are in memory.
[[nodiscard]] constexpr std::uint64_t record_bytes(std::uint64_t key_bytes, std::uint64_t image_bytes,
                                                   std::uint64_t body_bytes) {
  const std::uint64_t checksums = 1 + (body_bytes + chunk_bytes - 1) / chunk_bytes;
  return sizeof(RecordHead) + key_bytes + image_bytes + body_bytes + checksums * checksum_bytes;
}

struct ListedFile {
  std::string name;
  std::uint64_t byte_count = 0;
  std::uint64_t record_count = 0;
  std::uint64_t seal = 0;
};

struct Manifest {
  std::uint64_t generation = 0;
  std::uint64_t taken_at = 0;
  std::uint64_t filter_count = 0;
  std::uint64_t item_count = 0;
  std::uint64_t byte_count = 0;
  std::uint64_t journal_position = 0;
  std::uint64_t identity = 0;
  std::uint32_t run = 0;
  std::string writer;
  std::vector<ListedFile> files;
  std::vector<keyspace::Mirror> mirrors;  // at the cut
};

// The manifest is within the limits above, which the writer keeps.
[[nodiscard]] std::vector<std::byte> encode(const Manifest& manifest);

// Believes nothing. Errors: damaged, unsupported_version, each with a sentence that begins behind the file's
// name: "is damaged at offset 12: ...".
Result<Manifest> decode_manifest(std::span<const std::byte> bytes);

// A line "SEPAL-<kind> 1 <value> <checksum>\n": the kind in capitals, the version of the format, the value
// without blanks, and the checksum over what stands before it, in 16 hexadecimal digits.
inline constexpr std::size_t sealed_line_bytes_max = 256;
[[nodiscard]] std::string sealed_line(std::string_view kind, std::string_view value);
// The value. Errors as decode_manifest.
Result<std::string> decode_sealed_line(std::string_view kind, std::string_view line);

// 16 digits.
[[nodiscard]] std::string hexadecimal(std::uint64_t value);

// "generation-000000000007" for 7, and back; nothing for any other text. Numbers are at most
// generation_number_max.
inline constexpr std::uint64_t generation_number_max = 999'999'999'999;
[[nodiscard]] std::string generation_name(std::uint64_t number);
[[nodiscard]] std::optional<std::uint64_t> generation_number(std::string_view name);

// The view of a structure, or of text, as bytes.
template <class Structure>
[[nodiscard]] std::span<const std::byte> bytes_of(const Structure& structure) {
  static_assert(std::is_trivially_copyable_v<Structure> && alignof(Structure) == 1);
  return std::as_bytes(std::span<const Structure, 1>(&structure, 1));
}
[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace sepal::storage::format
