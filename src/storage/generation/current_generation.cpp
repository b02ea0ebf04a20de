#include "storage/generation/current_generation.hpp"

#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/format/named_lines.hpp>
#include <sepal/storage/format/snapshot_format.hpp>
#include <sepal/storage/generation/restore.hpp>

#include <algorithm>
#include <string>

#include "storage/disk/damage.hpp"
#include "storage/generation/generation_reader.hpp"
#include "storage/generation/record_reader.hpp"

namespace sepal::storage {
namespace {

Path manifest_path(const Path& directory, std::uint64_t number) {
  return directory / format::generation_name(number) / "MANIFEST";
}

// An error of the disk is returned and not taken for damage: otherwise a disk that fails for a moment would
// make a caller choose an older generation.
Result<bool> has_whole_manifest(Disk& disk, const Path& directory, std::uint64_t number) {
  const auto manifest = read_manifest(disk, manifest_path(directory, number));
  if (manifest) return manifest->generation == number;
  if (is_damage(manifest.error()) || manifest.error().code == Errc::not_found) return false;
  return manifest.error();
}

Result<bool> is_whole_generation(Disk& disk, const Path& directory, std::uint64_t number) {
  const GenerationPlace place{.folder = directory / format::generation_name(number), .number = number};
  // The filters are dropped as they come: only the checksums matter here. The load reads them again.
  const auto let_go = [](std::span<LoadedValue>) { return Result<void>(); };
  const auto read = read_generation(disk, place, any_filter, let_go, {}, {}, {.bits = Bits::checked});
  if (read) return true;
  if (is_damage(read.error()) || read.error().code == Errc::not_found) return false;
  return read.error();
}

// `number` is a generation that was saved. The advice has the whole line for CURRENT, because an operator
// cannot compute its checksum. The generation in it may be another one than `number`: the newest whose
// MANIFEST verifies.
Error current_lost(Disk& disk, const Path& directory, std::uint64_t number) {
  const Path path = directory / "CURRENT";
  const auto whole = newest_whole_generation(disk, directory);
  if (!whole) return whole.error();
  std::string advice = "put it back";
  if (*whole) {
    const std::string name = format::generation_name(**whole);
    std::string line = current_line(name);
    line.pop_back();  // echo ends the line
    advice.append("; or make ").append(name).append(" current again: echo '").append(line).append("' > ");
    advice += quoted_path(path);
  }
  return fail(Errc::damaged, path.string() + " is not there, but " + format::generation_name(number) +
                                 " has been saved: CURRENT was lost; " + advice +
                                 "; or save what is whole with sepal salvage");
}

}  // namespace

Result<CurrentGeneration> find_current_generation(Disk& disk, const Path& directory) {
  if (auto none = require_no_begun_restore(disk, directory); !none) return none.error();
  const auto current = read_current_generation(disk, directory);
  if (!current) return current.error();
  if (*current) return CurrentGeneration{.number = *current};
  const auto numbers = list_generations(disk, directory);
  if (!numbers) return numbers.error();
  const auto first = read_first_generation(disk, directory);
  // A FIRST that is damaged names nothing. Then a MANIFEST counts as that of a finished save, as if FIRST
  // were not there: the start asks the operator, and removes nothing.
  if (!first && !is_damage(first.error())) return first.error();
  CurrentGeneration found;
  for (const std::uint64_t number : *numbers) {
    const auto saved = disk.exists(manifest_path(directory, number));
    if (!saved) return saved.error();
    if (!*saved) continue;
    // With CURRENT gone, it is unknown which of several generations was current. So a start chooses none.
    if (!first || *first != number) return current_lost(disk, directory, number);
    const auto whole = is_whole_generation(disk, directory, number);
    if (!whole) return whole.error();
    if (*whole) found = {.number = number, .unnamed = true};
  }
  return found;
}

Result<void> require_data_directory(Disk& disk, const Path& directory) {
  const auto names = disk.list(directory);
  if (!names) return names.error();
  // Such a directory may have no data at this moment.
  if (auto none = require_no_begun_restore(disk, directory); !none) return none;
  const bool known = std::ranges::any_of(*names, [](const std::string& name) {
    return name == "SEED" || name == "CURRENT" || format::generation_number(name) ||
           format::segment_number(name);
  });
  if (known) return {};
  return fail(Errc::not_found,
              directory.string() + " is no data directory: it has no SEED, no CURRENT and no journal");
}

Result<std::vector<std::uint64_t>> list_generations(Disk& disk, const Path& directory) {
  const auto names = disk.list(directory);
  if (!names) return names.error();
  std::vector<std::uint64_t> numbers;
  // Disk::list() sorts the names. All numbers have the same number of digits, so the numbers are sorted as
  // well.
  for (const std::string& name : *names)
    if (const auto number = format::generation_number(name)) numbers.push_back(*number);
  return numbers;
}

Result<std::optional<std::uint64_t>> newest_whole_generation(Disk& disk, const Path& directory) {
  const auto numbers = list_generations(disk, directory);
  if (!numbers) return numbers.error();
  for (auto number = numbers->rbegin(); number != numbers->rend(); ++number) {
    const auto whole = has_whole_manifest(disk, directory, *number);
    if (!whole) return whole.error();
    if (*whole) return std::optional(*number);
  }
  return std::optional<std::uint64_t>();
}

}  // namespace sepal::storage
