// The kinds of the programs that have the toy, in place of src/kinds.
#include <sepal/bloom/kind/kind.hpp>
#include <sepal/strings/kind.hpp>

#include <array>

#include "toy/toy.hpp"

namespace sepal::value {
namespace {

constexpr std::array<const KindRow*, 3> all = {&bloom::bloom_row, &strings::string_row,
                                               &Whole<toy::Toy>::row};

}  // namespace

constinit const std::span<const KindRow* const> kinds{all};

}  // namespace sepal::value
