// What the server answers over HTTP: the table of paths, and what stands behind each.
//
//     /healthz   200 while the process runs
//     /readyz    200 once the data is loaded, while changes are accepted; otherwise 503 and the reason
//     /metrics   the metrics, for Prometheus
//     /          the status page, for people; its files are in src/app/page
//     /api/...   what that page shows, as JSON
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/server/recent.hpp>
#include <sepal/http/server.hpp>
#include <sepal/metrics/exposition.hpp>
#include <sepal/settings/settings.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/threads/filter_watch.hpp"

namespace sepal::app {

// Confined to the main thread, but for the answers, which run on the thread of HTTP.
class OperatorPages {
 public:
  // `side` is a side of the gate that no worker enters. All references outlive this object.
  OperatorPages(const settings::HttpOptions& options, const tls::Current& tls, Gate& gate, std::size_t side,
                const command::Services& services);

  // Listens. Errors: those of http::Server::start().
  Result<void> start();
  [[nodiscard]] std::uint16_t port() const { return server_.port(); }

  // The data is loaded: readiness depends on the journal from now on, and filters are watched.
  void loaded();
  // The server stops: it is not ready any more.
  void stopping() { stage_ = Stage::stopping; }

 private:
  enum class Stage : std::uint8_t { loading, serving, stopping };

  // A text that is sent again to clients that come soon after another.
  struct Rendered {
    SteadyTime at{};
    std::shared_ptr<const std::string> text;
  };
  // The list of filters as JSON, and the round of the watch from which it was made.
  struct RenderedFilters {
    std::shared_ptr<const command::FiltersSeen> seen;
    std::shared_ptr<const std::string> text;
  };

  [[nodiscard]] std::vector<http::Route> routes();
  [[nodiscard]] http::Response ready() const;
  [[nodiscard]] http::Response metrics(const http::Request& request);
  [[nodiscard]] std::string render(metrics::Format format) const;
  [[nodiscard]] http::Response server_status();
  [[nodiscard]] std::shared_ptr<const command::FiltersSeen> filters_seen() const;
  [[nodiscard]] command::MetricsMoment moment() const;
  [[nodiscard]] http::Response filters();
  [[nodiscard]] http::Response filter(const http::Request& request) const;

  const settings::HttpOptions options_;
  const tls::Current& tls_;
  Gate& gate_;
  const std::size_t side_;
  const command::Services& services_;
  std::atomic<Stage> stage_{Stage::loading};
  command::Recent recent_;
  std::atomic<const FilterWatch*> watch_{nullptr};  // null until the data is loaded
  std::unique_ptr<FilterWatch> watch_owner_;
  // Confined to the thread of HTTP.
  std::array<Rendered, 2> rendered_;  // by format
  Rendered rendered_server_;
  RenderedFilters rendered_filters_;
  http::Server server_;  // Last: its thread uses all of the above.
};

}  // namespace sepal::app
