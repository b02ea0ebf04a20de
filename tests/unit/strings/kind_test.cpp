// The row of strings (value/kind_row.hpp) against what a string itself says.
#include <sepal/strings/kind.hpp>
#include <sepal/value/image.hpp>

#include "support/catch.hpp"

namespace kind_test {
namespace {

using namespace sepal;
using namespace sepal::strings;

constexpr value::Limits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

StringPtr string_of(std::string_view bytes) {
  auto made = String::of(bytes, plenty);
  REQUIRE(made.ok());
  return *made;
}

std::vector<std::byte> joined(std::span<const std::byte> head, std::string_view bytes) {
  std::vector<std::byte> all(head.begin(), head.end());
  const auto more = std::as_bytes(std::span(bytes));
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_CASE("a string is of its row, and its image makes it again") {
  for (const std::string_view text : {"", "twelve bytes"}) {
    const StringPtr string = string_of(text);
    CHECK(&value::row_of(*string) == &string_row);
    const std::vector<std::byte> image = value::image_of(*string);
    CHECK(value::row_of_image(image) == &string_row);
    const auto made = value::value_of(image, plenty);
    REQUIRE(made.ok());
    CHECK(value::image_of(**made) == image);
    CHECK(value::as<String>(**made).text() == text);
    for (std::size_t length = 0; length < image.size(); ++length)
      CHECK_FALSE(value::value_of(std::span(image).first(length), plenty).ok());
  }
}

TEST_CASE("a frozen string keeps the length of its instant") {
  const StringPtr string = string_of("abc");
  const value::Frozen frozen{value::ValuePtr(string)};
  string->write(5, std::as_bytes(std::span("d", 1)));
  const auto copy = frozen.copy(plenty, {});
  REQUIRE(copy.ok());
  CHECK(value::as<String>(**copy).text() == "abc");
}

TEST_CASE("OBJECT ENCODING tells a number, a short string and a long one") {
  for (const auto& [text, encoding] : std::vector<std::pair<std::string, std::string_view>>{
           {"-12", "int"}, {"", "embstr"}, {std::string(44, 'x'), "embstr"}, {std::string(45, 'x'), "raw"}})
    CHECK(string_row.encoding(*string_of(text)) == encoding);
}

TEST_CASE("records make a string, and what was written to it, again") {
  const value::KindRow& row = string_row;
  auto made = row.make_recorded({}, plenty);
  REQUIRE(made.ok());
  value::ValuePtr string = std::move(*made);
  const auto write = [&](std::uint64_t offset, std::string_view bytes) {
    auto larger =
        row.apply(*string, written_change, joined(written_head(offset, bytes.size()), bytes), plenty);
    REQUIRE(larger.ok());
    if (*larger != nullptr) string = std::move(*larger);
  };
  write(0, "abc");
  write(100, "d");
  const String& bytes = value::as<String>(*string);
  CHECK(bytes.length() == 101);
  CHECK(bytes.text(0, 3) == "abc");
  const Fingerprint bit{.low = 7, .high = 0};
  CHECK(row.add(*string, {&bit, 1}));
  const Fingerprint behind{.low = 101 * 8, .high = 0};
  CHECK_FALSE(row.add(*string, {&behind, 1}));
}

TEST_CASE("bytes that are no record of a string are damage, whatever they are") {
  const StringPtr string = string_of("a");
  const std::vector<std::byte> bytes(100);
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const auto some = std::span(bytes).first(length);
    CHECK(string_row.make_recorded(some, plenty).ok() == some.empty());
    // 16 zeros write nothing at the begin.
    CHECK(string_row.apply(*string, written_change, some, plenty).ok() == (length == written_head_bytes));
    CHECK_FALSE(string_row.apply(*string, 9, some, plenty).ok());
  }
}

}  // namespace
}  // namespace kind_test
