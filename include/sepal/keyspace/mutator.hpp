// Changes a keyspace and tells a log of it. Every change that a request makes goes through here, so the
// journal has it. A replay or a load changes the keyspace directly.
//
// A change without its record, or half of one, must not live on. So the members that change something throw
// nothing: if a small allocation fails in the middle of a change, and the reserve is used up as well, the
// process ends there (decisions/0042).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutation_log.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sepal::keyspace {

// Confined to a worker, inside the gate; members are shared or exclusive as those of the keyspace.
class Mutator {
 public:
  // `log` is null when no record is kept.
  Mutator(Keyspace& keyspace, MutationLog* log) : keyspace_(keyspace), log_(log) {}

  // Whether changes are told to a log.
  [[nodiscard]] bool recording() const { return log_ != nullptr; }
  // Whether anything may have been changed through this object.
  [[nodiscard]] bool changed() const { return changed_; }

  // --- shared ---------------------------------------------------------------------------------------------

  // As Filter::try_add. The key names `filter`. If the filter has a mirror, the items are added to the target
  // first, and false may mean that the target has to grow.
  [[nodiscard]] bool try_add(DatabaseKey key, bloom::Filter& filter, std::span<const std::string_view> items,
                             std::span<bool> added) noexcept;
  // Adds to the target of the source's mirror, if it has one, items that the source is asked to add. False,
  // with some of them added, when the source needs add_alone() for that.
  [[nodiscard]] bool try_mirror(const bloom::Filter& source,
                                std::span<const std::string_view> items) noexcept;
  // An item was already in the target, so the reply must wait for records in flight.
  [[nodiscard]] bool target_knew() const { return target_knew_; }

  // Sets a bit of the string under the key, and returns whether it was set. Nothing, with nothing done, if
  // that needs write().
  [[nodiscard]] std::optional<bool> try_set_bit(DatabaseKey key, const bloom::Filter& string,
                                                std::uint64_t position) noexcept;

  // The same for several bits: false, with nothing done, if one of them needs write().
  [[nodiscard]] bool try_set_bits(DatabaseKey key, const bloom::Filter& string,
                                  std::span<const std::uint64_t> positions,
                                  std::span<bool> were_set) noexcept;

  // --- exclusive ------------------------------------------------------------------------------------------

  // As Keyspace::write, within the limits. Changes of more than written_bytes_max are told one after the
  // other: for these the caller has begun a group. Errors as there; then nothing was changed.
  Result<void> write(DatabaseKey key, std::uint64_t offset, std::span<const std::byte> bytes) noexcept;
  // Puts a string that no other thread knows under a key, replacing what is there. Errors and groups: as
  // Keyspace::put, and as write().
  Result<void> put_string(DatabaseKey key, FilterPtr string, Deadline deadline) noexcept;
  // As the members of Keyspace.
  Result<bloom::Filter*> create(DatabaseKey key, const bloom::FilterOptions& options) noexcept;
  bool remove(DatabaseKey key) noexcept { return told(keyspace_.remove(key), Removed{.key = key}); }
  bool expire(DatabaseKey key, WallTime now) noexcept {
    return told(keyspace_.expire(key, now), Removed{.key = key});
  }
  bool set_deadline(DatabaseKey key, Deadline deadline) noexcept {
    return told(keyspace_.set_deadline(key, deadline), Expires{.key = key, .deadline = deadline});
  }
  Result<void> rename(std::uint32_t database, std::string_view from, std::string_view to) noexcept;
  // Puts a filter that no other thread knows under a key, replacing what is there. Errors: those of
  // Keyspace::put. While a record is kept, `file` has the filter as it is, or its image is at most
  // recorded_image_bytes_max long.
  Result<void> adopt(DatabaseKey key, FilterPtr filter, Deadline deadline,
                     const ImageFile& file = {}) noexcept;
  Result<void> move(DatabaseKey from, std::uint32_t to_database) noexcept {
    return told(keyspace_.move(from, to_database), Moved{.key = from, .to_database = to_database});
  }
  void swap_databases(std::uint32_t database, std::uint32_t other) noexcept;
  void flush(std::uint32_t database) noexcept;
  void flush_all() noexcept;
  // Begins a mirror between two keys of a database, whole, with the number of items that the source has now.
  // Errors as Keyspace::begin_mirror.
  Result<void> begin_mirror(std::uint32_t database, std::string_view source,
                            std::string_view target) noexcept;
  bool end_mirror(DatabaseKey source) noexcept;

  // Calls Keyspace::add_alone for item after item, and adds each item to the target of the filter's mirror as
  // well, also one that the filter refuses; a target that refuses an item breaks the mirror. The key names
  // `filter`. `outcomes` has one outcome for each item that was tried: where no target takes an item for
  // which the filter is full, that item is the last. Returns how many of these items, from the first one on,
  // the target has.
  std::size_t add_alone(DatabaseKey key, bloom::Filter& filter, std::span<const std::string_view> items,
                        std::vector<bloom::Filter::AddOutcome>& outcomes) noexcept;

 private:
  bool try_add_mirrored(DatabaseKey key, bloom::Filter& filter, std::span<const std::string_view> items,
                        std::span<bool> added);
  void break_mirror(DatabaseKey source, MirrorState state);
  void tell_written(DatabaseKey key, std::uint64_t offset, std::span<const std::byte> bytes);
  // Tells the log and the watches of a change, if it was made: `made` is its success. Returns that.
  template <class Success>
  Success told(Success made, const Mutation& change) {
    if (!made) return made;
    changed_ = true;
    if (log_ != nullptr) log_->record(change);
    keyspace_.watches().touch(change, keyspace_);
    return made;
  }

  Keyspace& keyspace_;
  MutationLog* log_;
  bool target_knew_ = false;
  bool changed_ = false;
};

// The most that changes record, in bytes as WorkerLog::admit counts them. The sums do not wrap: there are not
// enough words in memory for that.

// For try_add().
[[nodiscard]] std::uint64_t record_bytes_of_adds(std::size_t key_bytes, std::size_t item_count);
// For expire(), create(), set_deadline() and add_alone().
[[nodiscard]] std::uint64_t record_bytes_of_adds_alone(std::size_t key_bytes, std::size_t item_count,
                                                       std::uint32_t layers_max);
// For expire(), and write() or put_string() of so many bytes.
[[nodiscard]] std::uint64_t record_bytes_of_string(std::size_t key_bytes, std::uint64_t byte_count);
// For expire() and adopt() without a file.
[[nodiscard]] std::uint64_t record_bytes_of_adoption(std::size_t key_bytes);
// Extra bytes while any mirror exists: the adds once more, for the target, and one record that the mirror
// broke. `layers_max` 0: the gate is shared, and nothing grows.
[[nodiscard]] std::uint64_t record_bytes_of_mirror(const Mirrors& mirrors, std::size_t item_count,
                                                   std::uint32_t layers_max);
// For expire() of each of these keys, and then for removing them, for renaming the first to the second, or
// for a flush.
[[nodiscard]] std::uint64_t record_bytes_of_keys(std::span<const std::string_view> keys);

}  // namespace sepal::keyspace
