// sepal: the tools beside sepald.
#include <sepal/bloom/kernel/choice.hpp>
#include <sepal/log/standard_streams.hpp>

#include "tools/shell/run.hpp"

// CLI11 throws only if the commands are defined wrongly. Every start would show that.
int main(int argc, char** argv) {
  // Before a file is open.
  sepal::log::keep_standard_streams();
  return sepal::tools::run(sepal::bloom::version_and_kernel("sepal"), argc, argv);
}
