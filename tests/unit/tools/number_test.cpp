#include "tools/shell/number.hpp"

#include "support/catch.hpp"

namespace number_test {

using sepal::tools::parse_bits;
using sepal::tools::parse_count;
using sepal::tools::parse_duration;
using sepal::tools::parse_pace;
using sepal::tools::parse_rate;

TEST_CASE("a count is exact, up to the largest count") {
  CHECK(parse_count("18446744073709551615") == UINT64_MAX);
  CHECK(parse_count("1.8446744073709551615e19") == UINT64_MAX);
  CHECK(parse_count("18446744073709551.615k") == UINT64_MAX);
  CHECK(parse_count("18446744073.709551615G") == UINT64_MAX);
  CHECK(parse_count("184467440737095516150e-1") == UINT64_MAX);
  CHECK(parse_count("9007199254740993") == (std::uint64_t{1} << 53) + 1);
  CHECK(parse_count("9007199.254740993g") == (std::uint64_t{1} << 53) + 1);
  CHECK(parse_count("1e19") == 10'000'000'000'000'000'000u);
  CHECK(parse_count(std::string(100, '0') + "7") == 7u);
  CHECK(parse_count("0e40") == 0u);
  CHECK(parse_count("0.000") == 0u);
}

TEST_CASE("a number that is not whole or does not fit is refused") {
  // clang-format off
  for (const char* text : {
      "18446744073709551616", "1.8446744073709551616e19", "18446744073709552k", "1e20", "2e19", "1e41",
      "1e-41", "1e99999999999", "0.5", "1.5e0", "1e-1", "12345e-3", "0.0001k", "", ".", "k", "e", "e8",
      ".e8", "1e", "1e+", "1e-", "1e+-1", "1e--1", "1e1.5", "1.2.3", "-1", "+1", " 1", "1 ", "1kk", "1mb",
      "1b", "0x10", "1k5", "1ek", "nan", "inf"}) {
    // clang-format on
    CAPTURE(text);
    CHECK(parse_count(text) == std::nullopt);
  }
}

TEST_CASE("every power of ten is the same number in every notation") {
  std::uint64_t power = 1;
  for (int exponent = 0; exponent < 20; ++exponent, power *= 10) {
    CAPTURE(exponent);
    const std::string digits = std::to_string(power);
    CHECK(parse_count(digits) == power);
    CHECK(parse_count("1e" + std::to_string(exponent)) == power);
    CHECK(parse_count("0.1e" + std::to_string(exponent + 1)) == power);
    CHECK(parse_count("100e" + std::to_string(exponent - 2)) == power);
    CHECK(parse_count(digits + "000e-3") == power);
    if (exponent < 17) CHECK(parse_count(digits + "k") == power * 1000);
    if (exponent < 14) CHECK(parse_count(digits + "m") == power * 1'000'000);
    if (exponent < 11) CHECK(parse_count(digits + "g") == power * 1'000'000'000);
  }
}

TEST_CASE("bits are decimal or hexadecimal") {
  CHECK(parse_bits("010") == 10u);
  CHECK(parse_bits("0x10") == 16u);
  CHECK(parse_bits("0XffffFFFFffffFFFF") == UINT64_MAX);
  for (const char* text :
       {"", "0x", "x10", "-1", "0x-1", "1e3", "0x10000000000000000", "18446744073709551616"}) {
    CAPTURE(text);
    CHECK(parse_bits(text) == std::nullopt);
  }
}

TEST_CASE("a rate is above 0 and below 1") {
  CHECK(parse_rate("0.01") == 0.01);
  CHECK(parse_rate("1e-300") == 1e-300);
  CHECK(parse_rate(".5") == 0.5);
  for (const char* text : {"", "0", "1", "-0.1", "1e-400", "nan", "inf", "0.1%", "0.1 ", "+0.1", "x"}) {
    CAPTURE(text);
    CHECK(parse_rate(text) == std::nullopt);
  }
}

TEST_CASE("a time has a unit, or is seconds") {
  for (const auto& [text, milliseconds] : {std::pair("90s", 90'000ull),
                                           {"90", 90'000},
                                           {"0.5", 500},
                                           {"500ms", 500},
                                           {"15m", 900'000},
                                           {"1.5h", 5'400'000},
                                           {"7d", 604'800'000},
                                           {"2w", 1'209'600'000},
                                           {"1e3s", 1'000'000},
                                           {"9007199254740992ms", 9'007'199'254'740'992}}) {
    CAPTURE(text);
    CHECK(parse_duration(text) == milliseconds);
  }
  for (const char* text : {"", "h", "0", "0s", "-1s", "0.4ms", "1y", "1 h", "1h ", "h1", "1hh", "nan", "inf",
                           "infh", "1e300d", "9007199254740994ms", "1k"}) {
    CAPTURE(text);
    CHECK(parse_duration(text) == std::nullopt);
  }
}

TEST_CASE("a pace is a count in a time") {
  for (const auto& [text, count, milliseconds] : {std::tuple("20000/s", 20'000ull, 1000ull),
                                                  {"5m/d", 5'000'000, 86'400'000},
                                                  {"1.5k/15m", 1500, 900'000},
                                                  {"1/500ms", 1, 500},
                                                  {"7/ms", 7, 1},
                                                  {"2/10", 2, 10'000}}) {
    CAPTURE(text);
    const auto pace = parse_pace(text);
    REQUIRE(pace);
    CHECK(pace->count == count);
    CHECK(pace->milliseconds == milliseconds);
  }
  for (const char* text :
       {"", "/", "1", "1/", "/s", "0/s", "0.5/s", "-1/s", "1/0s", "1/x", "1/s/s", "1 /s", "1/ s", "20000s"}) {
    CAPTURE(text);
    CHECK(parse_pace(text).has_value() == false);
  }
}

}  // namespace number_test
