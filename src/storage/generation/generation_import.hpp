// Writes a generation of filters that are in no memory.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/generation/streamed_filter.hpp>

#include "storage/generation/generation_writer.hpp"

namespace sepal::storage {

// As write_generation(). Goes through the stream twice, because a file's header counts its filters.
Result<GenerationReport> import_generation(Disk& disk, const GenerationPlace& place, FilterStream& filters,
                                           WallTime now, const DataDirectoryOptions& options,
                                           const ProgressSink& progress);

}  // namespace sepal::storage
