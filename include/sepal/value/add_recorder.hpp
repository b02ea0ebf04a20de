// How a value tells what an add changed, while other threads add as well.
#pragma once

#include <sepal/base/hash.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace sepal::value {

// An add tells it which entries were new (KindRow::add), while it adds, so that a record can be kept: the
// fingerprints of a filter's items, the positions of a string's bits. Confined to the thread that adds.
class AddRecorder {
 public:
  // Bits of entries that may be new are about to be set. False: the value is losing its key (Value::hold).
  // Then the add sets no bit, and is refused as if there were no room.
  [[nodiscard]] virtual bool begin() = 0;
  // `added` has new entries, at most recorded_items_max, which the value counts. More will follow. Valid
  // until this returns.
  virtual void tell(std::span<const Fingerprint> added) = 0;
  // The same for the last of them; there may be none. Ends what begin() began.
  virtual void end(std::span<const Fingerprint> added) = 0;

 protected:
  ~AddRecorder() = default;
};

// Keeps all that it is told: for a value that has no key yet, and is thus not losing it.
class CollectedEntries final : public AddRecorder {
 public:
  bool begin() override { return true; }
  void tell(std::span<const Fingerprint> added) override {
    entries.insert(entries.end(), added.begin(), added.end());
  }
  void end(std::span<const Fingerprint> added) override { tell(added); }

  std::vector<Fingerprint> entries;
};

// Small enough that WorkerLog::seal_record() waits only microseconds.
inline constexpr std::size_t recorded_items_max = 1024;

// Collects new entries until there are so many that the recorder must hear of them. The recorder may be null.
class ToldEntries {
 public:
  ToldEntries(AddRecorder* recorder, std::size_t item_count) : recorder_(recorder) {
    if (recorder != nullptr) entries_.reserve(std::min(item_count, recorded_items_max));
  }
  void add(const Fingerprint& entry) {
    if (recorder_ == nullptr) return;
    if (entries_.size() == recorded_items_max) {
      recorder_->tell(entries_);
      entries_.clear();
    }
    entries_.push_back(entry);
  }
  void end() {
    if (recorder_ != nullptr) recorder_->end(entries_);
  }

 private:
  AddRecorder* recorder_;
  std::vector<Fingerprint> entries_;
};

}  // namespace sepal::value
