// Writes a generation of filters that are in no memory.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/data_directory.hpp>
#include <sepal/storage/disk.hpp>
#include <sepal/storage/streamed_filter.hpp>

#include "generation_writer.hpp"

namespace sepal::storage {

// As write_generation(). Goes through the stream twice, because a file's header counts its filters.
Result<GenerationReport> import_generation(Disk& disk, const GenerationPlace& place, FilterStream& filters,
                                           WallTime now, const DataDirectoryOptions& options,
                                           const ProgressSink& progress);

}  // namespace sepal::storage
