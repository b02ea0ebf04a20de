// Applies the operations of a journal to a keyspace that was loaded from a generation.
//
// The generation's keys are those of its cut, and what happens to keys is applied from there on. A filter's
// layers and counts were taken at a position of their own, a little later: what was added to it before that,
// and what it grew, is left out.
//
// Items for one filter are collected over as many operations as follow each other, because to set the bits of
// many items at once is quicker than one by one.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/replay.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "journal_reader.hpp"
#include "operation_decoder.hpp"

namespace sepal::storage {

// Guarded by the gate: members are exclusive.
class JournalApplier {
 public:
  struct Counts {
    std::uint64_t operations = 0;
    std::uint64_t items = 0;
    std::uint64_t items_left_out = 0;  // the generation has them
    std::uint64_t items_lost = 0;      // of keys that are missing
  };
  // What is said of a key that is not there.
  enum class MissingKeys : std::uint8_t {
    damage,
    lost,  // its filter was lost, and so is what happens to it
  };

  JournalApplier(keyspace::Keyspace& keyspace, FilterPositions positions,
                 MissingKeys missing_keys = MissingKeys::damage)
      : keyspace_(keyspace), positions_(std::move(positions)), missing_keys_(missing_keys) {}

  // Frames in their order. Errors: damaged, too_large and out_of_memory, with the offset, behind the file's
  // name. What stands before the operation is applied.
  Result<void> apply(const JournalFrame& frame);
  // After the last frame before the gate opens. Errors as apply().
  Result<void> settle();

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  Result<void> apply(const JournalFrame& frame, const DecodedOperation& operation);
  Result<void> add(const JournalFrame& frame, const DecodedOperation& operation);
  Result<void> grow(const JournalFrame& frame, const DecodedOperation& operation);
  Result<void> change_keys(const DecodedOperation& operation);
  Result<void> rename(const DecodedOperation& operation);
  // `what` is wrong, unless keys may be missing.
  [[nodiscard]] Result<void> missing(const char* what) const;
  Result<void> remove(keyspace::DatabaseKey key);
  [[nodiscard]] bool continues(const DecodedOperation& operation) const;

  keyspace::Keyspace& keyspace_;
  FilterPositions positions_;
  MissingKeys missing_keys_;
  Counts counts_;
  // What is collected, all for one filter.
  filter::Filter* filter_ = nullptr;
  std::uint32_t database_ = 0;
  std::string key_;
  std::vector<Fingerprint> collected_;
  std::uint64_t collected_from_ = 0;  // offset of the first frame
};

// Whether the journal was off before this frame.
[[nodiscard]] bool resumes(const JournalFrame& frame);

}  // namespace sepal::storage
