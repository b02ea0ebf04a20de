// docs/operations/api.md has a table of all members, which tests/integration/test_api.py compares with the
// answers. Their names are those of BF.STATS, BF.WINDOW and the metrics, and say the unit. Texts may have any
// bytes: JsonWriter makes them valid.
#include <sepal/bloom/kernel/choice.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>
#include <sepal/command/run/adoptions.hpp>
#include <sepal/command/run/scripts.hpp>
#include <sepal/command/server/status_json.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/metrics/json.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <variant>
#include <vector>

#include "command/run/worker_sums.hpp"
#include "command/server/rejections.hpp"

namespace sepal::command {
namespace {

using metrics::JsonWriter;

// The curve of rates goes from an empty layer to one with this many times the items that it has room for.
constexpr double curve_load_max = 3;
constexpr double curve_step = 0.1;
// More than any machine has. A plan beyond it is answered with an error.
constexpr std::uint64_t planned_bytes_max = std::uint64_t{1} << 50;

double seconds_with_fraction(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

template <class Number>
JsonWriter& known_or_null(JsonWriter& to, std::optional<Number> value) {
  return value ? to.number(*value) : to.null();
}

// The seconds of a time since 1970, or of a duration.
double seconds_of(std::uint64_t milliseconds) {
  return static_cast<double>(milliseconds) / 1000;
}

void write_load(const Services& services, const MetricsMoment& moment, JsonWriter& to) {
  const ServerFacts& facts = services.control.facts();
  const ProcessUsage usage = services.control.usage();
  to.name("version").text(facts.version).name("commit").text(facts.commit);
  to.name("kernel").text(bloom::kernel_name());
  to.name("uptime_seconds").number(seconds_with_fraction(moment.steady_now - facts.started_at));
  const auto since_1970 = std::chrono::floor<std::chrono::milliseconds>(moment.now.time_since_epoch());
  to.name("time_seconds").number(seconds_of(static_cast<std::uint64_t>(since_1970.count())));
  to.name("loading").truth(services.load.running);
  to.name("load_bytes").number(services.load.bytes_done);
  to.name("load_size_bytes").number(services.load.bytes_total);
  to.name("workers").number(std::uint64_t{facts.worker_count});
  to.name("cpu_seconds").number(usage.cpu_user_seconds + usage.cpu_system_seconds);
  to.name("requests").number(sum_of(services, &WorkerStats::requests));
  to.name("items_looked_up").number(sum_of(services, &WorkerStats::items_asked));
  to.name("items_added").number(sum_of(services, &WorkerStats::items_added));
  to.name("items_removed").number(sum_of(services, &WorkerStats::items_removed));
  to.name("connections").number(services.clients.count());
  to.name("connections_max").number(std::uint64_t{services.options.clients_max});
  to.name("keys").number(services.keyspace.total_size());
  to.name("keys_max").number(services.keyspace.options().keys_max);
  std::uint64_t with_deadline = 0;
  for (std::uint32_t database = 0; database < keyspace::database_count; ++database)
    with_deadline += services.keyspace.deadlines(database).count;
  to.name("keys_with_deadline").number(with_deadline);
}

void write_pause(const Services& services, const MetricsMoment& moment, JsonWriter& to) {
  const Pause& pause = services.pause;
  to.name("pause");
  if (!pause.runs(moment.steady_now)) {
    to.null();
    return;
  }
  to.begin_object().name("actions").text(pause.of_all() ? "all" : "write");
  to.name("left_seconds").number(seconds_with_fraction(pause.until() - moment.steady_now)).end_object();
}

void write_busy_script(const Services& services, const MetricsMoment& moment, JsonWriter& to) {
  to.name("busy_script");
  if (!services.busy) {
    to.null();
    return;
  }
  const Scripts& scripts = *services.scripts;
  to.begin_object().name("running_seconds");
  to.number(seconds_with_fraction(scripts.busy_for(moment.steady_now)));
  to.name("has_written").truth(scripts.busy_has_written).end_object();
}

void write_memory(const Services& services, JsonWriter& to) {
  const keyspace::Keyspace& keyspace = services.keyspace;
  to.name("memory").begin_object();
  to.name("used_bytes").number(keyspace.memory_used()).name("peak_bytes").number(keyspace.memory_peak());
  to.name("maxmemory_bytes").number(keyspace.options().memory_max);
  to.name("limit_bytes").number(keyspace.memory_limit());
  to.name("machine_bytes").number(keyspace.options().machine_bytes);
  to.name("resident_bytes").number(services.control.usage().resident_bytes);
  to.end_object();
}

void write_journal(const Services& services, JsonWriter& to) {
  const JournalStatus journal = services.journal.status();
  to.name("journal").begin_object();
  to.name("policy").text(name_of(services.options.journal));
  to.name("accepting").truth(journal.accepting).name("refusal").text(journal.refusal);
  to.name("adoption_refusal").text(services.adoptions.status().refusal);
  to.name("waits_for_save").truth(journal.waits_for_save);
  to.name("bytes").number(journal.bytes);
  to.name("max_bytes").number(services.persistence.disk_status().journal_bytes_max);
  to.name("unsynced_bytes").number(journal.position - std::min(journal.position, journal.synced_position));
  to.name("syncs_failed").number(journal.failed_syncs);
  to.end_object();
}

void write_save(const Services& services, const MetricsMoment& moment, JsonWriter& to) {
  const SaveStatus save = services.persistence.status();
  to.name("save").begin_object();
  to.name("ok").truth(save.last_ok).name("error").text(save.last_error);
  to.name("running").truth(save.running).name("progress_ratio").number(save.progress);
  to.name("saves").number(save.saves_done + save.saves_failed).name("saves_failed").number(save.saves_failed);
  to.name("age_seconds").number(seconds_with_fraction(save.age(moment.steady_now)));
  to.name("changes_unsaved").number(save.changes_since);
  to.name("interval_seconds").number(seconds_with_fraction(services.options.save_interval));
  to.end_object();
}

void write_reload(const Services& services, JsonWriter& to) {
  const ReloadStatus reload = services.control.reload_status();
  to.name("reload").begin_object();
  to.name("ok").truth(reload.last_ok).name("error").text(reload.last_error).end_object();
}

void write_certificate(const MetricsMoment& moment, JsonWriter& to) {
  to.name("certificate");
  if (!moment.certificate) {
    to.null();
    return;
  }
  const auto since_1970 = [](std::int64_t seconds) {
    return static_cast<std::uint64_t>(std::max(seconds, std::int64_t{0}));
  };
  to.begin_object().name("start_time_seconds").number(since_1970(moment.certificate->start));
  to.name("end_time_seconds").number(since_1970(moment.certificate->end)).end_object();
}

void write_rejections(const Services& services, JsonWriter& to) {
  const auto write = [&](std::string_view name, const std::vector<Rejection>& counted) {
    to.name(name).begin_object();
    for (const Rejection& one : counted) to.name(one.reason).number(one.count);
    to.end_object();
  };
  write("rejections", rejections(services));
  write("tls_handshakes_failed", failed_handshakes(services));
  write("adds_refused", refused_adds(services));
  to.name("errors").begin_object();
  for (const auto& [word, count] : error_counts(services)) to.name(word).number(std::uint64_t{count});
  to.end_object();
}

// For a key whose text differs from its bytes: the page asks /api/filter for the key by its bytes. Every byte
// is encoded, because advice.js splits the text at each '%'.
std::string percent_encoded(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string text;
  for (const char byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    text.append(1, '%').append(1, digits[code >> 4]).append(1, digits[code & 15]);
  }
  return text;
}

// The member `name` with a key, and `name`_encoded, for a key whose text differs from its bytes. The writer
// makes bytes printable itself.
void write_key(std::string_view name, std::string_view key, JsonWriter& to) {
  to.name(name).text(key).name(std::string(name) + "_encoded");
  metrics::printable(key) == key ? to.null() : to.text(percent_encoded(key));
}

// Both are null for a key that is not shown.
void write_key(std::string_view name, const std::optional<std::string>& key, JsonWriter& to) {
  if (key) return write_key(name, std::string_view(*key), to);
  to.name(name).null().name(std::string(name) + "_encoded").null();
}

std::string_view name_of_mirror(keyspace::MirrorState state) {
  return state == keyspace::MirrorState::whole ? "whole" : "broken";
}

void write_mirror(const SeenMirror& mirror, JsonWriter& to) {
  to.begin_object().name("role").text(mirror.is_source ? "source" : "target");
  write_key("other", mirror.other, to);
  to.name("state").text(name_of_mirror(mirror.state)).name("reason").text(reason_of(mirror.state));
  to.name("items_mirrored").number(mirror.items).end_object();
}

void write_mirrors(const Services& services, std::string_view pattern, JsonWriter& to) {
  const keyspace::Mirrors& mirrors = services.keyspace.mirrors();
  const auto shown = [&](const std::string& key) {
    return is_shown(pattern, key) ? std::optional(key) : std::nullopt;
  };
  to.name("mirrors").begin_array();
  mirrors.for_each([&](const keyspace::Mirrors::Link& link) {
    const keyspace::Mirror& mirror = link.mirror;
    to.begin_object().name("database").number(std::uint64_t{mirror.database});
    write_key("source", shown(mirror.source), to);
    write_key("target", shown(mirror.target), to);
    to.name("state").text(name_of_mirror(mirror.state)).name("reason").text(reason_of(mirror.state));
    to.name("items_mirrored").number(keyspace::items_mirrored(link)).end_object();
  });
  to.end_array();
}

void write_counts(const FilterCounts& counts, JsonWriter& to) {
  to.name("total").number(counts.total()).name("troubled").number(counts.in_trouble());
  to.name("states").begin_object();
  for (std::size_t at = 0; at < filter_state_count; ++at)
    to.name(name_of_state(static_cast<FilterState>(at))).number(counts.by_state[at]);
  to.end_object().name("kinds").begin_object();
  for (std::size_t at = 0; at < std::size(filter_kinds); ++at)
    to.name(name_of_filter(filter_kinds[at])).number(counts.by_kind[at]);
  to.end_object();
}

void write_watched(const WatchedFilters& watched, SteadyTime now, JsonWriter& to) {
  to.name("http_metrics_filters").number(watched.filters_max);
  to.name("http_metrics_pattern").text(watched.pattern);
  to.name("filters").begin_object();
  write_counts(watched.counts, to);
  to.name("judged_age_seconds");
  known_or_null(
      to, watched.judged_at ? std::optional(seconds_with_fraction(now - *watched.judged_at)) : std::nullopt);
  to.end_object();
}

// The members of a filter, in this order in an array and by these names in an object.
struct Column {
  std::string_view name;
  void (*write)(const SeenFilter&, JsonWriter&);
};
constexpr Column filter_columns[] = {
    {"database", [](const SeenFilter& filter, JsonWriter& to) { to.number(std::uint64_t{filter.database}); }},
    // The writer makes the bytes printable itself, and so writes what `key` has.
    {"key", [](const SeenFilter& filter, JsonWriter& to) { to.text(filter.key_bytes); }},
    {"key_encoded",
     [](const SeenFilter& filter, JsonWriter& to) {
       filter.key == filter.key_bytes ? to.null() : to.text(percent_encoded(filter.key_bytes));
     }},
    {"kind", [](const SeenFilter& filter, JsonWriter& to) { to.text(name_of_filter(filter.kind)); }},
    {"capacity", [](const SeenFilter& filter, JsonWriter& to) { to.number(filter.capacity); }},
    {"capacity_max",
     [](const SeenFilter& filter, JsonWriter& to) { known_or_null(to, filter.capacity_max); }},
    {"items", [](const SeenFilter& filter, JsonWriter& to) { to.number(filter.item_count); }},
    {"items_estimated",
     [](const SeenFilter& filter, JsonWriter& to) {
       filter.item_estimate ? to.number(std::round(*filter.item_estimate)) : to.null();
     }},
    {"items_removed",
     [](const SeenFilter& filter, JsonWriter& to) { known_or_null(to, filter.removed_count); }},
    {"fill", [](const SeenFilter& filter, JsonWriter& to) { to.number(filter.fill); }},
    {"false_positive_rate_now",
     [](const SeenFilter& filter, JsonWriter& to) { to.number(filter.false_positive_rate); }},
    {"false_positive_rate_asked",
     [](const SeenFilter& filter, JsonWriter& to) { known_or_null(to, filter.rate_asked); }},
    {"expansion",
     [](const SeenFilter& filter, JsonWriter& to) { to.number(std::uint64_t{filter.expansion}); }},
    // What keeps it from growing; null: nothing.
    {"growth_limit",
     [](const SeenFilter& filter, JsonWriter& to) {
       filter.growth_limit == GrowthLimit::none ? to.null() : to.text(name_of_limit(filter.growth_limit));
     }},
    {"layer_count", [](const SeenFilter& filter, JsonWriter& to) { to.number(filter.layer_count); }},
    {"memory_bytes", [](const SeenFilter& filter, JsonWriter& to) { to.number(filter.byte_count); }},
    {"seconds_until_full",
     [](const SeenFilter& filter, JsonWriter& to) { known_or_null(to, filter.seconds_until_full); }},
    {"state", [](const SeenFilter& filter, JsonWriter& to) { to.text(name_of_state(state_of(filter))); }},
    {"deadline_time_seconds",
     [](const SeenFilter& filter, JsonWriter& to) {
       filter.deadline == keyspace::no_deadline
           ? to.null()
           : to.number(seconds_of(static_cast<std::uint64_t>(filter.deadline)));
     }},
    {"mirror",
     [](const SeenFilter& filter, JsonWriter& to) {
       if (filter.mirror) return write_mirror(*filter.mirror, to);
       to.null();
     }},
};

void write_layer(const SeenBloomLayer& layer, JsonWriter& to) {
  const bloom::LayerPlan& plan = layer.plan;
  to.name("capacity").number(plan.capacity).name("items").number(layer.items);
  to.name("items_estimated").number(std::round(layer.measured.item_estimate));
  to.name("bitmap_bytes").number(plan.byte_count());
  to.name("probes").number(std::uint64_t{plan.probe_count});
  plan.layout == bloom::Layout::blocked ? to.name("block_bytes").number(std::uint64_t{plan.block_bits / 8})
                                        : to.name("block_bytes").null();
  to.name("fill").number(layer.measured.fill);
  to.name("false_positive_rate_now").number(layer.measured.false_positive_rate);
  to.name("false_positive_rate_planned").number(plan.error_rate);
}

void write_layer(const cuckoo::Filter::LayerFigures& layer, JsonWriter& to) {
  to.name("items").number(layer.items).name("cells").number(layer.cells);
  to.name("slots").number(layer.slots).name("slots_used").number(layer.slots_used);
  to.name("memory_bytes").number(layer.bytes).name("false_positive_rate_now").number(layer.rate);
}

void write_layer(const SeenRedisLayer& layer, JsonWriter& to) {
  to.name("buckets").number(layer.buckets).name("slots").number(layer.slots).name("fill").number(layer.fill);
}

// As BF.WINDOW has it.
void write_layer(const SeenWindowLayer& layer, JsonWriter& to) {
  const auto& [plan, items, rate] = layer.figures;
  to.name("generation_capacity").number(plan.capacity).name("items").number(items);
  to.name("false_positive_rate_now").number(rate);
  to.name("false_positive_rate_planned").number(plan.error_rate * layer.lanes);
  to.name("zones").number(std::uint64_t{plan.zones});
  to.name("probes").number(std::uint64_t{plan.zones} * plan.probes);
  to.name("memory_bytes").number(plan.byte_count(layer.lanes));
}

// "window_seconds" or "window_items"; the other one is null.
void write_window_size(const bloom::WindowOptions& options, JsonWriter& to) {
  to.name("window_seconds");
  options.of_last() ? to.null() : to.number(seconds_of(options.milliseconds));
  to.name("window_items");
  options.of_last() ? to.number(options.capacity) : to.null();
  to.name("generations").number(std::uint64_t{options.generations});
}

// As BF.WINDOW has it.
void write_window(const bloom::WindowOptions& options,
                  const std::vector<bloom::WindowFilter::Generation>& generations, JsonWriter& to) {
  to.begin_object();
  write_window_size(options, to);
  to.name("refresh").truth(options.refresh).name("capacity").number(options.capacity);
  to.name("by_generation").begin_array();
  for (const auto& generation : generations) {
    to.begin_object().name("number").number(generation.number).name("begin");
    generation.begin ? to.number(seconds_of(*generation.begin)) : to.null();
    to.name("items").number(generation.items).end_object();
  }
  to.end_array().end_object();
}

void write_layers(const SeenLayers& layers, JsonWriter& to) {
  to.name("layers").begin_array();
  std::visit(
      [&](const auto& all) {
        for (const auto& layer : all) {
          to.begin_object();
          write_layer(layer, to);
          to.end_object();
        }
      },
      layers);
  to.end_array();
}

// The rate of the whole filter if only its newest layer took further items. A filter answers yes if any of
// its layers does. So it is right about an absent item only if all layers are.
void write_curve(const std::vector<SeenBloomLayer>& layers, JsonWriter& to) {
  const bloom::LayerPlan& newest = layers.back().plan;
  double right = 1;  // the probability that all older layers say no
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) right *= 1 - layers[i].measured.false_positive_rate;
  const auto capacity = static_cast<double>(newest.capacity);
  to.name("load").number(layers.back().measured.item_estimate / capacity);
  to.name("curve").begin_array();
  const int steps = static_cast<int>(std::lround(curve_load_max / curve_step));
  for (int i = 0; i <= steps; ++i) {
    // A product, because a sum of steps would miss the load of 1, where the page looks for the rate of a full
    // layer.
    const double load = i * curve_step;
    const double rate = bloom::expected_error_rate(newest, static_cast<std::uint64_t>(capacity * load));
    to.begin_object().name("load").number(load);
    to.name("false_positive_rate").number(1 - right * (1 - rate)).end_object();
  }
  to.end_array();
}

struct PlannedShape {
  double bits = 0;
  double probes = 0;
};

// What was asked for, with the defaults.
template <class Options>
void write_asked(const Options& options, JsonWriter& to) {
  to.name("capacity").number(options.capacity).name("false_positive_rate_asked").number(options.error_rate);
  to.name("expansion").number(std::uint64_t{options.expansion});
}

// A first layer of RedisBloom. In a filter that scales, it is planned for half of the rate.
PlannedShape redisbloom_shape(const bloom::FilterOptions& options) {
  constexpr double word_bits = 64;
  const double rate = options.scaling() ? options.error_rate / 2 : options.error_rate;
  const double bits_per_item = bloom::textbook_bits_per_item(rate);
  const double bits = std::floor(static_cast<double>(options.capacity) * bits_per_item);
  return {.bits = std::ceil(bits / word_bits) * word_bits,
          .probes = std::ceil(std::numbers::ln2 * bits_per_item)};
}

Error fits_no_machine() {
  return fail(Errc::too_large, "such a filter fits into no machine's memory");
}

void write_shape(std::string_view name, const PlannedShape& shape, double capacity, JsonWriter& to) {
  to.name(name).begin_object();
  to.name("bitmap_bytes").number(std::ceil(shape.bits / 8)).name("probes").number(shape.probes);
  to.name("bits_per_item").number(shape.bits / capacity);
  to.end_object();
}

}  // namespace

std::string server_json(const Services& services, const MetricsMoment& moment, const WatchedFilters& watched,
                        const Recent& recent) {
  JsonWriter to;
  to.begin_object();
  write_load(services, moment, to);
  write_pause(services, moment, to);
  write_busy_script(services, moment, to);
  write_memory(services, to);
  write_journal(services, to);
  write_save(services, moment, to);
  write_reload(services, to);
  write_rejections(services, to);
  write_certificate(moment, to);
  write_mirrors(services, watched.pattern, to);
  recent.write(services, moment.steady_now, to);
  write_watched(watched, moment.steady_now, to);
  to.end_object();
  return std::move(to).finish();
}

std::string filters_json(const FiltersSeen& seen) {
  JsonWriter to;
  to.begin_object().name("columns").begin_array();
  for (const Column& column : filter_columns) to.text(column.name);
  to.end_array().name("rows").begin_array();
  std::uint64_t troubled = 0;
  for (const SeenFilter& filter : seen.filters) {
    if (is_trouble(state_of(filter))) ++troubled;
    to.begin_array();
    for (const Column& column : filter_columns) column.write(filter, to);
    to.end_array();
  }
  to.end_array().name("shown").number(std::uint64_t{seen.filters.size()});
  to.name("troubled_shown").number(troubled);
  write_counts(seen.counts, to);
  to.end_object();
  return std::move(to).finish();
}

std::string filter_json(const FilterDetail& detail) {
  JsonWriter to;
  to.begin_object();
  for (const Column& column : filter_columns) column.write(detail.seen, to.name(column.name));
  write_layers(detail.layers, to);
  to.name("window");
  detail.window ? write_window(*detail.window, detail.generations, to) : void(to.null());
  const auto* const bloom_layers = std::get_if<std::vector<SeenBloomLayer>>(&detail.layers);
  if (bloom_layers != nullptr && !bloom_layers->empty()) {
    write_curve(*bloom_layers, to);
  } else {
    to.name("load").null().name("curve").null();
  }
  to.name("history").begin_array();
  for (const HistoryPoint& point : detail.history)
    to.begin_object()
        .name("age_seconds")
        .number(point.age_seconds)
        .name("fill")
        .number(point.fill)
        .name("false_positive_rate")
        .number(point.false_positive_rate)
        .end_object();
  to.end_array().end_object();
  return std::move(to).finish();
}

Result<std::string> plan_json(const bloom::FilterOptions& options) {
  const auto planned = bloom::Filter::plan(options, {.bytes_max = planned_bytes_max});
  if (!planned && planned.error().code == Errc::too_large) return fits_no_machine();
  if (!planned)
    return fail(Errc::out_of_range,
                "capacity is 1 or more, error is above 0 and below 1, expansion is at most " +
                    std::to_string(bloom::expansion_max));
  // plan() has refused 0 items, so the divisions by `capacity` are safe.
  const bloom::LayerPlan& plan = planned->first_layer;
  const auto capacity = static_cast<double>(options.capacity);
  JsonWriter to;
  to.begin_object();
  write_asked(options, to);
  write_shape("sepal", {.bits = static_cast<double>(plan.bit_count()), .probes = double(plan.probe_count)},
              capacity, to);
  to.name("block_bytes").number(std::uint64_t{plan.block_bits / 8}).name("blocks").number(plan.block_count);
  to.name("false_positive_rate_planned").number(plan.error_rate);
  // The planner moves a rate into these bounds, so the textbook gets the same rate.
  const double rate = std::clamp(options.error_rate, bloom::error_rate_min, bloom::error_rate_max);
  const double textbook = bloom::textbook_bits_per_item(rate);
  write_shape(
      "textbook",
      {.bits = textbook * capacity, .probes = std::max(1.0, std::round(std::numbers::ln2 * textbook))},
      capacity, to);
  write_shape("redisbloom", redisbloom_shape(options), capacity, to);
  to.end_object();
  return std::move(to).finish();
}

Result<std::string> window_plan_json(const bloom::WindowOptions& options) {
  const auto planned = bloom::plan_window(options, planned_bytes_max);
  if (!planned) return planned.error().code == Errc::too_large ? fits_no_machine() : planned.error();
  const bloom::LanePlan& plan = *planned;
  const auto bytes = static_cast<double>(plan.byte_count(options.lanes()));
  JsonWriter to;
  to.begin_object();
  write_asked(options, to);
  write_window_size(options, to);
  write_shape("sepal", {.bits = 8 * bytes, .probes = double(plan.zones) * plan.probes},
              static_cast<double>(options.capacity), to);
  to.name("zones").number(std::uint64_t{plan.zones});
  to.name("line_bytes").number(std::uint64_t{bloom::lane_line_bytes});
  to.name("generation_capacity").number(options.generation_items());
  const double generation = seconds_of(options.milliseconds) / options.generations;
  to.name("generation_seconds");
  known_or_null(to, options.of_last() ? std::nullopt : std::optional(generation));
  to.end_object();
  return std::move(to).finish();
}

std::string error_json(std::string_view sentence) {
  JsonWriter to;
  to.begin_object().name("error").text(sentence).end_object();
  return std::move(to).finish();
}

}  // namespace sepal::command
