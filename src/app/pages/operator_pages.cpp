#include "app/pages/operator_pages.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/whole_number.hpp>
#include <sepal/bloom/window/plan.hpp>
#include <sepal/command/server/metrics_text.hpp>
#include <sepal/command/server/status_json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
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

struct WindowWords {
  std::optional<std::string> window;  // seconds, or "last"; empty: the filter never forgets
  std::optional<std::uint32_t> generations;
};

// Empty if a word is not what it should be.
std::optional<bloom::WindowOptions> window_asked(const WindowWords& words,
                                                 const bloom::FilterOptions& options) {
  if (!words.generations) return std::nullopt;
  bloom::WindowOptions window{.error_rate = options.error_rate,
                              .capacity = options.capacity,
                              .expansion = options.expansion,
                              .generations = *words.generations};
  if (words.window == "last") return window;
  constexpr double milliseconds_a_second = 1000;
  const auto seconds = number_in<double>(words.window);
  // Refuses NaN, too.
  if (!seconds || !(*seconds > 0)) return std::nullopt;
  const double milliseconds = std::round(*seconds * milliseconds_a_second);
  if (milliseconds > static_cast<double>(bloom::window_milliseconds_max)) return std::nullopt;
  // 0 would be the last items.
  window.milliseconds = std::max(std::uint64_t{1}, static_cast<std::uint64_t>(milliseconds));
  return window;
}

// An error is an answer and no fault of the client: the question was sound.
http::Response told(const Result<std::string>& plan) {
  return json_response(200, plan ? *plan : command::error_json(plan.error().detail));
}

http::Response planned(const http::Request& request) {
  const auto items = number_in<std::uint64_t>(query_value(request.query, "items"));
  const auto rate = number_in<double>(query_value(request.query, "rate"));
  const auto expansion = number_in<std::uint32_t>(query_value(request.query, "expansion"));
  if (!items || !rate || !expansion)
    return json_response(bad_request, command::error_json("items, rate and expansion are numbers"));
  const bloom::FilterOptions options{.error_rate = *rate, .capacity = *items, .expansion = *expansion};
  const WindowWords words{.window = query_value(request.query, "window"),
                          .generations = number_in<std::uint32_t>(query_value(request.query, "generations"))};
  if (!words.window) return told(command::plan_json(options));
  const auto window = window_asked(words, options);
  if (!window)
    return json_response(bad_request,
                         command::error_json("window is seconds above 0, or last; generations is a number"));
  return told(command::window_plan_json(*window));
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
