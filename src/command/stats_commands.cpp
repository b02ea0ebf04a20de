// BF.STATS: how full a filter is, and how right.

#include <sepal/base/assert.hpp>
#include <sepal/command/dispatcher.hpp>
#include <sepal/command/error_texts.hpp>
#include <sepal/command/filter_facts.hpp>
#include <sepal/filter/measure.hpp>

#include <chrono>
#include <optional>
#include <string_view>

#include "handlers.hpp"
#include "lookup.hpp"
#include "mirror_state.hpp"

namespace sepal::command {
namespace {

// Appends the pairs of a map. The caller says how many it will append, and this checks it.
class Pairs {
 public:
  Pairs(resp::Reply& reply, std::size_t count) : reply_(reply), left_(count) { reply.map(count); }
  ~Pairs() { SEPAL_ASSERT(left_ == 0, "a map has not as many pairs as it was announced with"); }
  Pairs(const Pairs&) = delete;
  Pairs& operator=(const Pairs&) = delete;

  resp::Reply& name(std::string_view name) {
    SEPAL_ASSERT(left_ > 0, "a map has more pairs than it was announced with");
    --left_;
    reply_.bulk(name);
    return reply_;
  }
  Pairs& count(std::string_view field, std::uint64_t value) {
    name(field).integer_unsigned(value);
    return *this;
  }
  Pairs& real(std::string_view field, double value) {
    name(field).real(value);
    return *this;
  }
  Pairs& text(std::string_view field, std::string_view value) {
    name(field).bulk(value);
    return *this;
  }
  Pairs& real_or_null(std::string_view field, std::optional<double> value) {
    if (value) return real(field, *value);
    name(field).null();
    return *this;
  }
  Pairs& count_or_null(std::string_view field, std::optional<std::uint64_t> value) {
    if (value) return count(field, *value);
    name(field).null();
    return *this;
  }
  Pairs& time_or_null(std::string_view field, std::optional<WallTime> value) {
    using std::chrono::duration_cast;
    using std::chrono::seconds;
    if (value) {
      name(field).integer(duration_cast<seconds>(value->time_since_epoch()).count());
    } else {
      name(field).null();
    }
    return *this;
  }

 private:
  resp::Reply& reply_;
  std::size_t left_;
};

std::string_view layout_word(filter::Layout layout) {
  switch (layout) {
    case filter::Layout::blocked:
      return "blocked";
    case filter::Layout::double_hashing:
      return "double_hashing";
    case filter::Layout::client:
      return "client";
    case filter::Layout::bytes:
      break;
  }
  return "bytes";
}

void append_layer(resp::Reply& reply, const filter::LayerView& layer, const filter::LayerMeasure& measured) {
  const filter::LayerPlan plan = layer.plan();
  const bool blocked = plan.layout == filter::Layout::blocked;
  const bool of_client = plan.layout == filter::Layout::client;
  const std::uint64_t bits = of_client ? plan.client_bits().bit_count : plan.bit_count();
  constexpr std::size_t layer_fields = 11;
  Pairs pairs(reply, layer_fields);
  pairs.text("layout", layout_word(plan.layout));
  pairs.count("capacity", plan.capacity).count("items", layer.item_count());
  pairs.count("bits", bits).count("bits_set", measured.bits_set).real("fill", measured.fill);
  pairs.real("items_estimated", measured.item_estimate);
  pairs.real("false_positive_rate_now", measured.false_positive_rate);
  pairs.real("false_positive_rate_asked", plan.error_rate);
  pairs.count("block_bits", blocked ? plan.block_bits : bits).count("probes", plan.probe_count);
}

// Null: the filter is the source of no mirror.
void append_mirror(const Context& context, const filter::Filter& filter, resp::Reply& reply) {
  const keyspace::Mirrors::Link* const link = context.services.keyspace.mirrors().from(filter);
  if (link == nullptr) return reply.null();
  const bool whole = link->mirror.state == keyspace::MirrorState::whole;
  constexpr std::size_t mirror_fields = 3;
  Pairs pairs(reply, mirror_fields);
  pairs.text("target", link->mirror.target).count("items_mirrored", items_mirrored(*link));
  pairs.text("state", whole ? "whole" : "broken");
}

// Counts of what clients did, which only big filters have.
void append_usage(const Context& context, const FilterFacts& facts, Pairs& pairs) {
  const auto& usage = facts.usage;
  std::optional<WallTime> last_change;
  if (usage && usage->last_added)
    last_change =
        context.now - std::chrono::duration_cast<WallTime::duration>(context.steady_now - *usage->last_added);
  pairs.count_or_null("lookups", usage ? std::optional(usage->asked) : std::nullopt);
  pairs.count_or_null("hits", usage ? std::optional(usage->found) : std::nullopt);
  pairs.count_or_null("adds", usage ? std::optional(usage->added) : std::nullopt);
  pairs.real_or_null("adds_per_second", usage ? std::optional(usage->added_per_second) : std::nullopt);
  pairs.real_or_null("seconds_until_full", facts.seconds_until_full());
  pairs.time_or_null("last_change", last_change);
}

}  // namespace

Next bf_stats(Context& context) {
  const filter::Filter* const filter = find_counted(context, context.words[1]);
  if (filter == nullptr) {
    context.reply.error(text::filter_not_found);
    return Next::done;
  }
  if (refuses_string(context, filter)) return Next::done;
  const FilterFacts facts = facts_of(*filter, context.steady_now);
  const filter::FilterMeasure measured = filter::measure(facts.layers, filter::measured_bytes_max);
  const SaveStatus save = context.services.persistence.status();
  constexpr std::size_t fields = 21;
  Pairs pairs(context.reply, fields);
  pairs.count("capacity", facts.capacity).count("items", facts.item_count);
  pairs.real("items_estimated", measured.item_estimate);
  pairs.count("bits", measured.bits).count("bits_set", measured.bits_set).real("fill", measured.fill);
  pairs.text("bits_counted", measured.whole ? "all" : "sample");
  pairs.real("false_positive_rate_now", measured.false_positive_rate);
  pairs.real("false_positive_rate_asked", facts.options.error_rate);
  pairs.count("expansion", facts.options.expansion);
  pairs.count("memory_bytes", facts.byte_count).count("disk_bytes", facts.saved_bytes);
  append_usage(context, facts, pairs);
  pairs.time_or_null("last_save", save.saves_done > 0 ? std::optional(save.last_success) : std::nullopt);
  append_mirror(context, *filter, pairs.name("mirror"));
  pairs.name("layers").array(facts.layers.size());
  for (std::size_t index = 0; index < facts.layers.size(); ++index)
    append_layer(context.reply, facts.layers[index], measured.layers[index]);
  return Next::done;
}

}  // namespace sepal::command
