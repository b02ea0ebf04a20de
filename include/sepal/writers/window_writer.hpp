// What changes filters that forget under their keys. As bloom_writer.hpp: each function is shared or
// exclusive as the members of Mutator, and throws nothing.
//
// What they record is within record_bytes_of_adds() and record_bytes_of_adds_alone().
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <span>
#include <string_view>
#include <vector>

namespace sepal::writers {

// --- shared, or with the gate closed ----------------------------------------------------------------------

// As WindowFilter::try_add. The key names `filter`.
[[nodiscard]] bool try_add(keyspace::Mutator& changes, keyspace::DatabaseKey key, bloom::WindowFilter& filter,
                           std::span<const std::string_view> items, WallTime now,
                           std::span<bool> added) noexcept;
// For a filter that may not grow: adds item after item. `outcomes` has one outcome for each item that was
// tried: where the filter does not scale and is full, that item is the last. False, with nothing done: the
// filter is losing its key.
[[nodiscard]] bool add_each(keyspace::Mutator& changes, keyspace::DatabaseKey key,
                            bloom::WindowFilter& filter, std::span<const std::string_view> items,
                            WallTime now, std::vector<bloom::Filter::AddOutcome>& outcomes) noexcept;

// --- of one key; the caller does not hold its lock --------------------------------------------------------

struct WindowCreation {
  bloom::WindowOptions options;
  keyspace::Deadline deadline = keyspace::no_deadline;
  std::span<const std::string_view> items{};
  WallTime now{};  // a key that is past its deadline then is removed first
};
// Makes a filter under a key, with items that are added as add_growing() does. Other workers find it with all
// of them, and with its deadline. Errors, the first that holds: out_of_range (no such database, or no such
// filter), key_too_long, key_exists, key_limit, too_large, memory_limit, out_of_memory.
Result<bloom::WindowFilter*> create(keyspace::Mutator& changes, keyspace::DatabaseKey key,
                                    const WindowCreation& creation,
                                    std::vector<bloom::Filter::AddOutcome>& outcomes) noexcept;

// --- exclusive --------------------------------------------------------------------------------------------

// Adds item after item, and lets the filter grow. Drops its old layers. The key names `filter`. `outcomes`
// has one outcome for each item that was tried: where the filter is full, that item is the last.
void add_growing(keyspace::Mutator& changes, keyspace::DatabaseKey key, bloom::WindowFilter& filter,
                 std::span<const std::string_view> items, WallTime now,
                 std::vector<bloom::Filter::AddOutcome>& outcomes) noexcept;

}  // namespace sepal::writers
