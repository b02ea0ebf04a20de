// What the tools say where this user may not read or write the files of a server.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <filesystem>

namespace sepal::tools {

// Refuses a data directory or a backup that this user may not read. What is wrong with it otherwise, the
// caller finds. Errors: read_only, with a sentence that says who has to run sepal.
Result<void> require_readable(storage::Disk& disk, const std::filesystem::path& folder);

// Where the system denied this user a file, the error also says who has to run sepal.
[[nodiscard]] Error with_user_advice(const Error& error);

// The same for a folder of the user's own choice.
[[nodiscard]] Error with_folder_advice(const Error& error);

}  // namespace sepal::tools
