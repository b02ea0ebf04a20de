// The changes of filters that forget in a JournaledWorld.
#include "journaled_window.hpp"

#include <sepal/writers/window_writer.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "journaled_values.hpp"
#include "journaled_world.hpp"
#include "support/catch.hpp"

namespace sepal::test {
namespace {

// So low that no item is taken for another one.
constexpr double no_error = 1e-10;
constexpr std::uint32_t numbered_items = 300;
constexpr std::uint32_t added_at_once_max = 12;
constexpr int draws_of_key_max = 6;  // for one that is free, or has a filter that forgets
constexpr std::uint64_t window_ms = 1000;
constexpr std::uint64_t clock_begin = 1'700'000'000'000;

WallTime at(std::uint64_t clock) {
  return WallTime(std::chrono::milliseconds(clock));
}

void pass_time(std::mt19937_64& random, WindowModel& its) {
  if (its.length != window_ms) return;
  its.clock += below(random, 20) == 0 ? below(random, 5 * window_ms) : below(random, window_ms / 8);
}

std::string text_of(std::uint32_t number) {
  return "seen:" + std::to_string(number);
}

}  // namespace

WindowModel window_model_of(const bloom::WindowFilter& filter) {
  const bloom::WindowOptions& options = filter.options();
  return {.clock = 0,
          .length = options.of_last() ? options.capacity : options.milliseconds,
          .told = {},
          .count = filter.item_count()};
}

bool is_like(const bloom::WindowFilter& filter, const WindowModel& model, const WindowModel* next) {
  const bool has_next = next != nullptr && next->clock >= model.clock;
  if (!has_next && filter.item_count(at(model.clock)) != model.count) return false;
  const std::uint64_t clock = has_next ? next->clock : model.clock;
  return std::ranges::all_of(model.told, [&](const auto& item) {
    if (clock - item.second >= model.length) return true;
    const std::string text = text_of(item.first);
    const std::string_view view = text;
    bool present = false;
    filter.contains({&view, 1}, at(model.clock), {&present, 1});
    return present;
  });
}

// As the BF commands do.
void JournaledWorld::change_window(std::mt19937_64& random, Model& model) {
  std::string name;
  keyspace::DatabaseKey key;
  value::Value* found = nullptr;
  for (int draws = 0; draws < draws_of_key_max; ++draws) {
    name = key_names[below(random, key_names.size())];
    key = {.database = below(random, databases_used), .key = name};
    found = keyspace_.find(key);
    if (found == nullptr || found->kind() == value::Kind::window) break;
  }
  if (found != nullptr && found->kind() != value::Kind::window) return;
  std::vector<std::string> texts;
  std::vector<std::string_view> views;
  std::vector<std::uint32_t> numbers(1 + below(random, added_at_once_max));
  for (auto& number : numbers) number = below(random, numbered_items);
  for (const auto number : numbers) texts.push_back(text_of(number));
  views.assign(texts.begin(), texts.end());
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  std::vector<bloom::Filter::AddOutcome> outcomes;
  ModelFilter& known = model[{key.database, name}];
  if (found == nullptr) {
    const bool last = below(random, 4) == 0;
    // Half of them are alike, so that they can be united.
    const bool usual = !last && below(random, 2) == 0;
    const bloom::WindowOptions options{
        .error_rate = no_error,
        .capacity = 16,
        .expansion = last ? 0U : 1 + below(random, usual ? 1 : 2),
        .milliseconds = last ? 0 : window_ms,
        .generations = usual ? 3 : 1 + below(random, 4),
        // With the last items, a renewal takes a place as well: replies do not tell.
        .refresh = !last && !usual && below(random, 2) == 0};
    known = {.window = WindowModel{.clock = last ? 0 : clock_begin, .length = last ? 16 : window_ms}};
    REQUIRE(writers::create(mutator, key,
                            {.options = options, .items = views, .now = at(known.window->clock)}, outcomes));
  } else {
    WindowModel& its = *known.window;
    // A save that runs may read a lane that is used again meanwhile. Then its old items are over by the
    // clock, or by the adds since. A crash takes these back, but no clock.
    if (saving_ && its.length != window_ms) return;
    if (!saving_) pass_time(random, its);
    writers::add_growing(mutator, key, value::as<bloom::WindowFilter>(*found), views, at(its.clock),
                         outcomes);
  }
  note_adds(numbers, outcomes, *known.window, value::as<bloom::WindowFilter>(*keyspace_.find(key)));
}

void JournaledWorld::note_adds(const std::vector<std::uint32_t>& numbers,
                               const std::vector<bloom::Filter::AddOutcome>& outcomes, WindowModel& its,
                               const bloom::WindowFilter& filter) {
  REQUIRE(outcomes.size() == numbers.size());
  for (std::size_t item = 0; item < numbers.size(); ++item) {
    REQUIRE(outcomes[item].refusal == bloom::Filter::Refusal::none);
    const bool added = outcomes[item].added;
    const auto told = its.told.find(numbers[item]);
    if (told != its.told.end() && its.clock - told->second < its.length) REQUIRE(!added);
    if (filter.options().of_last() && added) ++its.clock;
    if (added || (filter.options().refresh && !filter.options().of_last()))
      its.told[numbers[item]] = its.clock;
  }
  its.count = filter.item_count(at(its.clock));
}

}  // namespace sepal::test
