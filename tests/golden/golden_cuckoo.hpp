// The filters that delete in the golden directories: they are in database 3.
#pragma once

#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <cstdint>
#include <string>

namespace formats_test {

// The name of an item.
[[nodiscard]] inline std::string item_of(const std::string& key, std::uint64_t index) {
  return key + "/" + std::to_string(index);
}

void add_cuckoo_of_the_cut(sepal::keyspace::Keyspace& keyspace);
// From version 12 on. A save copies a cell with what came behind the cut, and the journal has that too.
void change_as_in_version_12(sepal::keyspace::Mutator& mutator);
void require_cuckoo_filters(const sepal::keyspace::Keyspace& keyspace);

}  // namespace formats_test
