// The kind of value that filters that delete are: the row that keyspace, storage and commands know them by.
#pragma once

#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/value/kind_row.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace sepal::cuckoo {

extern const value::KindRow cuckoo_row;

// The head of the record that a filter was made (keyspace::Made).
[[nodiscard]] std::array<std::byte, plan_bytes> made_record(const Plan& plan);

// The number of a change that is recorded as `changed`: CF.COMPACT. And its bytes: what Filter::compact() has
// returned.
inline constexpr std::uint8_t compacted_change = 0;
[[nodiscard]] std::array<std::byte, sizeof(std::uint64_t)> compacted_record(std::uint64_t forgotten);

}  // namespace sepal::cuckoo
