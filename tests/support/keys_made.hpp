// The memory of databases that have had keys and have none: their tables stay.
#pragma once

#include <sepal/keyspace/keyspace.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <cstdint>
#include <initializer_list>

#include "support/catch.hpp"

namespace sepal::test {

// Each of these databases gets a key, and loses it.
inline void make_tables(keyspace::Keyspace& keys, std::initializer_list<std::uint32_t> databases) {
  for (const std::uint32_t database : databases) {
    REQUIRE(writers::create(keys, {.database = database, .key = "made"}, {.capacity = 1}));
    REQUIRE(keys.remove({.database = database, .key = "made"}));
  }
}

// All databases have tables then.
inline void make_all_tables(keyspace::Keyspace& keys) {
  for (std::uint32_t database = 0; database < keyspace::database_count; ++database)
    make_tables(keys, {database});
}

}  // namespace sepal::test
