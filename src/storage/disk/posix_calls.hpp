// What the files of this folder share that make system calls. Every error names the operation, the path, and
// the system's reason.
#pragma once

#include <sepal/base/descriptor.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <string_view>

namespace sepal::storage {

[[nodiscard]] Error failed(std::string_view operation, const Path& path, int error_number);

// System calls need a name for the current directory, which an empty path means.
[[nodiscard]] const Path& named(const Path& directory);

// open(2) for this process only. No descriptor is open after an error, which is in errno.
[[nodiscard]] Descriptor open_descriptor(const Path& path, int flags);
// Opens a regular file, as Disk says it.
Result<Descriptor> open_regular(std::string_view operation, const Path& path, int flags);

}  // namespace sepal::storage
