// A union of filters that forget, as BF.MERGE makes and records it.
#pragma once

#include <sepal/bloom/window/unite.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/keyspace/part_list.hpp>
#include <sepal/value/image.hpp>

#include <optional>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/storage_fixture.hpp"

namespace sepal::test {

struct UnitedWindows {
  value::ValuePtr made;
  std::vector<std::byte> head;
  std::vector<keyspace::Part> parts;
};

// Nothing: they cannot be united. `keys` name the filters, in the same order.
inline std::optional<UnitedWindows> unite_windows(const std::vector<const bloom::WindowFilter*>& filters,
                                                  const std::vector<std::string_view>& keys,
                                                  std::optional<std::size_t> continued, WallTime now) {
  auto whole = bloom::union_of(filters, continued, now);
  if (!whole) return std::nullopt;
  (void)bloom::count_union(*whole, bloom::measured_bytes_max);
  auto made = bloom::WindowFilter::restore(whole->shape, roomy, value::FilledBy::load);
  REQUIRE(made);
  std::uint64_t bytes_done = 0;
  REQUIRE(bloom::take_parts(**made, *whole, {}, bytes_done));
  UnitedWindows united{.made = *made, .head = value::Frozen(*made).head(), .parts = {}};
  for (std::size_t i = 0; i < keys.size(); ++i)
    united.parts.push_back({.key = keys[i], .extent = bloom::extent_of(whole->parts[i])});
  return united;
}

}  // namespace sepal::test
