// What changes filters that delete under their keys. As bloom_writer.hpp: each function is shared or
// exclusive as the members of Mutator, and throws nothing.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sepal::writers {

// --- shared, or with the gate closed ----------------------------------------------------------------------

// As cuckoo::Filter::add and remove. The key names `filter`. False, with nothing done: the filter is losing
// its key.
[[nodiscard]] bool add(keyspace::Mutator& changes, keyspace::DatabaseKey key, cuckoo::Filter& filter,
                       std::span<const std::string_view> items, cuckoo::Filter::AddIf condition,
                       std::vector<cuckoo::Filter::AddOutcome>& outcomes) noexcept;
[[nodiscard]] bool remove(keyspace::Mutator& changes, keyspace::DatabaseKey key, cuckoo::Filter& filter,
                          std::span<const std::string_view> items, std::span<bool> removed) noexcept;

// As cuckoo::Filter::load_some. The key names `filter`.
[[nodiscard]] cuckoo::PieceOutcome load_some(keyspace::Mutator& changes, keyspace::DatabaseKey key,
                                             cuckoo::Filter& filter, cuckoo::PieceLoad& piece) noexcept;

// --- of one key; the caller does not hold its lock --------------------------------------------------------

struct CuckooCreation {
  cuckoo::Options options;
  keyspace::Deadline deadline = keyspace::no_deadline;
  std::span<const std::string_view> items{};
  cuckoo::Filter::AddIf condition = cuckoo::Filter::AddIf::always;
  WallTime now{};  // a key that is past its deadline then is removed first
};
// Makes a filter under a key. Other workers find it with all of its items, and with its deadline. Errors, the
// first that holds: out_of_range (no such database, or no such filter), key_too_long, key_exists, key_limit,
// too_large, memory_limit, out_of_memory.
Result<cuckoo::Filter*> create(keyspace::Mutator& changes, keyspace::DatabaseKey key,
                               const CuckooCreation& creation,
                               std::vector<cuckoo::Filter::AddOutcome>& outcomes) noexcept;

// --- exclusive --------------------------------------------------------------------------------------------

// Makes an empty filter with this plan under a key, for pieces that follow. Errors: as create().
Result<void> create(keyspace::Mutator& changes, keyspace::DatabaseKey key, const cuckoo::Plan& plan,
                    WallTime now) noexcept;
// CF.COMPACT. The key names `filter`.
void compact(keyspace::Mutator& changes, keyspace::DatabaseKey key, cuckoo::Filter& filter) noexcept;

// The most that these record, in bytes as WorkerLog::admit counts them.
[[nodiscard]] std::uint64_t record_bytes_of_cuckoo(std::size_t key_bytes, std::size_t item_count);

}  // namespace sepal::writers
