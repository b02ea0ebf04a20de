// The whole of sepal.
#pragma once

#include <string>

namespace sepal::tools {

// Runs the command that the words of `argv` name. `version` is what --version prints. Returns the exit
// status.
int run(const std::string& version, int argc, char** argv);

}  // namespace sepal::tools
