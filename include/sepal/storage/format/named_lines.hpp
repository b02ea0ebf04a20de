// CURRENT, FIRST and SEED: the files of a data directory that hold one sealed line each.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sepal::storage {

// The number of the generation that CURRENT names; empty if there is no such file. Blocks. Errors: damaged
// and unsupported_version, with file and advice, those of Disk.
Result<std::optional<std::uint64_t>> read_current_generation(Disk& disk, const Path& directory);

// The same for FIRST.
Result<std::optional<std::uint64_t>> read_first_generation(Disk& disk, const Path& directory);

// The seed of new filters that a data directory holds, whether a daemon uses it or not; nothing where there
// is no SEED. Blocks. Errors: damaged and unsupported_version, with file and advice; those of Disk.
Result<std::optional<std::uint64_t>> read_seed(Disk& disk, const Path& directory);

// The contents of the three files.
[[nodiscard]] std::string current_line(std::string_view generation_name);
[[nodiscard]] std::string first_line(std::string_view generation_name);
[[nodiscard]] std::string seed_line(std::uint64_t seed);

}  // namespace sepal::storage
