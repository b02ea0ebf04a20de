// Reads a generation: verifies its MANIFEST and every file in it, and hands over the filters.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/storage/data_directory.hpp>
#include <sepal/storage/disk.hpp>
#include <sepal/storage/snapshot_format.hpp>

#include <functional>

#include "generation_writer.hpp"
#include "known_files.hpp"
#include "record_reader.hpp"

namespace sepal::storage {

struct ReadGeneration {
  GenerationReport report;
  KnownFiles files;
};

// Takes the error of a damaged file, for a caller that goes on with the other files.
using DamagedFileSink = std::function<void(const Path& path, const Error& error)>;

// Errors: damaged and unsupported_version, with the file in the sentence; those of Disk. Blocks.
Result<format::Manifest> read_manifest(Disk& disk, const Path& path);

// Errors as DataDirectory::load, with the file in the sentence, without advice. If `damaged` is given, it
// gets the damaged files, and they are no errors. With Bits::checked the sink gets filters without their
// bits. Blocks.
Result<ReadGeneration> read_generation(Disk& disk, const GenerationPlace& place,
                                       const filter::FilterLimits& limits, const LoadSink& sink,
                                       const ProgressSink& progress, const DamagedFileSink& damaged = {},
                                       Bits bits = Bits::loaded);

}  // namespace sepal::storage
