// Handlers of the CF commands.
//
// Adds and removals run inside the shared gate, growth included: the filter's cells grow one by one, under
// their own locks. So a handler asks for the closed gate only where a key is being made or lost.

#include <sepal/base/arguments.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/cuckoo/commands/options.hpp>
#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/writers/cuckoo_writer.hpp>

#include <algorithm>
#include <optional>
#include <string>

#include "command/keys/lookup.hpp"
#include "command/run/refuse.hpp"
#include "command/run/scratch.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

namespace cf_text = cuckoo::text;
using cuckoo::Filter;
using cuckoo::Refusal;
using AddIf = cuckoo::Filter::AddIf;
using Words = std::span<const std::string_view>;

cuckoo::Options default_options(const Context& context) {
  return {.capacity_given = false, .seed = context.services.keyspace.options().seed};
}

keyspace::DatabaseKey key_of(const Context& context) {
  return {.database = context.client.database, .key = context.words[1]};
}

// --- adds
// ---------------------------------------------------------------------------------------------------

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
  for (const Filter::AddOutcome& outcome : outcomes) {
    added += outcome.added ? 1 : 0;
    const bool refused = outcome.refusal != Refusal::none;
    // An item that was there may have been added by another worker that has not recorded it yet.
    if (!outcome.added && !refused) context.record.answered_known = true;
    if (addition.answer == Answer::single && refused) {
      reply.error(refusal_text(outcome.refusal));
    } else if (addition.answer == Answer::single) {
      reply.boolean(outcome.added);
    } else if (addition.answer == Answer::flags && reply.version() == resp::Version::resp3) {
      reply.boolean(outcome.added);
    } else {
      reply.integer(refused ? -1 : outcome.added ? 1 : 0);
    }
  }
  context.stats.items_added.add(added);
}

Next add(Context& context, const Addition& addition) {
  const auto [filter, refused] = find_or_refuse<Filter>(context, context.words[1]);
  if (refused) return Next::done;
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

// Agrees with cuckoo::parse_insert(): the first word ITEMS ends the options.
std::size_t items_of_insert(Words words) {
  const auto is_items = [](std::string_view word) { return equal_ignoring_case(word, "ITEMS"); };
  const auto options = words.subspan(std::min<std::size_t>(words.size(), 2));
  const auto found = std::ranges::find_if(options, is_items);
  return found == options.end() ? 0 : static_cast<std::size_t>(found - words.begin()) + 1;
}

Next cf_reserve(Context& context) {
  const auto parsed = cuckoo::parse_reserve(context.words.subspan(2), default_options(context));
  if (std::holds_alternative<cuckoo::TooFewWords>(parsed))
    return refuse(context, wrong_arity(context.spec.name));
  if (const auto* refusal = std::get_if<sepal::Refusal>(&parsed)) return refuse(context, refusal->text);
  if (const value::Value* const present = find(context, context.words[1])) {
    if (!refuses_other(context, present, value::Kind::cuckoo)) context.reply.error(text_of(Errc::key_exists));
    return Next::done;
  }
  if (!context.may_create()) return Next::need_alone;
  const auto created = writers::create(context.changes, key_of(context),
                                       {.options = std::get<cuckoo::Options>(parsed), .now = context.now},
                                       context.scratch.cuckoo_outcomes);
  if (!created) return refuse(context, text_of(created.error().code));
  return answer_ok(context);
}

// --- removals
// -----------------------------------------------------------------------------------------------

Next remove(Context& context, Words items, bool single) {
  auto* const filter = value::as<Filter>(find(context, context.words[1]));
  // The reference answers so for a value of another kind as well.
  if (filter == nullptr) return refuse(context, cf_text::nothing_to_delete_from);
  const std::span<bool> removed = context.scratch.flags(items.size());
  if (!writers::remove(context.changes, key_of(context), *filter, items, removed)) return Next::need_alone;
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

// --- questions
// ----------------------------------------------------------------------------------------------

// A value of another kind holds no item.
void look_up(Context& context, Words items, std::span<bool> present, std::uint64_t requests = 1) {
  context.stats.items_asked.add(items.size());
  const Filter* const filter = value::as<Filter>(find_counted(context, context.words[1], requests));
  if (filter == nullptr) {
    std::ranges::fill(present, false);
    return;
  }
  filter->contains(items, present);
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
  const Filter* const filter = value::as<Filter>(find_counted(context, context.words[1]));
  return answer_count(context, filter == nullptr ? 0 : filter->count(context.words[2]));
}

// --- what is told
// -------------------------------------------------------------------------------------------

struct InfoField {
  std::string_view name;
  std::uint64_t (*value)(const Filter& filter);
};
// Those of the reference, and no other: clients fail on a name that they do not know.
constexpr InfoField info_fields[] = {
    {"Size", [](const Filter& filter) { return filter.byte_count(); }},
    {"Number of buckets", [](const Filter& filter) { return cuckoo::bucket_count(filter.plan().options); }},
    {"Number of filters", [](const Filter& filter) { return std::uint64_t{filter.layer_count()}; }},
    {"Number of items inserted", [](const Filter& filter) { return filter.item_count(); }},
    {"Number of items deleted", [](const Filter& filter) { return filter.removed_count(); }},
    {"Bucket size", [](const Filter& filter) { return std::uint64_t{filter.plan().options.bucket_size}; }},
    {"Expansion rate", [](const Filter& filter) { return std::uint64_t{filter.plan().options.expansion}; }},
    {"Max iterations",
     [](const Filter& filter) { return std::uint64_t{filter.plan().options.iteration_max}; }},
};

Next cf_info(Context& context) {
  const auto [filter, refused] = find_counted_or_refuse<Filter>(context, context.words[1]);
  if (refused) return Next::done;
  if (filter == nullptr) return refuse(context, cf_text::not_found);
  context.reply.map(std::size(info_fields));
  for (const InfoField& field : info_fields) {
    context.reply.simple(field.name);
    context.reply.integer_unsigned(field.value(*filter));
  }
  return Next::done;
}

Next cf_debug(Context& context) {
  const auto [filter, refused] = find_counted_or_refuse<Filter>(context, context.words[1]);
  if (refused) return Next::done;
  if (filter == nullptr) return refuse(context, cf_text::not_found);
  const cuckoo::Options& options = filter->plan().options;
  context.reply.bulk("bktsize:" + std::to_string(options.bucket_size) +
                     " buckets:" + std::to_string(cuckoo::bucket_count(options)) +
                     " items:" + std::to_string(filter->item_count()) +
                     " deletes:" + std::to_string(filter->removed_count()) +
                     " filters:" + std::to_string(filter->layer_count()) +
                     " max_iterations:" + std::to_string(options.iteration_max) +
                     " expansion:" + std::to_string(options.expansion));
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
  const auto [filter, refused] = find_counted_or_refuse<Filter>(context, context.words[1]);
  if (refused) return Next::done;
  if (filter == nullptr) return refuse(context, cf_text::not_found);
  value::Figures figures;
  cuckoo::cuckoo_row.tell(*filter, figures);
  figures.number("memory_bytes", filter->byte_count());
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
  auto* const filter = value::as<Filter>(find(context, context.words[1]));
  if (filter == nullptr) return refuse(context, cf_text::nothing_to_compact);
  writers::compact(context.changes, key_of(context), *filter);
  return answer_ok(context);
}

// --- the rows
// -----------------------------------------------------------------------------------------------

std::uint64_t records_cuckoo(const RecordAsk& ask) {
  return writers::record_bytes_of_cuckoo(std::min(ask.words[1].size(), keyspace::key_bytes_max),
                                         ask.item_count);
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
               cf_insert, adds, adding, one_key("RW"), records_cuckoo, ItemsAt{items_of_insert}, of_items),
    cuckoo_row("cf.insertnx key [CAPACITY capacity] [ERROR error] [NOCREATE] ITEMS item [item ...]", -4,
               "1.0.0", "Adds the items that a filter does not have, making it if the key is free",
               cf_insertnx, adds, adding, one_key("RW"), records_cuckoo, ItemsAt{items_of_insert}, of_items),
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

constinit const Rows cuckoo_rows = cuckoo_family;

}  // namespace sepal::command
