#include "operator_pages.hpp"

#include <sepal/command/metrics_text.hpp>

#include <chrono>
#include <string_view>
#include <utility>

namespace sepal::app {
namespace {

// Clients that come more often are sent the same text, so that many of them take little of a core.
constexpr std::chrono::milliseconds rendered_age_max{200};

http::Response text_response(unsigned status, std::string_view text) {
  return {.status = status, .body = std::make_shared<const std::string>(std::string(text) + "\n")};
}

metrics::Format format_for(std::string_view accept) {
  return accept.find("application/openmetrics-text") == std::string_view::npos
             ? metrics::Format::prometheus
             : metrics::Format::open_metrics;
}

}  // namespace

OperatorPages::OperatorPages(const settings::HttpOptions& options, Gate& gate, std::size_t side,
                             const command::Services& services)
    : options_(options),
      gate_(gate),
      side_(side),
      services_(services),
      server_({.bind = options.bind, .port = options.port, .hosts = options.hosts}, routes()) {}

Result<void> OperatorPages::start() {
  return server_.start();
}

void OperatorPages::loaded() {
  watch_owner_ = std::make_unique<FilterWatch>(
      gate_, side_, services_.keyspace,
      FilterWatch::Options{.filters_max = options_.metrics_filters_max, .pattern = options_.metrics_pattern});
  watch_ = watch_owner_.get();
  Stage loading = Stage::loading;
  stage_.compare_exchange_strong(loading, Stage::serving);
}

std::vector<http::Route> OperatorPages::routes() {
  return {{.path = "/healthz", .answer = [](const http::Request&) { return text_response(200, "alive"); }},
          {.path = "/readyz", .answer = [this](const http::Request&) { return ready(); }},
          {.path = "/metrics", .answer = [this](const http::Request& request) { return metrics(request); }}};
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
  Rendered& rendered = rendered_[static_cast<std::size_t>(format)];
  const SteadyTime now = std::chrono::steady_clock::now();
  if (rendered.text == nullptr || now - rendered.at > rendered_age_max)
    rendered = {.at = now, .text = std::make_shared<const std::string>(render(format))};
  return {.content_type = std::string(metrics::content_type(format)), .body = rendered.text};
}

std::string OperatorPages::render(metrics::Format format) const {
  metrics::Exposition exposition(format);
  const command::MetricsMoment moment{.now = std::chrono::system_clock::now(),
                                      .steady_now = std::chrono::steady_clock::now(),
                                      .gate_waits = gate_.wait_count(),
                                      .gate_closings = gate_.closing_count()};
  {
    const GateEntered inside(gate_, side_);
    command::append_server_metrics(services_, moment, exposition);
  }
  const FilterWatch* const watch = watch_;
  if (watch != nullptr) command::append_filter_metrics(*watch->seen(), exposition);
  return std::move(exposition).finish();
}

}  // namespace sepal::app
