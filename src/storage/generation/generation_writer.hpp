// Writes a snapshot as the files of a generation into a folder: the pack, the filters' own files, the
// MANIFEST.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/lineage.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/generation/snapshot.hpp>

#include <cstdint>
#include <functional>

#include "storage/generation/known_files.hpp"

namespace sepal::storage {

struct GenerationPlace {
  Path folder;               // exists and is empty
  std::uint64_t number = 0;  // the generation's number
  Lineage lineage{};         // of its MANIFEST, when it is written
};

struct WrittenGeneration {
  GenerationReport report;
  KnownFiles files;
};

// The room that a snapshot takes in the files of a generation, without their heads.
[[nodiscard]] std::uint64_t generation_bytes(const Snapshot& snapshot);

// When this succeeds, every file is synced, but the names in the folder are not. A file of `known` with the
// same contents is linked. `all_read` may be empty; it is called when all bits are read, before the MANIFEST
// is made: a start may take a generation that has one. Its error ends this. Blocks.
Result<WrittenGeneration> write_generation(Disk& disk, const GenerationPlace& place, const Snapshot& snapshot,
                                           const KnownFiles& known, const DataDirectoryOptions& options,
                                           const ProgressSink& progress,
                                           const std::function<Result<void>()>& all_read);

}  // namespace sepal::storage
