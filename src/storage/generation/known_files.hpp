// Which files of a generation hold one value each, and the state of that value. The process knows this of
// files that it has written or loaded. A file that would be written again with the same contents can be
// linked.
//
// The contents are the same if the key, the deadline, and the value's identity and count of changes are the
// same (KindRow::changes, KindRow::identity). The body of a file was read after its count; but if the count
// is still the same, nothing was changed in between. A value without an identity is written anew each time.
#pragma once

#include <sepal/keyspace/deadline.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

namespace sepal::storage {

// One value at one instant.
struct ValueState {
  std::uint32_t database = 0;
  std::string key;
  keyspace::Deadline deadline = keyspace::no_deadline;
  std::uint64_t identity = 0;
  std::uint64_t changes = 0;
  friend bool operator==(const ValueState&, const ValueState&) = default;
};

// Confined.
class KnownFiles {
 public:
  KnownFiles() = default;
  explicit KnownFiles(Path folder) : folder_(std::move(folder)) {}

  [[nodiscard]] const Path& folder() const { return folder_; }
  void add(ValueState state, format::ListedFile file) {
    if (const std::uint64_t identity = state.identity; identity != 0)
      files_[identity] = {std::move(state), std::move(file)};
  }
  // The file that holds exactly this state; null if there is none. Valid until the next add().
  [[nodiscard]] const format::ListedFile* find(const ValueState& state) const {
    const auto found = files_.find(state.identity);
    return found == files_.end() || found->second.first != state ? nullptr : &found->second.second;
  }

 private:
  Path folder_;
  std::unordered_map<std::uint64_t, std::pair<ValueState, format::ListedFile>> files_;
};

}  // namespace sepal::storage
