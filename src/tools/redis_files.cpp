#include "redis_files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "rdb_file.hpp"

namespace sepal::tools {
namespace {

constexpr std::string_view manifest_ending = ".manifest";
constexpr std::uint64_t manifest_bytes_max = 16 << 20;

struct ListedPart {
  std::string name;
  std::uint64_t sequence = 0;
  char type = 0;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end != 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

// Nothing where the line is not understood. A name with blanks would be in quotes; Redis writes none by
// itself. A name with a slash is refused, because it could lead out of the manifest's folder.
std::optional<ListedPart> parse_line(std::string_view line) {
  ListedPart part;
  const auto words = words_of(line);
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    const std::string_view value = words[i + 1];
    if (words[i] == "file") part.name = value;
    if (words[i] == "type") part.type = value[0];
    if (words[i] != "seq") continue;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), part.sequence);
    if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
  }
  const bool plain = !part.name.empty() && part.name.find_first_of("/\"\\") == std::string::npos;
  const bool known = std::string_view("bih").find(part.type) != std::string_view::npos && part.type != 0;
  return words.size() % 2 == 0 && plain && known ? std::optional(part) : std::nullopt;
}

// Reads an RDB file at the start of `source` to its end, as only its end tells where the commands begin. The
// checksum is verified later, when the keys are read.
Result<std::uint64_t> end_of_rdb(RedisFile& source) {
  RdbFile rdb(*source.file, source.byte_count, source.name, RdbFile::Check::none);
  for (;;) {
    const auto key = rdb.next();
    if (!key) return key.error();
    if (!*key) return rdb.offset();
  }
}

Result<RedisFile> open_part(storage::Disk& disk, const storage::Path& path) {
  auto file = disk.open(path);
  if (!file) return file.error();
  const auto size = (*file)->size();
  if (!size) return size.error();
  RedisFile source{.name = path.string(), .file = std::move(*file), .byte_count = *size};
  std::array<std::byte, 8> start{};
  const auto read = source.file->read_at(0, start);
  if (!read) return read.error();
  if (!RdbFile::begins(std::span(start).first(*read))) {
    // Commands are lists, and notes begin with '#'.
    if (*read == 0 || start[0] == std::byte{'*'} || start[0] == std::byte{'#'}) return source;
    return fail(Errc::damaged,
                source.name + ": this is neither an RDB file nor an append-only file of Redis");
  }
  const auto end = end_of_rdb(source);
  if (!end) return end.error();
  source.commands_from = *end;
  return source;
}

Result<std::string> read_small_file(storage::Disk& disk, const storage::Path& path) {
  const auto file = disk.open(path);
  if (!file) return file.error();
  const auto size = (*file)->size();
  if (!size) return size.error();
  if (*size > manifest_bytes_max) return fail(Errc::damaged, path.string() + " is too long for a manifest");
  std::string text(static_cast<std::size_t>(*size), '\0');
  const auto read = (*file)->read_at(0, std::as_writable_bytes(std::span(text)));
  if (!read) return read.error();
  text.resize(*read);
  return text;
}

Result<storage::Path> manifest_in(storage::Disk& disk, const storage::Path& folder) {
  const auto names = disk.list(folder);
  if (!names) return names.error();
  std::vector<std::string> manifests;
  std::ranges::copy_if(*names, std::back_inserter(manifests),
                       [](const std::string& name) { return name.ends_with(manifest_ending); });
  if (manifests.size() == 1) return folder / manifests.front();
  return fail(Errc::not_found,
              folder.string() + (manifests.empty() ? " has no manifest of an append-only file"
                                                   : " has several manifests; name one"));
}

}  // namespace

Result<std::vector<std::string>> parse_manifest(std::string_view text) {
  std::vector<ListedPart> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line[0] == '#') continue;
    const auto part = parse_line(line);
    if (!part) return fail(Errc::damaged, "the line \"" + std::string(line) + "\" is not one of a manifest");
    // The parts of type h are older ones, which the base replaces. Redis is about to remove them.
    if (part->type != 'h') parts.push_back(*part);
  }
  // The base goes first, and then the commands in the order in which Redis wrote them.
  std::ranges::stable_sort(parts, {},
                           [](const ListedPart& part) { return std::pair(part.type != 'b', part.sequence); });
  std::vector<std::string> names;
  names.reserve(parts.size());
  for (ListedPart& part : parts) names.push_back(std::move(part.name));
  if (names.empty()) return fail(Errc::damaged, "the manifest names no file");
  return names;
}

Result<std::vector<RedisFile>> redis_files(storage::Disk& disk, const storage::Path& path) {
  storage::Path file = path;
  // A path that is not there is no folder. Opening it below tells why.
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    const auto found = manifest_in(disk, path);
    if (!found) return found.error();
    file = *found;
  }
  std::vector<storage::Path> parts{file};
  if (file.string().ends_with(manifest_ending)) {
    const auto text = read_small_file(disk, file);
    if (!text) return text.error();
    const auto names = parse_manifest(*text);
    if (!names) return fail(names.error().code, file.string() + ": " + names.error().detail);
    // The manifest itself is no part. The names in it are those of files beside it.
    parts.clear();
    for (const std::string& name : *names) parts.push_back(file.parent_path() / name);
  }
  std::vector<RedisFile> files;
  for (const storage::Path& part : parts) {
    auto opened = open_part(disk, part);
    if (!opened) return opened.error();
    files.push_back(std::move(*opened));
  }
  return files;
}

}  // namespace sepal::tools
