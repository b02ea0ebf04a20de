#include "config_table.hpp"

#include <sepal/filter/filter.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include "arguments.hpp"
#include "config_values.hpp"

namespace sepal::command {
namespace {

constexpr std::int64_t int_max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t long_max = std::numeric_limits<std::int64_t>::max();
// The same bounds as in the settings: a file that CONFIG REWRITE wrote must be readable at the next start.
constexpr std::int64_t clients_max = 1'000'000;
constexpr std::int64_t bandwidth_max = std::int64_t{1} << 40;
constexpr std::int64_t capacity_max = 1'000'000'000'000'000;
constexpr MemoryRange any_memory{.least = 0, .greatest = 1ull << 50};
constexpr MemoryRange request_memory{.least = 1ull << 20, .greatest = 1ull << 40};

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

std::string set_fixed(PendingConfig&, const Parameter& parameter, std::string_view value) {
  return equal_ignoring_case(value, parameter.text) ? "" : "can't set immutable config";
}

constexpr Parameter fixed(std::string_view name, std::string_view value) {
  return {.name = name, .get = get_text, .set = set_fixed, .text = value};
}

constexpr Parameter fact(std::string_view name, std::string (*get)(const Context&, const Parameter&)) {
  return {.name = name, .get = get};
}

std::string get_kept(const Context& context, const Parameter& parameter) {
  const auto& kept = context.services.options.without_effect;
  const auto found = kept.find(parameter.name);
  return found != kept.end() ? found->second : std::string(parameter.text);
}

std::string set_kept_integer(PendingConfig& pending, const Parameter& parameter, std::string_view value) {
  std::int64_t number = 0;
  std::string wrong =
      store(parse_config_integer(value, {.least = parameter.least, .greatest = parameter.greatest}), number);
  if (wrong.empty()) pending.options.without_effect[std::string(parameter.name)] = std::to_string(number);
  return wrong;
}

std::string set_kept_switch(PendingConfig& pending, const Parameter& parameter, std::string_view value) {
  bool on = false;
  std::string wrong = store(parse_config_switch(value), on);
  if (wrong.empty()) pending.options.without_effect[std::string(parameter.name)] = yes_or_no(on);
  return wrong;
}

constexpr Parameter kept_integer(std::string_view name, std::string_view value, IntegerRange range) {
  return {.name = name,
          .get = get_kept,
          .set = set_kept_integer,
          .text = value,
          .least = range.least,
          .greatest = range.greatest};
}

constexpr Parameter kept_switch(std::string_view name, std::string_view value) {
  return {.name = name, .get = get_kept, .set = set_kept_switch, .text = value};
}

// --- live rows -------------------------------------------------------------------------------------------

// A field of the options that is an integer or a duration in seconds.
template <auto field>
std::string get_number(const Context& context, const Parameter&) {
  const auto& value = context.services.options.*field;
  if constexpr (requires { value.count(); }) {
    return std::to_string(value.count());
  } else {
    return std::to_string(value);
  }
}

template <auto field>
std::string set_number(PendingConfig& pending, const Parameter& parameter, std::string_view value) {
  return store(parse_config_integer(value, {.least = parameter.least, .greatest = parameter.greatest}),
               pending.options.*field);
}

template <auto field>
constexpr Parameter number(std::string_view name, IntegerRange range) {
  return {.name = name,
          .get = get_number<field>,
          .set = set_number<field>,
          .least = range.least,
          .greatest = range.greatest};
}

template <auto field>
std::string get_limit(const Context& context, const Parameter&) {
  return std::to_string(context.services.options.parser.*field);
}

template <auto field>
std::string set_limit(PendingConfig& pending, const Parameter&, std::string_view value) {
  return store(parse_config_memory(value, request_memory), pending.options.parser.*field);
}

template <auto field>
constexpr Parameter request_limit(std::string_view name) {
  return {.name = name, .get = get_limit<field>, .set = set_limit<field>};
}

std::string get_memory(const Context& context, const Parameter&) {
  return std::to_string(context.services.keyspace.options().memory_max);
}
std::string set_memory(PendingConfig& pending, const Parameter&, std::string_view value) {
  return store(parse_config_memory(value, any_memory), pending.memory_max);
}

// Sepal has one parameter for the journal ("journal"). Redis has two: "appendonly" says whether there is a
// log, "appendfsync" says how it is synced.

using keyspace::JournalPolicy;

std::string get_journal(const Context& context, const Parameter&) {
  return std::string(name_of(context.services.options.journal));
}
std::string set_journal(PendingConfig& pending, const Parameter&, std::string_view value) {
  const auto policy = choice_of<JournalPolicy>(lower_case(value));
  if (!policy) return "argument(s) must be one of the following: off, everysec, always";
  pending.options.set_journal(*policy);
  return {};
}

std::string get_append_only(const Context& context, const Parameter&) {
  return yes_or_no(context.services.options.journal != JournalPolicy::off);
}
std::string set_append_only(PendingConfig& pending, const Parameter&, std::string_view value) {
  bool on = false;
  std::string wrong = store(parse_config_switch(value), on);
  if (!wrong.empty()) return wrong;
  pending.options.set_journal(on ? pending.options.journal_when_on : JournalPolicy::off);
  return {};
}

std::string get_append_sync(const Context& context, const Parameter&) {
  return std::string(name_of(context.services.options.journal_when_on));
}
// In Redis, "no" lets the system decide when to write. Sepal syncs each second instead, because that costs
// clients nothing.
std::string set_append_sync(PendingConfig& pending, const Parameter&, std::string_view value) {
  const bool always = equal_ignoring_case(value, "always");
  if (!always && !equal_ignoring_case(value, "everysec") && !equal_ignoring_case(value, "no"))
    return "argument(s) must be one of the following: everysec, always, no";
  pending.options.journal_when_on = always ? JournalPolicy::always : JournalPolicy::everysec;
  if (pending.options.journal != JournalPolicy::off)
    pending.options.journal = pending.options.journal_when_on;
  return {};
}

std::string get_journal_save_min(const Context& context, const Parameter&) {
  return std::to_string(context.services.options.journal_save_min_bytes);
}
std::string set_journal_save_min(PendingConfig& pending, const Parameter&, std::string_view value) {
  return store(parse_config_memory(value, any_memory), pending.options.journal_save_min_bytes);
}

std::string get_journal_size_max(const Context& context, const Parameter&) {
  return std::to_string(context.services.options.journal_bytes_max);
}
std::string set_journal_size_max(PendingConfig& pending, const Parameter&, std::string_view value) {
  return store(parse_config_memory(value, any_memory), pending.options.journal_bytes_max);
}

std::string get_password(const Context& context, const Parameter&) {
  return context.services.options.password;
}
std::string set_password(PendingConfig& pending, const Parameter&, std::string_view value) {
  if (value.size() > resp::unauthenticated_bulk_bytes_max)
    return "argument must be no longer than what a client may send before it is authenticated";
  pending.options.password = value;
  return {};
}

std::string get_save(const Context& context, const Parameter&) {
  const auto seconds = context.services.options.save_interval.count();
  return seconds == 0 ? "" : std::to_string(seconds) + " 1";
}
std::string set_save(PendingConfig& pending, const Parameter&, std::string_view value) {
  return store(parse_save_points(value), pending.options.save_interval);
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
std::string set_log_level(PendingConfig& pending, const Parameter&, std::string_view value) {
  for (const auto& [theirs, ours] : log_levels) {
    if (!equal_ignoring_case(value, theirs)) continue;
    pending.options.log_level = ours;
    return {};
  }
  return "argument(s) must be one of the following: debug, verbose, notice, warning, nothing";
}

// Sepal never evicts, so "noeviction" is the only policy it takes. Redis's other policies are refused as
// immutable, and unknown words as bad values.
constexpr std::string_view eviction_policies[] = {"volatile-lru",   "volatile-lfu", "volatile-random",
                                                  "volatile-ttl",   "allkeys-lru",  "allkeys-lfu",
                                                  "allkeys-random", "noeviction"};
std::string set_policy(PendingConfig&, const Parameter& parameter, std::string_view value) {
  if (equal_ignoring_case(value, parameter.text)) return {};
  for (const std::string_view policy : eviction_policies)
    if (equal_ignoring_case(value, policy)) return "can't set immutable config";
  std::string wrong = "argument(s) must be one of the following: ";
  for (const std::string_view policy : eviction_policies) wrong.append(policy).append(", ");
  wrong.resize(wrong.size() - 2);
  return wrong;
}

std::string get_error_rate(const Context& context, const Parameter&) {
  return real_text(context.services.keyspace.options().error_rate);
}
std::string set_error_rate(PendingConfig& pending, const Parameter&, std::string_view value) {
  const std::optional<double> rate = parse_real(value);
  if (!rate || !(*rate > 0 && *rate < 1)) return "argument must be between 0 and 1 exclusive";
  pending.error_rate = *rate;
  return {};
}

std::string get_capacity(const Context& context, const Parameter&) {
  return std::to_string(context.services.keyspace.options().capacity);
}
std::string set_capacity(PendingConfig& pending, const Parameter& parameter, std::string_view value) {
  return store(parse_config_integer(value, {.least = parameter.least, .greatest = parameter.greatest}),
               pending.capacity);
}

std::string get_expansion(const Context& context, const Parameter&) {
  return std::to_string(context.services.keyspace.options().expansion);
}
std::string set_expansion(PendingConfig& pending, const Parameter& parameter, std::string_view value) {
  return store(parse_config_integer(value, {.least = parameter.least, .greatest = parameter.greatest}),
               pending.expansion);
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

template <auto field>
std::string get_keyspace_limit(const Context& context, const Parameter&) {
  return std::to_string(context.services.keyspace.options().*field);
}

std::string get_database_count(const Context&, const Parameter&) {
  return std::to_string(keyspace::database_count);
}

constexpr Parameter parameter_table[] = {
    fixed("acllog-max-len", "128"),
    fixed("activedefrag", "no"),
    {.name = "appendfsync", .get = get_append_sync, .set = set_append_sync},
    {.name = "appendonly", .get = get_append_only, .set = set_append_only},
    {.name = "auto-aof-rewrite-min-size", .get = get_journal_save_min, .set = set_journal_save_min},
    number<&RuntimeOptions::journal_save_percent>("auto-aof-rewrite-percentage",
                                                  {.least = 0, .greatest = int_max}),
    {.name = "bf-error-rate", .get = get_error_rate, .set = set_error_rate},
    {.name = "bf-expansion-factor",
     .get = get_expansion,
     .set = set_expansion,
     .least = 0,
     .greatest = filter::expansion_max},
    {.name = "bf-initial-size",
     .get = get_capacity,
     .set = set_capacity,
     .least = 1,
     .greatest = capacity_max},
    fact("bind", get_fact<&ServerFacts::bind>),
    fixed("busy-reply-threshold", "5000"),
    request_limit<&resp::ParserLimits::request_bytes_max>("client-query-buffer-limit"),
    fixed("cluster-enabled", "no"),
    fixed("daemonize", "no"),
    fact("databases", get_database_count),
    {.name = "dbfilename", .get = get_text, .guarded = true},
    {.name = "dir", .get = get_fact<&ServerFacts::data_directory>, .guarded = true},
    fact("disk-reserve", get_fact<&ServerFacts::reserve_bytes>),
    {.name = "enable-debug-command", .get = get_text, .text = "no"},
    {.name = "enable-module-command", .get = get_text, .text = "no"},
    kept_integer("hz", "10", {.least = 1, .greatest = 500}),
    fact("import-dir", get_fact<&ServerFacts::import_directory>),
    fact("io-threads", get_fact<&ServerFacts::worker_count>),
    {.name = "journal", .get = get_journal, .set = set_journal},
    fact("journal-segment", get_fact<&ServerFacts::journal_segment_bytes>),
    {.name = "journal-size-max", .get = get_journal_size_max, .set = set_journal_size_max},
    number<&RuntimeOptions::journal_bytes_max_percent>("journal-size-max-percent",
                                                       {.least = 0, .greatest = int_max}),
    fact("keys-max", get_keyspace_limit<&keyspace::KeyspaceOptions::keys_max>),
    fixed("latency-monitor-threshold", "0"),
    fact("layers-max", get_keyspace_limit<&keyspace::KeyspaceOptions::layers_max>),
    kept_switch("lazyfree-lazy-eviction", "no"),
    kept_switch("lazyfree-lazy-expire", "no"),
    kept_switch("lazyfree-lazy-server-del", "no"),
    kept_switch("lazyfree-lazy-user-del", "no"),
    kept_switch("lazyfree-lazy-user-flush", "no"),
    fixed("lfu-decay-time", "1"),
    fixed("lfu-log-factor", "10"),
    fact("line-bytes-max", get_limit<&resp::ParserLimits::line_bytes_max>),
    fact("logfile", get_fact<&ServerFacts::log_file>),
    {.name = "loglevel", .get = get_log_level, .set = set_log_level},
    fixed("lua-time-limit", "5000"),
    number<&RuntimeOptions::clients_max>("maxclients", {.least = 1, .greatest = clients_max}),
    {.name = "maxmemory", .get = get_memory, .set = set_memory},
    {.name = "maxmemory-policy", .get = get_text, .set = set_policy, .text = "noeviction"},
    fixed("notify-keyspace-events", ""),
    fact("output-bytes-max", get_number<&RuntimeOptions::output_bytes_max>),
    fact("port", get_fact<&ServerFacts::port>),
    request_limit<&resp::ParserLimits::bulk_bytes_max>("proto-max-bulk-len"),
    fixed("rdbcompression", "yes"),
    fixed("replica-read-only", "yes"),
    fact("request-arguments-max", get_limit<&resp::ParserLimits::argument_count_max>),
    {.name = "requirepass", .get = get_password, .set = set_password},
    {.name = "save", .get = get_save, .set = set_save},
    number<&RuntimeOptions::save_bandwidth_bytes>("save-bandwidth", {.least = 0, .greatest = bandwidth_max}),
    number<&RuntimeOptions::save_interval>("save-interval", {.least = 0, .greatest = int_max}),
    kept_integer("slowlog-log-slower-than", "10000", {.least = -1, .greatest = long_max}),
    kept_integer("slowlog-max-len", "128", {.least = 0, .greatest = long_max}),
    fact("tcp-backlog", get_fact<&ServerFacts::listen_backlog>),
    number<&RuntimeOptions::tcp_keepalive>("tcp-keepalive", {.least = 0, .greatest = int_max}),
    fact("threads", get_fact<&ServerFacts::worker_count>),
    number<&RuntimeOptions::idle_timeout>("timeout", {.least = 0, .greatest = int_max}),
    fixed("tls-port", "0"),
    number<&RuntimeOptions::upload_timeout>("upload-timeout", {.least = 1, .greatest = int_max}),
    number<&RuntimeOptions::uploads_max>("uploads-max", {.least = 0, .greatest = uploads_max}),
};
static_assert(std::ranges::adjacent_find(parameter_table, std::ranges::greater_equal{}, &Parameter::name) ==
                  std::end(parameter_table),
              "sorted and unique");

}  // namespace

std::span<const Parameter> parameters() {
  return parameter_table;
}

const Parameter* find_parameter(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      parameter_table, [&](const Parameter& each) { return equal_ignoring_case(each.name, name); });
  return found != std::end(parameter_table) ? found : nullptr;
}

}  // namespace sepal::command
