// How much of the disk the journal may take, together with the files of filters that came whole.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sepal::storage {

// The least number of segments: one is in use, some are made ahead, and one is full.
inline constexpr std::uint64_t bound_segments_min = 4;

// When a file of so many bytes has room beside the journal.
enum class Room { now, after_a_save, never };

struct JournalBound {
  std::uint64_t bytes_max = 0;        // 0: there is no bound
  std::uint64_t percent_of_data = 0;  // the bound is this share of the data, where that is more
  std::uint64_t segment_bytes = 0;

  // The bound for so many bytes of data; 0: there is no bound.
  [[nodiscard]] std::uint64_t bytes_for(std::uint64_t data_bytes) const {
    if (bytes_max == 0) return 0;
    const double share = static_cast<double>(data_bytes) * static_cast<double>(percent_of_data) / 100;
    const auto most = static_cast<double>(std::uint64_t{1} << 62);
    return std::max(
        {bytes_max, static_cast<std::uint64_t>(std::min(share, most)), bound_segments_min * segment_bytes});
  }

  // `limit` is what bytes_for gave, `taken` what the journal and the files beside it take now. A journal
  // keeps its least number of segments even after a save, so a file that does not fit beside them never fits.
  // A journal that has just begun has fewer; `never` does not depend on that.
  [[nodiscard]] Room room_for(std::uint64_t file_bytes, std::uint64_t taken, std::uint64_t limit) const {
    if (limit == 0) return Room::now;
    if (file_bytes + bound_segments_min * segment_bytes > limit) return Room::never;
    return taken + file_bytes <= limit ? Room::now : Room::after_a_save;
  }
};

}  // namespace sepal::storage
