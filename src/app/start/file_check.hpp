// What `sepald --check-config` says of the files, folders and the user that the settings name.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/settings/settings.hpp>

namespace sepal::app {

// Reads the certificates and the ACL file as a start does, and looks for `user` and `import_dir`. Uses the
// rights of the calling process. Changes nothing. Blocks. Errors: the one that a start would end with.
Result<void> check_files(const settings::Settings& settings);

}  // namespace sepal::app
