#include "golden_window.hpp"

#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/writers/window_writer.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "golden_cuckoo.hpp"
#include "support/catch.hpp"

namespace formats_test {

using namespace sepal;
using bloom::WindowFilter;
using bloom::WindowOptions;

namespace {

constexpr std::uint32_t window_database = 4;
constexpr keyspace::Deadline far_deadline = 33'177'117'420'000;
constexpr std::uint64_t absent_items = 2000;

WindowOptions of_four_seconds(double error_rate, bool refresh) {
  return {.error_rate = error_rate,
          .capacity = 40,
          .expansion = 2,
          .milliseconds = 4000,
          .refresh = refresh,
          .seed = 5};
}

std::vector<std::string> window_items(std::uint64_t from, std::uint64_t to) {
  std::vector<std::string> items;
  for (std::uint64_t i = from; i < to; ++i) items.push_back(item_of("seen", i));
  return items;
}

WindowFilter* window_at(const keyspace::Keyspace& keyspace, const std::string& key) {
  return keyspace.find_as<WindowFilter>({.database = window_database, .key = key});
}

void create_window(keyspace::Mutator& mutator, const std::string& key, const WindowOptions& options,
                   keyspace::Deadline deadline = keyspace::no_deadline) {
  std::vector<WindowFilter::AddOutcome> outcomes;
  REQUIRE(sepal::writers::create(mutator, {.database = window_database, .key = key},
                                 {.options = options, .deadline = deadline, .now = at_second(0)}, outcomes));
}

void add_seen(keyspace::Mutator& mutator, const std::string& key, std::uint64_t from, std::uint64_t to,
              int second) {
  const auto items = window_items(from, to);
  const std::vector<std::string_view> views(items.begin(), items.end());
  std::vector<WindowFilter::AddOutcome> outcomes;
  sepal::writers::add_growing(mutator, {.database = window_database, .key = key},
                              *window_at(mutator.keyspace(), key), views, at_second(second), outcomes);
  REQUIRE(outcomes.size() == items.size());
}

// Three generations, of which the second one has more than its share.
void fill_window(keyspace::Mutator& mutator, const std::string& key) {
  add_seen(mutator, key, 0, 10, 0);
  add_seen(mutator, key, 10, 50, 1);
  add_seen(mutator, key, 50, 55, 2);
}

// How a filter answers at a second.
struct SeenAnswers {
  std::string key;
  int second = 0;
  std::uint64_t from = 0;  // the items that it must know
  std::uint64_t to = 0;
  std::uint64_t counted = 0;
  std::uint64_t wrongly_known = 0;         // of absent_items others; they are the same for ever
  std::vector<std::uint64_t> generations;  // items of each, newest first
};

std::uint64_t known_of(const WindowFilter& filter, const std::vector<std::string>& items, WallTime now) {
  const std::vector<std::string_view> views(items.begin(), items.end());
  const auto present = std::make_unique<bool[]>(items.size());
  const std::span<bool> all(present.get(), items.size());
  filter.contains(views, now, all);
  return static_cast<std::uint64_t>(std::ranges::count(all, true));
}

void require_answers(const keyspace::Keyspace& keyspace, const SeenAnswers& expected) {
  INFO(expected.key << " at second " << expected.second);
  const WindowFilter* const filter = window_at(keyspace, expected.key);
  REQUIRE(filter != nullptr);
  const WallTime now = at_second(expected.second);
  CHECK(known_of(*filter, window_items(expected.from, expected.to), now) == expected.to - expected.from);
  CHECK(known_of(*filter, window_items(10'000, 10'000 + absent_items), now) == expected.wrongly_known);
  CHECK(filter->item_count(now) == expected.counted);
  std::vector<std::uint64_t> generations;
  for (const auto& generation : filter->state(now).generations) generations.push_back(generation.items);
  CHECK(generations == expected.generations);
}

}  // namespace

void add_windows_of_the_cut(keyspace::Keyspace& keyspace) {
  keyspace::Mutator without_journal(keyspace, nullptr);
  create_window(without_journal, "saved", of_four_seconds(0.1, false), far_deadline);
  fill_window(without_journal, "saved");
  create_window(without_journal, "renewed", of_four_seconds(0.001, true));
  fill_window(without_journal, "renewed");
  create_window(without_journal, "last",
                {.error_rate = 0.01, .capacity = 40, .expansion = 0, .generations = 16, .seed = 6});
  add_seen(without_journal, "last", 0, 100, 0);
}

void change_as_in_version_13(keyspace::Mutator& mutator) {
  // The first generation is over, and its lane is used again.
  add_seen(mutator, "saved", 55, 62, 5);
  add_seen(mutator, "renewed", 0, 5, 3);
  add_seen(mutator, "last", 100, 107, 5);
  create_window(mutator, "recorded", of_four_seconds(0.01, true), far_deadline);
  fill_window(mutator, "recorded");
  add_seen(mutator, "recorded", 40, 52, 3);
  // The layers that have no items any more go, and another one comes.
  create_window(mutator, "burst", of_four_seconds(0.1, false));
  fill_window(mutator, "burst");
  add_seen(mutator, "burst", 100, 150, 7);
}

void require_windows(const keyspace::Keyspace& keyspace) {
  const SeenAnswers answers[] = {
      {"saved", 5, 10, 62, 52, 9, {7, 0, 0, 5, 40}},
      {"saved", 6, 50, 62, 12, 0, {0, 7, 0, 0, 5}},
      {"renewed", 3, 0, 55, 55, 0, {5, 5, 40, 5, 0}},
      {"renewed", 7, 0, 5, 5, 0, {0, 0, 0, 0, 5}},
      {"last", 0, 57, 107, 50, 2, {2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}},
      {"recorded", 3, 0, 55, 55, 4, {12, 3, 30, 10, 0}},
      {"burst", 7, 100, 150, 50, 2, {50, 0, 0, 0, 0}},
      // Each time is over some time.
      {"burst", 12, 0, 0, 0, 0, {0, 0, 0, 0, 0}}};
  for (const SeenAnswers& expected : answers) require_answers(keyspace, expected);
  CHECK(window_at(keyspace, "saved")->options() == of_four_seconds(0.1, false));
  CHECK(window_at(keyspace, "saved")->layer_count() == 3);
  CHECK(window_at(keyspace, "renewed")->layer_count() == 3);
  CHECK(window_at(keyspace, "recorded")->options() == of_four_seconds(0.01, true));
  CHECK(window_at(keyspace, "recorded")->layers_made() == 3);
  CHECK(window_at(keyspace, "burst")->layer_count() == 2);
  CHECK(window_at(keyspace, "burst")->layers_made() == 4);
  for (const char* key : {"saved", "recorded"})
    CHECK(keyspace.deadline({.database = window_database, .key = key}) == far_deadline);
  CHECK(keyspace.size(window_database) == 5);
}

}  // namespace formats_test
