// Standard input, output and error: descriptors 0 to 2.
//
// A parent may start a program with these closed. The next files that the program opens would get their
// numbers, and what is meant for standard error would be written into one of these files. Or they are open,
// and take nothing: the disk behind them is full.
#pragma once

#include <sepal/base/result.hpp>

namespace sepal::log {

// Opens /dev/null at each of the three that is closed. What is written to standard error is lost then. To
// read from standard input and to write to standard output are errors still, as they were. Call it first in
// main(): later, another file may have the number.
void keep_standard_streams();

// Whether systemd's journal takes standard error. There "<3>" before a line is its priority, that of an error
// (sd-daemon(3)). The manager tells it by JOURNAL_STREAM (systemd.exec(5)).
[[nodiscard]] bool standard_error_is_journal();

// Writes out what the program has printed on standard output. Error: io, when standard output did not take
// all of it, now or earlier. Call it last in main(): nothing notices what is printed later.
[[nodiscard]] Result<void> written_out();

}  // namespace sepal::log
