// The password of the user `default` from a place that other users of the machine cannot see: a file (a
// secret of a container engine), or the environment.
#pragma once

#include <sepal/base/result.hpp>

#include <string>

namespace sepal::settings {

// Read if neither requirepass nor requirepass_file is set.
inline constexpr const char* password_variable = "SEPAL_REQUIREPASS";

// The first line of the file, without its end. Blocks. Errors: not_found, also if that line is empty;
// too_large if it is longer than a client may send; io.
Result<std::string> read_password_file(const std::string& path);

}  // namespace sepal::settings
