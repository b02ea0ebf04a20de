// Reads a generation: verifies its MANIFEST and every file that it lists, and hands over the filters.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/storage/data_directory.hpp>
#include <sepal/storage/disk.hpp>
#include <sepal/storage/snapshot_format.hpp>

#include "generation_writer.hpp"
#include "known_files.hpp"

namespace sepal::storage {

struct ReadGeneration {
  GenerationReport report;
  KnownFiles files;
};

// Errors: damaged and unsupported_version, with the file in the sentence, those of Disk. Blocks.
Result<format::Manifest> read_manifest(Disk& disk, const Path& path);

// Errors as DataDirectory::load, with the file in the sentence, without advice. Blocks.
Result<ReadGeneration> read_generation(Disk& disk, const GenerationPlace& place,
                                       const filter::FilterLimits& limits, const LoadSink& sink,
                                       const ProgressSink& progress);

}  // namespace sepal::storage
