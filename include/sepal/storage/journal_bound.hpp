// How much of the disk the journal may take, together with the files of filters that came whole.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sepal::storage {

// The least number of segments: one is in use, some are made ahead, and one is full.
inline constexpr std::uint64_t bound_segments_min = 4;

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
};

}  // namespace sepal::storage
