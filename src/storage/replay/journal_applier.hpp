// Applies the operations of a journal to a keyspace that was loaded from a generation.
//
// The generation has the keys of its cut, so operations on keys are applied from the cut on. A filter's
// layers and counts were taken at a position of their own, a little later. Adds to that filter, and its
// growth, are left out up to that position: otherwise they would be counted twice.
//
// Adds commute, so they wait until another operation comes or until apply_adds(). Then the memory of their
// keys and filters is prefetched together, and consecutive items for one filter are set together.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/gate.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/replay/replay.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/format/operation_decoder.hpp"
#include "storage/journal/journal_reader.hpp"

namespace sepal::storage {

// Guarded by the gate: members are exclusive.
class JournalApplier {
 public:
  struct LostKey {
    std::uint32_t database = 0;
    std::string key;
    // Such an operator's result is compared with 0, which clang-tidy 14 mistakes for a null pointer.
    // NOLINTNEXTLINE(modernize-use-nullptr)
    friend auto operator<=>(const LostKey&, const LostKey&) = default;
  };
  struct Counts {
    std::uint64_t operations = 0;
    std::uint64_t items = 0;
    std::uint64_t items_left_out = 0;  // because the generation has them
    // For keys that are missing.
    std::map<LostKey, std::uint64_t> items_lost;
    std::map<LostKey, std::uint64_t> changes_lost;  // of values that have all their items by `changed`
  };
  // How an operation on a missing key is treated.
  enum class MissingKeys : std::uint8_t {
    damage,
    lost,  // the filter was lost, so its operations are lost, too
  };

  JournalApplier(keyspace::Keyspace& keyspace, ValuePositions positions,
                 MissingKeys missing_keys = MissingKeys::damage)
      : keyspace_(keyspace), positions_(std::move(positions)), missing_keys_(missing_keys) {}

  // Called with the frames in their order. The bytes of a frame stay valid until apply_adds(). Errors:
  // damaged, too_large and out_of_memory, with the offset, in a sentence without the file's name. After an
  // error, the operations before the wrong one are applied.
  Result<void> apply(const JournalFrame& frame);
  // Called after the last frame, before the gate opens. Errors as apply().
  Result<void> apply_adds();
  // Called before a frame that begins with a filter in a file (adopted_file), with the filter that was read
  // from there. Null: the filter is lost.
  void bring(value::ValuePtr filter) {
    SEPAL_ASSERT(brought_ == nullptr, "a filter is brought before the one before it was taken");
    brought_ = std::move(filter);
  }

  // Called outside the gate before a frame that begins with a value that is made of others (remade_first):
  // makes it. No other thread changes the keyspace, and no add waits. Errors: io (given up).
  Result<void> make_ahead(const keyspace::Remade& remade, const value::GoOn& go_on);

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  // An `added` that waits to be applied.
  struct Add {
    keyspace::DatabaseKey key;
    std::span<const std::byte> fingerprints;
    std::uint64_t position = 0;  // the position of its frame
    std::uint64_t offset = 0;
  };

  // Applies an operation that is no add; one overload for each kind.
  class Applied;

  void prefetch(std::span<const Add> adds);
  Result<void> add(std::span<const Add> adds);
  Result<void> add_to_one(std::span<const Add> adds);
  // The error `what`, unless keys may be missing.
  [[nodiscard]] Result<void> missing(const char* what) const;

  keyspace::Keyspace& keyspace_;
  ValuePositions positions_;
  MissingKeys missing_keys_;
  value::ValuePtr brought_;
  std::optional<Result<value::ValuePtr>> made_ahead_;
  Counts counts_;
  std::vector<Add> adds_;
  std::vector<std::string_view> keys_;  // keys of some adds, to prefetch
  std::vector<Fingerprint> collected_;  // for one filter
};

// The `adopted` at the beginning of the frame, if there is one whose filter is in a file. Its views point
// into the frame.
[[nodiscard]] std::optional<keyspace::Adopted> adopted_file(const JournalFrame& frame);
// The `remade` at the beginning of the frame, if there is one: it may take long.
[[nodiscard]] std::optional<keyspace::Remade> remade_first(const JournalFrame& frame);

}  // namespace sepal::storage
