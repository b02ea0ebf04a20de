#include "tools/redis/redis_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "tools/redis/rdb_file.hpp"

namespace sepal::tools {
namespace {

constexpr std::string_view manifest_ending = ".manifest";
constexpr std::uint64_t manifest_bytes_max = 16 << 20;

struct ListedPart {
  std::string name;
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
    if (words[i] == "seq" && value.find_first_not_of("0123456789") != std::string_view::npos)
      return std::nullopt;
  }
  const bool plain = !part.name.empty() && part.name.find_first_of("/\"\\") == std::string::npos;
  const bool known = std::string_view("bih").find(part.type) != std::string_view::npos && part.type != 0;
  return words.size() % 2 == 0 && plain && known ? std::optional(part) : std::nullopt;
}

Result<RedisFile> open_rdb(storage::Disk& disk, const storage::Path& path) {
  auto file = disk.open(path);
  if (!file) return file.error();
  const auto size = (*file)->size();
  if (!size) return size.error();
  RedisFile source{.name = path.string(), .file = std::move(*file), .byte_count = *size};
  std::array<std::byte, 8> start{};
  const auto read = source.file->read_at(0, start);
  if (!read) return read.error();
  if (RdbFile::begins(std::span(start).first(*read))) return source;
  if (*read != 0 && begins_commands(static_cast<char>(start[0])))
    return fail(Errc::unsupported_version, source.name + ": " + append_only_advice);
  return fail(Errc::damaged, source.name + ": this is no RDB file of Redis");
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

// Changes since the base would be lost.
Result<void> check_empty(storage::Disk& disk, const storage::Path& increment) {
  const auto file = disk.open(increment);
  if (!file) return file.error();
  const auto size = (*file)->size();
  if (!size) return size.error();
  if (*size == 0) return {};
  return fail(
      Errc::unsupported_version,
      increment.string() +
          ": these are changes since the base of the append-only file, as commands that only a server "
          "can run; stop the writers, send BGREWRITEAOF, and convert the folder when it is done, or "
          "copy the keys with sepal migrate");
}

// The base of an append-only file that has no changes since.
Result<RedisFile> open_base(storage::Disk& disk, const storage::Path& manifest) {
  const auto text = read_small_file(disk, manifest);
  if (!text) return text.error();
  const auto parts = parse_manifest(*text);
  if (!parts) return fail(parts.error().code, manifest.string() + ": " + parts.error().detail);
  // The names are those of files beside the manifest.
  auto base = open_rdb(disk, manifest.parent_path() / parts->base);
  if (!base) return base;
  for (const std::string& increment : parts->increments)
    if (auto empty = check_empty(disk, manifest.parent_path() / increment); !empty) return empty.error();
  base->of_manifest = true;
  return base;
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text) {
  Manifest manifest;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line[0] == '#') continue;
    const auto part = parse_line(line);
    if (!part) return fail(Errc::damaged, "the line \"" + std::string(line) + "\" is not one of a manifest");
    if (part->type == 'b' && !manifest.base.empty()) return fail(Errc::damaged, "it names two bases");
    if (part->type == 'b') manifest.base = part->name;
    // The parts of type h are older ones, which the base replaces. Redis is about to remove them.
    if (part->type == 'i') manifest.increments.push_back(part->name);
  }
  if (manifest.base.empty()) return fail(Errc::damaged, "it names no base");
  return manifest;
}

Result<RedisFile> redis_file(storage::Disk& disk, const storage::Path& path) {
  storage::Path file = path;
  // A path that is not there is no folder. Opening it below tells why.
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    const auto found = manifest_in(disk, path);
    if (!found) return found.error();
    file = *found;
  }
  return file.string().ends_with(manifest_ending) ? open_base(disk, file) : open_rdb(disk, file);
}

}  // namespace sepal::tools
