// The BF commands. The server runs one command at a time, in its main thread, so nothing here has a lock.
//
// A command that changes a filter opens the key, changes the filter, tells the effects in the order in which
// a replica must repeat them (effects.hpp), and closes the key. Last it tells clients that watch the key, if
// there was an effect.
#include <sepal/base/arguments.hpp>
#include <sepal/bloom/commands/commands.hpp>
#include <sepal/bloom/commands/facts.hpp>
#include <sepal/bloom/commands/find.hpp>
#include <sepal/bloom/commands/options.hpp>
#include <sepal/bloom/commands/stats.hpp>
#include <sepal/bloom/commands/texts.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/plan/plan_memo.hpp>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "module/bloom_chunks.hpp"
#include "module/commands.hpp"
#include "module/effects.hpp"
#include "module/flags.hpp"
#include "module/request.hpp"
#include "module/room.hpp"
#include "module/value_types.hpp"
#include "module/window_commands.hpp"

namespace sepal::module {
namespace {

namespace text = bloom::text;
using bloom::Filter;
using bloom::FilterPtr;
using bloom::WindowFilter;

const Settings* chosen = nullptr;  // set when the module is loaded

// Filters of equal options are common, and their plan takes longer than their creation.
bloom::PlanMemo plans;

// --- adding -----------------------------------------------------------------------------------------------

struct Addition {
  std::size_t first_item = 2;  // the index of its word
  bloom::FilterOptions options;
  std::optional<bloom::WindowOptions> window{};  // the filter is to forget; `options` say nothing then
  bool create = true;
  bool single = false;                     // the reply is one answer, and no array
  std::optional<std::int64_t> deadline{};  // of a filter that is created: milliseconds since 1970
};

void reply_outcome(Reply& reply, const Filter& filter, const Filter::AddOutcome& outcome) {
  if (outcome.refusal == Filter::Refusal::none) {
    reply.boolean(outcome.added);
  } else {
    reply.error(bloom::text_of(outcome.refusal, filter.layer_count()));
  }
}

Filter* refuse_creation(Request& request, Errc code) {
  request.reply.error(code == Errc::out_of_range ? text::cannot_create : text::no_memory_for_filter);
  return nullptr;
}

// Null: the reply says why.
Filter* create(Request& request, Key& key, bloom::FilterOptions options, Effects& effects) {
  options.seed = seed_of_new(*chosen);
  // The plan comes first: it names the bytes before anything is allocated, and only large filters need the
  // server's answer about its memory.
  const auto plan = Filter::plan(options, no_limits, &plans);
  if (!plan) return refuse_creation(request, plan.error().code);
  if (plan->byte_count > limits_of_new(request.context, plan->byte_count).bytes_max)
    return refuse_creation(request, Errc::too_large);
  auto made = Filter::create(*plan);
  if (!made) return refuse_creation(request, made.error().code);
  key.put(std::move(*made));
  effects.shape(*key.filter());
  return key.filter();
}

// Adds the items one by one, and lets the filter grow. Stops at the first item that finds a filter full that
// does not scale, as the reference does.
std::vector<Filter::AddOutcome> add_and_grow(Request& request, Filter& filter, const Addition& addition,
                                             Effects& effects) {
  const Words items = request.words.subspan(addition.first_item);
  // What grows with the request is allocated before the first bit: an exception after it would leave replicas
  // without an item.
  std::vector<Filter::AddOutcome> outcomes;
  outcomes.reserve(items.size());
  // The items that were new since the last layer was told.
  const auto added = std::make_unique<bool[]>(items.size());
  std::size_t told = 0;
  const auto tell = [&](std::size_t end) {
    effects.items(addition.first_item + told, {added.get() + told, end - told});
    told = end;
  };
  // Asked once for each layer: the server's answer is slow, and the limits change only when the filter grows.
  std::optional<bloom::FilterLimits> limits;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::uint32_t layers = filter.layer_count();
    if (!limits) limits = limits_of(request.context, filter.byte_count(), growth_bytes_max(filter));
    outcomes.push_back(filter.add_alone(items[i], *limits, &plans));
    added[i] = outcomes.back().added;
    // A replica adds to its newest layer. So it is told the items before this one first, then the new layer,
    // and this item after both.
    if (filter.layer_count() != layers) {
      tell(i);
      effects.shape(filter);
      limits.reset();
    }
    if (outcomes.back().refusal == Filter::Refusal::full) break;
  }
  tell(outcomes.size());
  return outcomes;
}

void add_to(Request& request, Filter& filter, const Addition& addition, Effects& effects) {
  const Words items = request.words.subspan(addition.first_item);
  Reply& reply = request.reply;
  Flags flags(items.size());
  const std::span<bool> added = flags.all();
  effects.reserve_items(items.size());
  // The usual case: the newest layer has room for all. Otherwise try_add() has added nothing.
  if (filter.try_add(items, added)) {
    effects.items(addition.first_item, added);
    if (!addition.single) reply.array(added.size());
    for (const bool is_new : added) reply.boolean(is_new);
    return;
  }
  const std::vector<Filter::AddOutcome> outcomes = add_and_grow(request, filter, addition, effects);
  if (!addition.single) reply.array(outcomes.size());
  for (const Filter::AddOutcome& outcome : outcomes) reply_outcome(reply, filter, outcome);
}

WindowFilter* create_forgetting(Request& request, Key& key, bloom::WindowOptions options, Effects& effects) {
  options.seed = seed_of_new(*chosen);
  return create_window(request, key, options, effects);
}

// A filter was created. The deadline is absolute, so a replica that gets it later keeps the same one.
void set_deadline(Key& key, std::int64_t deadline, Effects& effects) {
  key.expire_at(deadline);
  effects.deadline(deadline);
}

// What `seconds` from now is, in milliseconds since 1970. False: it does not fit into 64 bits. This is asked
// before the filter exists.
bool read_deadline(std::optional<std::int64_t> seconds, std::optional<std::int64_t>& deadline) {
  if (!seconds) return true;
  constexpr std::int64_t milliseconds = 1000;
  std::int64_t time = 0;
  if (__builtin_mul_overflow(*seconds, milliseconds, &time) ||
      __builtin_add_overflow(time, std::int64_t{api.Milliseconds()}, &time))
    return false;
  deadline = time;
  return true;
}

// False, with the reply: there is no filter to add to.
bool add_under(Request& request, Key& key, const Addition& addition, Effects& effects) {
  Filter* filter = key.filter();
  WindowFilter* window = key.window();
  const auto refuse = [&](std::string_view text) {
    request.reply.error(text);
    return false;
  };
  // A filter that is there keeps its own options, as always; but one without a window would never forget.
  if (filter != nullptr && addition.window) return refuse(text::no_window);
  if (!key.is_free() && filter == nullptr && window == nullptr) return refuse(text::wrong_type);
  if (key.is_free() && !addition.create) return refuse(text::filter_not_found);
  if (key.is_free()) {
    if (addition.window) {
      window = create_forgetting(request, key, *addition.window, effects);
    } else {
      filter = create(request, key, addition.options, effects);
    }
    if (filter == nullptr && window == nullptr) return false;
    if (addition.deadline) set_deadline(key, *addition.deadline, effects);
  }
  if (window != nullptr) {
    add_to_window(request, *window, addition.first_item, addition.single, effects);
  } else {
    add_to(request, *filter, addition, effects);
  }
  return true;
}

void add(Request& request, const Addition& addition) {
  Effects effects(request);
  {
    Key key(request.context, request.key(), open_to_read | open_to_write);
    if (!add_under(request, key, addition, effects)) return;
  }
  effects.end();
}

void bf_add(Request& request) {
  add(request, {.options = chosen->options, .single = true});
}

void bf_madd(Request& request) {
  add(request, {.options = chosen->options});
}

void bf_insert(Request& request) {
  const auto parsed = bloom::parse_insert(request.words.subspan(2), chosen->options);
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return request.reply.error(refusal->text);
  if (std::holds_alternative<bloom::TooFewWords>(parsed))
    return request.reply.error(bloom::wrong_arity("bf.insert"));
  const auto& insert = std::get<bloom::InsertRequest>(parsed);
  std::optional<std::int64_t> deadline;
  if (!read_deadline(insert.seconds, deadline)) return request.reply.error(text::insert_bad_expiry);
  add(request, {.first_item = request.words.size() - insert.items.size(),
                .options = insert.options,
                .window = insert.window,
                .create = insert.create,
                .deadline = deadline});
}

void bf_reserve(Request& request) {
  Reply& reply = request.reply;
  if (request.words.size() > bloom::reserve_words_max(request.words))
    return reply.error(bloom::wrong_arity("bf.reserve"));
  const auto parsed = bloom::parse_reserve(request.words.subspan(2), chosen->options);
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return reply.error(refusal->text);
  const auto& reserve = std::get<bloom::ReserveRequest>(parsed);
  std::optional<std::int64_t> deadline;
  if (!read_deadline(reserve.seconds, deadline)) return reply.error(text::reserve_bad_expiry);
  Effects effects(request);
  {
    Key key(request.context, request.key(), open_to_read | open_to_write);
    if (key.filter() != nullptr || key.window() != nullptr) return reply.error(text::filter_exists);
    if (!key.is_free()) return reply.error(text::wrong_type);
    const value::Value* const made =
        reserve.window
            ? static_cast<const value::Value*>(create_forgetting(request, key, *reserve.window, effects))
            : create(request, key, reserve.options, effects);
    if (made == nullptr) return;
    if (deadline) set_deadline(key, *deadline, effects);
  }
  effects.end();
  reply.ok();
}

// --- asking -----------------------------------------------------------------------------------------------

// `missing`: what is answered where the key names no filter. As for the reference, a value of another type is
// none.
void look_up(Request& request, bloom::MissingFilter missing, bool single) {
  const Words items = request.words.subspan(2);
  Flags flags(items.size());
  const std::span<bool> present = flags.all();
  const Key key(request.context, request.key(), open_to_read);
  if (const Filter* const filter = key.filter()) {
    filter->contains(items, present);
  } else if (const WindowFilter* const window = key.window()) {
    window->contains(items, now_of_server(), present);
  } else if (missing == bloom::MissingFilter::error) {
    return request.reply.error(key.is_free() ? text::filter_not_found : text::wrong_type);
  } else {
    std::ranges::fill(present, missing == bloom::MissingFilter::present);
  }
  if (!single) request.reply.array(present.size());
  for (const bool is_there : present) request.reply.boolean(is_there);
}

void bf_exists(Request& request) {
  look_up(request, chosen->missing_filter, true);
}

void bf_mexists(Request& request) {
  look_up(request, chosen->missing_filter, false);
}

void bf_check(Request& request) {
  look_up(request, bloom::MissingFilter::error, false);
}

// The values are kept: a key that is past its deadline is deleted when it is named once more. Null: there is
// no filter. Nothing: the reply says what is wrong.
std::optional<std::vector<value::ValuePtr>> find_filters(Request& request, std::size_t key_count) {
  std::vector<value::ValuePtr> found;
  found.reserve(key_count);
  constexpr std::size_t first_key = 2;
  for (std::size_t at = 0; at < key_count; ++at) {
    const Key key(request.context, request.arguments[first_key + at], open_to_read);
    const bool is_wrong = !key.is_free() && !bloom::is_filter(key.value());
    if (is_wrong || (key.is_free() && chosen->missing_filter == bloom::MissingFilter::error)) {
      request.reply.error(is_wrong ? text::wrong_type : text::filter_not_found);
      return std::nullopt;
    }
    found.emplace_back(key.value());
  }
  return found;
}

void bf_find(Request& request) {
  const auto parsed = bloom::parse_find(request.words.subspan(1));
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return request.reply.error(refusal->text);
  if (std::holds_alternative<bloom::TooFewWords>(parsed))
    return request.reply.error(bloom::wrong_arity("bf.find"));
  const auto& find = std::get<bloom::FindRequest>(parsed);
  const auto kept = find_filters(request, find.keys.size());
  if (!kept) return;
  std::vector<const value::Value*> filters;
  for (const value::ValuePtr& each : *kept) filters.push_back(each.get());
  std::vector<bloom::FindWindow::Asked> asked(filters.size());
  const bool missing = chosen->missing_filter == bloom::MissingFilter::present;
  bloom::FindWindow window;
  // Before the reply: it allocates.
  std::size_t count = window.begin(find.items, filters.size(), find.all);
  request.reply.array(find.items.size());
  for (Words left = find.items;;) {
    window.ask(left.first(count), filters, missing, now_of_server(), asked);
    window.append(request.reply);
    left = left.subspan(count);
    if (left.empty()) return;
    count = window.begin(left, filters.size(), find.all);
  }
}

void bf_card(Request& request) {
  const Key key(request.context, request.key(), open_to_read);
  if (const WindowFilter* const window = key.window())
    return request.reply.integer_unsigned(window->item_count(now_of_server()));
  if (key.is_other()) return request.reply.error(text::wrong_type);
  request.reply.integer_unsigned(key.filter() != nullptr ? key.filter()->item_count() : 0);
}

void reply_value(Reply& reply, const bloom::InfoField& field, const bloom::InfoFacts& facts) {
  if (const auto value = field.value(facts)) {
    reply.integer_unsigned(*value);
  } else {
    reply.null();
  }
}

// In RESP3 a single field is a map of one pair; in RESP2 it is an array of the value alone, without a name.
void reply_one_field(Reply& reply, const bloom::InfoField& field, const bloom::InfoFacts& facts) {
  if (reply.is_resp3()) {
    reply.map(1);
    reply.simple(field.name);
  } else {
    reply.array(1);
  }
  reply_value(reply, field, facts);
}

void bf_info(Request& request) {
  Reply& reply = request.reply;
  constexpr std::size_t words_max = 3;
  if (request.words.size() > words_max) return reply.error(bloom::wrong_arity("bf.info"));
  const Key key(request.context, request.key(), open_to_read);
  const auto known = bloom::info_of(key.value(), now_of_server());
  if (!known) return reply.error(key.is_free() ? text::filter_not_found : text::wrong_type);
  const bloom::InfoFacts& facts = *known;
  if (request.words.size() == words_max) {
    const bloom::InfoField* const field = bloom::find_info_field(request.words[2]);
    return field != nullptr ? reply_one_field(reply, *field, facts)
                            : reply.error(bloom::bad_field_text(request.words[2]));
  }
  reply.map(bloom::info_fields().size());
  for (const bloom::InfoField& field : bloom::info_fields()) {
    reply.simple(field.name);
    reply_value(reply, field, facts);
  }
}

// The server says nothing about saves, and nothing here counts what clients do: these fields are null.
void bf_stats(Request& request) {
  const Key key(request.context, request.key(), open_to_read);
  if (const WindowFilter* const window = key.window())
    return bloom::append_stats(request.reply, bloom::stats_of(*window, now_of_server()));
  const Filter* const filter = filter_or_refuse(request, key);
  if (filter == nullptr) return;
  bloom::append_stats(request.reply, bloom::stats_of(bloom::facts_of(*filter, {}), {}));
}

void bf_debug(Request& request) {
  const Key key(request.context, request.key(), open_to_read);
  if (key.window() != nullptr) return debug_window(request, *key.window());
  const Filter* const filter = filter_or_refuse(request, key);
  if (filter == nullptr) return;
  const std::vector<bloom::LayerView> layers = filter->layers();
  std::vector<std::string> lines{"size:" + std::to_string(filter->item_count())};
  for (const bloom::LayerView& layer : layers) lines.push_back(bloom::debug_line(layer));
  request.reply.array(lines.size());
  for (const std::string& line : lines) request.reply.bulk(line);
}

// --- the table --------------------------------------------------------------------------------------------

// For replicas and the AOF (effects.hpp); no other host has them.
constexpr CommandFacts bf_shape_facts{
    .name = "bf.shape",
    .arity = 3,
    .writes = true,
    .categories = "@write @bloom",
    .summary =
        "Creates a filter, or lets it grow, as another server has done; for replicas and append-only files",
    .since = "1.0.0",  // Sepal's version
    .complexity = "O(N) where N is the size of the new layer",
    .syntax = "key header"};
constexpr CommandFacts bf_window_shape_facts{
    .name = "bf.windowshape",
    .arity = 3,
    .writes = true,
    .categories = "@write @bloom",
    .summary =
        "Creates a filter with a window, or lets it grow, as another server has done; for replicas and "
        "append-only files",
    .since = "1.0.0",  // Sepal's version
    .complexity = "O(N) where N is the size of the new layer",
    .syntax = "key record"};
constexpr CommandFacts bf_window_add_facts{
    .name = "bf.windowadd",
    .arity = 3,
    .writes = true,
    .categories = "@write @bloom",
    .summary =
        "Adds to a filter with a window what another server has added; for replicas and append-only "
        "files",
    .since = "1.0.0",  // Sepal's version
    .complexity = "O(N) where N is the number of entries",
    .syntax = "key entries"};

constexpr Command commands[] = {
    command<bf_add, 3>(bloom::facts_of_command("bf.add")),
    command<bf_card, 2>(bloom::facts_of_command("bf.card")),
    command<bf_check, -3>(bloom::facts_of_command("bf.check")),
    command<bf_debug, 2>(bloom::facts_of_command("bf.debug")),
    command<bf_exists, 3>(bloom::facts_of_command("bf.exists")),
    command<bf_find, -5, 1>(bloom::facts_of_command("bf.find")),
    command<bf_info, -2>(bloom::facts_of_command("bf.info")),
    command<bf_insert, -4>(bloom::facts_of_command("bf.insert")),
    command<bf_load_chunk, 4>(bloom::facts_of_command("bf.loadchunk")),
    command<bf_madd, -3>(bloom::facts_of_command("bf.madd")),
    command<bf_mexists, -3>(bloom::facts_of_command("bf.mexists")),
    command<bf_reserve, -4>(bloom::facts_of_command("bf.reserve")),
    command<bf_scan_dump, 3>(bloom::facts_of_command("bf.scandump")),
    command<bf_shape, 3>(bf_shape_facts),
    command<bf_stats, 2>(bloom::facts_of_command("bf.stats")),
    command<bf_window, 2>(bloom::facts_of_command("bf.window")),
    command<bf_window_add, 3>(bf_window_add_facts),
    command<bf_window_shape, 3>(bf_window_shape_facts),
};

}  // namespace

std::span<const Command> bloom_commands(const Settings& settings) {
  chosen = &settings;
  return commands;
}

}  // namespace sepal::module
