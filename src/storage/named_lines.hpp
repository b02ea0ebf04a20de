// CURRENT and SEED: the files of a data directory that hold one sealed line each.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sepal::storage {

// Nothing where there is no such file. Blocks. Errors: damaged and unsupported_version, with file and advice,
// those of Disk.

// The number of the generation that CURRENT names.
Result<std::optional<std::uint64_t>> read_current_generation(Disk& disk, const Path& directory);
Result<std::optional<std::uint64_t>> read_seed(Disk& disk, const Path& directory);

// What they hold.
[[nodiscard]] std::string current_line(std::string_view generation_name);
[[nodiscard]] std::string seed_line(std::uint64_t seed);

}  // namespace sepal::storage
