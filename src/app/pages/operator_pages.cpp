#include "app/pages/operator_pages.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/whole_number.hpp>
#include <sepal/bloom/window/plan.hpp>
#include <sepal/command/server/metrics_text.hpp>
#include <sepal/command/server/status_json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "app/pages/page_files.hpp"
#include "app/pages/query.hpp"

namespace sepal::app {
namespace {

// Clients that come more often are sent the same text, so that many of them take little of a core.
constexpr std::chrono::milliseconds rendered_age_max{200};

http::Response text_response(unsigned status, std::string_view text) {
  return {.status = status, .body = std::make_shared<const std::string>(std::string(text) + "\n")};
}

http::Response json_response(unsigned status, std::string text) {
  return {.status = status,
          .content_type = "application/json",
          .body = std::make_shared<const std::string>(std::move(text))};
}

constexpr unsigned bad_request = 400;
constexpr unsigned not_found = 404;

// A number that is all of the text.
template <class Number>
std::optional<Number> number_in(const std::optional<std::string>& text) {
  return text ? parse_whole<Number>(*text) : std::nullopt;
}

// What /api/plan is asked. A member is nothing if it was not given.
struct PlanAsked {
  std::optional<std::uint64_t> capacity;
  std::optional<double> error;
  std::optional<std::uint32_t> expansion;
  std::optional<std::uint64_t> window_milliseconds;  // 0: the last items; nothing: the filter never forgets
  std::optional<std::uint32_t> generations;
};

template <class Number>
bool read_number(const std::string& text, std::optional<Number>& to) {
  to = parse_whole<Number>(text);
  return to.has_value();
}

bool read_window(const std::string& text, std::optional<std::uint64_t>& milliseconds) {
  milliseconds = 0;
  if (text == "last") return true;
  constexpr double milliseconds_a_second = 1000;
  const auto seconds = parse_whole<double>(text);
  // Refuses NaN, too.
  if (!seconds || !(*seconds > 0)) return false;
  const double rounded = std::round(*seconds * milliseconds_a_second);
  if (rounded > static_cast<double>(bloom::window_milliseconds_max)) return false;
  // 0 would be the last items.
  milliseconds = std::max(std::uint64_t{1}, static_cast<std::uint64_t>(rounded));
  return true;
}

// The parameters of /api/plan. They are named as the flags of `sepal plan`, and have its defaults.
struct PlanParameter {
  std::string_view name;
  std::string_view what;                                 // its value is
  bool (*read)(const std::string& text, PlanAsked& to);  // false: the value is something else
};
constexpr PlanParameter plan_parameters[] = {
    {"capacity", "a whole number",
     [](const std::string& text, PlanAsked& to) { return read_number(text, to.capacity); }},
    {"error", "a number", [](const std::string& text, PlanAsked& to) { return read_number(text, to.error); }},
    {"expansion", "a whole number",
     [](const std::string& text, PlanAsked& to) { return read_number(text, to.expansion); }},
    {"window", "seconds above 0, or last",
     [](const std::string& text, PlanAsked& to) { return read_window(text, to.window_milliseconds); }},
    {"generations", "a whole number",
     [](const std::string& text, PlanAsked& to) { return read_number(text, to.generations); }},
};

// Reads the query. The answer is what is wrong with it, in a sentence; empty: nothing.
std::string read_plan(std::string_view query, PlanAsked& to) {
  const auto members = query_members(query);
  if (!members) return "a parameter is a name, = and a value";
  for (const QueryMember& member : *members) {
    const auto* const known = std::ranges::find(plan_parameters, member.name, &PlanParameter::name);
    if (known == std::end(plan_parameters)) return "there is no parameter " + member.name;
    if (!known->read(member.value, to)) return member.name + " is " + std::string(known->what);
  }
  if (!to.window_milliseconds) return to.generations ? "generations needs window" : "";
  if (!to.capacity) return "window needs capacity, the different items of a window";
  return *to.window_milliseconds == 0 && to.expansion
             ? "window=last and expansion exclude each other: such a filter does not grow"
             : "";
}

// An error is an answer and no fault of the client: the question was sound.
http::Response told(const Result<std::string>& plan) {
  return json_response(200, plan ? *plan : command::error_json(plan.error().detail));
}

http::Response planned(const http::Request& request) {
  PlanAsked asked;
  if (const std::string wrong = read_plan(request.query, asked); !wrong.empty())
    return json_response(bad_request, command::error_json(wrong));
  const bloom::FilterOptions defaults{};
  const double error = asked.error.value_or(defaults.error_rate);
  const std::uint64_t capacity = asked.capacity.value_or(defaults.capacity);
  const std::uint32_t expansion = asked.expansion.value_or(defaults.expansion);
  if (!asked.window_milliseconds)
    return told(command::plan_json({.error_rate = error, .capacity = capacity, .expansion = expansion}));
  return told(command::window_plan_json(
      {.error_rate = error,
       .capacity = capacity,
       .expansion = *asked.window_milliseconds == 0 ? 0 : expansion,
       .milliseconds = *asked.window_milliseconds,
       .generations = asked.generations.value_or(bloom::window_generations_default)}));
}

metrics::Format format_for(std::string_view accept) {
  return accept.find("application/openmetrics-text") == std::string_view::npos
             ? metrics::Format::prometheus
             : metrics::Format::open_metrics;
}

}  // namespace

OperatorPages::OperatorPages(const settings::HttpOptions& options, const tls::Current& tls, Gate& gate,
                             std::size_t side, const command::Services& services)
    : options_(options),
      tls_(tls),
      gate_(gate),
      side_(side),
      services_(services),
      recent_(std::chrono::steady_clock::now()),
      server_({.bind = options.bind,
               .port = options.port,
               .hosts = options.hosts,
               .tls = options.tls == command::Switch::yes ? &tls : nullptr},
              routes()) {}

Result<void> OperatorPages::start() {
  return server_.start();
}

void OperatorPages::loaded() {
  SEPAL_ASSERT(watch_owner_ == nullptr, "the data is loaded once");
  watch_owner_ = std::make_unique<FilterWatch>(
      gate_, side_, services_.keyspace,
      FilterWatch::Options{.filters_max = options_.metrics_filters_max,
                           .pattern = options_.metrics_pattern,
                           .value_changes = [this] { return command::value_changes(services_); },
                           .tick =
                               [this] {
                                 const GateEntered inside(gate_, side_);
                                 recent_.sample(services_, std::chrono::steady_clock::now());
                               },
                           .tick_interval = command::Recent::sample_interval});
  // The thread of HTTP reads this pointer, and finds a watch that is complete.
  watch_ = watch_owner_.get();
  Stage loading = Stage::loading;
  // stopping() may have come first; then its stage stays.
  stage_.compare_exchange_strong(loading, Stage::serving);
}

std::vector<http::Route> OperatorPages::routes() {
  std::vector<http::Route> table{
      {.path = "/healthz", .answer = [](const http::Request&) { return text_response(200, "alive"); }},
      {.path = "/readyz", .answer = [this](const http::Request&) { return ready(); }},
      {.path = "/metrics", .answer = [this](const http::Request& request) { return metrics(request); }},
      {.path = "/api/server", .answer = [this](const http::Request&) { return server_status(); }},
      {.path = "/api/filters", .answer = [this](const http::Request&) { return filters(); }},
      {.path = "/api/filter", .answer = [this](const http::Request& request) { return filter(request); }},
      {.path = "/api/plan", .answer = planned}};
  for (const PageFile& file : page_files()) {
    // Made once. All answers share the bytes.
    http::Response response{.content_type = std::string(file.content_type),
                            .body = std::make_shared<const std::string>(file.bytes)};
    table.push_back(
        {.path = std::string(file.path), .answer = [response](const http::Request&) { return response; }});
  }
  return table;
}

http::Response OperatorPages::ready() const {
  constexpr unsigned unavailable = 503;
  const Stage stage = stage_;
  if (stage == Stage::loading) return text_response(unavailable, "the data is being loaded");
  if (stage == Stage::stopping) return text_response(unavailable, "the server stops");
  const command::JournalStatus journal = services_.journal.status();
  if (!journal.accepting) return text_response(unavailable, "changes are refused: " + journal.refusal);
  return text_response(200, "ready");
}

http::Response OperatorPages::metrics(const http::Request& request) {
  const metrics::Format format = format_for(request.accept);
  static_assert(static_cast<std::size_t>(metrics::Format::open_metrics) + 1 ==
                std::tuple_size_v<decltype(rendered_)>);
  Rendered& rendered = rendered_[static_cast<std::size_t>(format)];
  const SteadyTime now = std::chrono::steady_clock::now();
  if (rendered.text == nullptr || now - rendered.at > rendered_age_max)
    rendered = {.at = now, .text = std::make_shared<const std::string>(render(format))};
  return {.content_type = std::string(metrics::content_type(format)), .body = rendered.text};
}

command::MetricsMoment OperatorPages::moment() const {
  command::MetricsMoment moment{.now = std::chrono::system_clock::now(),
                                .steady_now = std::chrono::steady_clock::now(),
                                .gate_waits = gate_.wait_count(),
                                .gate_closings = gate_.closing_count()};
  moment.unsaved_for = recent_.unsaved_for(moment.steady_now);
  if (const auto context = tls_.get())
    moment.certificate = {.start = context->certificate().starts_at, .end = context->certificate().ends_at};
  return moment;
}

http::Response OperatorPages::server_status() {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (rendered_server_.text == nullptr || now - rendered_server_.at > rendered_age_max) {
    const command::MetricsMoment now_known = moment();
    const auto seen = filters_seen();
    const GateEntered inside(gate_, side_);
    rendered_server_ = {.at = now,
                        .text = std::make_shared<const std::string>(
                            command::server_json(services_, now_known,
                                                 {.filters_max = options_.metrics_filters_max,
                                                  .pattern = options_.metrics_pattern,
                                                  .counts = seen->counts,
                                                  .judged_at = seen->judged_at},
                                                 recent_))};
  }
  return {.content_type = "application/json", .body = rendered_server_.text};
}

// Not null.
std::shared_ptr<const command::FiltersSeen> OperatorPages::filters_seen() const {
  const FilterWatch* const watch = watch_;
  return watch == nullptr ? std::make_shared<const command::FiltersSeen>() : watch->seen();
}

http::Response OperatorPages::filters() {
  auto seen = filters_seen();
  // A round does not change, so its text is made once, however often it is asked for.
  if (rendered_filters_.seen != seen) {
    rendered_filters_.text = std::make_shared<const std::string>(command::filters_json(*seen));
    rendered_filters_.seen = std::move(seen);
  }
  return {.content_type = "application/json", .body = rendered_filters_.text};
}

http::Response OperatorPages::filter(const http::Request& request) const {
  const auto database = number_in<std::uint32_t>(query_value(request.query, "database"));
  const auto key = query_value(request.query, "key");
  if (!database || *database >= keyspace::database_count || !key)
    return json_response(bad_request, command::error_json("database is a number of a database, key a key"));
  const FilterWatch* const watch = watch_;
  const auto detail = watch == nullptr ? std::nullopt : watch->look_at(*database, *key);
  if (!detail) return json_response(not_found, command::error_json("there is no such filter"));
  return json_response(200, command::filter_json(*detail));
}

std::string OperatorPages::render(metrics::Format format) const {
  metrics::Exposition exposition(format);
  const command::MetricsMoment now_known = moment();
  {
    const GateEntered inside(gate_, side_);
    command::append_server_metrics(services_, now_known, exposition);
  }
  // Outside the gate: a finished round of the watch does not change any more.
  command::append_filter_metrics(*filters_seen(), exposition);
  return std::move(exposition).finish();
}

}  // namespace sepal::app
