// The server runs one command at a time, in its main thread, so nothing here has a lock. No exception leaves
// a command: the server is written in C.
#include "commands.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/random.hpp>
#include <sepal/bloom/facts.hpp>
#include <sepal/bloom/options.hpp>
#include <sepal/bloom/texts.hpp>
#include <sepal/filter/filter.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "effects.hpp"
#include "filter_type.hpp"
#include "request.hpp"
#include "room.hpp"
#include "transfer.hpp"

namespace sepal::module {
namespace {

namespace text = bloom::text;
using filter::Filter;
using filter::FilterPtr;

Settings chosen;

filter::FilterOptions default_options() {
  filter::FilterOptions options = chosen.options;
  if (chosen.seed) {
    options.seed = *chosen.seed;
    return options;
  }
  const std::string digits = random_hex(16);
  std::from_chars(digits.data(), digits.data() + digits.size(), options.seed, 16);
  return options;
}

// --- adding -----------------------------------------------------------------------------------------------

struct Addition {
  std::size_t first_item = 2;  // the index of its word
  filter::FilterOptions options;
  bool create = true;
  bool single = false;  // the reply is one answer, and no array
};

void reply_outcome(Reply& reply, const Filter::AddOutcome& outcome) {
  if (outcome.refusal == Filter::Refusal::none) {
    reply.boolean(outcome.added);
  } else {
    reply.error(bloom::text_of(outcome.refusal));
  }
}

std::string_view text_of_creation(Errc code) {
  return code == Errc::out_of_range ? text::cannot_create : text::no_memory_for_filter;
}

// Null: the reply says why.
Filter* create(Request& request, Key& key, const filter::FilterOptions& options, Effects& effects) {
  auto made = Filter::create(options, limits_of_new(request.context));
  if (!made) {
    request.reply.error(text_of_creation(made.error().code));
    return nullptr;
  }
  Filter* const filter = key.put(std::move(*made));
  effects.shape(*filter);
  return filter;
}

// Adds the items one by one, and lets the filter grow. Stops at the first item that finds a filter full that
// does not scale, as the reference does.
std::vector<Filter::AddOutcome> add_and_grow(Request& request, Filter& filter, const Addition& addition,
                                             Effects& effects) {
  const Words items = request.words.subspan(addition.first_item);
  std::vector<Filter::AddOutcome> outcomes;
  // The items that were new since the last layer was told.
  const auto added = std::make_unique<bool[]>(items.size());
  std::size_t told = 0;
  const auto tell = [&](std::size_t end) {
    effects.items(addition.first_item + told, {added.get() + told, end - told});
    told = end;
  };
  std::optional<filter::FilterLimits> limits;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::uint32_t layers = filter.layer_count();
    if (!limits) limits = limits_of(request.context, filter);
    outcomes.push_back(filter.add_alone(items[i], *limits));
    added[i] = outcomes.back().added;
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
  constexpr std::size_t few = 64;
  std::array<bool, few> place{};
  const auto many = items.size() > few ? std::make_unique<bool[]>(items.size()) : nullptr;
  const std::span<bool> added(many != nullptr ? many.get() : place.data(), items.size());
  if (filter.try_add(items, added)) {
    effects.items(addition.first_item, added);
    if (!addition.single) reply.array(added.size());
    for (const bool is_new : added) reply.boolean(is_new);
    return;
  }
  const std::vector<Filter::AddOutcome> outcomes = add_and_grow(request, filter, addition, effects);
  if (!addition.single) reply.array(outcomes.size());
  for (const Filter::AddOutcome& outcome : outcomes) reply_outcome(reply, outcome);
}

void add(Request& request, const Addition& addition) {
  Effects effects(request);
  {
    Key key(request.context, request.key(), open_to_read | open_to_write);
    if (key.is_other()) return request.reply.error(text::wrong_type);
    Filter* filter = key.filter();
    if (filter == nullptr && !addition.create) return request.reply.error(text::filter_not_found);
    if (filter == nullptr) filter = create(request, key, addition.options, effects);
    if (filter == nullptr) return;
    add_to(request, *filter, addition, effects);
  }
  effects.end();
}

void bf_add(Request& request) {
  add(request, {.options = default_options(), .single = true});
}

void bf_madd(Request& request) {
  add(request, {.options = default_options()});
}

void bf_insert(Request& request) {
  const auto parsed = bloom::parse_insert(request.words.subspan(2), default_options());
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return request.reply.error(refusal->text);
  if (std::holds_alternative<bloom::TooFewWords>(parsed))
    return request.reply.error(bloom::wrong_arity("bf.insert"));
  const auto& insert = std::get<bloom::InsertRequest>(parsed);
  add(request, {.first_item = request.words.size() - insert.items.size(),
                .options = insert.options,
                .create = insert.create});
}

void bf_reserve(Request& request) {
  Reply& reply = request.reply;
  if (request.words.size() > bloom::reserve_words_max(request.words))
    return reply.error(bloom::wrong_arity("bf.reserve"));
  const auto parsed = bloom::parse_reserve(request.words.subspan(2), default_options());
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return reply.error(refusal->text);
  const auto& reserve = std::get<bloom::ReserveRequest>(parsed);
  const std::int64_t now = api.Milliseconds();
  constexpr std::int64_t milliseconds = 1000;
  const std::int64_t seconds = reserve.seconds.value_or(0);
  if (seconds > (std::numeric_limits<std::int64_t>::max() - now) / milliseconds)
    return reply.error(text::reserve_bad_expiry);
  Effects effects(request);
  {
    Key key(request.context, request.key(), open_to_read | open_to_write);
    if (key.is_other()) return reply.error(text::wrong_type);
    if (key.filter() != nullptr) return reply.error(text::filter_exists);
    if (create(request, key, reserve.options, effects) == nullptr) return;
    if (reserve.seconds) {
      key.expire_in(seconds * milliseconds);
      effects.deadline(now + seconds * milliseconds);
    }
  }
  effects.end();
  reply.ok();
}

// --- asking -----------------------------------------------------------------------------------------------

// A key that holds another type holds no item: the reference answers no WRONGTYPE here.
void look_up(Request& request, bool single) {
  const Words items = request.words.subspan(2);
  constexpr std::size_t few = 128;
  std::array<bool, few> place{};
  const auto many = items.size() > few ? std::make_unique<bool[]>(items.size()) : nullptr;
  const std::span<bool> present(many != nullptr ? many.get() : place.data(), items.size());
  const Key key(request.context, request.key(), open_to_read);
  if (const Filter* const filter = key.filter()) filter->contains(items, present);
  if (!single) request.reply.array(present.size());
  for (const bool is_there : present) request.reply.boolean(is_there);
}

void bf_exists(Request& request) {
  look_up(request, true);
}

void bf_mexists(Request& request) {
  look_up(request, false);
}

void bf_card(Request& request) {
  const Key key(request.context, request.key(), open_to_read);
  if (key.is_other()) return request.reply.error(text::wrong_type);
  request.reply.integer(key.filter() != nullptr ? key.filter()->item_count() : 0);
}

void reply_value(Reply& reply, const bloom::InfoField& field, const Filter& filter) {
  if (const auto value = field.value(filter)) {
    reply.integer(*value);
  } else {
    reply.null();
  }
}

// In RESP3 a single field is a map of one pair; in RESP2 it is an array of the value alone, without a name.
void reply_one_field(Reply& reply, const bloom::InfoField& field, const Filter& filter) {
  if (reply.is_resp3()) {
    reply.map(1);
    reply.simple(field.name);
  } else {
    reply.array(1);
  }
  reply_value(reply, field, filter);
}

void bf_info(Request& request) {
  Reply& reply = request.reply;
  constexpr std::size_t words_max = 3;
  if (request.words.size() > words_max) return reply.error(bloom::wrong_arity("bf.info"));
  const Key key(request.context, request.key(), open_to_read);
  if (key.is_other()) return reply.error(text::wrong_type);
  if (key.filter() == nullptr) return reply.error(text::filter_not_found);
  if (request.words.size() == words_max) {
    const bloom::InfoField* const field = bloom::find_info_field(request.words[2]);
    return field != nullptr ? reply_one_field(reply, *field, *key.filter()) : reply.error(text::bad_field);
  }
  reply.map(bloom::info_fields().size());
  for (const bloom::InfoField& field : bloom::info_fields()) {
    reply.simple(field.name);
    reply_value(reply, field, *key.filter());
  }
}

void bf_debug(Request& request) {
  const Key key(request.context, request.key(), open_to_read);
  if (key.is_other()) return request.reply.error(text::wrong_type);
  if (key.filter() == nullptr) return request.reply.error(text::filter_not_found);
  const std::vector<filter::LayerView> layers = key.filter()->layers();
  request.reply.array(1 + layers.size());
  request.reply.bulk("size:" + std::to_string(key.filter()->item_count()));
  for (const filter::LayerView& layer : layers) request.reply.bulk(bloom::debug_line(layer));
}

// --- the table --------------------------------------------------------------------------------------------

using Handler = void(Request&);

// More words than any other command has stay in memory no longer than the request.
constexpr std::size_t kept_words_max = 4096;

template <Handler& handler, int arity>
int run(RedisModuleCtx* context, RedisModuleString** arguments, int count) {
  if (arity > 0 ? count != arity : count < -arity) return api.WrongArity(context);
  static std::vector<std::string_view> words;
  try {
    words.clear();
    for (int i = 0; i < count; ++i) {
      std::size_t length = 0;
      const char* const begin = api.StringPtrLen(arguments[i], &length);
      words.emplace_back(begin, length);
    }
    Request request{.context = context,
                    .arguments = {arguments, static_cast<std::size_t>(count)},
                    .words = words,
                    .reply = Reply(context)};
    handler(request);
    if (words.capacity() > kept_words_max) std::vector<std::string_view>().swap(words);
  } catch (const std::exception& failure) {
    api.Log(context, "warning", "sepal: a command has failed: %s", failure.what());
    api.ReplyWithError(context, "ERR the module has no memory for this command");
  }
  return status_ok;
}

struct Command {
  const char* name;
  CommandFunction* function;
  const char* flags;
};

constexpr const char* writes = "write deny-oom";
constexpr const char* reads = "readonly fast";
constexpr Command commands[] = {
    {"bf.add", run<bf_add, 3>, writes},
    {"bf.card", run<bf_card, 2>, reads},
    {"bf.debug", run<bf_debug, 2>, reads},
    {"bf.exists", run<bf_exists, 3>, reads},
    {"bf.info", run<bf_info, -2>, reads},
    {"bf.insert", run<bf_insert, -4>, writes},
    {"bf.loadchunk", run<bf_load_chunk, 4>, writes},
    {"bf.madd", run<bf_madd, -3>, writes},
    {"bf.mexists", run<bf_mexists, -3>, reads},
    {"bf.reserve", run<bf_reserve, -4>, writes},
    {"bf.scandump", run<bf_scan_dump, 3>, reads},
    {"bf.shape", run<bf_shape, 3>, writes},
};

}  // namespace

bool create_commands(RedisModuleCtx* context, const Settings& settings) {
  chosen = settings;
  return std::ranges::all_of(commands, [&](const Command& command) {
    return api.CreateCommand(context, command.name, command.function, command.flags, 1, 1, 1) == status_ok;
  });
}

}  // namespace sepal::module
