// The conversion of words to values.
#include <sepal/base/arguments.hpp>

#include "support/catch.hpp"

namespace arguments_test {

using sepal::equal_ignoring_case;
using sepal::lower_case;
using sepal::parse_integer;
using sepal::parse_real;
using sepal::parse_unsigned;

TEST_CASE("words are compared without the case of letters, and only of letters") {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string one{'x', static_cast<char>(a)};
      const std::string other{'X', static_cast<char>(b)};
      CHECK(equal_ignoring_case(one, other) == (lower_case(one) == lower_case(other)));
    }
  }
  CHECK_FALSE(equal_ignoring_case("a", "ab"));
}

TEST_CASE("integers are strict decimal") {
  CHECK(parse_integer("0") == 0);
  CHECK(parse_integer("-7") == -7);
  CHECK(parse_integer("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  CHECK(parse_integer("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
  for (const char* word : {"", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1x", "0x1", "1.0", "1e3",
                           "9223372036854775808", "-9223372036854775809"})
    CHECK_FALSE(parse_integer(word));
  CHECK(parse_unsigned("18446744073709551615") == std::numeric_limits<std::uint64_t>::max());
  for (const char* word : {"", "-1", "+1", "00", "18446744073709551616"}) CHECK_FALSE(parse_unsigned(word));
}

TEST_CASE("real numbers are read like strtod reads them") {
  CHECK(parse_real("0.01") == 0.01);
  CHECK(parse_real(".5") == 0.5);
  CHECK(parse_real("+1e-3") == 1e-3);
  CHECK(parse_real("-2.") == -2);
  CHECK(parse_real("0x1p-4") == 0.0625);
  CHECK(parse_real("-inf") == -std::numeric_limits<double>::infinity());
  CHECK(parse_real("4.9e-324") == 4.9e-324);
  for (const char* word : {"", "+", "-", "--1", "+-1", "nan", "-nan", " 1", "1 ", "1x", "0x", "0x-1", "0xinf",
                           "1e400", "1e-400", "abc"})
    CHECK_FALSE(parse_real(word));
  CHECK_FALSE(parse_real(std::string_view("0.1\0", 4)));
}

TEST_CASE("the digits of a real number are read back as the same number") {
  CHECK(sepal::digits_of_real(0.01) == "0.01");
  CHECK(sepal::digits_of_real(-0.1) == "-0.1");
  CHECK(sepal::digits_of_real(std::numeric_limits<double>::infinity()) == "inf");
  for (const double value : {0.1 + 0.2, 1e-300, -2.2250738585072014e-308, 1.7976931348623157e308, 5e-324})
    CHECK(parse_real(sepal::digits_of_real(value)) == value);
}

}  // namespace arguments_test
