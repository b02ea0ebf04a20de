#include "filter_output.hpp"

#include "held_signals.hpp"

namespace sepal::tools {

Result<std::uint64_t> write_output(storage::Disk& disk, const storage::Path& path,
                                   const storage::FilterFile& file, Progress& progress) {
  const HeldSignals held;
  const std::uint64_t bytes = file.header.bitmap_bytes();
  progress.begin("writing", bytes);
  auto written = storage::write_filter_file(disk, path, file, [&](const storage::Progress& state) {
    progress.update(state.bytes_done, 0);
    return !HeldSignals::asked_to_end();
  });
  progress.end();
  return written;
}

}  // namespace sepal::tools
