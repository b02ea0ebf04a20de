// Applies the operations of a journal to a keyspace that was loaded from a generation.
//
// The generation's keys are those of its cut, and what happens to keys is applied from there on. A filter's
// layers and counts were taken at a position of their own, a little later: what was added to it before that,
// and what it grew, is left out.
//
// Adds commute, so they wait until something else happens or until settle(): their keys and filters are asked
// from memory together, and items for one filter that follow each other are set together.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/replay.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
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

  // Frames in their order; their bytes stay until settle(). Errors: damaged, too_large and out_of_memory,
  // with the offset, behind the file's name. What stands before the operation is applied.
  Result<void> apply(const JournalFrame& frame);
  // After the last frame before the gate opens. Errors as apply().
  Result<void> settle();
  // Before a frame that begins with a filter in a file (file_of): what was read of it. Null: it is lost.
  void bring(keyspace::FilterPtr filter) { brought_ = std::move(filter); }

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  // An `added` that waits.
  struct Add {
    keyspace::DatabaseKey key;
    std::span<const std::byte> fingerprints;
    std::uint64_t position = 0;  // of its frame
    std::uint64_t offset = 0;
  };

  Result<void> apply(const JournalFrame& frame, const DecodedOperation& operation);
  void prefetch(std::span<const Add> adds);
  Result<void> add(std::span<const Add> adds);
  Result<void> add_to_one(std::span<const Add> adds);
  Result<void> grow(const JournalFrame& frame, const DecodedOperation& operation);
  Result<void> change_keys(const DecodedOperation& operation);
  Result<void> expire(const DecodedOperation& operation);
  Result<void> rename(const DecodedOperation& operation);
  Result<void> adopt(const DecodedOperation& operation);
  Result<void> move(const DecodedOperation& operation);
  Result<void> mirror(const DecodedOperation& operation);
  // `what` is wrong, unless keys may be missing.
  [[nodiscard]] Result<void> missing(const char* what) const;
  Result<void> remove(keyspace::DatabaseKey key);

  keyspace::Keyspace& keyspace_;
  FilterPositions positions_;
  MissingKeys missing_keys_;
  keyspace::FilterPtr brought_;
  Counts counts_;
  std::vector<Add> adds_;
  std::vector<std::string_view> keys_;  // of some of them
  std::vector<Fingerprint> collected_;  // for one filter
};

// Whether the journal was off before this frame.
[[nodiscard]] bool resumes(const JournalFrame& frame);
// That the frame begins with, if it does.
[[nodiscard]] std::optional<keyspace::ImageFile> file_of(const JournalFrame& frame);

}  // namespace sepal::storage
