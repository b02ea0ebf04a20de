// A union of filters that forget, beside its parts and a model of what was added when: what a part would
// remember the union does, for as long, and nothing else.
#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/bloom/window/unite.hpp>
#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/value/image.hpp>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace unite_windows_property {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr value::Limits no_limits{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};
// So low that no answer of the model's tests is a mistake.
constexpr double never = 1e-12;
constexpr std::uint64_t begin_ms = 1'700'000'000'000;
constexpr std::uint64_t sample_of_all = std::uint64_t{1} << 40;

WallTime at(std::uint64_t milliseconds) {
  return WallTime(std::chrono::milliseconds(milliseconds));
}

WindowFilterPtr made(const WindowOptions& options, std::uint64_t now = begin_ms) {
  const auto plan = plan_window(options, no_limits.bytes_max);
  REQUIRE(plan);
  auto filter = WindowFilter::create(options, *plan, at(now));
  REQUIRE(filter);
  return *filter;
}

std::string item(std::uint64_t number) {
  return "item:" + std::to_string(number);
}

bool contains(const WindowFilter& filter, std::uint64_t number, std::uint64_t now) {
  const std::string text = item(number);
  const std::string_view view = text;
  bool present = false;
  filter.contains({&view, 1}, at(now), {&present, 1});
  return present;
}

// Adds as a writer does, with growth. What a record has of it.
std::vector<Fingerprint> add(WindowFilter& filter, std::uint64_t number, std::uint64_t now) {
  const std::string text = item(number);
  const std::string_view view = text;
  value::CollectedEntries collected;
  bool added = false;
  if (filter.try_add({&view, 1}, at(now), {&added, 1}, &collected)) return collected.entries;
  (void)filter.drop_old_layers();
  std::vector<Filter::AddOutcome> outcomes;
  for (;;) {
    outcomes.clear();
    REQUIRE(filter.add_each({&view, 1}, at(now), WindowFilter::Refusal::full, outcomes, &collected));
    if (outcomes[0].refusal == WindowFilter::Refusal::none) return collected.entries;
    REQUIRE(filter.grow(at(now), no_limits, {}) == WindowFilter::Refusal::none);
  }
}

std::vector<const WindowFilter*> pointers(const std::vector<WindowFilterPtr>& filters) {
  std::vector<const WindowFilter*> to;
  for (const WindowFilterPtr& filter : filters) to.push_back(filter.get());
  return to;
}

WindowFilterPtr restored(const WindowUnion& whole) {
  auto filter = WindowFilter::restore(whole.shape, no_limits, value::FilledBy::load);
  REQUIRE(filter);
  return *filter;
}

WindowFilterPtr united(const std::vector<WindowFilterPtr>& filters, std::uint64_t now,
                       WindowUnionMeasure& measured) {
  auto whole = union_of(pointers(filters), std::nullopt, at(now));
  REQUIRE(whole);
  measured = count_union(*whole, sample_of_all);
  WindowFilterPtr filter = restored(*whole);
  std::uint64_t bytes_done = 0;
  REQUIRE(take_parts(*filter, *whole, {}, bytes_done));
  return filter;
}

struct Shape {
  std::uint32_t generations;
  bool refresh;
  std::uint64_t capacity;

  [[nodiscard]] WindowOptions options(double rate = never) const {
    return {.error_rate = rate,
            .capacity = capacity,
            .milliseconds = 8000,
            .generations = generations,
            .refresh = refresh,
            .seed = 5};
  }
};

}  // namespace

TEST_CASE("a union remembers what its parts remember, as long as they do") {
  const auto shape = GENERATE(Shape{4, false, 4000}, Shape{4, true, 4000}, Shape{1, false, 4000},
                              Shape{7, true, 4000}, Shape{16, false, 4000});
  const std::uint64_t seed = GENERATE(range(0, 6));
  CAPTURE(shape.generations, shape.refresh, seed);
  std::mt19937_64 random(seed);
  const WindowOptions options = shape.options();
  const std::uint64_t generation = options.milliseconds / options.generations;
  std::vector<WindowFilterPtr> parts;
  for (std::uint64_t part = 0; part < 1 + seed; ++part) parts.push_back(made(options));
  // When each item was added last, and when an add of it last answered "new" or made it new.
  std::map<std::uint64_t, std::uint64_t> last_add;
  std::map<std::uint64_t, std::uint64_t> kept_from;
  std::uint64_t now = begin_ms;
  for (int turn = 0; turn < 2000; ++turn) {
    now += random() % 20;
    if (random() % 400 == 0) now += random() % options.milliseconds;
    const std::uint64_t number = random() % 900;
    const bool is_new = !add(*parts[random() % parts.size()], number, now).empty();
    last_add[number] = now;
    if (is_new) kept_from[number] = now;
  }
  now += random() % generation;
  WindowUnionMeasure measured;
  const WindowFilterPtr whole = united(parts, now, measured);
  CHECK(measured.highest_rate <= options.error_rate);
  for (std::uint64_t later = 0; later <= options.milliseconds + 2 * generation; later += generation / 3) {
    const std::uint64_t then = now + later;
    for (const auto& [number, since] : last_add) {
      CAPTURE(number, later);
      const bool answered = contains(*whole, number, then);
      if (then - kept_from[number] <= options.milliseconds) REQUIRE(answered);
      if (then - since > options.milliseconds + generation) REQUIRE_FALSE(answered);
      bool in_part = false;
      for (const WindowFilterPtr& part : parts) in_part = in_part || contains(*part, number, then);
      REQUIRE(answered == in_part);
    }
  }
  // It goes on as any other filter, and its image is that of one.
  const auto again = value::value_of(value::image_of(*whole), no_limits);
  REQUIRE(again);
  for (std::uint64_t number = 10'000; number < 11'000; ++number) add(*whole, number, now);
  for (std::uint64_t number = 10'000; number < 11'000; ++number)
    REQUIRE(contains(*whole, number, now + options.milliseconds));
}

TEST_CASE("what is added while a union is made is there, also when generations end meanwhile") {
  const bool refresh = GENERATE(false, true);
  const std::uint64_t seed = GENERATE(range(0, 5));
  CAPTURE(refresh, seed);
  std::mt19937_64 random(seed);
  const WindowOptions options = Shape{4, refresh, 200'000}.options();
  const std::vector<WindowFilterPtr> parts{made(options), made(options)};
  std::map<std::uint64_t, std::uint64_t> kept_from;  // of the first part, which goes on
  std::map<std::uint64_t, std::uint64_t> of_second;
  std::uint64_t now = begin_ms;
  for (int turn = 0; turn < 20'000; ++turn) {
    now += random() % 2;
    const std::uint64_t number = random() % 30'000;
    if (!add(*parts[0], number, now).empty()) kept_from[number] = now;
    if (!add(*parts[1], 100'000 + number, now).empty()) of_second[100'000 + number] = now;
  }
  auto whole = union_of(pointers(parts), 0, at(now));
  REQUIRE(whole);
  (void)count_union(*whole, sample_of_all);
  const WindowFilterPtr filter = restored(*whole);
  std::vector<Fingerprint> heard;
  std::uint64_t bytes_done = 0;
  const auto meanwhile = [&](std::uint64_t /*bytes_done*/) {
    REQUIRE(filter->repeat(heard));
    heard.clear();
    for (int turn = 0; turn < 100; ++turn) {
      now += random() % 3;
      const std::uint64_t number = random() % 40'000;
      const auto entries = add(*parts[0], number, now);
      if (!entries.empty()) kept_from[number] = now;
      heard.insert(heard.end(), entries.begin(), entries.end());
    }
    return true;
  };
  REQUIRE(take_parts(*filter, *whole, meanwhile, bytes_done));
  REQUIRE(filter->repeat(heard));
  REQUIRE(filter->newest_generation() > whole->shape.newest);
  CHECK(keeps_shares(*filter, *whole));
  CHECK(filter->newest_generation() == parts[0]->newest_generation());
  for (const std::uint64_t later : {std::uint64_t{0}, options.milliseconds / 2, options.milliseconds}) {
    for (const auto* const kept : {&kept_from, &of_second})
      for (const auto& [number, since] : *kept)
        if (now + later - since <= options.milliseconds) REQUIRE(contains(*filter, number, now + later));
  }
  const std::uint64_t gone = now + options.milliseconds * 5 / 4 + 1;
  for (const auto& [number, since] : kept_from) REQUIRE_FALSE(contains(*filter, number, gone));
}

TEST_CASE(
    "what is added while a union is made fills no layer beyond its share, however many the others have") {
  const WindowOptions options = Shape{4, false, 4000}.options(0.01);
  const std::vector<WindowFilterPtr> parts{made(options), made(options)};
  for (std::uint64_t number = 0; number < 1500; ++number) add(*parts[1], number, begin_ms);
  REQUIRE(parts[1]->layer_count() > 1);
  for (const bool beyond : {false, true}) {
    auto whole = union_of(pointers(parts), 0, at(begin_ms));
    REQUIRE(whole);
    const WindowUnionMeasure measured = count_union(*whole, sample_of_all);
    const WindowFilterPtr filter = restored(*whole);
    std::uint64_t bytes_done = 0;
    REQUIRE(take_parts(*filter, *whole, {}, bytes_done));
    // The oldest layer of the other part is full, and the first part's only one has room.
    const std::uint64_t first = beyond ? 3000 : 2000;
    std::vector<Fingerprint> heard;
    for (std::uint64_t number = first; number < first + (beyond ? 900 : 20); ++number) {
      const auto entries = add(*parts[0], number, begin_ms);
      heard.insert(heard.end(), entries.begin(), entries.end());
    }
    REQUIRE(parts[0]->layer_count() == 1);
    REQUIRE(filter->repeat(heard));
    CHECK(keeps_shares(*filter, *whole) == !beyond);
    CHECK(measured.highest_rate <= options.error_rate * 1.05);
  }
}

TEST_CASE("an old layer whose items are over is left out of a union") {
  const WindowOptions options = Shape{1, false, 100}.options();
  const std::vector<WindowFilterPtr> parts{made(options), made(options)};
  for (const WindowFilterPtr& part : parts)
    for (std::uint64_t number = 0; number < 300; ++number) add(*part, number, begin_ms);
  REQUIRE(parts[1]->layer_count() > 1);
  // The first one drops its old layer; the second one hears nothing of the time.
  const std::uint64_t later = begin_ms + 4 * options.milliseconds;
  for (std::uint64_t number = 1000; number < 1003; ++number) add(*parts[0], number, later);
  REQUIRE(parts[0]->layer_count() == 1);
  for (const std::optional<std::size_t> continued : {std::optional<std::size_t>(0), {1}, {}}) {
    auto whole = union_of(pointers(parts), continued, at(later));
    REQUIRE(whole);
    (void)count_union(*whole, sample_of_all);
    const WindowFilterPtr filter = restored(*whole);
    std::uint64_t bytes_done = 0;
    REQUIRE(take_parts(*filter, *whole, {}, bytes_done));
    REQUIRE(filter->layer_count() == 1);
    for (std::uint64_t number = 1000; number < 1003; ++number) CHECK(contains(*filter, number, later));
    CHECK_FALSE(contains(*filter, 7, later));
  }
}

TEST_CASE("a filter that is ahead of the clock is not united with others: it would empty them") {
  const WindowOptions options = Shape{4, false, 4000}.options();
  const std::uint64_t generation = options.milliseconds / options.generations;
  const std::vector<WindowFilterPtr> parts{made(options), made(options)};
  add(*parts[0], 1, begin_ms);
  // A clock that steps back over the begin of a generation does no harm.
  add(*parts[1], 2, begin_ms + generation);
  CHECK(union_of(pointers(parts), std::nullopt, at(begin_ms)));
  add(*parts[1], 3, begin_ms + 2 * generation);
  const auto refused = union_of(pointers(parts), std::nullopt, at(begin_ms));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::out_of_range);
  CHECK(refused.error().detail ==
        "one of the filters is 2 generations ahead of the clock: the union would forget the others' items "
        "too early");
  // Alone it forgets nothing, and later the clock has caught up.
  CHECK(union_of(pointers({parts[1]}), std::nullopt, at(begin_ms)));
  CHECK(union_of(pointers(parts), std::nullopt, at(begin_ms + generation)));
}

namespace {

// As a follower of the server: it hears of entries from any thread.
class Heard {
 public:
  void add(const std::vector<Fingerprint>& entries) {
    const std::lock_guard lock(mutex_);
    entries_.insert(entries_.end(), entries.begin(), entries.end());
  }
  [[nodiscard]] std::vector<Fingerprint> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(entries_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Fingerprint> entries_;
};

}  // namespace

TEST_CASE("what several threads add while a union is made is there", "[threads]") {
  const WindowOptions options = Shape{4, false, 1'000'000}.options();
  const std::vector<WindowFilterPtr> parts{made(options), made(options)};
  constexpr std::uint64_t each = 20'000;
  for (std::uint64_t number = 0; number < each; ++number) add(*parts[1], number, begin_ms);
  auto whole = union_of(pointers(parts), 0, at(begin_ms));
  REQUIRE(whole);
  (void)count_union(*whole, sample_of_all);
  const WindowFilterPtr filter = restored(*whole);
  Heard heard;
  std::vector<std::thread> adders;
  for (std::uint64_t adder = 1; adder <= 3; ++adder)
    adders.emplace_back([&, adder] {
      // Three generations.
      for (std::uint64_t step = 0; step < each; ++step) {
        const std::string text = item(adder * 1'000'000 + step);
        const std::string_view view = text;
        value::CollectedEntries collected;
        bool added = false;
        if (!parts[0]->try_add({&view, 1}, at(begin_ms + step / 4), {&added, 1}, &collected)) std::abort();
        heard.add(collected.entries);
      }
    });
  std::uint64_t bytes_done = 0;
  const auto taken = take_parts(
      *filter, *whole, [&](std::uint64_t) { return filter->repeat(heard.take()); }, bytes_done);
  for (std::thread& adder : adders) adder.join();
  REQUIRE(taken);
  REQUIRE(filter->repeat(heard.take()));
  CHECK(filter->newest_generation() == parts[0]->newest_generation());
  const std::uint64_t now = begin_ms + each / 4;
  for (std::uint64_t adder = 0; adder <= 3; ++adder)
    for (std::uint64_t step = 0; step < each; ++step)
      REQUIRE(contains(*filter, adder * 1'000'000 + step, now));
}

TEST_CASE("a record makes the union again, of parts that have gone on") {
  const std::uint64_t seed = GENERATE(range(0, 8));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  WindowOptions options = Shape{4, seed % 2 == 0, 400}.options();
  std::vector<WindowFilterPtr> parts{made(options), made(options), made(options)};
  std::uint64_t now = begin_ms;
  // Some have grown: those that are larger have all layers of the others.
  const auto fill = [&](WindowFilter& part, std::uint64_t from, std::uint64_t count) {
    for (std::uint64_t number = from; number < from + count; ++number) add(part, number, now);
  };
  fill(*parts[0], 0, 60);
  fill(*parts[1], 1000, 250);
  now += 1000;
  fill(*parts[2], 2000, 80);
  auto whole = union_of(pointers(parts), 2, at(now));
  REQUIRE(whole);
  CHECK(whole->shape.layers.size() == parts[1]->layer_count());
  CHECK(parts[1]->layer_count() > 1);
  (void)count_union(*whole, sample_of_all);
  const WindowFilterPtr filter = restored(*whole);
  std::uint64_t bytes_done = 0;
  REQUIRE(take_parts(*filter, *whole, {}, bytes_done));
  const std::vector<std::byte> head = value::Frozen(filter).head();
  std::vector<value::KindRow::Part> named;
  for (std::size_t part = 0; part < parts.size(); ++part)
    named.push_back({.value = parts[part].get(), .extent = extent_of(whole->parts[part])});
  // Bursts, growth, layers that go, generations that end.
  for (int step = 0; step < 40; ++step) {
    const auto again = window_row.unite(head, named, no_limits, {});
    REQUIRE(again);
    const auto& repeated = value::as<WindowFilter>(**again);
    CHECK(repeated.item_count() == filter->item_count());
    CHECK(repeated.layers_made() == filter->layers_made());
    for (std::uint64_t number = 0; number < 3000; ++number)
      if (contains(*filter, number, now)) REQUIRE(contains(repeated, number, now));
    now += random() % 500;
    for (const WindowFilterPtr& part : parts) fill(*part, 5000 + random() % 100'000, random() % 150);
  }
  CHECK(parts[0]->layers_made() > 1);
  // A layer of another shape, or another window, is in no such union.
  options.milliseconds = 9000;
  const WindowFilterPtr other = made(options);
  const std::vector<value::KindRow::Part> wrong{{.value = other.get(), .extent = 1}};
  const auto refused = window_row.unite(head, wrong, no_limits, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::damaged);
}

TEST_CASE("a union of windows errs as predicted, and the prediction has the generations that come") {
  const std::uint64_t each = GENERATE(2000, 6000);
  const WindowOptions options = Shape{4, false, 40'000}.options(0.01);
  std::vector<WindowFilterPtr> parts{made(options), made(options), made(options)};
  // In each generation, neighbours share half of their items.
  std::uint64_t now = begin_ms;
  for (std::uint64_t generation = 0; generation < 4; ++generation) {
    for (std::uint64_t part = 0; part < parts.size(); ++part)
      for (std::uint64_t number = 0; number < each; ++number)
        add(*parts[part], generation * 1'000'000 + part * each / 2 + number, now);
    if (generation < 3) now += options.milliseconds / 4;
  }
  WindowUnionMeasure measured;
  const WindowFilterPtr whole = united(parts, now, measured);
  const auto different = static_cast<double>(2 * each);  // of a generation
  CHECK(std::abs(static_cast<double>(measured.items) - different) <= 0.05 * different);
  CHECK(std::abs(static_cast<double>(whole->item_count(at(now))) - 4 * different) <= 0.05 * 4 * different);
  constexpr std::uint64_t asked = 400'000;
  double answered = 0;
  for (std::uint64_t number = 0; number < asked; ++number)
    answered += contains(*whole, 100'000'000 + number, now) ? 1 : 0;
  answered /= asked;
  CAPTURE(answered, measured.error_rate, measured.highest_rate);
  CHECK(std::abs(answered - measured.error_rate) <= 0.1 * answered + 4 * std::sqrt(answered / asked));
  CHECK(measured.highest_rate >= measured.error_rate);
  // Its share of a generation is 10,000.
  CHECK((measured.highest_rate <= options.error_rate) == (different <= 10'000));
}

TEST_CASE("windows that differ are not united, and the error names the difference") {
  const WindowOptions options = Shape{4, false, 1000}.options(0.01);
  WindowOptions other = options;
  const auto [member, text] = GENERATE(table<int, std::string>({{0, "different seeds"},
                                                                {1, "windows: seconds: 8 and 9"},
                                                                {2, "numbers of generations: 4 and 5"},
                                                                {3, "REFRESH"},
                                                                {4, "error rates: 0.01 and 0.02"},
                                                                {5, "capacities: 1000 and 1001"},
                                                                {6, "expansions: 2 and 4"},
                                                                {7, "no clock that they share"}}));
  if (member == 0) other.seed = 6;
  if (member == 1) other.milliseconds = 9000;
  if (member == 2) other.generations = 5;
  if (member == 3) other.refresh = true;
  if (member == 4) other.error_rate = 0.02;
  if (member == 5) other.capacity = 1001;
  if (member == 6) other.expansion = 4;
  if (member == 7) other.milliseconds = 0;
  const std::vector<WindowFilterPtr> parts{made(member == 7 ? other : options), made(other)};
  const auto whole = union_of(pointers(parts), std::nullopt, at(begin_ms));
  REQUIRE_FALSE(whole);
  CHECK(whole.error().code == Errc::out_of_range);
  CHECK(whole.error().detail.find(text) != std::string::npos);
}

}  // namespace unite_windows_property
