#pragma once

#include <sepal/base/result.hpp>
#include <sepal/settings/settings.hpp>

#include <string>

namespace sepal::app {

// Makes the default logger. Errors: io if the log file cannot be opened.
Result<void> start_logging(const settings::LogOptions& options, command::LogLevel level);

// Whether there was a log file to open again.
enum class Reopened : bool { no, yes };

// Any thread. Opens the log file by its name again: after a rotation, the name belongs to another file or to
// none. Errors: io; then the log goes on in the file that is open.
Result<Reopened> reopen_log();

// Says on standard error, as an error, why sepald ends. For a start that fails before it has a log.
void complain(const std::string& reason);

void set_log_level(command::LogLevel level);

// Says why sepald ends without having served: on standard error, too, if the log goes elsewhere. A person
// who starts it by hand looks there. `start_failed` takes the sentence of an error, `too_little` that of an
// exception.
void log_start_failed(const std::string& reason);
void log_too_little(const std::string& reason);

}  // namespace sepal::app
