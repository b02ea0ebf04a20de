// The rows of the product's kinds, each at its number. A program with kinds of its own puts theirs behind.
#pragma once

#include <sepal/bloom/kind/kind.hpp>
#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/cuckoo/kind/redis_kind.hpp>
#include <sepal/strings/kind.hpp>
#include <sepal/value/kind_row.hpp>

namespace sepal::value {

inline constexpr const KindRow* own_kinds[] = {&bloom::bloom_row, &strings::string_row, &cuckoo::cuckoo_row,
                                               &cuckoo::redis_row, &bloom::window_row};

}  // namespace sepal::value
