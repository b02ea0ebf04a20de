// The records of changes (filter.hpp).
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/value/add_recorder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuckoo/cells/cell_lines.hpp"

namespace sepal::cuckoo {

inline constexpr unsigned number_bits = 32;
inline constexpr unsigned removed_bit = 40;

[[nodiscard]] inline Fingerprint record_of(std::uint64_t hash, std::uint64_t number, std::uint32_t layer,
                                           bool removed) {
  return {.low = hash,
          .high = (number & low_bits(number_bits)) | std::uint64_t{layer} << number_bits |
                  std::uint64_t{removed ? 1U : 0U} << removed_bit};
}

[[nodiscard]] inline std::uint32_t layer_of(const Fingerprint& record) {
  return static_cast<std::uint32_t>(record.high >> number_bits) & 0xff;
}
[[nodiscard]] inline bool is_removal(const Fingerprint& record) {
  return (record.high >> removed_bit & 1) != 0;
}

// Collects records until there are so many that the recorder must hear of them.
class ToldRecords {
 public:
  ToldRecords(value::AddRecorder* recorder, std::size_t item_count) : recorder_(recorder) {
    if (recorder != nullptr) records_.reserve(std::min(item_count, value::recorded_items_max));
  }
  void add(const Fingerprint& record) {
    if (recorder_ == nullptr) return;
    if (records_.size() == value::recorded_items_max) {
      recorder_->tell(records_);
      records_.clear();
    }
    records_.push_back(record);
  }
  void end() {
    if (recorder_ != nullptr) recorder_->end(records_);
  }

 private:
  value::AddRecorder* recorder_;
  std::vector<Fingerprint> records_;
};

}  // namespace sepal::cuckoo
