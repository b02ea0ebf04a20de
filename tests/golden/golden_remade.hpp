// From version 14 on there are filters that were made of the bits of others, and layers that were shrunk.
#pragma once

#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>

namespace formats_test {

// Into database 7, whose keys a swap gives to database 6.
void add_shrunk_of_the_cut(sepal::keyspace::Keyspace& keyspace);
// In database 1.
void change_as_in_version_14(sepal::keyspace::Mutator& mutator, sepal::keyspace::Keyspace& keyspace);
// Both databases are as these two have left them.
void require_remade(const sepal::keyspace::Keyspace& keyspace);

// From version 15 on, in the same: filters that forget.
void change_as_in_version_15(sepal::keyspace::Mutator& mutator);
void require_united_windows(const sepal::keyspace::Keyspace& keyspace);

}  // namespace formats_test
