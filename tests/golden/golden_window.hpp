// The filters that forget in the golden directories: they are in database 4.
#pragma once

#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>

namespace formats_test {

void add_windows_of_the_cut(sepal::keyspace::Keyspace& keyspace);
// From version 13 on.
void change_as_in_version_13(sepal::keyspace::Mutator& mutator);
void require_windows(const sepal::keyspace::Keyspace& keyspace);

}  // namespace formats_test
