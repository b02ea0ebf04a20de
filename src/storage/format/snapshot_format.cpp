#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/base/whole_number.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <algorithm>
#include <cstring>

#include "storage/disk/damage.hpp"
#include "storage/disk/numbered_name.hpp"

namespace sepal::storage::format {
namespace {

constexpr std::string_view generation_prefix = "generation-";
constexpr std::uint32_t line_version = 1;
constexpr std::size_t checksum_digits = 2 * checksum_bytes;

static_assert(manifest_head_bytes(manifest_version_without_identity) == 80, "as docs/formats.md has it");
static_assert(offsetof(FilterFileHeader, checksum) + checksum_bytes == sizeof(FilterFileHeader),
              "the checksum of a header stands at its end");

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void append(std::vector<std::byte>& to, const keyspace::Mirror& mirror) {
  ManifestMirror entry;
  entry.database = mirror.database;
  entry.state = static_cast<std::uint32_t>(mirror.state);
  entry.items_before = mirror.items_before;
  entry.source_bytes = static_cast<std::uint32_t>(mirror.source.size());
  entry.target_bytes = static_cast<std::uint32_t>(mirror.target.size());
  append(to, bytes_of(entry));
  append(to, bytes_of(std::string_view(mirror.source)));
  append(to, bytes_of(std::string_view(mirror.target)));
}

// Takes bytes from the front of what is left. Every take() compares with what is left first. So a false
// length moves nothing and allocates nothing.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  [[nodiscard]] std::size_t offset() const { return offset_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

  // The first `count` bytes of a structure.
  template <class Structure>
  bool take(Structure& into, std::size_t count = sizeof(Structure)) {
    if (rest_.size() < count) return false;
    std::memcpy(&into, rest_.data(), count);
    advance(count);
    return true;
  }
  bool take(std::string& into, std::size_t length) {
    if (rest_.size() < length) return false;
    into.assign(reinterpret_cast<const char*>(rest_.data()), length);
    advance(length);
    return true;
  }

 private:
  void advance(std::size_t count) {
    rest_ = rest_.subspan(count);
    offset_ += count;
  }
  std::span<const std::byte> rest_;
  std::size_t offset_ = 0;
};

// The name is joined to the folder's path and opened. Without a slash and without dots it cannot lead to a
// file elsewhere.
bool valid_file_name(std::string_view name) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), allowed);
}

Result<ListedFile> decode_file(Cursor& cursor) {
  const std::size_t start = cursor.offset();
  ManifestFile entry;
  if (!cursor.take(entry)) return damaged_at(start, "it ends inside the list of files");
  if (entry.flags != 0) return damaged_at(start, "a file's flags are unknown");
  if (entry.name_bytes > file_name_bytes_max) return damaged_at(start, "a file's name is too long");
  ListedFile file{
      .name = {}, .byte_count = entry.byte_count, .record_count = entry.record_count, .seal = entry.seal};
  if (!cursor.take(file.name, entry.name_bytes)) return damaged_at(start, "it ends inside a file's name");
  if (!valid_file_name(file.name)) return damaged_at(start, "a file's name has characters that none has");
  return file;
}

Result<keyspace::Mirror> decode_mirror(Cursor& cursor) {
  const std::size_t start = cursor.offset();
  ManifestMirror entry;
  if (!cursor.take(entry)) return damaged_at(start, "it ends inside the list of mirrors");
  // Whether the keys and the database exist is seen when the mirror begins: only then are the filters there.
  if (entry.state == 0 || entry.state > static_cast<std::uint32_t>(keyspace::last_mirror_state))
    return damaged_at(start, "a mirror has a state that this build does not know");
  keyspace::Mirror mirror{.database = entry.database,
                          .source = {},
                          .target = {},
                          .state = static_cast<keyspace::MirrorState>(std::uint32_t{entry.state}),
                          .items_before = entry.items_before};
  if (!cursor.take(mirror.source, entry.source_bytes) || !cursor.take(mirror.target, entry.target_bytes))
    return damaged_at(start, "it ends inside a mirror's keys");
  return mirror;
}

// Checks that the sums in the head are those of the list. The numbers come from a disk, and the sums must not
// wrap.
Result<void> check_sums(const Manifest& manifest) {
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  for (const ListedFile& file : manifest.files) {
    const auto more_records = checked_add(records, file.record_count);
    const auto more_bytes = checked_add(bytes, file.byte_count);
    if (!more_records || !more_bytes) return damaged_at(0, "its counts are absurd");
    records = *more_records;
    bytes = *more_bytes;
  }
  if (records != manifest.filter_count || bytes != manifest.byte_count)
    return damaged_at(0, "its counts are not those of the files it lists");
  return {};
}

// The checksum is right, so the bytes are as a writer has left them. A checksum keeps no attacker away, so
// each number is checked all the same, and before it is used.
Result<Manifest> decode_verified(std::span<const std::byte> bytes, std::uint32_t found_version) {
  Cursor cursor(bytes);
  ManifestHead head;
  // Fields that the head of an older version lacks keep their default, 0.
  if (!cursor.take(head, manifest_head_bytes(found_version))) return damaged_at(0, "it is too short");
  if (head.file_count > manifest_files_max) return damaged_at(0, "it lists too many files");
  if (head.mirror_count > keyspace::mirrors_max) return damaged_at(0, "it lists too many mirrors");
  if (head.reserved != 0 || head.reserved_too != 0) return damaged_at(0, "its flags are unknown");
  if (head.writer_bytes > writer_bytes_max) return damaged_at(0, "its version text is too long");
  Manifest manifest{.generation = head.generation,
                    .taken_at = head.taken_at,
                    .filter_count = head.filter_count,
                    .item_count = head.item_count,
                    .byte_count = head.byte_count,
                    .journal_position = head.journal_position,
                    .identity = head.identity,
                    .run = head.run,
                    .writer = {},
                    .files = {},
                    .mirrors = {}};
  if (!cursor.take(manifest.writer, head.writer_bytes))
    return damaged_at(cursor.offset(), "it ends inside the version text");
  // Nothing is reserved for the counts: the lists grow as far as there are bytes for them.
  for (std::uint32_t i = 0; i < head.file_count; ++i) {
    auto file = decode_file(cursor);
    if (!file) return file.error();
    manifest.files.push_back(std::move(*file));
  }
  for (std::uint32_t i = 0; i < head.mirror_count; ++i) {
    auto mirror = decode_mirror(cursor);
    if (!mirror) return mirror.error();
    manifest.mirrors.push_back(std::move(*mirror));
  }
  if (!cursor.at_end()) return damaged_at(cursor.offset(), "something stands behind its lists");
  if (auto right = check_sums(manifest); !right) return right.error();
  return manifest;
}

}  // namespace

std::string hexadecimal(std::uint64_t value) {
  std::string text(checksum_digits, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, value >>= 4)
    *digit = "0123456789abcdef"[value & 0xf];
  return text;
}

std::optional<std::uint64_t> stored_bitmap_bytes(std::uint64_t bitmap_bytes) {
  const std::uint64_t chunks = bitmap_bytes / chunk_bytes + (bitmap_bytes % chunk_bytes != 0 ? 1 : 0);
  return checked_add(bitmap_bytes,
                     chunks * checksum_bytes);  // the product is below bitmap_bytes + chunk_bytes
}

std::vector<std::byte> encode(const Manifest& manifest) {
  SEPAL_ASSERT(manifest.files.size() <= manifest_files_max && manifest.writer.size() <= writer_bytes_max &&
                   manifest.mirrors.size() <= keyspace::mirrors_max,
               "a manifest beyond its limits could not be read");
  ManifestHead head;
  head.generation = manifest.generation;
  head.taken_at = manifest.taken_at;
  head.filter_count = manifest.filter_count;
  head.item_count = manifest.item_count;
  head.byte_count = manifest.byte_count;
  head.journal_position = manifest.journal_position;
  head.identity = manifest.identity;
  head.run = manifest.run;
  head.file_count = static_cast<std::uint32_t>(manifest.files.size());
  head.writer_bytes = static_cast<std::uint32_t>(manifest.writer.size());
  head.mirror_count = static_cast<std::uint32_t>(manifest.mirrors.size());
  std::vector<std::byte> bytes;
  append(bytes, bytes_of(head));
  append(bytes, bytes_of(std::string_view(manifest.writer)));
  for (const ListedFile& file : manifest.files) {
    ManifestFile entry;
    entry.name_bytes = static_cast<std::uint32_t>(file.name.size());
    entry.byte_count = file.byte_count;
    entry.record_count = file.record_count;
    entry.seal = file.seal;
    append(bytes, bytes_of(entry));
    append(bytes, bytes_of(std::string_view(file.name)));
  }
  for (const keyspace::Mirror& mirror : manifest.mirrors) append(bytes, mirror);
  append(bytes, bytes_of(U64(Checksum::of(bytes))));
  return bytes;
}

Result<Manifest> decode_manifest(std::span<const std::byte> bytes) {
  ManifestHead head;
  // The version says how long the head is. Up to the shortest head, the heads of all versions are alike.
  constexpr std::size_t shortest = manifest_head_bytes(manifest_version_without_identity);
  if (!Cursor(bytes).take(head, shortest) || bytes.size() < shortest + checksum_bytes)
    return damaged_at(0, "it is too short");
  if (head.magic != ManifestHead::expected_magic)
    return damaged_at(0, "it does not begin as a manifest does");
  // The version is checked before the checksum, because another version may keep its checksum elsewhere.
  constexpr KnownVersions known{.first = manifest_version_without_identity, .last = manifest_version};
  if (!known.has(head.version) || head.flags != 0) return unsupported(head.version, known);
  const auto covered = bytes.first(bytes.size() - checksum_bytes);
  if (load_little_endian<std::uint64_t>(bytes.data() + covered.size()) != Checksum::of(covered))
    return damaged_at(0, "its checksum does not match");
  return decode_verified(covered, head.version);
}

std::string sealed_line(std::string_view kind, std::string_view value) {
  std::string line = "SEPAL-";
  line.append(kind).append(" ").append(std::to_string(line_version)).append(" ").append(value).append(" ");
  line += hexadecimal(Checksum::of(bytes_of(std::string_view(line))));
  return line + "\n";
}

Result<std::string> decode_sealed_line(std::string_view kind, std::string_view line) {
  std::string prefix = "SEPAL-";
  prefix.append(kind).append(" ");
  if (!line.starts_with(prefix)) return damaged_at(0, "it does not begin with " + prefix);
  std::string_view rest = line.substr(prefix.size());
  const std::size_t version_end = rest.find(' ');
  if (version_end == std::string_view::npos) return damaged_at(prefix.size(), "it ends too early");
  const auto found = parse_whole<std::uint32_t>(rest.substr(0, version_end));
  if (!found) return damaged_at(prefix.size(), "it names no format version");
  // Before the checksum, as in the MANIFEST.
  if (*found != line_version) return unsupported(*found, {line_version, line_version});
  rest.remove_prefix(version_end + 1);
  const std::string_view value = rest.substr(0, rest.find(' '));
  // The line is right if it is exactly the line that sealed_line() makes for this value. This also refuses a
  // version with zeros in front, a fifth word, and bytes behind the line feed.
  if (line != sealed_line(kind, value)) return damaged_at(0, "its checksum does not match");
  return std::string(value);
}

std::string generation_name(std::uint64_t number) {
  return numbered_name(generation_prefix, number);
}

std::optional<std::uint64_t> generation_number(std::string_view name) {
  return number_in_name(generation_prefix, name);
}

}  // namespace sepal::storage::format
