// Reads a generation: verifies its MANIFEST and every file in it, and hands over the filters.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/snapshot_format.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include <cstddef>
#include <functional>

#include "storage/generation/generation_writer.hpp"
#include "storage/generation/known_files.hpp"
#include "storage/generation/record_reader.hpp"

namespace sepal::storage {

struct ReadGeneration {
  GenerationReport report;
  KnownFiles files;
};

// Takes the error of a damaged file, for a caller that goes on with the other files.
using DamagedFileSink = std::function<void(const Path& path, const Error& error)>;

// Errors: damaged and unsupported_version, with the file in the sentence; those of Disk. Blocks.
Result<format::Manifest> read_manifest(Disk& disk, const Path& path);

// Whether the MANIFEST in this folder is the folder's own. Errors: damaged.
[[nodiscard]] Result<void> check_number(std::uint64_t number, const GenerationPlace& place);
// Whether a file is the one that the MANIFEST lists. Errors: damaged, without the file's name.
[[nodiscard]] Result<void> check_size(std::uint64_t byte_count, const format::ListedFile& listed);
[[nodiscard]] Result<void> check_count(std::uint64_t record_count, const format::ListedFile& listed);
[[nodiscard]] Result<void> check_seal(std::uint64_t seal, const format::ListedFile& listed);

struct ReadOptions {
  Bits bits = Bits::loaded;  // checked: the sink gets filters without their bits
  std::size_t thread_count = DataDirectoryOptions().thread_count;
};

// Errors as DataDirectory::load, with the file in the sentence, without advice. If `damaged` is given, it
// gets the damaged files, and they are no errors. Blocks.
Result<ReadGeneration> read_generation(Disk& disk, const GenerationPlace& place, const value::Limits& limits,
                                       const LoadSink& sink, const ProgressSink& progress,
                                       const DamagedFileSink& damaged = {}, const ReadOptions& options = {});

}  // namespace sepal::storage
