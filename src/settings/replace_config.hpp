// Replaces the text of a configuration file.
#pragma once

#include <sepal/base/result.hpp>

#include <string>
#include <string_view>

namespace sepal::settings {

// The file is written aside, synced and renamed, so a crash leaves the old file or the new one. Unlike the
// files of the data directory, this file belongs to a person and may hold a password. So the new file gets
// the owner and the permissions of the old one before it gets the text. A symbolic link stays, and its target
// is replaced. On an error the old file is there as it was; if only the sync of the folder fails, the new one
// is there and may be lost in a power cut. Blocks. Errors: not_found, io.
Result<void> replace_config(const std::string& path, std::string_view text);

}  // namespace sepal::settings
