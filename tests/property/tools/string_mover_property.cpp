// Copying parts of a string, and telling how two strings differ, equal their plain definitions.
#include <rapidcheck.h>

#include "support/catch.hpp"
#include "tools/redis/string_mover.hpp"

namespace string_mover_property {

using namespace sepal::tools;

namespace {

// Some pages, most of them zeros, with a last one that is not whole.
std::string drawn_string() {
  std::string bytes(*rc::gen::inRange<std::size_t>(0, 9 * string_page_bytes), '\0');
  for (const std::size_t place :
       *rc::gen::container<std::vector<std::size_t>>(rc::gen::arbitrary<std::size_t>()))
    if (!bytes.empty()) bytes[place % bytes.size()] = *rc::gen::arbitrary<char>();
  return bytes;
}

bool has_more(const std::string& one, const std::string& other) {
  if (one.size() > other.size()) return true;
  for (std::size_t at = 0; at < one.size(); ++at)
    if ((static_cast<unsigned char>(one[at]) & ~static_cast<unsigned char>(other[at])) != 0) return true;
  return false;
}

}  // namespace

TEST_CASE("the parts that are sent make the string of one that is zero") {
  CHECK(rc::check([] {
    const std::string bytes = drawn_string();
    std::string copy(bytes.size(), '\0');
    std::size_t end = 0;
    each_part_with_bits(bytes, [&](std::size_t offset, std::string_view part) {
      RC_ASSERT(!part.empty());
      RC_ASSERT(offset % string_page_bytes == 0u);
      // Parts that touch would be one.
      RC_ASSERT(offset == 0u || offset > end);
      std::memcpy(copy.data() + offset, part.data(), part.size());
      end = offset + part.size();
    });
    RC_ASSERT(copy == bytes);
  }));
}

TEST_CASE("the difference of two strings is that of their bits") {
  CHECK(rc::check([] {
    const std::string first = drawn_string();
    std::string second = *rc::gen::arbitrary<bool>() ? drawn_string() : first;
    if (!second.empty() && *rc::gen::arbitrary<bool>())
      second[*rc::gen::inRange<std::size_t>(0, second.size())] |= *rc::gen::arbitrary<char>();
    const StringDifference told = difference_of(first, second);
    RC_ASSERT(told.first_has_more == has_more(first, second));
    RC_ASSERT(told.second_has_more == has_more(second, first));
  }));
}

}  // namespace string_mover_property
