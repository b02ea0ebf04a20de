// A filter that forgets, beside a model with a clock of its own: what must be remembered is, what must be
// forgotten is, and the rest errs at the rate that was asked for. Bursts, idle gaps, clocks that jump,
// restarts from images, replays of records.
//
// SEPAL_WINDOW_OPERATIONS sets the operations of the model, for each number of generations.
#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/value/image.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "support/catch.hpp"

namespace window_property {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr value::Limits no_limits{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};
// So low that no answer of the model's tests is a mistake.
constexpr double never = 1e-12;
constexpr std::uint64_t begin_ms = 1'700'000'000'000;

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

// What a journal has of a filter.
struct Record {
  std::vector<Fingerprint> entries;
  std::vector<std::byte> grown;  // instead of entries
};
using Journal = std::vector<Record>;

// Adds as a writer does, with growth. Whether the item was new.
bool add(WindowFilter& filter, std::uint64_t number, std::uint64_t now, Journal* journal = nullptr) {
  const std::string text = item(number);
  const std::string_view view = text;
  bool added = false;
  value::CollectedEntries collected;
  const auto keep = [&] {
    if (journal != nullptr && !collected.entries.empty())
      journal->push_back({.entries = collected.entries, .grown = {}});
  };
  if (filter.try_add({&view, 1}, at(now), {&added, 1}, &collected)) {
    keep();
    return added;
  }
  (void)filter.drop_old_layers();
  for (;;) {
    std::vector<Filter::AddOutcome> outcomes;
    collected.entries.clear();
    REQUIRE(filter.add_each({&view, 1}, at(now), WindowFilter::Refusal::full, outcomes, &collected));
    keep();
    if (outcomes.front().refusal == Filter::Refusal::none) return outcomes.front().added;
    const auto grown = filter.grow(at(now), no_limits, [&](std::uint64_t generation, const LanePlan& plan) {
      const auto bytes = grown_record(generation, plan);
      if (journal != nullptr) journal->push_back({.entries = {}, .grown = {bytes.begin(), bytes.end()}});
    });
    REQUIRE(grown == Filter::Refusal::none);
  }
}

void replay(value::Value& filter, const Journal& journal) {
  const value::KindRow& row = value::row_of(filter);
  for (const Record& record : journal) {
    if (record.grown.empty()) {
      REQUIRE(row.add(filter, record.entries));
    } else {
      REQUIRE(row.apply(filter, window_grown_change, record.grown, no_limits));
    }
  }
}

WindowFilterPtr restarted(const WindowFilter& filter) {
  auto loaded = value::value_of(value::image_of(filter), no_limits);
  REQUIRE(loaded);
  return WindowFilterPtr(&value::as<WindowFilter>(**loaded));
}

std::uint64_t operations_of_model() {
  const char* const asked = std::getenv("SEPAL_WINDOW_OPERATIONS");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : 60'000;
}

// The clock of the model: it mostly walks, and now and then it stands in a burst, passes an idle gap, or
// jumps.
class Clock {
 public:
  Clock(std::uint64_t window, std::mt19937_64& random) : window_(window), random_(random) {}
  [[nodiscard]] std::uint64_t now() const { return now_; }
  void go_on() {
    if (burst_ > 0) {
      --burst_;
      return;
    }
    const std::uint64_t dice = random_() % 10'000;
    if (dice == 0)
      now_ += random_() % (3 * window_);  // idle
    else if (dice == 1)
      now_ -= random_() % (2 * window_);  // back
    else if (dice < 6)
      burst_ = random_() % 2'000;
    else
      now_ += random_() % (window_ / 400 + 1);
  }

 private:
  std::uint64_t window_;
  std::mt19937_64& random_;
  std::uint64_t now_ = begin_ms;
  std::uint64_t burst_ = 0;
};

void walk_through_windows(std::uint32_t generations, bool refresh, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const WindowOptions options{.error_rate = never,
                              .capacity = 400,
                              .milliseconds = 10'000 + random() % 5'000,
                              .generations = generations,
                              .refresh = refresh,
                              .seed = seed};
  const std::uint64_t window = options.milliseconds;
  const std::uint64_t kept_max = window + (window + generations - 1) / generations;
  WindowFilterPtr filter = made(options);
  // Made of the journal alone; and of an image, and what came behind it.
  const auto record = made_record(*filter);
  auto first = window_row.make_recorded(record, no_limits);
  REQUIRE(first);
  value::ValuePtr twin = *first;
  Journal journal;
  Clock clock(window, random);
  std::uint64_t latest = clock.now();  // of all adds: time does not go back behind it
  std::unordered_map<std::uint64_t, std::uint64_t> told_new;
  std::uint64_t next = 0;
  for (std::uint64_t left = operations_of_model(); left > 0; --left) {
    clock.go_on();
    const std::uint64_t number = next < 2'000 ? random() % (next + 1) : next - random() % 2'000;
    if (random() % 2 == 0) {
      latest = std::max(latest, clock.now());
      const bool added = add(*filter, number, clock.now(), &journal);
      next = std::max(next, number + 1 + random() % 2);
      const auto known = told_new.find(number);
      const std::uint64_t age = known == told_new.end() ? kept_max + 1 : latest - known->second;
      if (age < window) REQUIRE(!added);
      if (age > kept_max) REQUIRE(added);
      if (added || refresh) told_new[number] = latest;
    } else {
      const std::uint64_t now = std::max(latest, clock.now());
      const bool found = contains(*filter, number, clock.now());
      const auto known = told_new.find(number);
      const std::uint64_t age = known == told_new.end() ? kept_max + 1 : now - known->second;
      if (age < window) REQUIRE(found);
      if (age > kept_max) REQUIRE(!found);
    }
    if (random() % 20'000 == 0) {
      replay(*twin, journal);
      journal.clear();
      filter = restarted(*filter);
    }
  }
  replay(*twin, journal);
  const auto& other = value::as<WindowFilter>(*twin);
  CHECK(other.item_count() == filter->item_count());
  for (const auto& [number, when] : told_new)
    if (latest - when < window) REQUIRE(contains(other, number, latest));
}

}  // namespace

TEST_CASE("an item is remembered for a window, and for a generation more at most", "[window]") {
  const std::uint32_t generations = GENERATE(1U, 2U, 4U, 8U, 16U);
  const bool refresh = GENERATE(false, true);
  walk_through_windows(generations, refresh, 7 * generations + (refresh ? 1 : 0));
}

TEST_CASE("the last items are remembered, and a generation more at most", "[window]") {
  const std::uint32_t generations = GENERATE(1U, 2U, 4U, 8U, 16U);
  std::mt19937_64 random(generations);
  const WindowOptions options{
      .error_rate = never, .capacity = 800, .milliseconds = 0, .generations = generations, .seed = 5};
  WindowFilterPtr filter = made(options);
  std::deque<std::uint64_t> order;  // the new ones, newest last
  const std::uint64_t kept_max = options.capacity + options.generation_items();
  for (std::uint64_t number = 0; number < 20'000; ++number) {
    REQUIRE(add(*filter, number, begin_ms));
    order.push_back(number);
    REQUIRE(!add(*filter,
                 order[order.size() - 1 - random() % std::min<std::uint64_t>(order.size(), options.capacity)],
                 begin_ms));
    if (number % 500 == 0) filter = restarted(*filter);
    const std::uint64_t ago = random() % (2 * options.capacity);
    if (ago >= order.size()) continue;
    const bool found = contains(*filter, order[order.size() - 1 - ago], begin_ms);
    if (ago < options.capacity) REQUIRE(found);
    if (ago > kept_max) REQUIRE(!found);
  }
  CHECK(filter->layer_count() == 1);
}

TEST_CASE("the rate holds over all generations, steady, in bursts, and grown", "[window][unsanitized]") {
  const double rate = GENERATE(0.01, 0.001);
  const std::uint32_t generations = GENERATE(1U, 4U, 16U);
  const double burst = GENERATE(1.0, 3.0, 40.0);
  const WindowOptions options{
      .error_rate = rate, .capacity = 20'000, .milliseconds = 16'000, .generations = generations, .seed = 11};
  WindowFilterPtr filter = made(options);
  const std::uint64_t step = options.milliseconds / generations;
  std::uint64_t number = 0;
  double worst = 0;
  const auto measure = [&](std::uint64_t now) {
    constexpr std::uint64_t asked = 200'000;
    std::uint64_t found = 0;
    for (std::uint64_t ask = 0; ask < asked; ++ask)
      found += contains(*filter, (std::uint64_t{1} << 40) + ask, now) ? 1 : 0;
    worst = std::max(worst, static_cast<double>(found) / asked);
  };
  // The generation in the middle has the burst.
  for (std::uint64_t generation = 0; generation < 3ULL * generations + 2; ++generation) {
    const std::uint64_t now = begin_ms / step * step + generation * step + step / 2;
    const double share = generation == generations + 1 ? burst : 1.0;
    const auto count = static_cast<std::uint64_t>(share * 20'000 / generations);
    for (std::uint64_t i = 0; i < count; ++i) (void)add(*filter, number++, now);
    if (generation == generations || generation == generations + 1 ||
        generation + 1 == 3ULL * generations + 2)
      measure(now);
  }
  INFO("rate " << rate << ", generations " << generations << ", burst " << burst << ", layers "
               << filter->layer_count() << ", measured " << worst);
  CHECK(worst <= 1.1 * rate);
}

TEST_CASE("an idle gap empties a filter, and what grew is dropped", "[window]") {
  const WindowOptions options{
      .error_rate = 0.01, .capacity = 1'000, .milliseconds = 8'000, .generations = 4, .seed = 3};
  WindowFilterPtr filter = made(options);
  const std::uint64_t small = filter->byte_count();
  for (std::uint64_t number = 0; number < 30'000; ++number) (void)add(*filter, number, begin_ms);
  const std::uint64_t grown = filter->byte_count();
  const std::uint32_t layers = filter->layer_count();
  CHECK(layers > 2);
  CHECK(filter->item_count(at(begin_ms)) > 29'000);
  CHECK(filter->item_count(at(begin_ms + 10'001)) == 0);
  std::uint64_t found = 0;
  for (std::uint64_t number = 0; number < 30'000; ++number)
    found += contains(*filter, number, begin_ms + 10'001) ? 1 : 0;
  CHECK(found == 0);
  CHECK(add(*filter, 1, begin_ms + 10'001));
  CHECK(add(*filter, 2, begin_ms + 10'001));
  CHECK(filter->layer_count() == 1);
  CHECK(filter->byte_count() < grown);
  CHECK(filter->byte_count() > small);
}

TEST_CASE("of many who add an item, one is told that it is new, also where a generation begins",
          "[window][threads]") {
  constexpr std::uint64_t items = 6'000;
  constexpr std::size_t workers = 4;
  const bool last = GENERATE(false, true);
  const WindowOptions options{.error_rate = never,
                              .capacity = last ? items * 2 : items,
                              .expansion = last ? 0U : 2U,
                              .milliseconds = last ? 0U : 40'000U,
                              .generations = 8,
                              .seed = 9};
  WindowFilterPtr filter = made(options);
  // Room for all, so no add asks for the closed gate.
  if (!last)
    filter = made(
        {.error_rate = never, .capacity = 16 * items, .milliseconds = 40'000, .generations = 8, .seed = 9});
  std::atomic<std::uint64_t> now{begin_ms};
  std::vector<std::atomic<int>> news(items);
  std::atomic<std::uint64_t> denied{0};
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&] {
      constexpr std::uint64_t batch = 20;
      for (std::uint64_t first = 0; first < items; first += batch) {
        std::vector<std::string> texts;
        std::vector<std::string_view> views;
        for (std::uint64_t i = 0; i < batch; ++i) texts.push_back(item(first + i));
        for (const std::string& text : texts) views.emplace_back(text);
        bool added[batch];
        // A clock that passes four generations in all: each item stays in its window.
        const WallTime time = at(now.fetch_add(16));
        value::CollectedEntries told;
        if (!filter->try_add(views, time, added, &told)) std::abort();
        for (std::uint64_t i = 0; i < batch; ++i) news[first + i] += added[i] ? 1 : 0;
        bool present[batch];
        filter->contains(views, time, present);
        for (const bool each : present) denied += each ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(denied == 0);
  std::uint64_t wrong = 0;
  for (const std::atomic<int>& each : news) wrong += each == 1 ? 0 : 1;
  CHECK(wrong == 0);
  CHECK(filter->item_count() == items);
}

// A generation begins with an add that empties the oldest lane, and then the item is renewed. So it is in the
// filter at each instant, but in another lane each time.
TEST_CASE("an item that is renewed in time is found at each instant, also while generations begin",
          "[window][threads]") {
  constexpr std::uint64_t generations_passed = 30'000;
  const WindowFilterPtr filter =
      made({.error_rate = never, .capacity = 100, .milliseconds = 100, .generations = 1, .refresh = true});
  constexpr std::uint64_t renewed = 0;
  add(*filter, renewed, begin_ms);
  std::atomic<std::uint64_t> now{begin_ms};
  std::atomic<bool> ended{false};
  std::thread adder([&] {
    for (std::uint64_t generation = 1; generation <= generations_passed; ++generation) {
      const std::uint64_t time = begin_ms + generation * 100;
      add(*filter, 1, time);
      add(*filter, renewed, time);
      now = time;
    }
    ended = true;
  });
  std::vector<std::string> texts(64, item(renewed));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::uint64_t denied = 0;
  while (!ended) {
    bool present[64];
    filter->contains(views, at(now), present);
    for (const bool each : present) denied += each ? 0 : 1;
    denied += contains(*filter, renewed, now) ? 0 : 1;
  }
  adder.join();
  CHECK(denied == 0);
}

}  // namespace window_property
