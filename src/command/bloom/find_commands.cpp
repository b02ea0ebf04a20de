// BF.CHECK and BF.FIND: look-ups that tell missing filters, and that ask many filters (decisions/0054).
#include <sepal/base/arguments.hpp>
#include <sepal/bloom/commands/find.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <variant>

#include "command/bloom/bloom_row.hpp"
#include "command/bloom/look_up.hpp"
#include "command/keys/missing.hpp"
#include "command/run/refuse.hpp"
#include "command/run/scratch.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using Words = std::span<const std::string_view>;

// The setting missing_filter says nothing here.
Next bf_check(Context& context) {
  const value::Value* const found = find(context, context.words[1]);
  if (!bloom::is_filter(found)) return refuse_missing(context, found);
  const Words items = context.words.subspan(2);
  const std::span<bool> present = context.scratch.flags(items.size());
  static_cast<void>(look_up_in(context, found, items, present));
  context.reply.array(items.size());
  context.reply.booleans(present);
  return Next::done;
}

// --- BF.FIND ----------------------------------------------------------------------------------------------

// A part of BF.FIND asks so many questions: about one item in one filter. It takes as long to hash so many
// bytes of items as to ask a question.
constexpr std::size_t part_questions = 1024;
constexpr std::size_t bytes_of_question = 256;
// The keys that are found before the first of their filters is asked.
constexpr std::size_t keys_together = 64;

// How far a BF.FIND has come.
struct FindPosition {
  std::size_t item = 0;          // the first one of the window
  std::size_t window_items = 0;  // 0: the window has not begun
  std::size_t key = 0;           // is asked next
};

// What a long BF.FIND keeps between its parts.
class FindRun final : public PartialRun::Own {
 public:
  bloom::FindWindow window;
  FindPosition position;
  [[nodiscard]] std::uint64_t byte_count() const override { return sizeof *this + window.memory(); }
};

enum class FindOutcome : std::uint8_t { yes, missing, other };

// Finds the filters of some keys; null: none, and that is no error. The keys of the first window count as
// hits or misses, each once in a request.
FindOutcome find_filters(Context& context, Words keys, bool counts, std::span<const value::Value*> found) {
  const bool is_error = context.services.options.missing_filter == bloom::MissingFilter::error;
  context.services.keyspace.prefetch(context.client.database, keys);
  for (std::size_t at = 0; at < keys.size(); ++at) {
    found[at] = find(context, keys[at]);
    __builtin_prefetch(found[at]);
  }
  // The first key that is wrong decides which error it is.
  for (const value::Value* const each : found) {
    if (counts) count_key(context, each != nullptr);
    if (each == nullptr && is_error) return FindOutcome::missing;
    if (each != nullptr && !bloom::is_filter(each)) return FindOutcome::other;
  }
  return FindOutcome::yes;
}

// Asks the filters of the next keys about the items of the window.
FindOutcome ask_filters(Context& context, bloom::FindWindow& window, Words keys, Words items, bool counts) {
  std::array<const value::Value*, keys_together> found_at;
  std::array<bloom::FindWindow::Asked, keys_together> asked_at;
  const std::span found = std::span(found_at).first(keys.size());
  const std::span asked = std::span(asked_at).first(keys.size());
  const FindOutcome outcome = find_filters(context, keys, counts, found);
  if (outcome != FindOutcome::yes) return outcome;
  const bool missing = context.services.options.missing_filter == bloom::MissingFilter::present;
  window.ask(items, found, missing, context.now, asked);
  for (std::size_t at = 0; at < keys.size(); ++at) {
    if (const auto* const filter = value::as<bloom::Filter>(found[at])) {
      count_asked(context, *filter, asked[at].items, asked[at].found);
    } else {
      context.stats.items_asked.add(asked[at].items);
      context.stats.items_found.add(asked[at].found);
    }
  }
  return FindOutcome::yes;
}

// Appends answers to `to`, until it has done the work of a part and there is more: then true. It looks for
// every key at least once, also where all items have their answers before. So a key of another type is an
// error whatever the filters hold.
bool goes_on(Context& context, const bloom::FindRequest& request, bloom::FindWindow& window,
             FindPosition& position, resp::Reply& to, FindOutcome& outcome) {
  for (std::size_t work = 0; position.item < request.items.size();) {
    const Words rest = request.items.subspan(position.item);
    if (position.window_items == 0)
      position.window_items = window.begin(rest, request.keys.size(), request.all);
    const Words items = rest.first(position.window_items);
    const std::size_t weight = std::max(items.size(), window.byte_count() / bytes_of_question);
    const bool is_first = position.item == 0;
    while (position.key < request.keys.size() && (is_first || !window.found_all())) {
      if (work >= part_questions) return true;
      const std::size_t room = std::max<std::size_t>((part_questions - work) / weight, 1);
      const Words left = request.keys.subspan(position.key);
      const Words keys = left.first(std::min({left.size(), room, keys_together}));
      outcome = ask_filters(context, window, keys, items, is_first);
      if (outcome != FindOutcome::yes) return false;
      position.key += keys.size();
      work += keys.size() * weight;
    }
    window.append(to);
    position = {.item = position.item + items.size()};
  }
  return false;
}

Next refuse_found(Context& context, FindOutcome outcome) {
  return refuse(context, outcome == FindOutcome::missing ? text::filter_not_found : text::wrong_type);
}

// Whether the request is not cut.
bool is_short(const bloom::FindRequest& request) {
  return request.questions() <= whole_items_max && byte_count_of(request.items) <= whole_bytes_max;
}

Next find_at_once(Context& context, const bloom::FindRequest& request) {
  const std::size_t reply_bytes = context.reply.size();
  context.reply.array(request.items.size());
  FindPosition position;
  FindOutcome outcome = FindOutcome::yes;
  while (goes_on(context, request, context.scratch.find_window, position, context.reply, outcome)) {
  }
  if (outcome == FindOutcome::yes) return Next::done;
  context.reply.truncate(reply_bytes);
  return refuse_found(context, outcome);
}

Next find_in_parts(Context& context, const bloom::FindRequest& request) {
  if (context.partial == nullptr) {
    context.partial = std::make_unique<PartialRun>();
    context.partial->own = std::make_unique<FindRun>();
    context.partial->elements.set_version(context.reply.version());
  }
  PartialRun& partial = *context.partial;
  auto& run = static_cast<FindRun&>(*partial.own);
  FindOutcome outcome = FindOutcome::yes;
  const bool more = goes_on(context, request, run.window, run.position, partial.elements, outcome);
  if (outcome != FindOutcome::yes) return refuse_found(context, outcome);
  partial.keep();
  if (more) return Next::more;
  context.reply.array(request.items.size());
  partial.append_elements(context.reply);
  return Next::done;
}

Next bf_find(Context& context) {
  const auto parsed = bloom::parse_find(context.words.subspan(1));
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return refuse(context, refusal->text);
  if (std::holds_alternative<bloom::TooFewWords>(parsed))
    return refuse(context, wrong_arity(context.spec.name));
  const auto& request = std::get<bloom::FindRequest>(parsed);
  if (context.partial == nullptr && is_short(request)) return find_at_once(context, request);
  return find_in_parts(context, request);
}

constexpr CommandSpec find_family[] = {
    bloom_row("bf.check", bf_check, items_behind_key),
    bloom_row("bf.find", bf_find),
};

}  // namespace

constinit const Rows find_rows = find_family;

}  // namespace sepal::command
