// What changes cuckoo filters of RedisBloom under their keys. All of it runs with the gate closed, and throws
// nothing.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sepal::writers {

// No filter gets more layers by adds: a start would refuse a filter with more than layers_max.
[[nodiscard]] std::uint32_t redis_layers_max_of(const keyspace::KeyspaceOptions& options);

// The key names `filter`. An outcome that is neither added nor refused: the item seems to be there.
void add(keyspace::Mutator& changes, keyspace::DatabaseKey key, cuckoo::RedisFilter& filter,
         std::span<const std::string_view> items, cuckoo::Filter::AddIf condition,
         std::vector<cuckoo::Filter::AddOutcome>& outcomes) noexcept;
// Removes a copy of each item.
void remove(keyspace::Mutator& changes, keyspace::DatabaseKey key, cuckoo::RedisFilter& filter,
            std::span<const std::string_view> items, std::span<bool> removed) noexcept;
void compact(keyspace::Mutator& changes, keyspace::DatabaseKey key, cuckoo::RedisFilter& filter) noexcept;
// Writes a chunk, or a part of one, to its place among the slots of all layers, where there are so many.
// After a crash its first records may be there alone: the client, which has no answer, sends the chunk again.
void write(keyspace::Mutator& changes, keyspace::DatabaseKey key, cuckoo::RedisFilter& filter,
           std::uint64_t offset, std::span<const std::byte> bytes) noexcept;

// Makes a filter with this header and empty slots under a key. Errors: key_too_long, key_exists, key_limit,
// layer_limit, out_of_range (no such database, or no such filter), too_large, out_of_memory.
Result<void> create(keyspace::Mutator& changes, keyspace::DatabaseKey key, const cuckoo::RedisHeader& header,
                    WallTime now) noexcept;

// The most that these record of so many items, and of so many bytes, as WorkerLog::admit counts them.
[[nodiscard]] std::uint64_t record_bytes_of_redis_items(std::size_t key_bytes, std::size_t item_count);
[[nodiscard]] std::uint64_t record_bytes_of_redis_chunk(std::size_t key_bytes, std::uint64_t byte_count);

}  // namespace sepal::writers
