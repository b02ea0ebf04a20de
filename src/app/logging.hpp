#pragma once

#include <sepal/base/result.hpp>
#include <sepal/settings/settings.hpp>

#include <string>

namespace sepal::app {

// Makes the default logger as asked for. Errors: io when the log file cannot be opened.
Result<void> start_logging(const settings::LogOptions& options);

// `level` is one of LogOptions::level.
void set_log_level(const std::string& level);

}  // namespace sepal::app
