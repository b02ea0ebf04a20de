// A master asks the clock for an add. Its replicas do not: what they are told has the generation of each
// item. For a look-up, each server asks its own clock.
//
// A master and its replicas drop old layers behind each change, so they have the same layers.
#include "module/window_commands.hpp"

#include <sepal/base/endian.hpp>
#include <sepal/bloom/commands/facts.hpp>
#include <sepal/bloom/commands/stats.hpp>
#include <sepal/bloom/commands/texts.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/bloom/window/growing_add.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "module/command.hpp"
#include "module/flags.hpp"
#include "module/room.hpp"
#include "module/value_types.hpp"

namespace sepal::module {
namespace {

namespace text = bloom::text;
using bloom::WindowFilter;
using Outcomes = std::vector<WindowFilter::AddOutcome>;

// For bloom::add_with_growth(). The server is asked for its memory once for each layer: its answer is slow,
// and the limits change only when the filter grows.
class EffectTeller {
 public:
  EffectTeller(RedisModuleCtx* context, const WindowFilter& filter, Effects& effects)
      : context_(context), filter_(filter), effects_(effects) {}

  const value::Limits& limits() {
    if (!limits_) limits_ = limits_of(context_, filter_.byte_count(), growth_bytes_max(filter_));
    return *limits_;
  }
  void items(std::span<const Fingerprint> entries) noexcept { effects_.entries(entries); }
  void grown(std::uint64_t generation, const bloom::LanePlan& plan) noexcept {
    effects_.layer(generation, plan);
    limits_.reset();
  }

 private:
  RedisModuleCtx* context_;
  const WindowFilter& filter_;
  Effects& effects_;
  std::optional<value::Limits> limits_;
};

void drop_old_layers(WindowFilter& filter) {
  if (filter.layer_count() > 1) (void)filter.drop_old_layers();
}

// An exception between a change and its effect would leave replicas without an item. So without memory for a
// few bytes the server ends here, as it does elsewhere.
bool try_add(WindowFilter& filter, Words items, WallTime now, std::span<bool> added,
             value::CollectedEntries& collected, Effects& effects) noexcept {
  if (!filter.try_add(items, now, added, &collected)) return false;
  effects.entries(collected.entries);
  drop_old_layers(filter);
  return true;
}

void add_and_grow(Request& request, WindowFilter& filter, Words items, WallTime now, Effects& effects,
                  Outcomes& outcomes) noexcept {
  drop_old_layers(filter);
  EffectTeller teller(request.context, filter, effects);
  bloom::add_with_growth(filter, items, now, teller, outcomes);
  drop_old_layers(filter);
}

void reply_outcomes(Reply& reply, const Outcomes& outcomes, std::uint32_t layer_count, bool single) {
  if (!single) reply.array(outcomes.size());
  for (const WindowFilter::AddOutcome& outcome : outcomes) {
    if (outcome.refusal == WindowFilter::Refusal::none) {
      reply.boolean(outcome.added);
    } else {
      reply.error(bloom::text_of(outcome.refusal, layer_count));
    }
  }
}

// The record does not say how large the filter is, so the server is asked for its memory each time.
std::string_view make_shape(RedisModuleCtx* context, Key& key, std::span<const std::byte> record) {
  if (!key.is_free()) return text::filter_exists;
  auto made = bloom::window_row.make_recorded(record, limits_of_new(context, no_limits.bytes_max));
  if (!made) return made.error().code == Errc::damaged ? text::load_bad_data : text::no_memory_for_filter;
  key.put(std::move(*made));
  return {};
}

std::string_view grow_as_told(RedisModuleCtx* context, const Key& key, std::span<const std::byte> record) {
  WindowFilter* const filter = key.window();
  if (filter == nullptr) return key.is_free() ? text::filter_not_found : text::wrong_type;
  value::Limits limits = limits_of(context, filter->byte_count(), no_limits.bytes_max);
  // The master has admitted it.
  limits.layers_max = bloom::filter_layers_max;
  const auto grown = bloom::window_row.apply(*filter, bloom::window_grown_change, record, limits);
  if (grown) return {};
  return grown.error().code == Errc::damaged ? text::load_bad_data : text::no_memory_for_filter;
}

std::vector<Fingerprint> entries_in(std::string_view word) {
  std::vector<Fingerprint> entries(word.size() / sizeof(Fingerprint));
  const auto* at = std::as_bytes(std::span(word)).data();
  for (Fingerprint& entry : entries) {
    entry = {.low = load_little_endian<std::uint64_t>(at),
             .high = load_little_endian<std::uint64_t>(at + sizeof entry.low)};
    at += sizeof entry;
  }
  return entries;
}

}  // namespace

WallTime now_of_server() {
  return WallTime(std::chrono::milliseconds(api.Milliseconds()));
}

WindowFilter* create_window(Request& request, Key& key, const bloom::WindowOptions& options,
                            Effects& effects) {
  const auto refuse = [&](Errc code) -> WindowFilter* {
    request.reply.error(code == Errc::out_of_range ? text::cannot_create : text::no_memory_for_filter);
    return nullptr;
  };
  // The plan comes first: it names the bytes before anything is allocated.
  const auto plan = bloom::plan_window(options, no_limits.bytes_max);
  if (!plan) return refuse(plan.error().code);
  const std::uint64_t byte_count = plan->byte_count(options.lanes());
  if (byte_count > limits_of_new(request.context, byte_count).bytes_max) return refuse(Errc::too_large);
  auto made = WindowFilter::create(options, *plan, now_of_server());
  if (!made) return refuse(made.error().code);
  WindowFilter* const filter = made->get();
  key.put(std::move(*made));
  effects.shape(*filter);
  return filter;
}

void add_to_window(Request& request, WindowFilter& filter, std::size_t first_item, bool single,
                   Effects& effects) {
  const Words items = request.words.subspan(first_item);
  const WallTime now = now_of_server();
  // Kept between requests. All that grows with the request is allocated before the first change.
  static value::CollectedEntries collected;
  static Outcomes outcomes;
  Flags added(items.size());
  collected.entries.clear();
  collected.entries.reserve(items.size());
  if (try_add(filter, items, now, added.all(), collected, effects)) {
    if (!single) request.reply.array(items.size());
    for (const bool is_new : added.all()) request.reply.boolean(is_new);
  } else {
    outcomes.reserve(items.size());
    add_and_grow(request, filter, items, now, effects, outcomes);
    reply_outcomes(request.reply, outcomes, filter.layer_count(), single);
  }
  if (collected.entries.capacity() > kept_words_max) std::vector<Fingerprint>().swap(collected.entries);
  if (outcomes.capacity() > kept_words_max) Outcomes().swap(outcomes);
}

void debug_window(Request& request, const WindowFilter& filter) {
  const WallTime now = now_of_server();
  std::vector<std::string> lines{"size:" + std::to_string(filter.item_count(now))};
  for (const WindowFilter::LayerFigures& layer : filter.state(now).layers)
    lines.push_back(bloom::debug_line(layer, filter.options().lanes()));
  request.reply.array(lines.size());
  for (const std::string& line : lines) request.reply.bulk(line);
}

void bf_window(Request& request) {
  const Key key(request.context, request.key(), open_to_read);
  if (key.filter() != nullptr) return request.reply.error(text::no_window);
  if (key.window() == nullptr)
    return request.reply.error(key.is_free() ? text::filter_not_found : text::wrong_type);
  bloom::append_stats(request.reply, bloom::stats_of(*key.window(), now_of_server()));
}

void bf_window_shape(Request& request) {
  const auto record = std::as_bytes(std::span(request.words[2]));
  Effects effects(request);
  {
    Key key(request.context, request.key(), open_to_read | open_to_write);
    const std::string_view refusal = record.size() == bloom::window_made_bytes
                                         ? make_shape(request.context, key, record)
                                         : grow_as_told(request.context, key, record);
    if (!refusal.empty()) return request.reply.error(refusal);
    effects.request();
  }
  effects.end();
  request.reply.ok();
}

void bf_window_add(Request& request) {
  const std::string_view word = request.words[2];
  if (word.empty() || word.size() % sizeof(Fingerprint) != 0) return request.reply.error(text::load_bad_data);
  const std::vector<Fingerprint> entries = entries_in(word);
  bool fits = false;
  Effects effects(request);
  {
    const Key key(request.context, request.key(), open_to_read | open_to_write);
    WindowFilter* const filter = key.window();
    if (filter == nullptr)
      return request.reply.error(key.is_free() ? text::filter_not_found : text::wrong_type);
    fits = filter->repeat(entries);
    drop_old_layers(*filter);
    // Some may have been added before one that does not fit.
    effects.request();
  }
  effects.end();
  fits ? request.reply.ok() : request.reply.error(text::load_bad_data);
}

}  // namespace sepal::module
