// All kinds of values. A program with other kinds defines `kinds` itself.
#include <sepal/bloom/kind/kind.hpp>
#include <sepal/strings/kind.hpp>
#include <sepal/value/kind_row.hpp>

#include <array>

namespace sepal::value {
namespace {

constexpr std::array<const KindRow*, 2> all = {&bloom::bloom_row, &strings::string_row};

}  // namespace

constinit const std::span<const KindRow* const> kinds{all};

}  // namespace sepal::value
