// Filters that are made of the bits of others.
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/filter/unite.hpp>
#include <sepal/keyspace/part_list.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <chrono>
#include <optional>

#include "journaled_values.hpp"
#include "journaled_world.hpp"
#include "support/catch.hpp"
#include "support/storage_fixture.hpp"
#include "support/united_windows.hpp"
#include "support/values.hpp"

namespace sepal::test {
namespace {

constexpr std::uint64_t large_capacity = 5000;

// The filters under some keys of a database that may be united with the first one.
struct Found {
  std::vector<std::string_view> keys;
  std::vector<const bloom::Filter*> filters;
};

}  // namespace

// Others have a single block, and cannot be shrunk.
void JournaledWorld::reserve_large(Model& model, keyspace::DatabaseKey key) {
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  REQUIRE(sepal::writers::create(
      mutator, key, bloom::FilterOptions{.error_rate = 0.001, .capacity = large_capacity, .seed = 7}));
  model[{key.database, std::string(key.key)}] = {};
}

// A union of up to three filters, or one filter shrunk. The result takes the place of one of them, of another
// value, or is under a key that was free.
void JournaledWorld::remake(std::mt19937_64& random, Model& model) {
  if (below(random, 3) == 0) return unite_windows(random, model);
  const std::uint32_t database = below(random, databases_used);
  const bool shrinks = below(random, 4) == 0;
  Found found;
  for (std::uint32_t tries = shrinks ? 1 : 3; tries > 0; --tries) {
    const std::string_view key = key_names[below(random, key_names.size())];
    if (shrinks && keyspace_.find({database, key}) == nullptr) return reserve_large(model, {database, key});
    const bloom::Filter* const filter = filter_at(keyspace_, {database, key});
    if (filter == nullptr || std::ranges::find(found.keys, key) != found.keys.end()) continue;
    found.keys.push_back(key);
    found.filters.push_back(filter);
  }
  if (found.keys.empty()) return;
  std::string_view key = key_names[below(random, key_names.size())];
  if (shrinks || below(random, 2) == 0) key = found.keys[0];
  bloom::ImageHeader shape;
  if (shrinks) {
    const auto shrunk = bloom::shape_shrunk(*found.filters[0], 1 + below(random, 100));
    if (!shrunk) return;
    shape = *shrunk;
  } else {
    const auto of_union = bloom::shape_of_union(found.filters);
    if (!of_union) return;
    shape = *of_union;
  }
  std::vector<bloom::PartLayers> layers;
  std::vector<keyspace::Part> parts;
  std::size_t part_bytes = 0;
  for (std::size_t i = 0; i < found.keys.size(); ++i) {
    layers.push_back(found.filters[i]->layers());
    parts.push_back({.key = found.keys[i], .extent = static_cast<std::uint32_t>(layers.back().size())});
    part_bytes += keyspace::part_head_bytes + found.keys[i].size();
  }
  if (!shrinks)
    bloom::count_union(shape, layers, bloom::measure_union(shape, layers, bloom::measured_bytes_max));
  const auto head = bloom::encode(shape);
  if (head.size() + part_bytes > remade_bytes_max) return;
  const auto made = bloom::unite(shape, layers, roomy, {});
  if (!made) return;
  ModelFilter known{.item_count = (*made)->item_count()};
  for (const std::string_view part : found.keys) {
    const ModelFilter& of_part = model[{database, std::string(part)}];
    known.items.insert(of_part.items.begin(), of_part.items.end());
    if (part == key) known.deadline = of_part.deadline;
  }
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  REQUIRE(mutator.remake({database, key}, *made, head, parts));
  model[{database, std::string(key)}] = std::move(known);
}

// The filters that forget in one database that are like the first of them. Each has a clock of its own, and
// the union that of the latest one.
void JournaledWorld::unite_windows(std::mt19937_64& random, Model& model) {
  const std::uint32_t database = below(random, databases_used);
  std::vector<std::string_view> keys;
  std::vector<const bloom::WindowFilter*> filters;
  for (const char* const key : key_names) {
    const auto* const filter = value::as<bloom::WindowFilter>(keyspace_.find({database, key}));
    if (filter == nullptr || filter->options().of_last()) continue;
    if (!filters.empty() && !(filters[0]->options() == filter->options())) continue;
    keys.emplace_back(key);
    filters.push_back(filter);
  }
  if (keys.empty()) return;
  std::optional<std::size_t> continued = below(random, static_cast<std::uint32_t>(keys.size()));
  std::string_view key = keys[*continued];
  if (below(random, 2) == 0) key = key_names[below(random, key_names.size())];
  if (key != keys[*continued]) continued = std::nullopt;
  if (!continued && std::ranges::find(keys, key) != keys.end()) return;
  ModelFilter known{.window = WindowModel{}};
  WindowModel& of_union = *known.window;
  for (const std::string_view part : keys) {
    const ModelFilter& of_part = model[{database, std::string(part)}];
    of_union.clock = std::max(of_union.clock, of_part.window->clock);
    of_union.length = of_part.window->length;
    for (const auto& [number, told] : of_part.window->told)
      of_union.told[number] = std::max(of_union.told[number], told);
    if (part == key) known.deadline = of_part.deadline;
  }
  const auto united =
      test::unite_windows(filters, keys, continued, WallTime(std::chrono::milliseconds(of_union.clock)));
  if (!united || united->head.size() + keyspace::encode_parts(united->parts).size() > remade_bytes_max)
    return;
  of_union.count = value::as<bloom::WindowFilter>(*united->made).item_count();
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  REQUIRE(mutator.remake({database, key}, united->made, united->head, united->parts));
  model[{database, std::string(key)}] = std::move(known);
}

}  // namespace sepal::test
