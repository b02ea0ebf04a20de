#include "command/server/config_table.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/word_list.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "command/server/config_fixed.hpp"
#include "command/server/info_text.hpp"

namespace sepal::command {
namespace {

constexpr std::int64_t int_max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t long_max = std::numeric_limits<std::int64_t>::max();

// Puts a parsed value into a field. Returns the parser's error text; empty if there is none. The cast loses
// nothing: the parser has checked the row's range, and the range fits the field.
template <class Value, class Field>
std::string store(const ConfigValue<Value>& parsed, Field& field) {
  if (const auto* text = std::get_if<std::string>(&parsed)) return *text;
  field = static_cast<Field>(std::get<Value>(parsed));
  return {};
}

std::string yes_or_no(bool value) {
  return value ? "yes" : "no";
}

// --- rows of one kind ------------------------------------------------------------------------------------

std::string get_text(const Context&, const Parameter& parameter) {
  return std::string(parameter.text);
}

std::string refused_value(std::string_view why, std::string_view value) {
  return std::string(why) + ": only '" + std::string(value) + "' can be set";
}

std::string set_fixed(Configuration::Draft&, const Parameter& parameter, std::string_view value) {
  return equal_ignoring_case(value, parameter.text) ? "" : refused_value(parameter.why, parameter.text);
}

constexpr Parameter fact(std::string_view name, std::string (*get)(const Context&, const Parameter&)) {
  return {.name = name, .get = get};
}

// The reference's old name of busy-reply-threshold.
std::string get_script_limit(const Context& context, const Parameter&) {
  return std::to_string(context.services.options.busy_reply_threshold.count());
}

std::string set_script_limit(Configuration::Draft& draft, const Parameter& parameter,
                             std::string_view value) {
  std::int64_t number = 0;
  std::string wrong = store(parse_config_integer(value, parameter.range), number);
  if (wrong.empty()) draft.options().busy_reply_threshold = std::chrono::milliseconds(number);
  return wrong;
}

std::string get_kept(const Context& context, const Parameter& parameter) {
  // Until a client sets it, the parameter has the default of its row.
  const auto& kept = context.services.options.without_effect;
  const auto found = kept.find(parameter.name);
  return found != kept.end() ? found->second : std::string(parameter.text);
}

std::string set_kept_integer(Configuration::Draft& draft, const Parameter& parameter,
                             std::string_view value) {
  std::int64_t number = 0;
  std::string wrong = store(parse_config_integer(value, parameter.range), number);
  if (wrong.empty()) draft.options().without_effect[std::string(parameter.name)] = std::to_string(number);
  return wrong;
}

constexpr Parameter kept_integer(std::string_view name, std::string_view value, IntegerRange range) {
  return {.name = name, .get = get_kept, .set = set_kept_integer, .text = value, .range = range};
}

// --- settings, and other forms of settings ---------------------------------------------------------------

std::string get_setting(const Context& context, const Parameter& parameter) {
  return context.services.configuration.get(parameter.name);
}
std::string set_setting(Configuration::Draft& draft, const Parameter& parameter, std::string_view value) {
  return draft.set(parameter.name, value);
}

// Sepal has one parameter for the journal ("journal"). Redis has two: "appendonly" says whether there is a
// log, "appendfsync" says how it is synced.

using keyspace::JournalPolicy;

std::string get_append_only(const Context& context, const Parameter&) {
  return yes_or_no(context.services.options.journal != JournalPolicy::off);
}
std::string set_append_only(Configuration::Draft& draft, const Parameter&, std::string_view value) {
  bool on = false;
  std::string wrong = store(parse_config_switch(value), on);
  if (!wrong.empty()) return wrong;
  RuntimeOptions& options = draft.options();
  options.set_journal(on ? options.journal_when_on : JournalPolicy::off);
  return {};
}

std::string get_append_sync(const Context& context, const Parameter&) {
  return std::string(name_of(context.services.options.journal_when_on));
}
// In Redis, "no" lets the system decide when to write. Sepal syncs each second instead, because that costs
// clients nothing.
std::string set_append_sync(Configuration::Draft& draft, const Parameter&, std::string_view value) {
  const bool always = equal_ignoring_case(value, "always");
  if (!always && !equal_ignoring_case(value, "everysec") && !equal_ignoring_case(value, "no"))
    return "argument(s) must be one of the following: everysec, always, no";
  RuntimeOptions& options = draft.options();
  options.journal_when_on = always ? JournalPolicy::always : JournalPolicy::everysec;
  // A journal that is off stays off. "appendonly yes" switches it on with this policy.
  if (options.journal != JournalPolicy::off) options.journal = options.journal_when_on;
  return {};
}

// Shows the points as they were set, as long as the interval that they stand for has not changed since.
std::string get_save(const Context& context, const Parameter&) {
  const RuntimeOptions& options = context.services.options;
  if (options.save_points.interval == options.save_interval && !options.save_points.text.empty())
    return options.save_points.text;
  const auto seconds = options.save_interval.count();
  return seconds == 0 ? "" : std::to_string(seconds) + " 1";
}
std::string set_save(Configuration::Draft& draft, const Parameter&, std::string_view value) {
  RuntimeOptions& options = draft.options();
  std::string wrong = store(parse_save_points(value), options.save_points);
  if (wrong.empty()) options.save_interval = options.save_points.interval;
  return wrong;
}

// Redis's levels, each with Sepal's level. CONFIG GET answers the first Redis level of a Sepal level.
constexpr std::pair<std::string_view, LogLevel> log_levels[] = {{"debug", LogLevel::debug},
                                                                {"verbose", LogLevel::debug},
                                                                {"notice", LogLevel::info},
                                                                {"warning", LogLevel::warning},
                                                                {"nothing", LogLevel::error}};

std::string get_log_level(const Context& context, const Parameter&) {
  for (const auto& [theirs, ours] : log_levels)
    if (ours == context.services.options.log_level) return std::string(theirs);
  return "debug";  // Redis has no name for "trace".
}
std::string set_log_level(Configuration::Draft& draft, const Parameter&, std::string_view value) {
  for (const auto& [theirs, ours] : log_levels) {
    if (!equal_ignoring_case(value, theirs)) continue;
    draft.options().log_level = ours;
    return {};
  }
  return "argument(s) must be one of the following: debug, verbose, notice, warning, nothing";
}

// Sepal never evicts, so "noeviction" is the only policy it takes. Redis's other policies are refused with
// the reason, and unknown words as bad values.
constexpr std::string_view eviction_policies[] = {"volatile-lru",   "volatile-lfu", "volatile-random",
                                                  "volatile-ttl",   "allkeys-lru",  "allkeys-lfu",
                                                  "allkeys-random", "noeviction"};
std::string set_policy(Configuration::Draft&, const Parameter& parameter, std::string_view value) {
  if (equal_ignoring_case(value, parameter.text)) return {};
  for (const std::string_view policy : eviction_policies)
    if (equal_ignoring_case(value, policy)) return refused_value("Sepal evicts nothing", parameter.text);
  std::string wrong = "argument(s) must be one of the following: ";
  for (const std::string_view policy : eviction_policies) wrong.append(policy).append(", ");
  wrong.resize(wrong.size() - 2);
  return wrong;
}

// --- what is slow ----------------------------------------------------------------------------------------

template <auto field>
std::string get_integer(const Context& context, const Parameter&) {
  return std::to_string(context.services.options.*field);
}
template <auto field>
std::string set_integer(Configuration::Draft& draft, const Parameter& parameter, std::string_view value) {
  return store(parse_config_integer(value, parameter.range), draft.options().*field);
}
template <auto field>
constexpr Parameter integer(std::string_view name, IntegerRange range) {
  return {.name = name, .get = get_integer<field>, .set = set_integer<field>, .range = range};
}

std::string get_latency_tracking(const Context& context, const Parameter&) {
  return yes_or_no(context.services.options.latency_tracking);
}
std::string set_latency_tracking(Configuration::Draft& draft, const Parameter&, std::string_view value) {
  return store(parse_config_switch(value), draft.options().latency_tracking);
}

// As numbers with no more digits than they need.
std::string get_percentiles(const Context& context, const Parameter&) {
  std::string text;
  for (const double percentile : context.services.options.latency_percentiles) {
    if (!text.empty()) text.push_back(' ');
    text += shortest_text(percentile);
  }
  return text;
}
// The most percentiles: INFO has a line for each command, with all of them.
constexpr std::size_t percentiles_max = 32;
std::string set_percentiles(Configuration::Draft& draft, const Parameter&, std::string_view value) {
  std::vector<double> percentiles;
  std::string wrong;
  // for_each_word() cannot be stopped, so the words behind a wrong one are skipped. Two blanks in a row make
  // an empty word.
  for_each_word(value, [&](std::string_view word) {
    if (word.empty() || !wrong.empty()) return;
    const std::optional<double> percentile = parse_real(word);
    if (!percentile || !(*percentile >= 0 && *percentile <= 100)) {
      wrong = "latency-tracking-info-percentiles should contain values between 0.0 and 100.0";
    } else if (percentiles.size() == percentiles_max) {
      wrong = "there may be at most " + std::to_string(percentiles_max) + " percentiles";
    } else {
      percentiles.push_back(*percentile);
    }
  });
  if (wrong.empty()) draft.options().latency_percentiles = std::move(percentiles);
  return wrong;
}

// --- facts -----------------------------------------------------------------------------------------------

template <auto field>
std::string get_fact(const Context& context, const Parameter&) {
  const auto& value = context.services.control.facts().*field;
  if constexpr (requires { std::to_string(value); }) {
    return std::to_string(value);
  } else {
    return value;
  }
}

std::string get_database_count(const Context&, const Parameter&) {
  return std::to_string(keyspace::database_count);
}

// Some settings are facts here, because a setting may say less than what sepald has made of it. The system
// picks a port for 0, 0 threads mean one for each core, and a small disk gets smaller segments. The settings'
// own rows are hidden (InConfig::hidden), so no name is there twice.
constexpr Parameter parameter_table[] = {
    {.name = "appendfsync", .get = get_append_sync, .set = set_append_sync},
    {.name = "appendonly", .get = get_append_only, .set = set_append_only},
    fact("databases", get_database_count),
    {.name = "dbfilename", .get = get_text, .guarded = true},
    {.name = "dir", .get = get_fact<&ServerFacts::data_directory>, .guarded = true},
    {.name = "enable-debug-command", .get = get_text, .text = "no"},
    {.name = "enable-module-command", .get = get_text, .text = "no"},
    {.name = "enable-protected-configs", .get = get_text, .text = "no"},
    kept_integer("hz", default_hz, {.least = 1, .greatest = 500}),
    fact("import-dir", get_fact<&ServerFacts::import_directory>),
    fact("io-threads", get_fact<&ServerFacts::worker_count>),
    fact("journal-segment", get_fact<&ServerFacts::journal_segment_bytes>),
    integer<&RuntimeOptions::latency_event_milliseconds>("latency-monitor-threshold", {0, long_max}),
    {.name = "latency-tracking", .get = get_latency_tracking, .set = set_latency_tracking},
    {.name = "latency-tracking-info-percentiles", .get = get_percentiles, .set = set_percentiles},
    {.name = "loglevel", .get = get_log_level, .set = set_log_level},
    {.name = "lua-time-limit", .get = get_script_limit, .set = set_script_limit, .range = {0, int_max}},
    {.name = "maxmemory-policy", .get = get_text, .set = set_policy, .text = "noeviction"},
    fact("port", get_fact<&ServerFacts::port>),
    {.name = "save", .get = get_save, .set = set_save},
    integer<&RuntimeOptions::slow_log_microseconds>("slowlog-log-slower-than", {-1, long_max}),
    integer<&RuntimeOptions::slow_log_entries>("slowlog-max-len", {0, long_max}),
    fact("threads", get_fact<&ServerFacts::worker_count>),
    fact("tls-port", get_fact<&ServerFacts::tls_port>),
};
static_assert(std::ranges::adjacent_find(parameter_table, std::ranges::greater_equal{}, &Parameter::name) ==
                  std::end(parameter_table),
              "sorted and unique");
static_assert(std::ranges::all_of(parameter_table,
                                  [](const Parameter& each) {
                                    return each.get != nullptr && (!each.guarded || each.set == nullptr) &&
                                           each.range.least <= each.range.greatest;
                                  }),
              "each parameter is shown, and a guarded one cannot be set");

}  // namespace

std::vector<Parameter> parameters(const Configuration& configuration) {
  std::vector<Parameter> all(std::begin(parameter_table), std::end(parameter_table));
  for (const FixedGroup& group : fixed_groups)
    for_each_parameter(group, [&](std::string_view name, std::string_view value) {
      all.push_back({.name = name, .get = get_text, .set = set_fixed, .text = value, .why = group.why});
    });
  for (const auto& [name, live] : configuration.parameters())
    all.push_back({.name = name, .get = get_setting, .set = live ? set_setting : nullptr});
  // No name is there twice: find_parameter() would find one of the two only. A test checks that, because the
  // settings' names are known to the module `settings` alone.
  std::ranges::sort(all, {}, &Parameter::name);
  return all;
}

const Parameter* find_parameter(std::span<const Parameter> parameters, std::string_view name) {
  const auto found = std::ranges::find_if(
      parameters, [&](const Parameter& each) { return equal_ignoring_case(each.name, name); });
  return found != parameters.end() ? &*found : nullptr;
}

}  // namespace sepal::command
