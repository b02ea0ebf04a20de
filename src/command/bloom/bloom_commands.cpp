// Handlers of the BF commands.
//
// Inside the shared gate, an add that finds room for all its items needs no lock. If the key is free, the
// handler makes a filter, adds the items, and then puts it under its key. If the filter might have to grow,
// the handler locks the key, and each item has its own outcome. If there is any mirror, the handler does not
// change the filter then: it plans the new layer before the gate closes, and asks to run alone. The target of
// the filter's mirror may have the items by then.

#include <sepal/bloom/commands/facts.hpp>
#include <sepal/bloom/commands/options.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "command/bloom/add_answers.hpp"
#include "command/bloom/bloom_row.hpp"
#include "command/bloom/look_up.hpp"
#include "command/bloom/window_requests.hpp"
#include "command/keys/lookup.hpp"
#include "command/keys/timing.hpp"
#include "command/run/refuse.hpp"
#include "command/run/scratch.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using bloom::Filter;
using bloom::WindowFilter;
using Words = std::span<const std::string_view>;

bloom::FilterOptions default_options(const Context& context) {
  const keyspace::KeyspaceOptions& options = context.services.keyspace.options();
  return {.error_rate = options.error_rate,
          .capacity = options.capacity,
          .expansion = options.expansion,
          .seed = options.seed};
}

void count_new(Context& context, const Filter& filter, std::uint64_t new_count) {
  context.stats.items_added.add(new_count);
  if (bloom::Usage* const usage = filter.usage()) [[unlikely]]
    usage->slot(context.dispatcher.worker()).count_added(new_count, context.steady_now);
}

void count_outcomes(Context& context, const Filter& filter) {
  count_new(context, filter, new_items(context.scratch.outcomes));
}

// An item that was known may have been added by another worker that has not recorded it yet: then the reply
// must wait for that record.
void count_added(Context& context, const Filter& filter, std::span<const bool> added) {
  const std::size_t new_count = count_true(added);
  count_new(context, filter, new_count);
  if (new_count < added.size() || context.changes.target_knew()) context.record.answered_known = true;
}

struct Addition {
  std::string_view key;
  Words items;
  bloom::FilterOptions options;  // of the filter that is created when the key is free
  bool create = true;
  AddShape shape = AddShape::array;
  keyspace::Deadline deadline = keyspace::no_deadline;  // of that filter
};

// Adds to a new filter. A refused creation is one error, also for BF.MADD: no item was tried. False, without
// an answer: another client has created it meanwhile.
bool create_and_add(Context& context, const Addition& addition) {
  const keyspace::DatabaseKey key{.database = context.client.database, .key = addition.key};
  const auto created = writers::create(context.changes, key,
                                       {.options = addition.options,
                                        .deadline = addition.deadline,
                                        .items = addition.items,
                                        .now = context.now},
                                       context.scratch.outcomes);
  if (!created && created.error().code == Errc::key_exists) return false;
  if (!created) {
    refuse_items(context, created.error().code, addition.items.size());
    return true;
  }
  count_outcomes(context, **created);
  append_outcomes(context, (*created)->layer_count(), addition.shape, 0);
  return true;
}

// Lets the filter grow for items that do not fit. Stops at the first item that finds a non-scaling filter
// full, as the reference does: the array of answers is then shorter than the request. With a mirror it goes
// on, because the target takes the other items. Inside the shared gate, it first plans the layer. Then it may
// find that another worker has removed the filter, and needs the gate closed. Not inlined: add() would be
// slower.
[[gnu::noinline]] Next add_and_grow(Context& context, Filter& filter, const Addition& addition) {
  const keyspace::DatabaseKey key{.database = context.client.database, .key = addition.key};
  std::vector<Filter::AddOutcome>& outcomes = context.scratch.outcomes;
  std::size_t mirrored_count = 0;
  if (context.alone) {
    mirrored_count = writers::add_alone(context.changes, key, filter, addition.items, outcomes);
  } else {
    writers::plan_growth_ahead(context.services.keyspace, filter);
    if (!context.may_create() ||
        !writers::add_growing(context.changes, key, filter, addition.items, outcomes))
      return Next::need_alone;
    if (!std::ranges::all_of(outcomes, &Filter::AddOutcome::added)) context.record.answered_known = true;
  }
  count_outcomes(context, filter);
  append_outcomes(context, filter.layer_count(), addition.shape, mirrored_count);
  return Next::done;
}

// Answers an add to a full filter without closing the gate: a full filter does not change any more, and each
// add to it would stop all workers. Returns false, without an answer, if the target of its mirror needs the
// gate closed.
//
// The answer is that of add_and_grow(): without a mirror, it ends at the first item that is refused.
bool add_to_full(Context& context, const Filter& filter, const Addition& addition) {
  const bool is_mirrored = context.services.keyspace.mirrors().whole_from(filter) != nullptr;
  if (!writers::try_mirror(context.changes, filter, addition.items)) return false;
  const std::span<bool> present = context.scratch.flags(addition.items.size());
  filter.contains(addition.items, present);
  context.record.answered_known = true;
  context.scratch.outcomes.clear();
  for (const bool known : present) {
    context.scratch.outcomes.push_back({.refusal = known ? Filter::Refusal::none : Filter::Refusal::full});
    if (!known && !is_mirrored) break;
  }
  append_outcomes(context, filter.layer_count(), addition.shape, is_mirrored ? addition.items.size() : 0);
  return true;
}

// The ways of an add, the cheap ones first: try_add(), which most adds need; the answer of a full filter; a
// new filter; a filter that grows. What the request may not do inside the shared gate, it plans as far as it
// can, and asks for the closed gate. Then it runs again from the start, because another client may have
// created or replaced the filter meanwhile.
Next add(Context& context, const Addition& addition) {
  const keyspace::DatabaseKey key{.database = context.client.database, .key = addition.key};
  value::Value* const found = find(context, addition.key);
  if (found != nullptr && found->kind() != value::Kind::bloom) [[unlikely]]
    return add_to_other(context, *found, addition.items, addition.shape);
  auto* const filter = static_cast<Filter*>(found);
  if (filter == nullptr && !addition.create) return refuse(context, text::filter_not_found);
  if (filter != nullptr) {
    const std::span<bool> added = context.scratch.flags(addition.items.size());
    if (writers::try_add(context.changes, key, *filter, addition.items, added)) {
      count_added(context, *filter, added);
      append_added(context.reply, addition.shape, added);
      return Next::done;
    }
    if (filter->full() && add_to_full(context, *filter, addition)) return Next::done;
  }
  if (filter == nullptr) {
    if (context.may_create() && create_and_add(context, addition)) return Next::done;
    writers::plan_ahead(context.services.keyspace, addition.options);
    return Next::need_alone;
  }
  return add_and_grow(context, *filter, addition);
}

void append_value(resp::Reply& reply, const bloom::InfoField& field, const bloom::InfoFacts& facts) {
  if (const auto value = field.value(facts)) {
    reply.integer_unsigned(*value);
  } else {
    reply.null();
  }
}

// In RESP3 a single field is a map of one pair; in RESP2 it is an array of the value alone, without a name.
void append_one_field(resp::Reply& reply, const bloom::InfoField& field, const bloom::InfoFacts& facts) {
  if (reply.version() == resp::Version::resp3) {
    reply.map(1);
    reply.simple(field.name);
  } else {
    reply.array(1);
  }
  append_value(reply, field, facts);
}

// Nothing: no deadline can be so late.
std::optional<keyspace::Deadline> deadline_in(const Context& context, std::optional<std::int64_t> seconds) {
  return seconds ? time_of(*seconds, {.seconds = true}, context.now) : keyspace::no_deadline;
}

void reserve(Context& context, const bloom::ReserveRequest& request, keyspace::Deadline deadline) {
  const keyspace::DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  const auto created = writers::create(context.changes, key,
                                       {.options = request.options, .deadline = deadline, .now = context.now},
                                       context.scratch.outcomes);
  if (!created) return context.reply.error(text_of(created.error().code));
  context.reply.ok();
}

// A value of the key that BF.RESERVE is to make: it is in the way.
void refuse_present(Context& context, const value::Value& present) {
  if (present.kind() == value::Kind::window || !refuses_other(context, &present, value::Kind::bloom))
    context.reply.error(text_of(Errc::key_exists));
}

// The checks stand in the order of the reference: the options come before the key. So a wrong request gets
// the same error whether the key is taken or not. A taken key is answered without closing the gate.
Next bf_reserve(Context& context) {
  if (context.words.size() > bloom::reserve_words_max(context.words))
    return refuse(context, wrong_arity(context.spec.name));
  const auto parsed = bloom::parse_reserve(context.words.subspan(2), default_options(context));
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return refuse(context, refusal->text);
  const auto& request = std::get<bloom::ReserveRequest>(parsed);
  const auto deadline = deadline_in(context, request.seconds);
  if (!deadline) return refuse(context, bad_expire_time(context.spec.name));
  if (const value::Value* const present = find(context, context.words[1])) {
    refuse_present(context, *present);
    return Next::done;
  }
  if (request.window) return make_window(context, {.options = *request.window, .deadline = *deadline});
  if (!context.may_create()) {
    writers::plan_ahead(context.services.keyspace, request.options);
    return Next::need_alone;
  }
  reserve(context, request, *deadline);
  return Next::done;
}

Next bf_add(Context& context) {
  return add(context, {.key = context.words[1],
                       .items = context.words.subspan(2),
                       .options = default_options(context),
                       .create = true,
                       .shape = AddShape::single});
}

Next bf_add_together(Context& context, Words items, std::span<bool> added) {
  const keyspace::DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  value::Value* const found = find(context, key.key);
  auto* const filter = value::as<Filter>(found);
  if (filter == nullptr) return add_together_to_other(context, found, items, added);
  if (!writers::try_add(context.changes, key, *filter, items, added)) return Next::need_alone;
  count_added(context, *filter, added);
  return Next::done;
}

Next bf_madd(Context& context) {
  return add(
      context,
      {.key = context.words[1], .items = context.words.subspan(2), .options = default_options(context)});
}

Next bf_insert(Context& context) {
  const auto parsed = bloom::parse_insert(context.words.subspan(2), default_options(context));
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return refuse(context, refusal->text);
  if (std::holds_alternative<bloom::TooFewWords>(parsed))
    return refuse(context, wrong_arity(context.spec.name));
  const auto& request = std::get<bloom::InsertRequest>(parsed);
  const auto deadline = deadline_in(context, request.seconds);
  if (!deadline) return refuse(context, bad_expire_time(context.spec.name));
  if (request.window) return insert_into_window(context, request, *deadline);
  return add(context, {.key = context.words[1],
                       .items = request.items,
                       .options = request.options,
                       .create = request.create,
                       .deadline = *deadline});
}

Next bf_exists(Context& context) {
  const std::span<bool> present = context.scratch.flags(1);
  if (!look_up(context, context.words.subspan(2), present)) return refuse_missing(context);
  context.reply.boolean(present.front());
  return Next::done;
}

Next bf_exists_together(Context& context, Words items, std::span<bool> present) {
  // Each request counts a hit or a miss of its key, as if it had come alone.
  return look_up(context, items, present, items.size()) ? Next::done : Next::need_alone;
}

Next bf_mexists(Context& context) {
  const Words items = context.words.subspan(2);
  const std::span<bool> present = context.scratch.flags(items.size());
  if (!look_up(context, items, present)) return refuse_missing(context);
  context.reply.array(items.size());
  context.reply.booleans(present);
  return Next::done;
}

Next bf_card(Context& context) {
  value::Value* const found = find_counted(context, context.words[1]);
  if (const auto* const window = value::as<WindowFilter>(found))
    return answer_count(context, window->item_count(context.now));
  const auto [filter, refused] = found_or_refused<Filter>(context, found);
  if (refused) return Next::done;
  return answer_count(context, filter != nullptr ? filter->item_count() : 0);
}

Next bf_debug(Context& context) {
  constexpr std::size_t words_needed = 2;
  if (context.words.size() != words_needed) return refuse(context, wrong_arity(context.spec.name));
  value::Value* const found = find_counted(context, context.words[1]);
  if (const auto* const window = value::as<WindowFilter>(found)) return answer_debug(context, *window);
  const auto [filter, refused] = found_or_refused<Filter>(context, found);
  if (refused) return Next::done;
  if (filter == nullptr) return refuse(context, text::filter_not_found);
  const std::vector<bloom::LayerView> layers = filter->layers();
  context.reply.array(1 + layers.size());
  context.reply.bulk("size:" + std::to_string(filter->item_count()));
  for (const bloom::LayerView& layer : layers) context.reply.bulk(bloom::debug_line(layer));
  return Next::done;
}

Next bf_info(Context& context) {
  resp::Reply& reply = context.reply;
  constexpr std::size_t words_max = 3;
  if (context.words.size() > words_max) return refuse(context, wrong_arity(context.spec.name));
  const value::Value* const found = find_counted(context, context.words[1]);
  const auto facts = bloom::info_of(found, context.now);
  if (found == nullptr) return refuse(context, text::filter_not_found);
  if (!facts) {
    answer_other_kind(reply);
    return Next::done;
  }
  if (context.words.size() == words_max) {
    const bloom::InfoField* const field = bloom::find_info_field(context.words[2]);
    if (field == nullptr) {
      reply.error(bloom::bad_field_text(context.words[2]));
    } else {
      append_one_field(reply, *field, *facts);
    }
    return Next::done;
  }
  reply.map(bloom::info_fields().size());
  for (const bloom::InfoField& field : bloom::info_fields()) {
    reply.simple(field.name);
    append_value(reply, field, *facts);
  }
  return Next::done;
}

constexpr CommandSpec bloom_family[] = {
    bloom_row("bf.add", bf_add, records_items, bf_add_together, Flag::adds),
    bloom_row("bf.card", bf_card),
    // The reference declares neither the number of words nor what happens to the key: so it tells the worst.
    bloom_row("bf.debug", bf_debug, Arity{-1}, one_key("RW access update")),
    bloom_row("bf.exists", bf_exists, bf_exists_together),
    bloom_row("bf.info", bf_info),
    bloom_row("bf.insert", bf_insert, records_items, items_behind_word, Flag::adds),
    bloom_row("bf.madd", bf_madd, records_items, items_behind_key, Flag::adds),
    bloom_row("bf.mexists", bf_mexists, items_behind_key),
    bloom_row("bf.reserve", bf_reserve, records_items),
};

}  // namespace

constinit const Rows bloom_rows = bloom_family;

}  // namespace sepal::command
