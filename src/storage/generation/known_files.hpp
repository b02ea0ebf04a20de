// Which files of a generation hold one filter each, and the state of that filter. The process knows this of
// files that it has written or loaded. A file that would be written again with the same contents can be
// linked.
//
// The contents are the same if the key, the deadline, the layers and their counts are the same, because a bit
// changes only when a count does. The bits of a file were read after its counts; but if the counts are still
// the same, nothing was added in between. Big layers are told apart by their identity. A small layer has
// none: it belongs to the same filter as before if a big layer of that filter does. Options and shapes of a
// filter never change.
#pragma once

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sepal::storage {

// One filter at one instant.
struct FilterState {
  struct Layer {
    std::uint64_t identity = 0;
    std::uint64_t item_count = 0;
    friend bool operator==(const Layer&, const Layer&) = default;
  };
  std::uint32_t database = 0;
  std::string key;
  keyspace::Deadline deadline = keyspace::no_deadline;
  std::vector<Layer> layers;
  friend bool operator==(const FilterState&, const FilterState&) = default;

  // Tells the filter apart from all others; 0 if all of its layers are small.
  [[nodiscard]] std::uint64_t identity() const {
    std::uint64_t highest = 0;
    for (const Layer& layer : layers) highest = std::max(highest, layer.identity);
    return highest;
  }
};

// Confined.
class KnownFiles {
 public:
  KnownFiles() = default;
  explicit KnownFiles(Path folder) : folder_(std::move(folder)) {}

  [[nodiscard]] const Path& folder() const { return folder_; }
  void add(FilterState state, format::ListedFile file) {
    if (const std::uint64_t identity = state.identity(); identity != 0)
      files_[identity] = {std::move(state), std::move(file)};
  }
  // The file that holds exactly this state; null if there is none. Valid until the next add().
  [[nodiscard]] const format::ListedFile* find(const FilterState& state) const {
    const auto found = files_.find(state.identity());
    return found == files_.end() || found->second.first != state ? nullptr : &found->second.second;
  }

 private:
  Path folder_;
  std::unordered_map<std::uint64_t, std::pair<FilterState, format::ListedFile>> files_;
};

}  // namespace sepal::storage
