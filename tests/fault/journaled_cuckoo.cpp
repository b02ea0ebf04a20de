// The changes of filters that delete in a JournaledWorld: Sepal's own and RedisBloom's.
#include "journaled_cuckoo.hpp"

#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/value/image.hpp>
#include <sepal/writers/cuckoo_writer.hpp>
#include <sepal/writers/redis_cuckoo_writer.hpp>

#include <algorithm>
#include <array>

#include "journaled_values.hpp"
#include "journaled_world.hpp"
#include "support/catch.hpp"
#include "support/storage_fixture.hpp"

namespace sepal::test {
namespace {

using AddIf = cuckoo::Filter::AddIf;
using Numbers = std::vector<std::uint32_t>;

constexpr double hardly_any_error = 1e-6;
constexpr std::uint32_t often_added = 6;  // items that get more copies than cells have slots for
constexpr int key_draws_max = 6;          // for one that is free, or has a filter that deletes
constexpr std::uint32_t wave_changes = 12;
constexpr std::size_t short_chunk_bytes_max = 60;
constexpr std::size_t long_chunk_bytes = keyspace::written_bytes_max + 5000;
constexpr std::uint64_t buckets_of_longer = std::uint64_t{1} << 15;

const cuckoo::Filter* own(const value::Value& value) {
  return value::as<cuckoo::Filter>(&value);
}

bool is_cuckoo(const value::Value& value) {
  return value.kind() == value::Kind::cuckoo || value.kind() == value::Kind::redis_cuckoo;
}

Numbers any_numbers(std::mt19937_64& random) {
  Numbers numbers(1 + below(random, cuckoo_batch_items_max));
  for (auto& number : numbers) number = below(random, below(random, 4) == 0 ? often_added : cuckoo_items);
  return numbers;
}

struct Items {
  explicit Items(const Numbers& numbers) {
    for (const auto number : numbers) texts.push_back(cuckoo_item(number));
    views.assign(texts.begin(), texts.end());
  }
  std::vector<std::string> texts;
  std::vector<std::string_view> views;
};

std::uint64_t copies_of(const CuckooModel& model, std::uint32_t number) {
  const auto found = model.copies.find(number);
  return found == model.copies.end() ? 0 : found->second;
}

void take_copy(CuckooModel& model, std::uint32_t number) {
  if (--model.copies.at(number) == 0) model.copies.erase(number);
}

// What an own filter answers.
struct Expected {
  bool added = false;
  bool full = false;
};
Expected add_to_model(CuckooModel& model, std::uint32_t number, AddIf condition,
                      const cuckoo::Options& options) {
  if (condition == AddIf::absent && copies_of(model, number) != 0) return {};
  if (!options.scaling() && model.item_count() >= options.capacity) return {.full = true};
  ++model.copies[number];
  return {.added = true};
}

void check_adds(const std::vector<cuckoo::Filter::AddOutcome>& outcomes, const Numbers& numbers,
                CuckooModel& model, AddIf condition, const cuckoo::Options& options) {
  REQUIRE(outcomes.size() == numbers.size());
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    const Expected expected = add_to_model(model, numbers[at], condition, options);
    REQUIRE(outcomes[at].added == expected.added);
    REQUIRE((outcomes[at].refusal == cuckoo::Refusal::full) == expected.full);
  }
}

}  // namespace

std::string cuckoo_item(std::uint32_t number) {
  return "copy:" + std::to_string(number);
}

std::uint64_t CuckooModel::item_count() const {
  std::uint64_t count = others;
  for (const auto& [number, its] : copies) count += its;
  return count;
}

CuckooModel cuckoo_model_of(const value::Value& value) {
  CuckooModel model;
  const auto* const filter = own(value);
  if (filter == nullptr) {
    model.bytes = std::make_shared<const std::vector<std::byte>>(value::image_of(value));
    return model;
  }
  for (std::uint32_t number = 0; number < cuckoo_items; ++number)
    if (const std::uint64_t copies = filter->count(cuckoo_item(number)); copies != 0)
      model.copies[number] = copies;
  model.others = filter->item_count() - model.item_count();
  model.removed = filter->removed_count();
  return model;
}

bool is_like(const value::Value& value, const CuckooModel& model, const CuckooModel* next) {
  const CuckooModel found = cuckoo_model_of(value);
  if ((found.bytes == nullptr) != (model.bytes == nullptr)) return false;
  if (found.bytes == nullptr)
    return found.copies == model.copies && found.others == model.others && found.removed == model.removed;
  const auto& table = value::as<cuckoo::RedisFilter>(value).table();
  const bool all_found = std::ranges::all_of(
      model.copies, [&](const auto& item) { return table.count(cuckoo_item(item.first)) >= item.second; });
  if (*found.bytes == *model.bytes) return all_found;
  if (next == nullptr || next->bytes == nullptr || next->bytes->size() != model.bytes->size() ||
      found.bytes->size() != model.bytes->size())
    return false;
  // The records of a chunk are there from the first on.
  const auto differs = std::ranges::mismatch(*found.bytes, *next->bytes);
  return std::equal(differs.in1, found.bytes->end(),
                    model.bytes->begin() + (differs.in1 - found.bytes->begin()));
}

value::ValuePtr about_to_split() {
  static const std::vector<std::byte> image = [] {
    const cuckoo::Options options{.capacity = 64, .error_rate = hardly_any_error, .capacity_given = false};
    const auto plan = *cuckoo::plan(options, roomy.bytes_max);
    const auto filled = [&](std::uint64_t count) {
      cuckoo::FilterPtr filter = *cuckoo::Filter::create(plan);
      cuckoo::OwnMemory memory;
      std::vector<cuckoo::Filter::AddOutcome> outcomes;
      for (std::uint64_t item = 0; item < count && filter->layers()[0].cells == 1; ++item) {
        const std::string text = "other:" + std::to_string(item);
        const std::string_view view = text;
        REQUIRE(filter->add({&view, 1}, AddIf::always, memory, outcomes, nullptr));
      }
      return filter;
    };
    constexpr std::uint64_t enough = 50'000;
    constexpr std::uint64_t few = 4;
    const cuckoo::FilterPtr split = filled(enough);
    REQUIRE(split->layers()[0].cells == 2);
    return value::image_of(*filled(split->item_count() - few));
  }();
  return *value::value_of(image, roomy);
}

// As the CF commands do, but for those that copy.
void JournaledWorld::change_cuckoo(std::mt19937_64& random, Model& model, bool in_transaction) {
  std::string name;
  keyspace::DatabaseKey key;
  value::Value* found = nullptr;
  for (int draws = 0; draws < key_draws_max; ++draws) {
    name = key_names[below(random, key_names.size())];
    key = {.database = below(random, databases_used), .key = name};
    found = keyspace_.find(key);
    if (found == nullptr || is_cuckoo(*found)) break;
  }
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  if (found == nullptr) {
    ModelFilter& known = model[{key.database, name}] = {.cuckoo = CuckooModel{}};
    if (below(random, 3) == 0) return create_redis_cuckoo(random, mutator, key, *known.cuckoo);
    return create_cuckoo(random, mutator, key, *known.cuckoo);
  }
  const auto known = model.find({key.database, name});
  if (auto* const filter = value::as<cuckoo::Filter>(found)) {
    change_own_cuckoo(random, mutator, key, *filter, *known->second.cuckoo);
    if (!in_transaction) static_cast<void>(log.seal_record(true));
  } else if (auto* const redis = value::as<cuckoo::RedisFilter>(found)) {
    change_redis_cuckoo(random, mutator, key, *redis, *known->second.cuckoo, in_transaction);
  }
}

void JournaledWorld::create_cuckoo(std::mt19937_64& random, keyspace::Mutator& mutator,
                                   keyspace::DatabaseKey key, CuckooModel& model) {
  const cuckoo::Options options{.capacity = below(random, 2) == 0 ? 8U : 64U,
                                .error_rate = hardly_any_error,
                                .expansion = below(random, 5) == 0 ? 0U : 1U,
                                .capacity_given = below(random, 2) == 0};
  const Numbers numbers = below(random, 2) == 0 ? Numbers() : any_numbers(random);
  const AddIf condition = below(random, 2) == 0 ? AddIf::absent : AddIf::always;
  const Items items(numbers);
  std::vector<cuckoo::Filter::AddOutcome> outcomes;
  REQUIRE(writers::create(mutator, key, {.options = options, .items = items.views, .condition = condition},
                          outcomes));
  check_adds(outcomes, numbers, model, condition, options);
}

void JournaledWorld::change_own_cuckoo(std::mt19937_64& random, keyspace::Mutator& mutator,
                                       keyspace::DatabaseKey key, cuckoo::Filter& filter,
                                       CuckooModel& model) {
  if (below(random, 24) == 0) {
    writers::compact(mutator, key, filter);
    model.removed = 0;
    return;
  }
  // In waves, so that cells grow and shrink.
  const bool growing = models_.size() / wave_changes % 2 == 0;
  Numbers numbers = any_numbers(random);
  if (below(random, 4) < (growing ? 3U : 1U)) {
    const AddIf condition = below(random, 3) == 0 ? AddIf::absent : AddIf::always;
    std::vector<cuckoo::Filter::AddOutcome> outcomes;
    REQUIRE(writers::add(mutator, key, filter, Items(numbers).views, condition, outcomes));
    return check_adds(outcomes, numbers, model, condition, filter.plan().options);
  }
  // Most of them are there.
  for (auto& number : numbers) {
    const auto there = model.copies.lower_bound(number);
    if (below(random, 8) != 0 && there != model.copies.end()) number = there->first;
  }
  std::array<bool, cuckoo_batch_items_max> removed{};
  REQUIRE(
      writers::remove(mutator, key, filter, Items(numbers).views, std::span(removed).first(numbers.size())));
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    REQUIRE(removed[at] == (copies_of(model, numbers[at]) != 0));
    if (!removed[at]) continue;
    take_copy(model, numbers[at]);
    ++model.removed;
  }
}

void JournaledWorld::create_redis_cuckoo(std::mt19937_64& random, keyspace::Mutator& mutator,
                                         keyspace::DatabaseKey key, CuckooModel& model) {
  const bool is_long = strings_ == Strings::longer && below(random, 2) == 0;
  const cuckoo::RedisHeader header{
      .bucket_count = is_long ? buckets_of_longer : std::uint64_t{1} << below(random, 5),
      .bucket_slots = static_cast<std::uint16_t>(1 + below(random, 3)),
      .expansion = static_cast<std::uint16_t>(below(random, 3))};
  REQUIRE(writers::create(mutator, key, header, WallTime()));
  model.bytes = cuckoo_model_of(*keyspace_.find(key)).bytes;
}

// Removes no item that was not added: RedisBloom's filters may take the copy of another one for it.
void JournaledWorld::change_redis_cuckoo(std::mt19937_64& random, keyspace::Mutator& mutator,
                                         keyspace::DatabaseKey key, cuckoo::RedisFilter& filter,
                                         CuckooModel& model, bool in_transaction) {
  Numbers numbers = any_numbers(random);
  const std::uint32_t kind = below(random, 12);
  if (kind == 0) {
    writers::compact(mutator, key, filter);
  } else if (kind < 3) {
    write_chunk(random, mutator, key, filter, in_transaction);
    model.copies.clear();
  } else if (kind < 8) {
    const AddIf condition = kind < 5 ? AddIf::absent : AddIf::always;
    std::vector<cuckoo::Filter::AddOutcome> outcomes;
    writers::add(mutator, key, filter, Items(numbers).views, condition, outcomes);
    for (std::size_t at = 0; at < numbers.size(); ++at)
      if (outcomes[at].added) ++model.copies[numbers[at]];
  } else {
    // Each once: a second removal could take the copy of another item.
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    // Rehearsed, because a removal may compact the table: then it may take other items for stored ones.
    const auto copied =
        value::value_of(*model.bytes, {.bytes_max = std::uint64_t{1} << 40, .layers_max = 1024});
    REQUIRE(copied);
    cuckoo::RedisTable& rehearsed = value::as<cuckoo::RedisFilter>(**copied).changing();
    std::erase_if(numbers, [&](std::uint32_t number) {
      const std::string item = cuckoo_item(number);
      if (copies_of(model, number) == 0 && rehearsed.count(item) != 0) return true;
      rehearsed.remove(item);
      return false;
    });
    std::array<bool, cuckoo_batch_items_max> removed{};
    writers::remove(mutator, key, filter, Items(numbers).views, std::span(removed).first(numbers.size()));
    for (std::size_t at = 0; at < numbers.size(); ++at) {
      REQUIRE(removed[at] == (copies_of(model, numbers[at]) != 0));
      if (removed[at]) take_copy(model, numbers[at]);
    }
  }
  model.bytes = cuckoo_model_of(filter).bytes;
}

void JournaledWorld::write_chunk(std::mt19937_64& random, keyspace::Mutator& mutator,
                                 keyspace::DatabaseKey key, cuckoo::RedisFilter& filter,
                                 bool in_transaction) {
  const std::uint64_t slots = filter.header().slot_count();
  std::size_t length = 1 + below(random, short_chunk_bytes_max);
  if (!in_transaction && slots > long_chunk_bytes) length = long_chunk_bytes;
  length = static_cast<std::size_t>(std::min<std::uint64_t>(length, slots));
  std::vector<std::byte> bytes(length);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(below(random, 2) == 0 ? 0 : below(random, 256));
  writers::write(mutator, key, filter, random() % (slots - length + 1), bytes);
}

// COPY and RESTORE of whatever filter that deletes or forgets there is; null: there is none under a key that
// was drawn.
value::ValuePtr JournaledWorld::copy_of_cuckoo(std::mt19937_64& random, const Model& model,
                                               ModelFilter& known) {
  if (strings_ == Strings::longer && below(random, 4) == 0) {
    value::ValuePtr made = about_to_split();
    known.cuckoo = cuckoo_model_of(*made);
    return made;
  }
  const keyspace::DatabaseKey source{.database = below(random, databases_used),
                                     .key = key_names[below(random, key_names.size())]};
  const value::Value* const found = keyspace_.find(source);
  const auto in_model = model.find({source.database, std::string(source.key)});
  if (found == nullptr || (!in_model->second.cuckoo && !in_model->second.window)) return nullptr;
  known.cuckoo = in_model->second.cuckoo;
  known.window = in_model->second.window;
  const value::Payload* const payload = value::row_of(*found).payload;
  if (payload == nullptr || below(random, 2) == 0) return *value::value_of(value::image_of(*found), roomy);
  const value::Frozen frozen{value::ValuePtr(const_cast<value::Value*>(found))};
  const auto pieces = payload->write(frozen.view(), {});
  std::string bytes;
  for (const std::string& piece : *pieces) bytes += piece;
  return *payload->read(std::as_bytes(std::span(bytes)), roomy, {});
}

}  // namespace sepal::test
