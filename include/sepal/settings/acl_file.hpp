// The ACL file: the text of all users, which ACL LOAD reads and ACL SAVE writes.
#pragma once

#include <sepal/base/result.hpp>

#include <string>
#include <string_view>

namespace sepal::settings {

// Blocks. Errors: not_found, too_large (command::users_bytes_max), io.
Result<std::string> read_acl_file(const std::string& path);

// Replaces the file as rewrite_config_file() replaces its file: a crash leaves the old text or the new one.
// A file that is gone is made anew, readable only by the user that sepald runs as. Blocks. Errors: io.
Result<void> write_acl_file(const std::string& path, std::string_view text);

}  // namespace sepal::settings
