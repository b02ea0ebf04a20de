#pragma once

#include <sepal/base/result.hpp>
#include <sepal/settings/settings.hpp>

#include <string>

namespace sepal::app {

// Makes the default logger from `options`. Errors: io if the log file cannot be opened.
Result<void> start_logging(const settings::LogOptions& options);

// Whether there was a log file to open again.
enum class Reopened : bool { no, yes };

// Any thread. Opens the log file by its name again: after a rotation, the name belongs to another file or to
// none. Errors: io; then the log goes on in the file that is open.
Result<Reopened> reopen_log();

// `level` is one of LogOptions::level.
void set_log_level(const std::string& level);

}  // namespace sepal::app
