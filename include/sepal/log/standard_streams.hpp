// Standard input, output and error: descriptors 0 to 2.
//
// A parent may start a program with these closed. The next files that the program opens would get their
// numbers, and what is meant for standard error would be written into one of these files. Or they are open,
// and take nothing: the disk behind them is full.
#pragma once

#include <sepal/base/result.hpp>

namespace sepal::log {

// Opens /dev/null at each of the three that is closed. What is written there is lost; to read from standard
// input is an error still, as it was. Call it first in main(): later, another file may have the number.
void keep_standard_streams();

// Writes out what the program has printed on standard output. Error: io, when standard output did not take
// all of it, now or earlier. Call it last in main(): nothing notices what is printed later.
[[nodiscard]] Result<void> written_out();

}  // namespace sepal::log
