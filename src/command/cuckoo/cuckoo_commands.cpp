// Handlers of the CF commands. A key has a filter of Sepal's own, or one of RedisBloom that came by
// CF.LOADCHUNK or RESTORE.
//
// Adds to Sepal's own filters, and removals, run inside the shared gate, growth included: the filter's cells
// grow one by one, under their own locks. So a handler asks for the closed gate only where a key is being
// made or lost. RedisBloom's filters change with the gate closed only.

#include <sepal/command/table/error_texts.hpp>
#include <sepal/cuckoo/commands/options.hpp>
#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/cuckoo/kind/redis_kind.hpp>
#include <sepal/writers/cuckoo_writer.hpp>
#include <sepal/writers/redis_cuckoo_writer.hpp>

#include <algorithm>
#include <optional>
#include <string>

#include "command/cuckoo/found_cuckoo.hpp"
#include "command/keys/lookup.hpp"
#include "command/run/refuse.hpp"
#include "command/run/scratch.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace cf {
namespace {

namespace cf_text = cuckoo::text;
using cuckoo::Filter;
using cuckoo::RedisFilter;
using cuckoo::Refusal;
using AddIf = cuckoo::Filter::AddIf;
using Words = std::span<const std::string_view>;

cuckoo::Options default_options(const Context& context) {
  return {.capacity_given = false, .seed = context.services.keyspace.options().seed};
}

keyspace::DatabaseKey key_of(const Context& context) {
  return {.database = context.client.database, .key = context.words[1]};
}

// --- adds -------------------------------------------------------------------------------------------------

// How the outcomes of adds are answered.
enum class Answer : std::uint8_t {
  single,  // CF.ADD, CF.ADDNX: a boolean, or an error
  flags,   // CF.INSERT: 1 or -1; in RESP3 a boolean
  numbers  // CF.INSERTNX: 1, 0 or -1
};

struct Addition {
  Words items;
  AddIf condition = AddIf::always;
  cuckoo::Options options;  // of the filter that is made when the key is free
  bool create = true;
  Answer answer = Answer::single;
};

std::string_view refusal_text(Refusal refusal) {
  return refusal == Refusal::full ? cf_text::full : cf_text::no_memory;
}

void answer_adds(Context& context, const Addition& addition) {
  const std::vector<Filter::AddOutcome>& outcomes = context.scratch.cuckoo_outcomes;
  resp::Reply& reply = context.reply;
  std::uint64_t added = 0;
  if (addition.answer != Answer::single) reply.array(outcomes.size());
  // Whether an item was there may depend on another worker's add or removal that it has not recorded yet.
  if (addition.condition == AddIf::absent) context.record.answered_known = true;
  for (const Filter::AddOutcome& outcome : outcomes) {
    added += outcome.added ? 1 : 0;
    const bool refused = outcome.refusal != Refusal::none;
    const bool as_boolean = addition.answer == Answer::single ||
                            (addition.answer == Answer::flags && reply.version() == resp::Version::resp3);
    if (addition.answer == Answer::single && refused) {
      reply.error(refusal_text(outcome.refusal));
    } else if (as_boolean) {
      reply.boolean(outcome.added);
    } else {
      reply.integer(refused ? -1 : outcome.added ? 1 : 0);
    }
  }
  context.stats.items_added.add(added);
}

// RedisBloom looks at the number of layers once for each request, before it looks at the items.
Next add_to_redis(Context& context, RedisFilter& filter, const Addition& addition) {
  const bool has_begun = context.partial != nullptr && context.partial->next_word != 0;
  if (!has_begun && filter.header().layer_count >= writers::redis_added_layers_max)
    return refuse(context, cf_text::layer_limit);
  if (!context.alone) return Next::need_alone;
  writers::add(context.changes, key_of(context), filter, addition.items, addition.condition,
               context.scratch.cuckoo_outcomes);
  answer_adds(context, addition);
  return Next::done;
}

Next add(Context& context, const Addition& addition) {
  value::Value* const found = find(context, context.words[1]);
  if (refuses_other_than_cuckoo(context, found)) return Next::done;
  const auto [filter, of_redis] = FoundCuckoo(found);
  if (of_redis != nullptr) return add_to_redis(context, *of_redis, addition);
  std::vector<Filter::AddOutcome>& outcomes = context.scratch.cuckoo_outcomes;
  if (filter != nullptr) {
    if (!writers::add(context.changes, key_of(context), *filter, addition.items, addition.condition,
                      outcomes))
      return Next::need_alone;
    answer_adds(context, addition);
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
    answer_adds(context, addition);
    return Next::done;
  }
  // Another client has made it meanwhile.
  if (created.error().code == Errc::key_exists) return Next::need_alone;
  return refuse(context, text_of(created.error().code));
}

Next cf_add(Context& context) {
  return add(context, {.items = context.words.subspan(2), .options = default_options(context)});
}

Next cf_addnx(Context& context) {
  return add(
      context,
      {.items = context.words.subspan(2), .condition = AddIf::absent, .options = default_options(context)});
}

Next insert(Context& context, AddIf condition, Answer answer) {
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
  return insert(context, AddIf::always, Answer::flags);
}

Next cf_insertnx(Context& context) {
  return insert(context, AddIf::absent, Answer::numbers);
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
  const FoundCuckoo found(find(context, context.words[1]));
  // The reference answers so for a value of another kind as well.
  if (found.none()) return refuse(context, cf_text::nothing_to_delete_from);
  const std::span<bool> removed = context.scratch.flags(items.size());
  if (found.of_redis != nullptr) {
    if (!context.alone) return Next::need_alone;
    writers::remove(context.changes, key_of(context), *found.of_redis, items, removed);
  } else if (!writers::remove(context.changes, key_of(context), *found.own, items, removed)) {
    return Next::need_alone;
  }
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

// A value of another kind holds no item.
void look_up(Context& context, Words items, std::span<bool> present, std::uint64_t requests = 1) {
  context.stats.items_asked.add(items.size());
  const FoundCuckoo found(find_counted(context, context.words[1], requests));
  if (found.none()) {
    std::ranges::fill(present, false);
    return;
  }
  if (found.own != nullptr) {
    found.own->contains(items, present);
  } else {
    std::ranges::transform(items, present.begin(),
                           [&](std::string_view item) { return found.of_redis->table().contains(item); });
  }
  context.stats.items_found.add(static_cast<std::uint64_t>(std::ranges::count(present, true)));
}

Next cf_exists(Context& context) {
  const std::span<bool> present = context.scratch.flags(1);
  look_up(context, context.words.subspan(2), present);
  context.reply.boolean(present.front());
  return Next::done;
}

Next cf_exists_together(Context& context, Words items, std::span<bool> present) {
  look_up(context, items, present, items.size());
  return Next::done;
}

Next cf_mexists(Context& context) {
  const Words items = context.words.subspan(2);
  const std::span<bool> present = context.scratch.flags(items.size());
  look_up(context, items, present);
  context.reply.array(items.size());
  context.reply.booleans(present);
  return Next::done;
}

Next cf_count(Context& context) {
  const FoundCuckoo found(find_counted(context, context.words[1]));
  if (found.none()) return answer_count(context, 0);
  const std::string_view item = context.words[2];
  return answer_count(context,
                      found.own != nullptr ? found.own->count(item) : found.of_redis->table().count(item));
}

// --- what is told -----------------------------------------------------------------------------------------

struct Told {
  std::uint64_t bytes = 0;
  std::uint64_t buckets = 0;
  std::uint64_t layers = 0;
  std::uint64_t items = 0;
  std::uint64_t removed = 0;
  std::uint64_t bucket_size = 0;
  std::uint64_t expansion = 0;
  std::uint64_t iteration_max = 0;
};

Told told_of(const Filter& filter) {
  const cuckoo::Options& options = filter.plan().options;
  return {.bytes = filter.byte_count(),
          .buckets = cuckoo::bucket_count(options),
          .layers = filter.layer_count(),
          .items = filter.item_count(),
          .removed = filter.removed_count(),
          .bucket_size = options.bucket_size,
          .expansion = options.expansion,
          .iteration_max = options.iteration_max};
}

Told told_of(const RedisFilter& filter) {
  const cuckoo::RedisHeader& header = filter.header();
  return {.bytes = header.told_bytes(),
          .buckets = header.bucket_count,
          .layers = header.layer_count,
          .items = header.item_count,
          .removed = header.delete_count,
          .bucket_size = header.bucket_slots,
          .expansion = header.expansion,
          .iteration_max = header.kicks_max};
}

// The filter for a question about it. Null: an error is answered.
value::Value* find_to_tell(Context& context) {
  value::Value* const found = find_counted(context, context.words[1]);
  if (refuses_other_than_cuckoo(context, found)) return nullptr;
  if (found == nullptr) context.reply.error(cf_text::not_found);
  return found;
}

std::optional<Told> find_told(Context& context) {
  value::Value* const found = find_to_tell(context);
  if (found == nullptr) return std::nullopt;
  const auto [own, of_redis] = FoundCuckoo(found);
  return own != nullptr ? told_of(*own) : told_of(*of_redis);
}

struct InfoField {
  std::string_view name;
  std::uint64_t Told::*value;
};
// Those of the reference, and no other: clients fail on a name that they do not know.
constexpr InfoField info_fields[] = {
    {"Size", &Told::bytes},
    {"Number of buckets", &Told::buckets},
    {"Number of filters", &Told::layers},
    {"Number of items inserted", &Told::items},
    {"Number of items deleted", &Told::removed},
    {"Bucket size", &Told::bucket_size},
    {"Expansion rate", &Told::expansion},
    {"Max iterations", &Told::iteration_max},
};

Next cf_info(Context& context) {
  const auto told = find_told(context);
  if (!told) return Next::done;
  context.reply.map(std::size(info_fields));
  for (const InfoField& field : info_fields) {
    context.reply.simple(field.name);
    context.reply.integer_unsigned((*told).*field.value);
  }
  return Next::done;
}

Next cf_debug(Context& context) {
  const auto told = find_told(context);
  if (!told) return Next::done;
  context.reply.bulk(
      "bktsize:" + std::to_string(told->bucket_size) + " buckets:" + std::to_string(told->buckets) +
      " items:" + std::to_string(told->items) + " deletes:" + std::to_string(told->removed) +
      " filters:" + std::to_string(told->layers) + " max_iterations:" + std::to_string(told->iteration_max) +
      " expansion:" + std::to_string(told->expansion));
  return Next::done;
}

void append_figures(resp::Reply& reply, const std::vector<value::Figure>& figures) {
  for (const value::Figure& figure : figures) {
    reply.simple(figure.name);
    if (const auto* number = std::get_if<std::uint64_t>(&figure.value)) reply.integer_unsigned(*number);
    if (const auto* real = std::get_if<double>(&figure.value)) reply.real(*real);
    if (const auto* word = std::get_if<std::string_view>(&figure.value)) reply.bulk(*word);
  }
}

Next cf_stats(Context& context) {
  const value::Value* const found = find_to_tell(context);
  if (found == nullptr) return Next::done;
  const value::KindRow& row = value::row_of(*found);
  value::Figures figures;
  row.tell(*found, figures);
  figures.number("memory_bytes", row.byte_count(*found));
  context.reply.map(figures.figures.size() + 1);
  append_figures(context.reply, figures.figures);
  context.reply.simple("layers");
  context.reply.array(figures.parts.size());
  for (const auto& layer : figures.parts) {
    context.reply.map(layer.size());
    append_figures(context.reply, layer);
  }
  return Next::done;
}

Next cf_compact(Context& context) {
  const FoundCuckoo found(find(context, context.words[1]));
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

// The categories are those that the reference declares, not those that flags imply.
constexpr Family cuckoo_row{.group = "module", .flags = Flag::module, .flags_imply_categories = false};
constexpr Categories adds = Category::write | Category::cuckoo;
constexpr Categories asks = Category::read | Category::cuckoo;
constexpr auto adding = Flag::write | Flag::deny_oom;
constexpr auto asking = Flag::read_only | Flag::fast;
constexpr Cost of_items{"O(N) where N is the number of items"};
constexpr Cost of_cells{"O(N) where N is the size of the filter divided by 64 KiB"};

constexpr CommandSpec cuckoo_family[] = {
    cuckoo_row("cf.add key item", 3, "1.0.0",
               "Adds a copy of an item to a filter, making the filter with the defaults if the key is free",
               cf_add, adds, adding, one_key("RW"), records_cuckoo),
    cuckoo_row("cf.addnx key item", 3, "1.0.0",
               "Adds an item to a filter if it is not there, making the filter if the key is free", cf_addnx,
               adds, adding, one_key("RW"), records_cuckoo),
    cuckoo_row("cf.compact key", 2, "1.0.0", "Begins the count of removed items of a filter anew", cf_compact,
               adds, Flag::write | Flag::fast | Flag::alone, one_key("RW access update"), of_cells),
    cuckoo_row("cf.count key item", 3, "1.0.0", "Answers how many copies of an item a filter may have",
               cf_count, asks, asking, one_key("RO")),
    cuckoo_row("cf.debug key", 2, "1.0.0", "Answers the shape of a filter in one line", cf_debug, asks,
               asking, one_key("RO"), of_cells),
    cuckoo_row("cf.del key item", 3, "1.0.0", "Removes a copy of an item from a filter", cf_del, adds,
               Flag::write | Flag::fast, one_key("RW"), records_cuckoo),
    cuckoo_row("cf.exists key item", 3, "1.0.0", "Asks whether a filter may have an item", cf_exists, asks,
               asking, one_key("RO"), cf_exists_together),
    cuckoo_row("cf.info key", 2, "1.0.0", "Answers the shape of a filter, and how many items it has", cf_info,
               asks | Category::fast, asking, one_key("RO"), of_cells, Tips{"dont_cache"}),
    cuckoo_row("cf.insert key [CAPACITY capacity] [ERROR error] [NOCREATE] ITEMS item [item ...]", -4,
               "1.0.0",
               "Adds copies of items to a filter, making it with the given options if the key is free",
               cf_insert, adds, adding, one_key("RW"), records_cuckoo, ItemsAt{items_behind_word}, of_items),
    cuckoo_row("cf.insertnx key [CAPACITY capacity] [ERROR error] [NOCREATE] ITEMS item [item ...]", -4,
               "1.0.0", "Adds the items that a filter does not have, making it if the key is free",
               cf_insertnx, adds, adding, one_key("RW"), records_cuckoo, ItemsAt{items_behind_word},
               of_items),
    cuckoo_row("cf.mdel key item [item ...]", -3, "0.1.0", "Removes a copy of each item from a filter",
               cf_mdel, adds, Flag::write | Flag::fast, one_key("RW"), records_cuckoo,
               ItemsAt{items_behind_key}, of_items),
    cuckoo_row("cf.mexists key item [item ...]", -3, "1.0.0",
               "Asks for each of several items whether a filter may have it", cf_mexists, asks, asking,
               one_key("RO"), ItemsAt{items_behind_key}, of_items),
    cuckoo_row("cf.reserve key capacity [BUCKETSIZE bucketsize] [MAXITERATIONS maxiterations] "
               "[EXPANSION expansion] [ERROR error]",
               -3, "1.0.0", "Makes an empty filter for a capacity and an error rate", cf_reserve,
               adds | Category::fast, adding, one_key("RW"), records_cuckoo),
    cuckoo_row("cf.stats key", 2, "0.1.0",
               "Answers how full a filter is, how often it errs now, and its layers", cf_stats, asks, asking,
               one_key("RO"), of_cells, Tips{"dont_cache"}),
};

}  // namespace
}  // namespace cf

constinit const Rows cuckoo_rows = cf::cuckoo_family;

}  // namespace sepal::command
