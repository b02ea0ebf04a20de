// The filters that forget in the golden directories: they are in database 4.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <chrono>

namespace formats_test {

// Windows of four seconds with the default of four generations begin one in each of these seconds.
inline sepal::WallTime at_second(int second) {
  return sepal::WallTime(std::chrono::seconds(1'800'000'000 + second));
}

void add_windows_of_the_cut(sepal::keyspace::Keyspace& keyspace);
// From version 13 on.
void change_as_in_version_13(sepal::keyspace::Mutator& mutator);
void require_windows(const sepal::keyspace::Keyspace& keyspace);

}  // namespace formats_test
