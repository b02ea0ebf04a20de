// Puts a new text in the place of a configuration file.
#pragma once

#include <sepal/base/result.hpp>

#include <string>
#include <string_view>

namespace sepal::settings {

// Written aside, synced, renamed: a crash leaves the old file or the new one. Unlike the files of the data
// directory this one belongs to a person and may hold a password, so the new one gets the owner and the
// permissions of the old before it gets the text; a symbolic link stays, and what it leads to is replaced.
// On an error the old file is untouched. Blocks. Errors: not_found, io.
Result<void> replace_config(const std::string& path, std::string_view text);

}  // namespace sepal::settings
