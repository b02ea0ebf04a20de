// Values under their keys, for tests that know of which kind they are.
#pragma once

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>

namespace sepal::test {

// The filter under a key; null when the key names nothing. Strings have the same class.
[[nodiscard]] inline bloom::Filter* filter_at(const keyspace::Keyspace& keyspace, keyspace::DatabaseKey key,
                                              WallTime now = {}) {
  return static_cast<bloom::Filter*>(keyspace.find(key, now));
}

// The filter that a pointer to a value holds.
[[nodiscard]] inline bloom::FilterPtr held_filter(const value::ValuePtr& value) {
  return bloom::FilterPtr(static_cast<bloom::Filter*>(value.get()));
}

}  // namespace sepal::test
