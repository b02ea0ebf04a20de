// The last file of a generation.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/snapshot_format.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include <cstdint>

#include "storage/generation/generation_writer.hpp"

namespace sepal::storage {

// A clock before 1970 is wrong, but no reason to let a save fail: 0.
[[nodiscard]] std::uint64_t manifest_time(WallTime time);

// Writes the MANIFEST, and syncs it. All files that it lists are on disk by now. Fills in the writer and the
// sum of the files' bytes.
Result<GenerationReport> write_manifest(Disk& disk, const GenerationPlace& place, format::Manifest manifest);

}  // namespace sepal::storage
