// The CF commands. A key has a filter of Sepal's own, or one of RedisBloom that came by CF.LOADCHUNK,
// RESTORE, or in a file.
#include <sepal/bloom/commands/texts.hpp>
#include <sepal/cuckoo/commands/answers.hpp>
#include <sepal/cuckoo/commands/commands.hpp>
#include <sepal/cuckoo/commands/found.hpp>
#include <sepal/cuckoo/commands/options.hpp>

#include <algorithm>
#include <variant>
#include <vector>

#include "module/commands.hpp"
#include "module/cuckoo_chunks.hpp"
#include "module/cuckoo_key.hpp"
#include "module/effects.hpp"
#include "module/flags.hpp"
#include "module/room.hpp"
#include "module/value_types.hpp"

namespace sepal::module::cf {
namespace {

namespace text = cuckoo::text;
using cuckoo::AddAnswer;
using cuckoo::Filter;
using cuckoo::Found;
using cuckoo::RedisFilter;
using cuckoo::RedisTable;
using AddIf = Filter::AddIf;

const Settings* chosen = nullptr;  // set when the module is loaded

// --- adds -------------------------------------------------------------------------------------------------

struct Addition {
  std::size_t first_item = 2;  // the index of its word
  AddIf condition = AddIf::always;
  cuckoo::Options options{.capacity_given = false};
  bool create = true;
  AddAnswer answer = AddAnswer::single;
};

// Null: the reply says why.
Filter* create(Request& request, Key& key, cuckoo::Options options, Effects& effects) {
  const auto refused = [&](Errc code) -> Filter* {
    request.reply.error(code == Errc::out_of_range ? bloom::text::cannot_create
                                                   : bloom::text::no_memory_for_filter);
    return nullptr;
  };
  options.seed = seed_of_new(*chosen);
  const auto plan = cuckoo::plan(options, no_limits.bytes_max);
  if (!plan) return refused(plan.error().code);
  if (plan->byte_count() > limits_of_new(request.context, plan->byte_count()).bytes_max)
    return refused(Errc::too_large);
  auto made = Filter::create(*plan);
  if (!made) return refused(made.error().code);
  Filter* const filter = made->get();
  key.put(std::move(*made));
  effects.shape(*plan);
  return filter;
}

// The server is asked for its memory only when the filter needs a layer more: its answer takes longer than
// the add.
Filter::AddOutcome add_to_redis(RedisModuleCtx* context, RedisFilter& filter, std::string_view item,
                                AddIf condition) {
  constexpr std::uint64_t no_layer_more = 0;
  const std::uint64_t hash = RedisTable::hash_of(item);
  RedisTable& table = filter.changing();
  const auto outcome = cuckoo::add_to(table, hash, condition, no_layer_more);
  if (outcome.refusal != cuckoo::Refusal::no_memory) return outcome;
  const std::uint64_t layer_bytes = filter.header().layer_slots(filter.header().layer_count);
  return cuckoo::add_to(table, hash, condition,
                        limits_of(context, filter.byte_count(), layer_bytes).bytes_max);
}

// An exception between a change and its effect would leave replicas without an item. So without memory for a
// few bytes the server ends here, as it does elsewhere.
void add_items(Request& request, const Found& found, const Addition& addition, Effects& effects,
               std::vector<Filter::AddOutcome>& outcomes, std::span<bool> added) noexcept {
  const Words items = request.words.subspan(addition.first_item);
  if (found.own != nullptr) {
    ServerMemory memory(request.context);
    (void)found.own->add(items, addition.condition, memory, outcomes, nullptr);
  } else {
    for (const std::string_view item : items)
      outcomes.push_back(add_to_redis(request.context, *found.of_redis, item, addition.condition));
  }
  std::ranges::transform(outcomes, added.begin(), &Filter::AddOutcome::added);
  effects.copies(addition.first_item, added);
}

void add(Request& request, const Addition& addition) {
  Effects effects(request);
  {
    Key key(request.context, request.key(), open_to_read | open_to_write);
    Found found(key.value());
    if (refuses_other_than_cuckoo(request, key)) return;
    if (found.none() && !addition.create) return request.reply.error(text::not_found);
    // RedisBloom looks at the number of layers once for each request, before it looks at the items.
    if (found.of_redis != nullptr && found.of_redis->header().layer_count >= cuckoo::redis_added_layers_max)
      return request.reply.error(text::layer_limit);
    const std::size_t count = request.words.size() - addition.first_item;
    // Kept between requests. All that grows with the request is allocated before the first change.
    static std::vector<Filter::AddOutcome> outcomes;
    outcomes.clear();
    outcomes.reserve(count);
    effects.reserve_items(count);
    Flags added(count);
    if (found.none()) found.own = create(request, key, addition.options, effects);
    if (found.none()) return;
    add_items(request, found, addition, effects, outcomes, added.all());
    if (addition.answer != AddAnswer::single) request.reply.array(count);
    for (const Filter::AddOutcome& outcome : outcomes)
      cuckoo::append_outcome(request.reply, outcome, addition.answer);
    if (outcomes.capacity() > kept_words_max) std::vector<Filter::AddOutcome>().swap(outcomes);
  }
  effects.end();
}

void cf_add(Request& request) {
  add(request, {});
}

void cf_addnx(Request& request) {
  add(request, {.condition = AddIf::absent});
}

void insert(Request& request, std::string_view name, AddIf condition, AddAnswer answer) {
  const auto parsed = cuckoo::parse_insert(request.words.subspan(2), {.capacity_given = false});
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return request.reply.error(refusal->text);
  if (std::holds_alternative<cuckoo::TooFewWords>(parsed))
    return request.reply.error(bloom::wrong_arity(name));
  const auto& insert = std::get<cuckoo::InsertRequest>(parsed);
  add(request, {.first_item = request.words.size() - insert.items.size(),
                .condition = condition,
                .options = insert.options,
                .create = insert.create,
                .answer = answer});
}

void cf_insert(Request& request) {
  insert(request, "cf.insert", AddIf::always, AddAnswer::flags);
}

void cf_insertnx(Request& request) {
  insert(request, "cf.insertnx", AddIf::absent, AddAnswer::numbers);
}

void cf_reserve(Request& request) {
  Reply& reply = request.reply;
  const auto parsed = cuckoo::parse_reserve(request.words.subspan(2), {.capacity_given = false});
  if (std::holds_alternative<cuckoo::TooFewWords>(parsed))
    return reply.error(bloom::wrong_arity("cf.reserve"));
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return reply.error(refusal->text);
  Effects effects(request);
  {
    Key key(request.context, request.key(), open_to_read | open_to_write);
    if (refuses_other_than_cuckoo(request, key)) return;
    if (!key.is_free()) return reply.error(bloom::text::filter_exists);
    if (create(request, key, std::get<cuckoo::Options>(parsed), effects) == nullptr) return;
  }
  effects.end();
  reply.ok();
}

// --- removals ---------------------------------------------------------------------------------------------

// As add_items().
void remove_items(Request& request, const Found& found, Effects& effects, std::span<bool> removed) noexcept {
  constexpr std::size_t first_item = 2;
  const Words items = request.words.subspan(first_item);
  if (found.own != nullptr) {
    ServerMemory memory(request.context);
    (void)found.own->remove(items, memory, removed, nullptr);
  } else {
    RedisTable& table = found.of_redis->changing();
    std::ranges::transform(items, removed.begin(), [&](std::string_view item) { return table.remove(item); });
  }
  effects.removals(first_item, removed);
}

void remove(Request& request, bool single) {
  Effects effects(request);
  {
    const Key key(request.context, request.key(), open_to_read | open_to_write);
    const Found found(key.value());
    // The reference answers so for a value of another kind as well.
    if (found.none()) return request.reply.error(text::nothing_to_delete_from);
    const std::size_t count = request.words.size() - 2;
    effects.reserve_items(count);
    Flags removed(count);
    remove_items(request, found, effects, removed.all());
    if (!single) request.reply.array(count);
    for (const bool each : removed.all()) request.reply.boolean(each);
  }
  effects.end();
}

void cf_del(Request& request) {
  remove(request, true);
}

void cf_mdel(Request& request) {
  remove(request, false);
}

// --- questions --------------------------------------------------------------------------------------------

// Answers an error about a key that names no cuckoo filter, if the setting says so.
bool refuses_missing(Request& request, const Key& key) {
  if (chosen->missing_filter != bloom::MissingFilter::error) return false;
  request.reply.error(key.is_free() ? bloom::text::filter_not_found : bloom::text::wrong_type);
  return true;
}

void look_up(Request& request, bool single) {
  const Words items = request.words.subspan(2);
  Flags present(items.size());
  const Key key(request.context, request.key(), open_to_read);
  const Found found(key.value());
  if (found.none()) {
    if (refuses_missing(request, key)) return;
    std::ranges::fill(present.all(), chosen->missing_filter == bloom::MissingFilter::present);
  }
  if (found.own != nullptr) found.own->contains(items, present.all());
  if (found.of_redis != nullptr)
    std::ranges::transform(items, present.all().begin(),
                           [&](std::string_view item) { return found.of_redis->table().contains(item); });
  if (!single) request.reply.array(items.size());
  for (const bool is_there : present.all()) request.reply.boolean(is_there);
}

void cf_exists(Request& request) {
  look_up(request, true);
}

void cf_mexists(Request& request) {
  look_up(request, false);
}

void cf_count(Request& request) {
  const std::string_view item = request.words[2];
  const Key key(request.context, request.key(), open_to_read);
  const Found found(key.value());
  if (found.none() && refuses_missing(request, key)) return;
  std::uint64_t copies = 0;
  if (found.own != nullptr) copies = found.own->count(item);
  if (found.of_redis != nullptr) copies = found.of_redis->table().count(item);
  request.reply.integer_unsigned(copies);
}

void cf_info(Request& request) {
  const Key key(request.context, request.key(), open_to_read);
  if (refuses_no_cuckoo(request, key)) return;
  cuckoo::append_info(request.reply, cuckoo::told_of(Found(key.value())));
}

void cf_debug(Request& request) {
  const Key key(request.context, request.key(), open_to_read);
  if (refuses_no_cuckoo(request, key)) return;
  request.reply.bulk(cuckoo::debug_line(cuckoo::told_of(Found(key.value()))));
}

void cf_stats(Request& request) {
  const Key key(request.context, request.key(), open_to_read);
  if (refuses_no_cuckoo(request, key)) return;
  cuckoo::append_stats(request.reply, *key.value());
}

void cf_compact(Request& request) {
  Effects effects(request);
  {
    const Key key(request.context, request.key(), open_to_read | open_to_write);
    const Found found(key.value());
    if (found.none()) return request.reply.error(text::nothing_to_compact);
    if (found.own != nullptr) found.own->compact();
    if (found.of_redis != nullptr) found.of_redis->changing().compact();
    effects.request();
  }
  effects.end();
  request.reply.ok();
}

// --- the table --------------------------------------------------------------------------------------------

// For replicas and the AOF (effects.hpp); no other host has it.
constexpr CommandFacts cf_shape_facts{
    .name = "cf.shape",
    .arity = 3,
    .writes = true,
    .categories = "@write @cuckoo",
    .summary = "Makes an empty filter as another server has done; for replicas and append-only files",
    .since = "1.0.0",  // Sepal's version
    .complexity = "O(N) where N is the size of the filter",
    .syntax = "key plan"};

constexpr Command commands[] = {
    command<cf_add, 3>(cuckoo::facts_of_command("cf.add")),
    command<cf_addnx, 3>(cuckoo::facts_of_command("cf.addnx")),
    command<cf_compact, 2>(cuckoo::facts_of_command("cf.compact")),
    command<cf_count, 3>(cuckoo::facts_of_command("cf.count")),
    command<cf_debug, 2>(cuckoo::facts_of_command("cf.debug")),
    command<cf_del, 3>(cuckoo::facts_of_command("cf.del")),
    command<cf_exists, 3>(cuckoo::facts_of_command("cf.exists")),
    command<cf_info, 2>(cuckoo::facts_of_command("cf.info")),
    command<cf_insert, -4>(cuckoo::facts_of_command("cf.insert")),
    command<cf_insertnx, -4>(cuckoo::facts_of_command("cf.insertnx")),
    command<cf_load_chunk, 4>(cuckoo::facts_of_command("cf.loadchunk")),
    command<cf_mdel, -3>(cuckoo::facts_of_command("cf.mdel")),
    command<cf_mexists, -3>(cuckoo::facts_of_command("cf.mexists")),
    command<cf_reserve, -3>(cuckoo::facts_of_command("cf.reserve")),
    command<cf_scan_dump, 3>(cuckoo::facts_of_command("cf.scandump")),
    command<cf_shape, 3>(cf_shape_facts),
    command<cf_stats, 2>(cuckoo::facts_of_command("cf.stats")),
};

}  // namespace
}  // namespace sepal::module::cf

std::span<const sepal::module::Command> sepal::module::cuckoo_commands(const Settings& settings) {
  cf::chosen = &settings;
  return cf::commands;
}
