// CURRENT and SEED: the files of a data directory that hold one sealed line each. What reads SEED is
// sepal/storage/data_directory.hpp's.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sepal::storage {

// The number of the generation that CURRENT names; nothing where there is no such file. Blocks. Errors:
// damaged and unsupported_version, with file and advice, those of Disk.
Result<std::optional<std::uint64_t>> read_current_generation(Disk& disk, const Path& directory);

// What they hold.
[[nodiscard]] std::string current_line(std::string_view generation_name);
[[nodiscard]] std::string seed_line(std::uint64_t seed);

}  // namespace sepal::storage
