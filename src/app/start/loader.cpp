#include "app/start/loader.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/log/event.hpp>

#include <array>
#include <chrono>
#include <string_view>
#include <utility>

namespace sepal::app {
namespace {

// Tells an operator that a long load goes on.
constexpr std::chrono::seconds log_period{5};

SteadyTime steady_now() {
  return std::chrono::steady_clock::now();
}

void log_progress(const storage::Progress& progress, double seconds) {
  const auto done = static_cast<double>(progress.bytes_done);
  const auto total = static_cast<double>(progress.bytes_total);
  const double bytes_per_second = done / seconds;
  log::info("loading", "loading",
            {{"percent", total > 0 ? 100 * done / total : 0, 1},
             {"bytes", progress.bytes_done},
             {"bytes_total", progress.bytes_total},
             {"bytes_per_second", bytes_per_second, 0},
             {"seconds_left", bytes_per_second > 0 ? (total - done) / bytes_per_second : 0, 0}});
}

}  // namespace

Loader::Loader(Gate& gate, keyspace::Keyspace& keyspace, command::LoadStatus& status, ServiceManager& manager,
               std::function<bool()> give_up)
    : gate_(gate),
      keyspace_(keyspace),
      status_(status),
      manager_(manager),
      give_up_(std::move(give_up)),
      start_(steady_now()),
      logged_(start_) {
  SEPAL_ASSERT(give_up_, "a load could not be given up");
}

Result<storage::GenerationReport> Loader::load(storage::DataDirectory& data) {
  value::Limits limits;
  {
    const GateClosed closed(gate_);
    limits = keyspace_.value_limits();
  }
  auto report = data.load(
      limits, [this](std::span<storage::LoadedValue> filters) { return take(filters); },
      [this](const storage::Progress& progress) { return note(progress); });
  // The replay adds its own progress to these bytes.
  if (report) static_cast<void>(note({.bytes_done = report->bytes, .bytes_total = report->bytes}));
  return report;
}

Result<void> Loader::take(std::span<storage::LoadedValue> filters) {
  const GateClosed closed(gate_);
  prefetch(filters);
  for (storage::LoadedValue& loaded : filters) {
    SEPAL_ASSERT(loaded.value != nullptr, "a key is loaded without its filter");
    auto done =
        keyspace_.put({.database = loaded.database, .key = loaded.key}, loaded.value, loaded.deadline);
    if (!done) return done;
    positions_.note(loaded, *loaded.value);
    // It was taken. After an error, the reader names the first filter that is left as the refused one.
    loaded.value = nullptr;
    ++status_.keys;
  }
  return {};
}

// The keys come in the order of another process's hashes, so each goes to a place that no cache holds.
void Loader::prefetch(std::span<const storage::LoadedValue> filters) const {
  std::array<std::string_view, 64> keys;
  std::size_t count = 0;
  for (std::size_t index = 0; index < filters.size(); ++index) {
    const storage::LoadedValue& loaded = filters[index];
    keys[count++] = loaded.key;
    const bool last = index + 1 == filters.size() || filters[index + 1].database != loaded.database;
    if (count < keys.size() && !last) continue;
    keyspace_.prefetch(loaded.database, std::span(keys).first(count));
    count = 0;
  }
}

Result<storage::ReplayReport> Loader::replay(storage::Disk& disk, const storage::Path& directory,
                                             const storage::GenerationReport& loaded) {
  storage::ReplayStart start{.cut = loaded.journal_position,
                             .positions = std::move(positions_),
                             .mirrors = loaded.mirrors,
                             .run = loaded.run};
  return storage::replay_journal(disk, directory, keyspace_, gate_, std::move(start),
                                 [&](const storage::Progress& progress) {
                                   return note({.bytes_done = loaded.bytes + progress.bytes_done,
                                                .bytes_total = loaded.bytes + progress.bytes_total});
                                 });
}

bool Loader::note(const storage::Progress& progress) {
  bool log_due = false;
  {
    const GateClosed closed(gate_);
    status_.bytes_done = progress.bytes_done;
    status_.bytes_total = progress.bytes_total;
    status_.duration = std::chrono::duration_cast<std::chrono::milliseconds>(steady_now() - start_);
    log_due = log_is_due();
  }
  // Outside the gate: the log, and the socket of the service manager, may make this thread wait.
  if (log_due) log_progress(progress, std::chrono::duration<double>(steady_now() - start_).count());
  manager_.loading(progress.bytes_done, progress.bytes_total);
  return !give_up_();
}

bool Loader::log_is_due() {
  const SteadyTime now = steady_now();
  if (now - logged_ < log_period) return false;
  logged_ = now;
  return true;
}

}  // namespace sepal::app
