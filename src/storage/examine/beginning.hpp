// What a file is, by its first bytes. The contents decide, and not the name: an operator may look at a copy
// with any name.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <cstdint>

namespace sepal::storage {

enum class Beginning : std::uint8_t {
  filters,  // a filter file, or a pack of a generation
  manifest,
  segment,  // of the journal
  synced,
  line,    // CURRENT, SEED
  unused,  // zeros
  empty,
  other,  // no file of Sepal
};

// Blocks. Errors: those of File.
Result<Beginning> beginning_of(File& file);

// The error of a file that is `empty` or `other`.
[[nodiscard]] Error no_file_of_sepal(const Path& path, Beginning beginning);

}  // namespace sepal::storage
