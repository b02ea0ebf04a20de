#include <sepal/base/mutex.hpp>
#include <sepal/storage/saver.hpp>
#include <sepal/storage/snapshot.hpp>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

namespace sepal::storage {
namespace {

using std::chrono::milliseconds;

// How soon a save that is waited for at a stop learns that the wait was given up.
constexpr milliseconds give_up_period{20};

// So few that the gate opens again within about a millisecond.
constexpr std::size_t filters_at_once = 2048;

SteadyTime steady_now() {
  return std::chrono::steady_clock::now();
}

double seconds_between(SteadyTime from, SteadyTime to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

class Saver::Implementation {
 public:
  Implementation(DataDirectory& directory, keyspace::Keyspace& keyspace, Gate& gate, Changes changes,
                 WallTime loaded_at)
      : directory_(directory), keyspace_(keyspace), gate_(gate), changes_(std::move(changes)) {
    status_.last_success = loaded_at;
    status_.changes_saved = changes_();
    thread_ = std::thread([this] { run(); });
  }

  ~Implementation() { stop(); }

  void set_interval(milliseconds interval) {
    const MutexLock lock(mutex_);
    interval_ = interval;
    wake_.notify_all();
  }

  Result<void> start(Done done) {
    const MutexLock lock(mutex_);
    if (closing_) return fail(Errc::in_use, "the server is stopping");
    if (status_.running || order_) return fail(Errc::in_use, "a save is in progress");
    order_ = Order{.reason = "asked", .done = std::move(done)};
    wake_.notify_all();
    return {};
  }

  Result<GenerationReport> save_at_stop(const std::function<bool()>& give_up) {
    wait_for_orders(give_up);
    if (give_up()) return fail(Errc::io, "the last save was given up, as asked");
    const std::uint64_t now = changes_();
    {
      const MutexLock lock(mutex_);
      if (now == status_.changes_saved) return last_report_;
      status_.running = true;
      status_.progress = {};
    }
    return save("stop", [&](const Progress& progress) {
      note(progress);
      return !give_up();
    });
  }

  void stop() {
    {
      const MutexLock lock(mutex_);
      closing_ = true;
      ending_ = true;
      wake_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] SaverStatus status() const {
    const MutexLock lock(mutex_);
    return status_;
  }

 private:
  struct Order {
    const char* reason = "";
    Done done;
  };

  void run() {
    while (std::optional<Order> order = next_order()) {
      const auto report = save(order->reason, [this](const Progress& progress) {
        note(progress);
        return !abandoned_.load();
      });
      if (order->done) order->done(report);
      const MutexLock lock(mutex_);
      busy_ = false;
      wake_.notify_all();
    }
  }

  // Waits for what to do next; nothing when the thread is to end.
  std::optional<Order> next_order() {
    for (;;) {
      const bool due = wait_until_due();
      // Asked without the lock: it is a callback.
      const std::uint64_t now = changes_();
      const MutexLock lock(mutex_);
      if (due && !closing_ && !order_ && now != status_.changes_saved)
        order_ = Order{.reason = "interval", .done = {}};
      if (due) last_time_ = steady_now();
      if (!order_ && ending_) return std::nullopt;
      if (!order_) continue;
      status_.running = true;
      status_.progress = {};
      busy_ = true;
      return std::exchange(order_, std::nullopt);
    }
  }

  // True when the interval is over; false when there is an order, or the end.
  bool wait_until_due() {
    const MutexLock lock(mutex_);
    while (!order_ && !ending_) {
      if (interval_ == milliseconds(0) || closing_) {
        wake_.wait(mutex_);
        continue;
      }
      const auto left = last_time_ + interval_ - steady_now();
      if (left <= SteadyTime::duration::zero()) return true;
      wake_.wait_for(mutex_, left);
    }
    return false;
  }

  void wait_for_orders(const std::function<bool()>& give_up) {
    for (;;) {
      {
        const MutexLock lock(mutex_);
        closing_ = true;
        if (!order_ && !busy_) return;
        wake_.wait_for(mutex_, give_up_period);
      }
      if (give_up()) abandoned_ = true;
    }
  }

  // The caller has marked the save as running.
  Result<GenerationReport> save(const char* reason, const ProgressSink& progress) {
    const SteadyTime start = steady_now();
    const Cut cut = take_cut();
    spdlog::info("save started: reason={} filters={} gate_seconds={:.3f}", reason,
                 cut.snapshot.entries.size(), cut.gate_seconds);
    auto report = directory_.save(cut.snapshot, progress);
    const SteadyTime end = steady_now();
    log(report, seconds_between(start, end));
    record(report, cut.changes, std::chrono::duration_cast<milliseconds>(end - start));
    return report;
  }

  struct Cut {
    Snapshot snapshot;
    std::uint64_t changes = 0;
    double gate_seconds = 0;  // the longest that the gate was closed
  };

  Cut take_cut() {
    Cut cut;
    {
      const GateClosed closed(gate_);
      const SteadyTime start = steady_now();
      cut.changes = changes_();
      cut.snapshot = cut_of(keyspace_, std::chrono::system_clock::now());
      cut.gate_seconds = seconds_between(start, steady_now());
    }
    // While nobody waits: most filters have one layer.
    cut.snapshot.layer_counts.reserve(cut.snapshot.entries.size());
    cut.snapshot.layers.reserve(cut.snapshot.entries.size());
    for (bool all = false; !all;) {
      const GateClosed closed(gate_);
      const SteadyTime start = steady_now();
      all = take_layers(cut.snapshot, filters_at_once);
      cut.gate_seconds = std::max(cut.gate_seconds, seconds_between(start, steady_now()));
    }
    return cut;
  }

  static void log(const Result<GenerationReport>& report, double seconds) {
    if (report) {
      spdlog::info("save finished: filters={} bytes={} seconds={:.3f} generation={}", report->filters,
                   report->bytes, seconds, report->name);
    } else {
      spdlog::error("save failed: seconds={:.3f} reason=\"{}\"", seconds, report.error().detail);
    }
  }

  void record(const Result<GenerationReport>& report, std::uint64_t changes, milliseconds duration) {
    const MutexLock lock(mutex_);
    status_.running = false;
    status_.last_ok = report.ok();
    status_.last_error = report ? std::string() : report.error().detail;
    status_.last_duration = duration;
    last_time_ = steady_now();
    if (!report) return;
    last_report_ = *report;
    status_.last_success = std::chrono::system_clock::now();
    status_.last_bytes = report->bytes;
    status_.changes_saved = changes;
    ++status_.saves_done;
  }

  void note(const Progress& progress) {
    const MutexLock lock(mutex_);
    status_.progress = progress;
  }

  DataDirectory& directory_;
  keyspace::Keyspace& keyspace_;
  Gate& gate_;
  const Changes changes_;
  std::atomic<bool> abandoned_{false};  // the running save is to end early

  mutable Mutex mutex_;  // Lock order: the innermost; not held while the gate is closed.
  Condition wake_;       // of anything below
  milliseconds interval_ SEPAL_GUARDED_BY(mutex_){0};
  SteadyTime last_time_ SEPAL_GUARDED_BY(mutex_) = steady_now();  // of a save, or of a look for changes
  std::optional<Order> order_ SEPAL_GUARDED_BY(mutex_);
  bool busy_ SEPAL_GUARDED_BY(mutex_) = false;     // the thread saves, or calls a Done
  bool closing_ SEPAL_GUARDED_BY(mutex_) = false;  // no new orders
  bool ending_ SEPAL_GUARDED_BY(mutex_) = false;   // the thread is to end
  SaverStatus status_ SEPAL_GUARDED_BY(mutex_);
  GenerationReport last_report_ SEPAL_GUARDED_BY(mutex_);

  std::thread thread_;  // Last: it uses all of the above.
};

Saver::Saver(DataDirectory& directory, keyspace::Keyspace& keyspace, Gate& gate, Changes changes,
             WallTime loaded_at)
    : implementation_(
          std::make_unique<Implementation>(directory, keyspace, gate, std::move(changes), loaded_at)) {}

Saver::~Saver() = default;

void Saver::set_interval(milliseconds interval) {
  implementation_->set_interval(interval);
}

Result<void> Saver::start(Done done) {
  return implementation_->start(std::move(done));
}

Result<GenerationReport> Saver::save_at_stop(const std::function<bool()>& give_up) {
  return implementation_->save_at_stop(give_up);
}

void Saver::stop() {
  implementation_->stop();
}

SaverStatus Saver::status() const {
  return implementation_->status();
}

}  // namespace sepal::storage
