#include <sepal/base/whole_number.hpp>
#include <sepal/storage/format/named_lines.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <charconv>
#include <span>
#include <utility>

#include "storage/disk/damage.hpp"

namespace sepal::storage {
namespace {

constexpr std::string_view current_kind = "CURRENT";
constexpr std::string_view first_kind = "FIRST";
constexpr std::string_view seed_kind = "SEED";
constexpr int seed_base = 16;

Result<std::optional<std::string>> read_sealed(Disk& disk, const Path& path, std::string_view kind,
                                               std::string_view advice) {
  auto file = disk.open(path);
  // A missing file is no damage: a new directory has none of the three, and FIRST goes with the first save.
  if (!file && file.error().code == Errc::not_found) return std::optional<std::string>();
  if (!file) return file.error();
  // A longer file is read in part, and then refused: decode_sealed_line() accepts whole lines only.
  std::string line(format::sealed_line_bytes_max, '\0');
  const auto count = (*file)->read_at(0, std::as_writable_bytes(std::span(line.data(), line.size())));
  if (!count) return count.error();
  line.resize(*count);
  auto value = format::decode_sealed_line(kind, line);
  if (!value) return with_advice(about(path.string(), value.error()), advice);
  return std::optional<std::string>(std::move(*value));
}

std::optional<std::uint64_t> seed_of(std::string_view text) {
  return parse_whole<std::uint64_t>(text, seed_base);
}

Result<std::optional<std::uint64_t>> read_generation_line(Disk& disk, const Path& path,
                                                          std::string_view kind) {
  const std::string advice = "restore it from a backup, or save what is whole with sepal salvage";
  const auto name = read_sealed(disk, path, kind, advice);
  if (!name) return name.error();
  if (!*name) return std::optional<std::uint64_t>();
  const auto number = format::generation_number(**name);
  if (!number) return with_advice(about(path.string(), damaged_at(0, "it names no generation")), advice);
  return number;
}

}  // namespace

Result<std::optional<std::uint64_t>> read_current_generation(Disk& disk, const Path& directory) {
  return read_generation_line(disk, directory / "CURRENT", current_kind);
}

Result<std::optional<std::uint64_t>> read_first_generation(Disk& disk, const Path& directory) {
  return read_generation_line(disk, directory / "FIRST", first_kind);
}

Result<std::optional<std::uint64_t>> read_seed(Disk& disk, const Path& directory) {
  const Path path = directory / "SEED";
  const std::string advice = "restore it from a backup, or remove it: new filters then get a new seed";
  const auto text = read_sealed(disk, path, seed_kind, advice);
  if (!text) return text.error();
  if (!*text) return std::optional<std::uint64_t>();
  const auto seed = seed_of(**text);
  if (!seed) return with_advice(about(path.string(), damaged_at(0, "it holds no number")), advice);
  return seed;
}

std::string current_line(std::string_view generation_name) {
  return format::sealed_line(current_kind, generation_name);
}

std::string first_line(std::string_view generation_name) {
  return format::sealed_line(first_kind, generation_name);
}

std::string seed_line(std::uint64_t seed) {
  std::string text(2 * sizeof seed, '\0');
  const auto end = std::to_chars(text.data(), text.data() + text.size(), seed, seed_base);
  text.resize(static_cast<std::size_t>(end.ptr - text.data()));
  return format::sealed_line(seed_kind, text);
}

}  // namespace sepal::storage
