// Standard input, output and error: descriptors 0 to 2.
//
// A parent may start a program with these closed. The next files that the program opens would get their
// numbers, and what is meant for standard error would be written into one of these files.
#pragma once

namespace sepal::log {

// Opens /dev/null at each of the three that is closed. What is written there is lost; to read from standard
// input is an error still, as it was. Call it first in main(): later, another file may have the number.
void keep_standard_streams();

}  // namespace sepal::log
