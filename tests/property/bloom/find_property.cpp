// BF.FIND beside one look-up a filter: filters of all kinds and seeds, missing ones among them, asked in
// pieces of any size.
#include <sepal/bloom/commands/find.hpp>
#include <sepal/bloom/foreign/client_bitmap.hpp>
#include <sepal/bloom/foreign/redisbloom.hpp>
#include <sepal/bloom/window/window_filter.hpp>

#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/bitmap_of_bytes.hpp"
#include "support/catch.hpp"

namespace find_property {
namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr value::Limits no_limits{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};
const WallTime now{std::chrono::seconds(1'700'000'000)};
using Views = std::vector<std::string_view>;

template <class Made>
auto checked(Made made) {
  RC_ASSERT(static_cast<bool>(made));
  return *made;
}

std::vector<std::string> items_of(std::mt19937_64& random, std::size_t count, int range) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < count; ++i)
    items.push_back("item:" + std::to_string(random() % static_cast<unsigned>(range)));
  return items;
}
Views views_of(const std::vector<std::string>& items) {
  return {items.begin(), items.end()};
}

// A few filters share a seed, and others have one of their own.
std::uint64_t seed_of(std::mt19937_64& random) {
  return random() % 3 != 0 ? 7 : random() % 20;
}

value::ValuePtr plain(std::mt19937_64& random, const Views& items) {
  const std::uint64_t capacities[] = {1, 10, 200, 100'000};
  auto filter = checked(Filter::create(
      {.error_rate = 0.1, .capacity = capacities[random() % 4], .expansion = 2, .seed = seed_of(random)},
      no_limits));
  for (const std::string_view item : items) static_cast<void>(filter->add_alone(item, no_limits));
  return filter;
}

value::ValuePtr forgetting(std::mt19937_64& random, const Views& items) {
  WindowOptions options{.error_rate = 0.1, .capacity = 1000};
  options.seed = seed_of(random);
  options.milliseconds = 10'000;
  const auto plan = checked(plan_window(options, no_limits.bytes_max));
  auto filter = checked(WindowFilter::create(options, plan, now));
  const auto added = std::make_unique<bool[]>(items.size());
  static_cast<void>(filter->try_add(items, now, {added.get(), items.size()}, nullptr));
  return filter;
}

// Its bits are random: the property asks only for the same answers.
value::ValuePtr of_redisbloom(std::mt19937_64& random) {
  constexpr std::uint64_t bytes = 1384;
  const RedisBloomLayer layer{.byte_count = bytes,
                              .bit_count = 8 * bytes,
                              .item_count = 500,
                              .error_rate = 0.005,
                              .bits_per_item = 11.027754,
                              .probe_count = 8,
                              .capacity = 1000,
                              .size_exponent = 0};
  const auto header = checked(image_of({.item_count = 500, .options = 5, .expansion = 2, .layers = {layer}}));
  auto filter = checked(Filter::restore(header.options, header.layers, no_limits));
  std::vector<std::byte> bits(bytes);
  for (std::byte& each : bits) each = static_cast<std::byte>(random() | random());
  filter->fill_bits(0, 0, bits);
  return filter;
}

value::ValuePtr of_client(std::mt19937_64& random, const Views& items) {
  std::string bytes(250, '\0');
  for (char& each : bytes) each = static_cast<char>(random() | random());
  const ClientBitmap bitmap{
      .bits = {.scheme = Scheme::go_zero, .bit_count = 2000, .probe_count = 14, .first_seed = 0},
      .capacity = 100,
      .error_rate = 0.1,
      .expansion = 2,
      .seed = seed_of(random)};
  auto filter = checked(filter_of_bitmap(test::BitmapOfBytes(bytes), bitmap, no_limits, {}));
  for (const std::string_view item : items) static_cast<void>(filter->add_alone(item, no_limits));
  return filter;
}

value::ValuePtr any_filter(std::mt19937_64& random) {
  const auto items = items_of(random, random() % 300, 1000);
  switch (random() % 8) {
    case 0: return nullptr;
    case 1: return of_redisbloom(random);
    case 2: return of_client(random, views_of(items));
    case 3:
    case 4: return forgetting(random, views_of(items));
    default: return plain(random, views_of(items));
  }
}

// What BF.MEXISTS of the key answers.
std::vector<bool> asked_alone(const value::Value* found, const Views& items, bool missing) {
  const auto present = std::make_unique<bool[]>(items.size());
  const std::span<bool> answers(present.get(), items.size());
  if (const auto* const filter = value::as<Filter>(found)) {
    filter->contains(items, answers);
  } else if (const auto* const window = value::as<WindowFilter>(found)) {
    window->contains(items, now, answers);
  } else {
    std::ranges::fill(answers, missing);
  }
  return {answers.begin(), answers.end()};
}

// Collects what a FindWindow appends.
struct Collected {
  std::vector<std::int64_t> numbers;  // or the answers of ALL; -1: null
  void integer(std::int64_t number) { numbers.push_back(number); }
  void boolean(bool answer) { numbers.push_back(answer ? 1 : 0); }
  void null() { numbers.push_back(-1); }
  void array(std::size_t) {}
};

std::vector<std::int64_t> expected_answers(const std::vector<std::vector<bool>>& columns,
                                           const std::vector<value::ValuePtr>& filters,
                                           std::size_t item_count, bool all, bool missing) {
  std::vector<std::int64_t> expected;
  for (std::size_t item = 0; item < item_count; ++item) {
    std::int64_t first = 0;
    for (std::size_t key = 0; key < columns.size(); ++key) {
      const bool has = columns[key][item];
      if (all) expected.push_back(filters[key] == nullptr && !missing ? -1 : has ? 1 : 0);
      if (has && first == 0) first = static_cast<std::int64_t>(key + 1);
    }
    if (!all) expected.push_back(first);
  }
  return expected;
}

TEST_CASE("BF.FIND answers what one BF.MEXISTS for each key would") {
  CHECK(rc::check("many filters as one by one", [] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    const auto key_count = static_cast<std::size_t>(*rc::gen::element(1, 2, 5, 40, 150));
    const auto item_count = static_cast<std::size_t>(*rc::gen::element(1, 3, 63, 64, 65, 200));
    const bool all = *rc::gen::arbitrary<bool>();
    const bool missing = *rc::gen::arbitrary<bool>();
    std::vector<value::ValuePtr> filters;
    for (std::size_t key = 0; key < key_count; ++key) filters.push_back(any_filter(random));
    const auto texts = items_of(random, item_count, *rc::gen::element(1500, 100'000));
    const Views items = views_of(texts);
    std::vector<std::vector<bool>> columns;
    std::vector<const value::Value*> found;
    for (const value::ValuePtr& filter : filters) {
      columns.push_back(asked_alone(filter.get(), items, missing));
      found.push_back(filter.get());
    }
    FindWindow window;
    Collected collected;
    std::size_t asked_of_all = 0;
    for (std::size_t at = 0; at < items.size();) {
      const std::size_t count = window.begin(std::span(items).subspan(at), key_count, all);
      const auto some = std::span(items).subspan(at, count);
      for (std::size_t key = 0; key < key_count;) {
        const std::size_t together = std::min<std::size_t>(key_count - key, 1 + random() % 20);
        std::vector<FindWindow::Asked> asked(together);
        window.ask(some, std::span(found).subspan(key, together), missing, now, asked);
        for (const FindWindow::Asked& each : asked) asked_of_all += each.items;
        key += together;
      }
      window.append(collected);
      at += count;
    }
    RC_ASSERT((collected.numbers == expected_answers(columns, filters, item_count, all, missing)));
    if (all)
      RC_ASSERT(asked_of_all ==
                item_count * static_cast<std::size_t>(std::ranges::count_if(
                                 found, [](const value::Value* each) { return each != nullptr; })));
  }));
}

TEST_CASE("a window of BF.FIND has fewer items where they are long, or the keys many") {
  FindWindow window;
  const std::string text(100'000, 'x');
  const Views many(100, "item");
  CHECK(window.begin(many, 3, false) == 64);
  CHECK(window.begin(many, find_keys_max, false) == 64);
  CHECK(window.begin(many, find_keys_max, true) == 16);
  CHECK(window.begin(Views(100, text), 3, false) == 3);
  CHECK(window.byte_count() == 300'000);
  CHECK(window.begin(Views{many[0]}, 1, true) == 1);
}

}  // namespace
}  // namespace find_property
