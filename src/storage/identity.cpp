#include "identity.hpp"

#include <sepal/base/hash.hpp>
#include <sepal/storage/snapshot_format.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "damage.hpp"
#include "generation_reader.hpp"
#include "segment_files.hpp"
#include "synced_file.hpp"

namespace sepal::storage {
namespace {

// The names of the files that belong to each identity.
using Owners = std::map<std::uint64_t, std::vector<std::string>>;

std::string joined(const std::vector<std::string>& names, std::string_view between) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : between).append(name);
  return text;
}

// The line that leaves only the files of one identity in the directory.
std::string line_to_keep(const Path& directory, const Owners& owners, std::uint64_t kept,
                         const std::vector<std::string>& adopted) {
  std::vector<std::string> moved;
  bool journal_moves = false;
  for (const auto& [identity, names] : owners) {
    if (identity == kept) continue;
    for (const std::string& name : names) {
      // CURRENT names the generation, and goes with it.
      if (format::generation_number(name)) moved.emplace_back("CURRENT");
      journal_moves = journal_moves || format::segment_number(name);
      moved.push_back(name);
    }
  }
  // A start would remove them once no record names them.
  if (journal_moves) moved.insert(moved.end(), adopted.begin(), adopted.end());
  const std::string folder = "not-of-" + format::hexadecimal(kept);
  return "cd " + quoted_path(directory) + " && mkdir " + folder + " && mv " + joined(moved, " ") + " " +
         folder;
}

Error mixed(const Path& directory, const Owners& owners, const std::vector<std::string>& adopted) {
  std::string belonging;
  std::string advice;
  for (const auto& [identity, names] : owners) {
    const std::string text = format::hexadecimal(identity);
    belonging += (belonging.empty() ? "" : ", and to ") + text + " belong " + joined(names, ", ");
    advice +=
        "; to keep what belongs to " + text + ", type: " + line_to_keep(directory, owners, identity, adopted);
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
  Owners owners;
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
  for (const SegmentFile& segment : *segments)
    if (segment.begins()) note(segment.lineage.identity, segment.path.filename().string());
  const auto synced = read_synced(disk, synced_path(directory));
  if (!synced && !is_damage(synced.error())) return synced.error();
  if (synced && *synced) note((*synced)->identity, "SYNCED");
  if (owners.size() <= 1) return owners.empty() ? 0 : owners.begin()->first;
  auto names = disk.list(directory);
  if (!names) return names.error();
  std::erase_if(*names, [](const std::string& name) { return !format::adopted_number(name); });
  return mixed(directory, owners, *names);
}

}  // namespace sepal::storage
