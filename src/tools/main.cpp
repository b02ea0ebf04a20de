// sepal: the tools beside sepald.
#include <sepal/bloom/kernel/choice.hpp>
#include <sepal/log/standard_streams.hpp>

#include <cstdio>

#include "tools/shell/command_line.hpp"
#include "tools/shell/run.hpp"

// CLI11 throws only if the commands are defined wrongly. Every start would show that.
int main(int argc, char** argv) {
  // Before a file is open.
  sepal::log::keep_standard_streams();
  const int status = sepal::tools::run(sepal::bloom::version_and_kernel("sepal"), argc, argv);
  const auto written = sepal::log::written_out();
  if (written) return status;
  std::fprintf(stderr, "sepal: %s\n", written.error().detail.c_str());
  return status == sepal::tools::exit_good ? sepal::tools::exit_refused : status;
}
