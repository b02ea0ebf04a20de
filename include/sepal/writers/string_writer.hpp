// What changes strings under their keys. See bloom_writer.hpp for what holds for all writers.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/strings/string.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sepal::writers {

using keyspace::DatabaseKey;
using keyspace::Keyspace;
using keyspace::Mutator;

// --- shared -----------------------------------------------------------------------------------------------

// Sets a bit of the string under the key, and returns whether it was set. Nothing, with nothing done, if that
// needs write().
[[nodiscard]] std::optional<bool> try_set_bit(Mutator& changes, DatabaseKey key, strings::String& string,
                                              std::uint64_t position) noexcept;
// The same for several bits: false, with nothing done, if one of them needs write().
[[nodiscard]] bool try_set_bits(Mutator& changes, DatabaseKey key, strings::String& string,
                                std::span<const std::uint64_t> positions, std::span<bool> were_set) noexcept;

// --- exclusive --------------------------------------------------------------------------------------------

// Writes bytes into the string under the key, from `offset` on. Makes the string, or lets it grow, where that
// is needed; bytes between its end and `offset` are zero. The key names nothing of another kind. Errors:
// key_too_long, key_limit, memory_limit, too_large (longer than a string can be), out_of_range (there is no
// such database), out_of_memory, mapping_limit; then nothing was changed.
Result<void> write(Keyspace& keyspace, DatabaseKey key, std::uint64_t offset,
                   std::span<const std::byte> bytes);
// Changes of more than written_bytes_max are told one after the other: for these the caller has begun a
// group.
Result<void> write(Mutator& changes, DatabaseKey key, std::uint64_t offset,
                   std::span<const std::byte> bytes) noexcept;
// Puts a string that no other thread knows under a key, replacing what is there. Errors and groups: as
// Keyspace::put, and as write().
Result<void> put_string(Mutator& changes, DatabaseKey key, strings::StringPtr string,
                        keyspace::Deadline deadline) noexcept;

// The most that expire(), and write() or put_string() of so many bytes record, as WorkerLog::admit counts it.
[[nodiscard]] std::uint64_t record_bytes_of_string(std::size_t key_bytes, std::uint64_t byte_count);

}  // namespace sepal::writers
