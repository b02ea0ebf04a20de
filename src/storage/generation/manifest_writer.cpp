#include "storage/generation/manifest_writer.hpp"

#include <sepal/base/assert.hpp>

#include <chrono>
#include <string_view>
#include <vector>

namespace sepal::storage {

static_assert(std::string_view(SEPAL_VERSION).size() <= format::writer_bytes_max);

std::uint64_t manifest_time(WallTime time) {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  return since < 0 ? 0 : static_cast<std::uint64_t>(since);
}

Result<GenerationReport> write_manifest(Disk& disk, const GenerationPlace& place, format::Manifest manifest) {
  manifest.writer = SEPAL_VERSION;
  manifest.identity = place.lineage.identity;
  manifest.run = place.lineage.run;
  for (const format::ListedFile& file : manifest.files) {
    SEPAL_ASSERT(!file.name.empty() && file.name.size() <= format::file_name_bytes_max,
                 "a file of a generation has a name that no reader takes");
    manifest.byte_count += file.byte_count;
  }
  const std::vector<std::byte> bytes = format::encode(manifest);
  SEPAL_ASSERT(bytes.size() <= format::manifest_bytes_max, "a manifest is longer than a reader takes");
  // Written in place, without a file aside. As long as CURRENT does not name the folder, a torn MANIFEST does
  // no harm: only a start without CURRENT, or a tool, looks at it, and both verify it first
  // (current_generation.hpp).
  auto file = disk.create(place.folder / "MANIFEST");
  if (!file) return file.error();
  if (auto done = (*file)->write_at(0, bytes); !done) return done.error();
  if (auto done = (*file)->sync(); !done) return done.error();
  return GenerationReport{.name = format::generation_name(place.number),
                          .value_count = manifest.filter_count,
                          .bytes = manifest.byte_count + bytes.size(),
                          .journal_position = manifest.journal_position};
}

}  // namespace sepal::storage
