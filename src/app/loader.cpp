#include "loader.hpp"

#include <chrono>
#include <utility>

namespace sepal::app {

Loader::Loader(Gate& gate, keyspace::Keyspace& keyspace, command::LoadStatus& status,
               std::function<bool()> give_up)
    : gate_(gate),
      keyspace_(keyspace),
      status_(status),
      give_up_(std::move(give_up)),
      start_(std::chrono::steady_clock::now()) {}

Result<storage::GenerationReport> Loader::load(storage::DataDirectory& data) {
  filter::FilterLimits limits;
  {
    const GateClosed closed(gate_);
    limits = keyspace_.filter_limits();
  }
  auto report = data.load(
      limits, [this](std::span<storage::LoadedFilter> filters) { return take(filters); },
      [this](const storage::Progress& progress) { return note(progress); });
  if (report) static_cast<void>(note({.bytes_done = report->bytes, .bytes_total = report->bytes}));
  return report;
}

Result<void> Loader::take(std::span<storage::LoadedFilter> filters) {
  const GateClosed closed(gate_);
  for (storage::LoadedFilter& loaded : filters) {
    const auto done = keyspace_.put({.database = loaded.database, .key = loaded.key}, loaded.filter);
    if (!done) return done;
    loaded.filter = nullptr;
    ++status_.filters;
  }
  return {};
}

bool Loader::note(const storage::Progress& progress) {
  {
    const GateClosed closed(gate_);
    status_.bytes_done = progress.bytes_done;
    status_.bytes_total = progress.bytes_total;
    status_.duration =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start_);
  }
  return !give_up_();
}

}  // namespace sepal::app
