#include "storage/generation/identity.hpp"

#include <sepal/base/hash.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "storage/disk/damage.hpp"
#include "storage/format/synced_file.hpp"
#include "storage/generation/generation_reader.hpp"
#include "storage/journal/segment_files.hpp"

namespace sepal::storage {
namespace {

// The names of the files that belong to each identity.
using Owners = std::map<std::uint64_t, std::vector<std::string>>;

struct Mixture {
  Owners owners;
  bool earlier_segments = false;   // some segments name no identity, and stay
  std::vector<std::string> names;  // all that the directory has
};

std::string joined(const std::vector<std::string>& names, std::string_view between) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : between).append(name);
  return text;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool has_segment(const std::vector<std::string>& names) {
  return std::ranges::any_of(
      names, [](const std::string& name) { return format::segment_number(name).has_value(); });
}

// A name that is free, because an earlier mixture may have been taken apart here.
std::string folder_beside(const Mixture& mixture, std::uint64_t kept) {
  const std::string first = "not-of-" + format::hexadecimal(kept);
  std::string name = first;
  for (int number = 2; has(mixture.names, name); ++number) name = first + "-" + std::to_string(number);
  return name;
}

// The line that leaves only the files of one identity in the directory.
std::string line_to_keep(const Path& directory, const Mixture& mixture, std::uint64_t kept) {
  std::vector<std::string> moved;
  for (const auto& [identity, names] : mixture.owners) {
    if (identity == kept) continue;
    for (const std::string& name : names) {
      // What names the generation goes with it.
      for (const char* const naming : {"CURRENT", "FIRST"})
        if (format::generation_number(name) && has(mixture.names, naming)) moved.emplace_back(naming);
      moved.push_back(name);
    }
  }
  const std::string folder = folder_beside(mixture, kept);
  std::string line = "cd " + quoted_path(directory) + " && mkdir " + folder;
  if (has_segment(moved)) {
    // A start removes these files once no record names them. Their owner is not known. If segments stay as
    // well, both sides may need them.
    std::vector<std::string> adopted = mixture.names;
    std::erase_if(adopted, [](const std::string& name) { return !format::adopted_number(name); });
    if (!mixture.earlier_segments && !has_segment(mixture.owners.at(kept))) {
      moved.insert(moved.end(), adopted.begin(), adopted.end());
    } else if (!adopted.empty()) {
      line += " && cp -p " + joined(adopted, " ") + " " + folder;
    }
  }
  return line + " && mv " + joined(moved, " ") + " " + folder;
}

Error mixed(const Path& directory, const Mixture& mixture) {
  std::string belonging;
  std::string advice;
  for (const auto& [identity, names] : mixture.owners) {
    const std::string text = format::hexadecimal(identity);
    belonging += (belonging.empty() ? "" : ", and to ") + text + " belong " + joined(names, ", ");
    // SYNCED is no data.
    if (names.size() == 1 && names[0] == "SYNCED") continue;
    advice += "; to keep what belongs to " + text + ", type: " + line_to_keep(directory, mixture, identity);
  }
  return fail(Errc::damaged, "the files in " + directory.string() +
                                 " are of different data directories: to " + belonging +
                                 "; move away what does not belong here" + advice);
}

}  // namespace

Lineage drawn_lineage(std::uint64_t drawn) {
  // 0 stands for none.
  const std::uint64_t identity = std::max<std::uint64_t>(hash64("identity", drawn), 1);
  const auto run = static_cast<std::uint32_t>(hash64("run", drawn) | 1);
  return {.identity = identity, .run = run};
}

Result<std::uint64_t> common_identity(Disk& disk, const Path& directory,
                                      std::optional<std::uint64_t> generation) {
  Mixture mixture;
  Owners& owners = mixture.owners;
  const auto note = [&](std::uint64_t identity, std::string name) {
    if (identity != 0) owners[identity].push_back(std::move(name));
  };
  if (generation) {
    const std::string folder = format::generation_name(*generation);
    const auto manifest = read_manifest(disk, directory / folder / "MANIFEST");
    const bool unread =
        !manifest && (is_damage(manifest.error()) || manifest.error().code == Errc::not_found);
    if (!manifest && !unread) return manifest.error();
    if (manifest) note(manifest->identity, folder);
  }
  const auto segments = list_segments(disk, directory);
  if (!segments) return segments.error();
  for (const SegmentFile& segment : *segments) {
    if (!segment.begins()) continue;
    note(segment.lineage.identity, segment.path.filename().string());
    mixture.earlier_segments = mixture.earlier_segments || segment.lineage.identity == 0;
  }
  const auto synced = read_synced(disk, synced_path(directory));
  if (!synced && !is_damage(synced.error())) return synced.error();
  if (synced && *synced) note((*synced)->identity, "SYNCED");
  if (owners.size() <= 1) return owners.empty() ? 0 : owners.begin()->first;
  auto names = disk.list(directory);
  if (!names) return names.error();
  mixture.names = std::move(*names);
  return mixed(directory, mixture);
}

}  // namespace sepal::storage
