#include "tools/build/filter_output.hpp"

#include <sepal/base/assert.hpp>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tools/shell/held_signals.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

// The bits of all layers, oldest first.
class FilterBits final : public storage::BitStream {
 public:
  explicit FilterBits(std::vector<bloom::LayerView> layers) : layers_(std::move(layers)) {}
  Result<void> read(std::span<std::byte> into) override {
    bloom::copy_bits(layers_, offset_, into);
    offset_ += into.size();
    return {};
  }

 private:
  std::vector<bloom::LayerView> layers_;
  std::uint64_t offset_ = 0;
};

}  // namespace

Result<void> check_output(const storage::Path& path, std::span<const storage::Path> inputs) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  // A rename would replace a device by the filter.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    return fail(Errc::out_of_range, path.string() + " is there, and is not a file that can be replaced");
  for (const storage::Path& input : inputs)
    if (std::filesystem::equivalent(path, input, unknown))
      return fail(Errc::out_of_range, path.string() + " is an input as well, and would be replaced");
  // With a slash at the end, access() fails if the path is not a folder.
  const storage::Path folder = path.parent_path().empty() ? "./" : path.parent_path() / "";
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return fail(Errc::io, "cannot write into " + folder.string() + ": " + reason_text(errno));
}

Result<storage::WrittenFile> write_filter(storage::Disk& disk, const storage::Path& path,
                                          const OutputFilter& filter, const storage::ProgressSink& progress) {
  const std::vector<std::byte> head = bloom::encode(filter.header);
  FilterBits bits(filter.filter->layers());
  std::uint64_t items = 0;
  for (const auto& layer : filter.header.layers) items += layer.item_count;
  return storage::write_filter_file(disk, path,
                                    {.key = filter.key,
                                     .head = head,
                                     .body_bytes = filter.header.bitmap_bytes(),
                                     .item_count = items,
                                     .bits = &bits},
                                    progress);
}

Result<std::uint64_t> write_output(storage::Disk& disk, const storage::Path& path, const OutputFilter& filter,
                                   Progress& progress) {
  const HeldSignals held;
  const std::uint64_t bytes = filter.header.bitmap_bytes();
  progress.begin("writing", bytes);
  const auto written = write_filter(disk, path, filter, [&](const storage::Progress& state) {
    progress.update(state.bytes_done, 0);
    // False ends the writing with an error, and the unfinished file is removed. The signal takes effect when
    // `held` is destroyed.
    return !HeldSignals::asked_to_end();
  });
  progress.end();
  if (!written) return written.error();
  SEPAL_ASSERT(written->byte_count > bytes, "a file is shorter than the bits that were written into it");
  return written->byte_count;
}

}  // namespace sepal::tools
