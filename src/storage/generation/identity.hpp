// To which data directory the files in a directory belong (sepal/storage/format/lineage.hpp).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/lineage.hpp>

#include <cstdint>
#include <optional>

namespace sepal::storage {

// A new identity and a new run, drawn from a random number.
[[nodiscard]] Lineage drawn_lineage(std::uint64_t drawn);

// The identity that the MANIFEST of this generation, all segments of the journal, and SYNCED name; 0 if none
// of them names one. A file that is damaged is left out: the reader of that file tells of it. Blocks. Errors:
// damaged where two of them name different ones, with the files and the lines to type; those of Disk.
Result<std::uint64_t> common_identity(Disk& disk, const Path& directory,
                                      std::optional<std::uint64_t> generation);

}  // namespace sepal::storage
