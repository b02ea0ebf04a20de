// Values under their keys, for tests that know of which kind they are.
#pragma once

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/strings/string.hpp>

namespace sepal::test {

// The filter under a key; null when the key names no filter.
[[nodiscard]] inline bloom::Filter* filter_at(const keyspace::Keyspace& keyspace, keyspace::DatabaseKey key,
                                              WallTime now = {}) {
  return value::as<bloom::Filter>(keyspace.find(key, now));
}

// The string under a key; null when the key names no string.
[[nodiscard]] inline strings::String* string_at(const keyspace::Keyspace& keyspace,
                                                keyspace::DatabaseKey key) {
  return value::as<strings::String>(keyspace.find(key));
}

// The filter that a pointer to a value holds.
[[nodiscard]] inline bloom::FilterPtr held_filter(const value::ValuePtr& value) {
  return bloom::FilterPtr(&value::as<bloom::Filter>(*value));
}

}  // namespace sepal::test
