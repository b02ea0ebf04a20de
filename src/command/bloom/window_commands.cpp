// Filters that forget, behind the BF commands.
//
// Inside the shared gate, an add that finds room in its generation needs no lock of the key. If the filter
// may have to grow, or has a layer that is to be dropped, the handler asks for the closed gate, and each item
// has its own outcome there. All handlers take the time of the batch.
#include <sepal/bloom/commands/facts.hpp>
#include <sepal/bloom/commands/stats.hpp>
#include <sepal/bloom/commands/texts.hpp>
#include <sepal/command/table/error_texts.hpp>

#include "command/bloom/bloom_row.hpp"
#include "command/bloom/window_requests.hpp"
#include "command/keys/lookup.hpp"
#include "command/run/refuse.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using bloom::WindowFilter;
using Items = std::span<const std::string_view>;

keyspace::DatabaseKey key_of_request(const Context& context) {
  return {.database = context.client.database, .key = context.words[1]};
}

// An item that was known may have been added by another worker that has not recorded it yet: then the reply
// must wait for that record.
void count_added(Context& context, std::span<const bool> added) {
  const auto new_count = static_cast<std::uint64_t>(std::ranges::count(added, true));
  context.stats.items_added.add(new_count);
  if (new_count < added.size()) context.record.answered_known = true;
}

Next answer_outcomes(Context& context, const WindowFilter& filter, AddShape shape) {
  const std::uint64_t new_count = new_items(context.scratch.outcomes);
  context.stats.items_added.add(new_count);
  if (new_count < context.scratch.outcomes.size()) context.record.answered_known = true;
  append_outcomes(context, filter.layer_count(), shape, 0);
  return Next::done;
}

Next add_to_window(Context& context, WindowFilter& filter, Items items, AddShape shape) {
  const keyspace::DatabaseKey key = key_of_request(context);
  if (context.alone) {
    writers::add_growing(context.changes, key, filter, items, context.now, context.scratch.outcomes);
    return answer_outcomes(context, filter, shape);
  }
  const std::span<bool> added = context.scratch.flags(items.size());
  if (writers::try_add(context.changes, key, filter, items, context.now, added)) {
    count_added(context, added);
    append_added(context.reply, shape, added);
    return Next::done;
  }
  if (!filter.may_grow(context.now) && !filter.has_old_layers() &&
      writers::add_each(context.changes, key, filter, items, context.now, context.scratch.outcomes))
    return answer_outcomes(context, filter, shape);
  return Next::need_alone;
}

Next bf_window(Context& context) {
  const value::Value* const found = find_counted(context, context.words[1]);
  if (found == nullptr) return refuse(context, text::filter_not_found);
  if (const auto* const filter = value::as<WindowFilter>(found)) {
    bloom::append_stats(context.reply, bloom::stats_of(*filter, context.now));
    return Next::done;
  }
  if (!refuses_other(context, found, value::Kind::bloom)) context.reply.error(bloom::text::no_window);
  return Next::done;
}

constexpr CommandSpec window_family[] = {
    bloom_row("bf.window", bf_window),
};

}  // namespace

Next add_to_other(Context& context, value::Value& found, Items items, AddShape shape) {
  if (auto* const filter = value::as<WindowFilter>(&found))
    return add_to_window(context, *filter, items, shape);
  answer_other_kind(context.reply);
  return Next::done;
}

Next add_together_to_other(Context& context, value::Value* found, Items items, std::span<bool> added) {
  auto* const filter = value::as<WindowFilter>(found);
  // One by one, the requests create the filter, or each of them answers WRONGTYPE.
  if (filter == nullptr) return Next::need_alone;
  if (!writers::try_add(context.changes, key_of_request(context), *filter, items, context.now, added))
    return Next::need_alone;
  count_added(context, added);
  return Next::done;
}

Next make_window(Context& context, writers::WindowCreation creation) {
  if (!context.may_create()) return Next::need_alone;
  creation.now = context.now;
  const auto created =
      writers::create(context.changes, key_of_request(context), creation, context.scratch.outcomes);
  return created ? answer_ok(context) : refuse(context, text_of(created.error().code));
}

// A filter that is there keeps its own options, as always; but one without a window would never forget.
Next insert_into_window(Context& context, const bloom::InsertRequest& request, keyspace::Deadline deadline) {
  if (value::Value* const found = find(context, context.words[1])) {
    if (found->kind() == value::Kind::bloom) return refuse(context, bloom::text::no_window);
    return add_to_other(context, *found, request.items, AddShape::array);
  }
  if (!request.create) return refuse(context, text::filter_not_found);
  if (!context.may_create()) return Next::need_alone;
  const auto created = writers::create(
      context.changes, key_of_request(context),
      {.options = *request.window, .deadline = deadline, .items = request.items, .now = context.now},
      context.scratch.outcomes);
  if (created) return answer_outcomes(context, **created, AddShape::array);
  // Another client has made it meanwhile.
  if (created.error().code == Errc::key_exists) return Next::need_alone;
  refuse_items(context, created.error().code, request.items.size());
  return Next::done;
}

Next answer_debug(Context& context, const WindowFilter& filter) {
  const WindowFilter::State state = filter.state(context.now);
  context.reply.array(1 + state.layers.size());
  context.reply.bulk("size:" + std::to_string(filter.item_count(context.now)));
  for (const WindowFilter::LayerFigures& layer : state.layers)
    context.reply.bulk(bloom::debug_line(layer, filter.options().lanes()));
  return Next::done;
}

constinit const Rows window_rows = window_family;

}  // namespace sepal::command
