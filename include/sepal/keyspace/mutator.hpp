// Changes a keyspace and tells a log of it. What a request changes goes through here, so that nothing is
// changed that the record does not hold; what replay or a load changes does not.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutation_log.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sepal::keyspace {

// Confined to a worker, inside the gate; members are shared or exclusive as those of the keyspace.
class Mutator {
 public:
  // `log` is null when nobody keeps a record.
  Mutator(Keyspace& keyspace, MutationLog* log) : keyspace_(keyspace), log_(log) {}

  // Whether what is changed is told to a log.
  [[nodiscard]] bool recording() const { return log_ != nullptr; }

  // --- shared ---------------------------------------------------------------------------------------------

  // As Filter::try_add. `filter` is what the key names. Where it has a mirror, the items are added to the
  // target first, and false may mean that the target has to grow.
  [[nodiscard]] bool try_add(DatabaseKey key, filter::Filter& filter, std::span<const std::string_view> items,
                             std::span<bool> added);
  // Adds items that the source is asked to add, and knows, to the target of its mirror, if it has one. False,
  // with some of them added, when that takes add_alone() of the source.
  [[nodiscard]] bool try_mirror(const filter::Filter& source, std::span<const std::string_view> items);
  // A target knew an item: who answers has relied on what others were adding.
  [[nodiscard]] bool target_knew() const { return target_knew_; }

  // --- exclusive ------------------------------------------------------------------------------------------

  // As those of Keyspace.
  Result<filter::Filter*> create(DatabaseKey key, const filter::FilterOptions& options);
  bool remove(DatabaseKey key);
  bool expire(DatabaseKey key, WallTime now);
  bool set_deadline(DatabaseKey key, Deadline deadline);
  Result<void> rename(std::uint32_t database, std::string_view from, std::string_view to);
  // Puts a filter that nobody else knows under a key, replacing what is there. Errors: those of
  // Keyspace::put. While a record is kept, `file` has the filter as it is, or its image is at most
  // recorded_image_bytes_max long.
  Result<void> adopt(DatabaseKey key, FilterPtr filter, Deadline deadline, const ImageFile& file = {});
  Result<void> move(DatabaseKey from, std::uint32_t to_database);
  void swap(std::uint32_t database, std::uint32_t other);
  void flush(std::uint32_t database);
  void flush_all();
  // Begins one between two keys of a database, whole and with what the source has now. Errors as
  // Keyspace::begin_mirror.
  Result<void> begin_mirror(std::uint32_t database, std::string_view source, std::string_view target);
  bool end_mirror(DatabaseKey source);

  // Keyspace::add_alone, item after item, until the filter is full: `outcomes` has one for each that was
  // tried, of which none but the last is `full`. `filter` is what the key names. What is not refused is added
  // to the target of its mirror; a target that refuses breaks the mirror.
  void add_alone(DatabaseKey key, filter::Filter& filter, std::span<const std::string_view> items,
                 std::vector<filter::Filter::AddOutcome>& outcomes);

 private:
  bool try_add_mirrored(DatabaseKey key, filter::Filter& filter, std::span<const std::string_view> items,
                        std::span<bool> added);
  void break_mirror(DatabaseKey source, MirrorState state);

  Keyspace& keyspace_;
  MutationLog* log_;
  bool target_knew_ = false;
};

// What changes record at most, in bytes as WorkerLog::admit counts them. Sums that a request leads to: words
// in memory are few enough that they do not wrap.

// Of try_add().
[[nodiscard]] std::uint64_t record_bytes_of_adds(std::size_t key_bytes, std::size_t item_count);
// Of expire(), create(), set_deadline() and add_alone().
[[nodiscard]] std::uint64_t record_bytes_of_adds_alone(std::size_t key_bytes, std::size_t item_count,
                                                       std::uint32_t layers_max);
// Of expire() and adopt() without a file.
[[nodiscard]] std::uint64_t record_bytes_of_adoption(std::size_t key_bytes);
// What comes on top of these for any request while there are mirrors: for an add of so many items, with
// the gate closed where layers_max is above 0, and for what names the other end of a mirror.
[[nodiscard]] std::uint64_t record_bytes_of_mirror(const Mirrors& mirrors, std::size_t item_count,
                                                   std::uint32_t layers_max);
// Of expire() for each of these keys, and then of removing them, of renaming the first to the second, or of a
// flush.
[[nodiscard]] std::uint64_t record_bytes_of_keys(std::span<const std::string_view> keys);

}  // namespace sepal::keyspace
