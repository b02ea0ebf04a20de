// Reads a generation: verifies its MANIFEST and every file that it lists, and hands over the filters.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/storage/data_directory.hpp>
#include <sepal/storage/disk.hpp>

#include <cstdint>

#include "generation_writer.hpp"

namespace sepal::storage {

// Errors as DataDirectory::load, with the file in the sentence, without advice. Blocks.
Result<GenerationReport> read_generation(Disk& disk, const GenerationPlace& place,
                                         const filter::FilterLimits& limits, const LoadSink& sink,
                                         const ProgressSink& progress);

}  // namespace sepal::storage
