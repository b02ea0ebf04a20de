// What changes Bloom filters under their keys: a writer works on a keyspace, keeps its books
// (Keyspace::change, Keyspace::resized), and, where it is handed a Mutator, tells the log of each change.
//
// Each function is shared or exclusive, as the members of Mutator, and throws nothing, as these.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sepal::writers {

using bloom::Filter;
using keyspace::DatabaseKey;
using keyspace::Keyspace;
using keyspace::Mutator;

// --- shared -----------------------------------------------------------------------------------------------

// As Filter::try_add. The key names `filter`. If the filter has a mirror, the items are added to the target
// first, and false may mean that the target has to grow.
[[nodiscard]] bool try_add(Mutator& changes, DatabaseKey key, Filter& filter,
                           std::span<const std::string_view> items, std::span<bool> added) noexcept;
// Adds to the target of the source's mirror, if it has one, items that the source is asked to add. False,
// with some of them added, when the source needs add_alone() for that.
[[nodiscard]] bool try_mirror(Mutator& changes, const Filter& source,
                              std::span<const std::string_view> items) noexcept;

// For a request that is about to ask for the closed gate: makes the plan that create() needs, so that it
// finds it ready there. Planning takes up to a millisecond. Where create() runs inside the shared gate, it
// plans.
void plan_ahead(const Keyspace& keyspace, const bloom::FilterOptions& options);
// The same for add_growing() and add_alone(): the growth of the filter, and of its mirror's target.
void plan_growth_ahead(const Keyspace& keyspace, const Filter& filter);

// --- of one key (keyspace/keyspace.hpp); the caller does not hold its lock --------------------------------

struct Creation {
  bloom::FilterOptions options;
  keyspace::Deadline deadline = keyspace::no_deadline;
  std::span<const std::string_view> items{};
  WallTime now{};  // a key that is past its deadline then is removed first
};

// Makes a filter under a key, with items that are added as add_alone() does. Other workers find it with all
// of them, and with its deadline. Errors, the first that holds: out_of_range (there is no such database),
// key_too_long, key_exists, key_limit, those of Filter::create. Among these, memory_limit says that the
// memory that is left is too little, and too_large that no machine has enough.
Result<Filter*> create(Mutator& changes, DatabaseKey key, const Creation& creation,
                       std::vector<Filter::AddOutcome>& outcomes) noexcept;
Result<Filter*> create(Mutator& changes, DatabaseKey key, const bloom::FilterOptions& options) noexcept;

// Adds item after item to a filter without a mirror, inside the shared gate, and lets it grow. No other
// worker removes the key meanwhile. `outcomes` as add_alone(). False, with nothing done: the key does not
// name `filter` any more.
[[nodiscard]] bool add_growing(Mutator& changes, DatabaseKey key, Filter& filter,
                               std::span<const std::string_view> items,
                               std::vector<Filter::AddOutcome>& outcomes) noexcept;

// --- exclusive --------------------------------------------------------------------------------------------

// As create() above, without a record.
Result<Filter*> create(Keyspace& keyspace, DatabaseKey key, const bloom::FilterOptions& options);
// Adds one item, growing the filter. A key of `database` names it.
Filter::AddOutcome add_alone(Keyspace& keyspace, std::uint32_t database, Filter& filter,
                             std::string_view item);

// Adds item after item, and adds each item to the target of the filter's mirror as well, also one that the
// filter refuses; a target that refuses an item breaks the mirror. The key names `filter`. `outcomes` has one
// outcome for each item that was tried: where no target takes an item for which the filter is full, that item
// is the last. Returns how many of these items, from the first one on, the target has.
std::size_t add_alone(Mutator& changes, DatabaseKey key, Filter& filter,
                      std::span<const std::string_view> items,
                      std::vector<Filter::AddOutcome>& outcomes) noexcept;

// --- the most that changes record -------------------------------------------------------------------------

// In bytes as WorkerLog::admit counts them. The sums do not wrap: there are not enough words in memory for
// that.

// For try_add().
[[nodiscard]] std::uint64_t record_bytes_of_adds(std::size_t key_bytes, std::size_t item_count);
// For Mutator::expire(), create(), Mutator::set_deadline(), add_growing() and add_alone().
[[nodiscard]] std::uint64_t record_bytes_of_adds_alone(std::size_t key_bytes, std::size_t item_count,
                                                       std::uint32_t layers_max);
// Extra bytes while any mirror exists: the adds once more for the target, and one record that the mirror
// broke. `layers_max` 0: the gate is shared, and nothing grows.
[[nodiscard]] std::uint64_t record_bytes_of_mirror(const keyspace::Mirrors& mirrors, std::size_t item_count,
                                                   std::uint32_t layers_max);

}  // namespace sepal::writers
