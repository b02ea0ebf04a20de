// Handlers of the CF commands. A key has a filter of Sepal's own, or one of RedisBloom that came by
// CF.LOADCHUNK or RESTORE.
//
// Adds to Sepal's own filters, and removals, run inside the shared gate, growth included: the filter's cells
// grow one by one, under their own locks. So a handler asks for the closed gate only where a key is being
// made or lost. RedisBloom's filters change with the gate closed only.

#include <sepal/command/table/error_texts.hpp>
#include <sepal/cuckoo/commands/answers.hpp>
#include <sepal/cuckoo/commands/options.hpp>
#include <sepal/writers/cuckoo_writer.hpp>
#include <sepal/writers/redis_cuckoo_writer.hpp>

#include <algorithm>
#include <string>

#include "command/cuckoo/cuckoo_row.hpp"
#include "command/cuckoo/refuse_other.hpp"
#include "command/keys/lookup.hpp"
#include "command/keys/missing.hpp"
#include "command/run/refuse.hpp"
#include "command/run/scratch.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace cf {
namespace {

namespace cf_text = cuckoo::text;
using cuckoo::AddAnswer;
using cuckoo::Filter;
using cuckoo::RedisFilter;
using AddIf = cuckoo::Filter::AddIf;
using Words = std::span<const std::string_view>;

cuckoo::Options default_options(const Context& context) {
  const keyspace::KeyspaceOptions& options = context.services.keyspace.options();
  return {.capacity = options.cuckoo_capacity,
          .expansion = cuckoo::rounded_expansion(options.cuckoo_expansion),
          .bucket_size = options.cuckoo_bucket_size,
          .iteration_max = options.cuckoo_iteration_max,
          .capacity_given = false,
          .seed = options.seed};
}

keyspace::DatabaseKey key_of(const Context& context) {
  return {.database = context.client.database, .key = context.words[1]};
}

// --- adds -------------------------------------------------------------------------------------------------

struct Addition {
  Words items;
  AddIf condition = AddIf::always;
  cuckoo::Options options;  // of the filter that is made when the key is free
  bool create = true;
  AddAnswer answer = AddAnswer::single;
};

// Not inlined: nearly all adds are taken.
[[gnu::noinline]] void count_refusals(Context& context, bool grows) {
  const RefusedAdd full = grows ? RefusedAdd::layers : RefusedAdd::full;
  for (const Filter::AddOutcome& outcome : context.scratch.cuckoo_outcomes) {
    if (outcome.refusal == cuckoo::Refusal::full) count_refused(context.stats, full);
    if (outcome.refusal == cuckoo::Refusal::no_memory) count_refused(context.stats, RefusedAdd::memory);
  }
}

// `grows`: the filter was made to grow.
void answer_adds(Context& context, const Addition& addition, bool grows) {
  const std::vector<Filter::AddOutcome>& outcomes = context.scratch.cuckoo_outcomes;
  resp::Reply& reply = context.reply;
  if (addition.answer != AddAnswer::single) reply.array(outcomes.size());
  // Whether an item was there may depend on another worker's add or removal that it has not recorded yet.
  if (addition.condition == AddIf::absent) context.record.answered_known = true;
  for (const Filter::AddOutcome& outcome : outcomes) cuckoo::append_outcome(reply, outcome, addition.answer);
  const auto added =
      static_cast<std::uint64_t>(std::ranges::count(outcomes, true, &Filter::AddOutcome::added));
  context.stats.items_added.add(added);
  if (added < outcomes.size()) count_refusals(context, grows);
}

// RedisBloom looks at the number of layers once for each request, before it looks at the items.
Next add_to_redis(Context& context, RedisFilter& filter, const Addition& addition) {
  const bool has_begun = context.partial != nullptr && context.partial->next_word != 0;
  if (!has_begun &&
      filter.header().layer_count >= writers::redis_layers_max_of(context.services.keyspace.options())) {
    count_refused(context.stats, RefusedAdd::layers, addition.items.size());
    return refuse(context, cf_text::layer_limit);
  }
  if (!context.alone) return Next::need_alone;
  writers::add(context.changes, key_of(context), filter, addition.items, addition.condition,
               context.scratch.cuckoo_outcomes);
  answer_adds(context, addition, filter.header().expansion != 0);
  return Next::done;
}

Next add(Context& context, const Addition& addition) {
  value::Value* const found = find(context, context.words[1]);
  if (refuses_other_than_cuckoo(context, found)) return Next::done;
  const auto [filter, of_redis] = cuckoo::Found(found);
  if (of_redis != nullptr) return add_to_redis(context, *of_redis, addition);
  std::vector<Filter::AddOutcome>& outcomes = context.scratch.cuckoo_outcomes;
  if (filter != nullptr) {
    if (!writers::add(context.changes, key_of(context), *filter, addition.items, addition.condition,
                      outcomes))
      return Next::need_alone;
    answer_adds(context, addition, filter->plan().options.scaling());
    return Next::done;
  }
  if (!addition.create) return refuse(context, cf_text::not_found);
  if (!context.may_create()) return Next::need_alone;
  const auto created = writers::create(context.changes, key_of(context),
                                       {.options = addition.options,
                                        .items = addition.items,
                                        .condition = addition.condition,
                                        .now = context.now},
                                       outcomes);
  if (created) {
    answer_adds(context, addition, addition.options.scaling());
    return Next::done;
  }
  // Another client has made it meanwhile.
  if (created.error().code == Errc::key_exists) return Next::need_alone;
  refuse_items(context, created.error().code, addition.items.size());
  return Next::done;
}

Next cf_add(Context& context) {
  return add(context, {.items = context.words.subspan(2), .options = default_options(context)});
}

Next cf_addnx(Context& context) {
  return add(
      context,
      {.items = context.words.subspan(2), .condition = AddIf::absent, .options = default_options(context)});
}

Next insert(Context& context, AddIf condition, AddAnswer answer) {
  const auto parsed = cuckoo::parse_insert(context.words.subspan(2), default_options(context));
  if (const auto* refusal = std::get_if<sepal::Refusal>(&parsed)) return refuse(context, refusal->text);
  if (std::holds_alternative<cuckoo::TooFewWords>(parsed))
    return refuse(context, wrong_arity(context.spec.name));
  const auto& request = std::get<cuckoo::InsertRequest>(parsed);
  return add(context, {.items = request.items,
                       .condition = condition,
                       .options = request.options,
                       .create = request.create,
                       .answer = answer});
}

Next cf_insert(Context& context) {
  return insert(context, AddIf::always, AddAnswer::flags);
}

Next cf_insertnx(Context& context) {
  return insert(context, AddIf::absent, AddAnswer::numbers);
}

Next cf_reserve(Context& context) {
  const auto parsed = cuckoo::parse_reserve(context.words.subspan(2), default_options(context));
  if (std::holds_alternative<cuckoo::TooFewWords>(parsed))
    return refuse(context, wrong_arity(context.spec.name));
  if (const auto* refusal = std::get_if<sepal::Refusal>(&parsed)) return refuse(context, refusal->text);
  if (value::Value* const present = find(context, context.words[1])) {
    if (!refuses_other_than_cuckoo(context, present)) context.reply.error(text_of(Errc::key_exists));
    return Next::done;
  }
  if (!context.may_create()) return Next::need_alone;
  const auto created = writers::create(context.changes, key_of(context),
                                       {.options = std::get<cuckoo::Options>(parsed), .now = context.now},
                                       context.scratch.cuckoo_outcomes);
  if (!created) return refuse(context, text_of(created.error().code));
  return answer_ok(context);
}

// --- removals ---------------------------------------------------------------------------------------------

Next remove(Context& context, Words items, bool single) {
  const cuckoo::Found found(find(context, context.words[1]));
  // The reference answers so for a value of another kind as well.
  if (found.none()) return refuse(context, cf_text::nothing_to_delete_from);
  const std::span<bool> removed = context.scratch.flags(items.size());
  if (found.of_redis != nullptr) {
    if (!context.alone) return Next::need_alone;
    writers::remove(context.changes, key_of(context), *found.of_redis, items, removed);
  } else if (!writers::remove(context.changes, key_of(context), *found.own, items, removed)) {
    return Next::need_alone;
  }
  context.stats.items_removed.add(static_cast<std::uint64_t>(std::ranges::count(removed, true)));
  // The copy, or the removal before this one, may be another worker's, which has not recorded it yet.
  context.record.answered_known = true;
  if (single) {
    context.reply.boolean(removed.front());
  } else {
    context.reply.array(removed.size());
    context.reply.booleans(removed);
  }
  return Next::done;
}

Next cf_del(Context& context) {
  return remove(context, context.words.subspan(2), true);
}

Next cf_mdel(Context& context) {
  return remove(context, context.words.subspan(2), false);
}

// --- questions --------------------------------------------------------------------------------------------

// For one request, or for several that have one item each. False: each of them answers an error
// (answer_missing).
bool look_up_cuckoo(Context& context, Words items, std::span<bool> present, std::uint64_t requests = 1) {
  value::Value* const value = find(context, context.words[1]);
  const cuckoo::Found found(value);
  if (found.none()) return answer_missing(context, value, present, requests);
  count_key(context, true, requests);
  context.stats.items_asked.add(items.size());
  if (found.own != nullptr) {
    found.own->contains(items, present);
  } else {
    std::ranges::transform(items, present.begin(),
                           [&](std::string_view item) { return found.of_redis->table().contains(item); });
  }
  context.stats.items_found.add(static_cast<std::uint64_t>(std::ranges::count(present, true)));
  return true;
}

Next cf_exists(Context& context) {
  const std::span<bool> present = context.scratch.flags(1);
  if (!look_up_cuckoo(context, context.words.subspan(2), present)) return refuse_missing(context);
  context.reply.boolean(present.front());
  return Next::done;
}

Next cf_exists_together(Context& context, Words items, std::span<bool> present) {
  return look_up_cuckoo(context, items, present, items.size()) ? Next::done : Next::need_alone;
}

Next cf_mexists(Context& context) {
  const Words items = context.words.subspan(2);
  const std::span<bool> present = context.scratch.flags(items.size());
  if (!look_up_cuckoo(context, items, present)) return refuse_missing(context);
  context.reply.array(items.size());
  context.reply.booleans(present);
  return Next::done;
}

// A number of copies cannot say that an item may be there: the setting `present` answers 0 as well.
Next cf_count(Context& context) {
  value::Value* const value = find(context, context.words[1]);
  const cuckoo::Found found(value);
  if (found.none() && context.services.options.missing_filter == bloom::MissingFilter::error)
    return refuse_missing(context, value);
  count_key(context, value != nullptr);
  if (found.none()) return answer_count(context, 0);
  const std::string_view item = context.words[2];
  return answer_count(context,
                      found.own != nullptr ? found.own->count(item) : found.of_redis->table().count(item));
}

// --- what is told -----------------------------------------------------------------------------------------

// The filter for a question about it. Null: an error is answered.
value::Value* find_to_tell(Context& context) {
  value::Value* const found = find_counted(context, context.words[1]);
  if (refuses_other_than_cuckoo(context, found)) return nullptr;
  if (found == nullptr) context.reply.error(cf_text::not_found);
  return found;
}

Next cf_info(Context& context) {
  if (value::Value* const found = find_to_tell(context))
    cuckoo::append_info(context.reply, cuckoo::told_of(cuckoo::Found(found)));
  return Next::done;
}

Next cf_debug(Context& context) {
  if (value::Value* const found = find_to_tell(context))
    context.reply.bulk(cuckoo::debug_line(cuckoo::told_of(cuckoo::Found(found))));
  return Next::done;
}

Next cf_stats(Context& context) {
  if (const value::Value* const found = find_to_tell(context)) cuckoo::append_stats(context.reply, *found);
  return Next::done;
}

Next cf_compact(Context& context) {
  const cuckoo::Found found(find(context, context.words[1]));
  if (found.none()) return refuse(context, cf_text::nothing_to_compact);
  if (found.own != nullptr) {
    writers::compact(context.changes, key_of(context), *found.own);
  } else {
    writers::compact(context.changes, key_of(context), *found.of_redis);
  }
  return answer_ok(context);
}

// --- the rows ---------------------------------------------------------------------------------------------

std::uint64_t records_cuckoo(const RecordAsk& ask) {
  const std::size_t key_bytes = std::min(ask.words[1].size(), keyspace::key_bytes_max);
  return std::max(writers::record_bytes_of_cuckoo(key_bytes, ask.item_count),
                  writers::record_bytes_of_redis_items(key_bytes, ask.item_count));
}

constexpr CommandSpec cuckoo_family[] = {
    cuckoo_row("cf.add", cf_add, records_cuckoo, Flag::adds),
    cuckoo_row("cf.addnx", cf_addnx, records_cuckoo, Flag::adds),
    cuckoo_row("cf.compact", cf_compact, Flag::alone, one_key("RW access update")),
    cuckoo_row("cf.count", cf_count),
    cuckoo_row("cf.debug", cf_debug),
    cuckoo_row("cf.del", cf_del, records_cuckoo),
    cuckoo_row("cf.exists", cf_exists, cf_exists_together),
    cuckoo_row("cf.info", cf_info),
    cuckoo_row("cf.insert", cf_insert, records_cuckoo, ItemsAt{items_behind_word}, Flag::adds),
    cuckoo_row("cf.insertnx", cf_insertnx, records_cuckoo, ItemsAt{items_behind_word}, Flag::adds),
    cuckoo_row("cf.mdel", cf_mdel, records_cuckoo, ItemsAt{items_behind_key}),
    cuckoo_row("cf.mexists", cf_mexists, ItemsAt{items_behind_key}),
    cuckoo_row("cf.reserve", cf_reserve, records_cuckoo),
    cuckoo_row("cf.stats", cf_stats),
};

}  // namespace
}  // namespace cf

constinit const Rows cuckoo_rows = cf::cuckoo_family;

}  // namespace sepal::command
