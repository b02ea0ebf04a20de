// The options of BF.RESERVE and BF.INSERT, and what BF.INFO and BF.DEBUG answer, without a host.
#include <sepal/bloom/commands/facts.hpp>
#include <sepal/bloom/commands/options.hpp>
#include <sepal/bloom/commands/texts.hpp>

#include <variant>

#include "support/catch.hpp"

namespace bloom_options_test {

using namespace sepal;         // NOLINT(google-build-using-namespace): a test of free functions
using namespace sepal::bloom;  // NOLINT(google-build-using-namespace)
using Words = std::vector<std::string_view>;

const bloom::FilterOptions defaults{.error_rate = 0.01, .capacity = 100, .expansion = 2, .seed = 7};

std::string_view refusal_of_reserve(const Words& words) {
  const auto parsed = parse_reserve(words, defaults);
  const auto* const refusal = std::get_if<Refusal>(&parsed);
  return refusal != nullptr ? refusal->text : std::string_view();
}

std::string_view refusal_of_insert(const Words& words) {
  const auto parsed = parse_insert(words, defaults);
  const auto* const refusal = std::get_if<Refusal>(&parsed);
  return refusal != nullptr ? refusal->text : std::string_view();
}

TEST_CASE("BF.RESERVE's options are read by their position") {
  const auto parsed =
      parse_reserve(Words{"0.001", "1000", "expansion", "4", "EX", "9", "EX", "10"}, defaults);
  const auto& request = std::get<ReserveRequest>(parsed);
  CHECK(request.options ==
        bloom::FilterOptions{.error_rate = 0.001, .capacity = 1000, .expansion = 4, .seed = 7});
  CHECK(request.seconds == 10);
  CHECK(
      std::get<ReserveRequest>(parse_reserve(Words{"0.5", "1", "NONSCALING"}, defaults)).options.expansion ==
      0);

  CHECK(refusal_of_reserve({"x", "1"}) == text::reserve_bad_rate);
  CHECK(refusal_of_reserve({"1", "1"}) == text::reserve_rate_range);
  CHECK(refusal_of_reserve({"0.1", "x"}) == text::reserve_bad_capacity);
  CHECK(refusal_of_reserve({"0.1", "0"}) == text::reserve_capacity_range);
  // The range that the text names, and one past it, which is no number of Sepal's.
  CHECK(text::reserve_capacity_range.find("[1, 18446744073709551615]") != std::string_view::npos);
  const auto largest = parse_reserve(Words{"0.1", "18446744073709551615"}, defaults);
  CHECK(std::get<ReserveRequest>(largest).options.capacity == 18446744073709551615U);
  CHECK(refusal_of_reserve({"0.1", "18446744073709551616"}) == text::reserve_bad_capacity);
  CHECK(refusal_of_reserve({"0.1", "1", "EXPANSION"}) == text::reserve_no_expansion);
  CHECK(refusal_of_reserve({"0.1", "1", "EXPANSION", "x"}) == text::reserve_bad_expansion);
  CHECK(refusal_of_reserve({"0.1", "1", "EXPANSION", "32769"}) == text::reserve_expansion_range);
  CHECK(refusal_of_reserve({"0.1", "1", "NONSCALING", "EXPANSION", "2"}) == text::reserve_contradiction);
  CHECK(refusal_of_reserve({"0.1", "1", "EX"}) == text::syntax);
  CHECK(refusal_of_reserve({"0.1", "1", "EX", "0"}) == text::reserve_bad_expiry);
  CHECK(refusal_of_reserve({"0.1", "1", "MORE"}) == text::reserve_unknown_word);
}

TEST_CASE("BF.INSERT's options end with the items") {
  const Words words{"CAPACITY", "5", "ERROR", "0.5", "NOCREATE", "ITEMS", "CAPACITY"};
  const auto parsed = parse_insert(words, defaults);
  const auto& request = std::get<InsertRequest>(parsed);
  CHECK(request.options.capacity == 5);
  CHECK(request.options.error_rate == 0.5);
  CHECK_FALSE(request.create);
  REQUIRE(request.items.size() == 1);
  CHECK(request.items[0] == "CAPACITY");
  CHECK_FALSE(request.seconds.has_value());
  CHECK(std::get<InsertRequest>(parse_insert(Words{"EX", "9", "ITEMS", "a"}, defaults)).seconds == 9);

  CHECK(std::holds_alternative<TooFewWords>(parse_insert(Words{"ITEMS"}, defaults)));
  CHECK(std::holds_alternative<TooFewWords>(parse_insert(Words{"CAPACITY"}, defaults)));
  CHECK(refusal_of_insert({"MORE", "ITEMS", "a"}) == text::insert_unknown_word);
  CHECK(refusal_of_insert({"ERROR", "2", "ITEMS", "a"}) == text::insert_bad_rate);
  CHECK(refusal_of_insert({"EX", "0", "ITEMS", "a"}) == text::insert_bad_expiry);
  CHECK(refusal_of_insert({"EX", "soon", "ITEMS", "a"}) == text::not_an_integer);
}

TEST_CASE("what BF.INFO and BF.DEBUG say of a filter") {
  const auto filter = bloom::Filter::create(defaults, {.bytes_max = 1 << 20});
  REQUIRE(filter);
  CHECK(info_fields().size() == 5);
  CHECK(find_info_field("iTems")->value(*info_of(filter->get(), {})) == 0);
  CHECK(find_info_field("EXPANSION")->value(*info_of(filter->get(), {})) == 2);
  CHECK(find_info_field("NOTHING") == nullptr);
  const auto fixed = bloom::Filter::create({.capacity = 10, .expansion = 0}, {.bytes_max = 1 << 20});
  REQUIRE(fixed);
  CHECK_FALSE(find_info_field("EXPANSION")->value(*info_of(fixed->get(), {})).has_value());
  const std::string line = debug_line((*filter)->newest_layer());
  CHECK(line.find("capacity:100 size:0 ratio:0.006") != std::string::npos);
  CHECK(line.starts_with("bytes:"));
}

TEST_CASE("EX lets BF.RESERVE have two words more") {
  CHECK(reserve_words_max(Words{"BF.RESERVE", "EX", "0.1", "1"}) == 7);
  CHECK(reserve_words_max(Words{"BF.RESERVE", "k", "0.1", "1", "ex", "9"}) == 9);
}

}  // namespace bloom_options_test
