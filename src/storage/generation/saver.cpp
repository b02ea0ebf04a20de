// A save has four steps: take the cut, have the journal sync what the cut relies on, write the generation,
// and tell the journal. Orders for a save come from three places:
//
//     start()          a client; `order_` keeps the order until the saver's thread takes it
//     own_order()      the saver's thread itself: a demand, room, a long journal, the interval
//     save_at_stop()   the thread that stops; it saves itself, once the saver's thread is idle for good
//
// Two flags outlive a single order:
//
//     demanded_     begin() takes it, so any save that begins after a demand meets it. A demand during a
//                   save asks for one more save. A save that fails gives the flag back.
//     room_wanted_  stays until a save succeeds: a save that runs already makes room as well
#include <sepal/base/assert.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/base/thread.hpp>
#include <sepal/log/event.hpp>
#include <sepal/storage/generation/saver.hpp>
#include <sepal/storage/generation/snapshot.hpp>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "storage/disk/steady_now.hpp"
#include "storage/generation/generation_writer.hpp"
#include "storage/generation/save_watch.hpp"

namespace sepal::storage {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// At a stop, a running save learns within this time that the wait for it was given up.
constexpr milliseconds give_up_period{20};

// While a snapshot is taken, the gate is closed for this long at a time, and for a few filters more. The
// pause lets waiting workers in. Without it the gate would close again before they get in, and would in
// effect stay closed (docs/decisions/0011).
constexpr microseconds gate_closed_max{300};
constexpr microseconds gate_pause{200};
constexpr std::size_t filters_at_once = 128;

// How often the saver looks whether the journal has grown too long, and whether its directory is still there.
constexpr milliseconds look_period{1000};

// On a full disk under load, saves for room follow each other at once. One in this time is logged as info,
// the others as debug.
constexpr milliseconds room_log_period{10'000};

// The pause between two tries of a save that has to succeed. It doubles after each failure.
constexpr milliseconds retry_pause_min{1000};
constexpr milliseconds retry_pause_max{60'000};
static_assert(retry_pause_min <= retry_pause_max && gate_closed_max.count() > 0 && filters_at_once > 0);

constexpr std::string_view room_reason = "room";

double seconds_between(SteadyTime from, SteadyTime to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

class Saver::Implementation {
 public:
  Implementation(DataDirectory& directory, keyspace::Keyspace& keyspace, Gate& gate, SaverCallbacks callbacks,
                 const Loaded& loaded)
      : directory_(directory), keyspace_(keyspace), gate_(gate), callbacks_(std::move(callbacks)) {
    SEPAL_ASSERT(callbacks_.changes, "a saver that cannot ask for changes would never save");
    SEPAL_ASSERT((callbacks_.lend_reserve == nullptr) == (callbacks_.reserve_returned == nullptr),
                 "a reserve is lent and never given back, or the other way round");
    status_.last_success = loaded.at;
    status_.journal_position = loaded.journal_position;
    status_.changes_saved = loaded.changes;
    thread_ = start_thread("saver", [this] { run(); });
  }

  ~Implementation() { stop(); }

  void set_options(const SaverOptions& options) {
    SEPAL_ASSERT(options.interval.count() >= 0 && options.journal_share >= 0,
                 "a saver would save before the last save");
    const MutexLock lock(mutex_);
    options_ = options;
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

  void demand() {
    const MutexLock lock(mutex_);
    demanded_ = true;
    // The journal demands a save once for each loss (Journal::Callbacks). A new loss does not wait for the
    // pause after an earlier failure.
    retry_at_ = steady_now();
    wake_.notify_all();
  }

  void make_room() {
    const MutexLock lock(mutex_);
    // The journal asks again and again until a save has succeeded. Only the first call may reset the pause
    // between tries.
    if (std::exchange(room_wanted_, true)) return;
    // A save that runs already may make enough room. If it fails, its pause applies.
    if (!status_.running) retry_at_ = steady_now();
    wake_.notify_all();
  }

  Result<GenerationReport> save_at_stop(const std::function<bool()>& give_up) {
    SEPAL_ASSERT(give_up, "the last save could not be given up");
    wait_for_orders(give_up);
    if (give_up()) return fail(Errc::io, "the last save was given up, as asked");
    // A callback, so it is called without the lock. The server has stopped, so the count does not grow any
    // more.
    const std::uint64_t now = callbacks_.changes();
    Order order{.reason = "stop", .done = {}};
    {
      const MutexLock lock(mutex_);
      if (now == status_.changes_saved && !demanded_ && !misplaced_ && directory_.check())
        return last_report_;
      begin(order);
    }
    return save(order, [&] { return !give_up(); });
  }

  void stop() {
    {
      const MutexLock lock(mutex_);
      closing_ = true;
      ending_ = true;
      wake_.notify_all();
    }
    SEPAL_ASSERT(std::this_thread::get_id() != thread_.get_id(), "the saver cannot wait for its own end");
    // Joined without the lock, because the saver's thread needs it for the order that it may still carry out.
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] SaverStatus status() const {
    const MutexLock lock(mutex_);
    SaverStatus status = status_;
    // A client that has asked for a save sees it run, even if the thread has not woken up yet.
    status.running = status.running || order_;
    return status;
  }

 private:
  struct Order {
    std::string_view reason;
    Done done;
    bool demanded = false;
  };

  void run() {
    while (std::optional<Order> order = next_order()) {
      const auto report = save(*order, [this] { return !abandoned_.load(); });
      // `busy_` stays set while `done` runs. Otherwise save_at_stop() might begin its save then, and
      // Saver::start promises that no save runs beside a `done`.
      if (order->done) order->done(report);
      const MutexLock lock(mutex_);
      SEPAL_ASSERT(busy_, "the saver ends a save that it has not begun");
      busy_ = false;
      wake_.notify_all();
    }
  }

  // Waits for the next order; empty if the thread has to end.
  std::optional<Order> next_order() {
    for (;;) {
      const bool look = wait_until_due();
      // Called without the lock, because they are callbacks.
      const std::uint64_t changes = callbacks_.changes();
      const std::uint64_t journal_end = journal_position();
      const std::uint64_t adopted_bytes = callbacks_.adopted_bytes ? callbacks_.adopted_bytes() : 0;
      const bool is_there = directory_.check().ok();
      const MutexLock lock(mutex_);
      misplaced_ = misplaced_ || !is_there;
      if (look && !closing_ && !order_) order_ = own_order(changes, journal_end, adopted_bytes);
      // An order that was given before the end is still carried out, because each `done` is called exactly
      // once.
      if (!order_ && ending_) return std::nullopt;
      if (!order_) continue;
      Order order = std::move(*order_);
      order_.reset();
      SEPAL_ASSERT(!busy_, "the saver takes an order while it saves");
      busy_ = true;
      begin(order);
      return order;
    }
  }

  // A save that no client asked for and that is due. The demand comes first, because it has clients that
  // wait: after a failed sync the journal refuses changes and holds replies until the save has ended.
  std::optional<Order> own_order(std::uint64_t changes, std::uint64_t journal_end,
                                 std::uint64_t adopted_bytes) SEPAL_REQUIRES(mutex_) {
    const SteadyTime now = steady_now();
    // Moves next_look() forward. Otherwise the saver would look again at once, for ever.
    looked_at_ = now;
    const bool may_try = now >= retry_at_;
    if (demanded_ && may_try) return Order{.reason = "journal incomplete", .done = {}};
    if (misplaced_ && may_try) return Order{.reason = "directory", .done = {}};
    if (room_wanted_ && may_try) return Order{.reason = room_reason, .done = {}};
    if (journal_is_long(journal_end, adopted_bytes) && may_try) return Order{.reason = "journal", .done = {}};
    if (options_.interval == milliseconds(0) || now < last_time_ + options_.interval) return std::nullopt;
    // Set even if nothing has changed, for the same reason: the interval begins anew.
    last_time_ = now;
    if (changes == status_.changes_saved) return std::nullopt;
    return Order{.reason = "interval", .done = {}};
  }

  [[nodiscard]] bool journal_is_long(std::uint64_t journal_end, std::uint64_t adopted_bytes) const
      SEPAL_REQUIRES(mutex_) {
    if (options_.journal_share == 0) return false;
    const std::uint64_t bytes = journal_end - std::min(journal_end, status_.journal_position) + adopted_bytes;
    const double share = options_.journal_share * static_cast<double>(keyspace_.memory_used());
    return bytes > options_.journal_bytes_min && static_cast<double>(bytes) > share;
  }

  // True: it is time to look for a save that is due. False: there is an order, or the thread has to end.
  bool wait_until_due() {
    const MutexLock lock(mutex_);
    while (!order_ && !ending_) {
      const std::optional<SteadyTime> due = next_look();
      if (!due) {
        wake_.wait(mutex_);
        continue;
      }
      const auto left = *due - steady_now();
      if (left <= SteadyTime::duration::zero()) return true;
      wake_.wait_for(mutex_, left);
    }
    return false;
  }

  [[nodiscard]] std::optional<SteadyTime> next_look() const SEPAL_REQUIRES(mutex_) {
    if (closing_) return std::nullopt;
    SteadyTime next = looked_at_ + look_period;
    if (options_.interval != milliseconds(0)) next = std::min(next, last_time_ + options_.interval);
    if (demanded_ || room_wanted_) next = std::min(next, retry_at_);
    return next;
  }

  void wait_for_orders(const std::function<bool()>& give_up) {
    for (;;) {
      {
        const MutexLock lock(mutex_);
        closing_ = true;
        if (!order_ && !busy_) return;
        // Nothing signals that `give_up` has changed its mind, so it is asked after each period.
        wake_.wait_for(mutex_, give_up_period);
      }
      if (give_up()) abandoned_ = true;
    }
  }

  void begin(Order& order) SEPAL_REQUIRES(mutex_) {
    SEPAL_ASSERT(!status_.running, "a save begins while another runs");
    order.demanded = std::exchange(demanded_, false);
    demanded_runs_ = order.demanded;
    status_.running = true;
    status_.progress = {};
    status_.started_at = steady_now();
  }

  // Carries out an order for which begin() has been called. On the saver's thread or on that of
  // save_at_stop(), never on both at once.
  Result<GenerationReport> save(const Order& order, const std::function<bool()>& go_on) {
    const SteadyTime start = steady_now();
    choose_log_level(order, start);
    take_replacement();
    Cut cut = take_whole_cut();
    log::write(log_level_, "save_started", "save started",
               {{"reason", order.reason},
                {"keys", cut.snapshot.entries.size()},
                {"gate_seconds", cut.gate_seconds, 6},
                {"seconds", seconds_between(start, steady_now()), 3}});
    SaveWatch watch(steady_now());
    const auto linking = order.demanded ? Linking::none : Linking::unchanged;
    const auto try_once = [&] {
      return directory_.save(
          cut.snapshot, [&](const Progress& progress) { return follow(progress, watch, go_on); }, linking,
          [&] { return sync_what_was_read(cut.snapshot); });
    };
    auto report = try_once();
    if (!report && reserve_lent(cut.snapshot, report.error())) {
      // A cut is read once: parts of it are given back as they are written.
      cut = take_whole_cut();
      report = try_once();
      // In both cases: until then the journal's thread does not make the reserve again, and takes no room.
      callbacks_.reserve_returned();
    }
    const SteadyTime end = steady_now();
    // record() comes before the callbacks, because they wake threads that ask for status(): the adopter would
    // see a save that still runs, and go on waiting.
    log(report, order, seconds_between(start, end));
    record(report, order, cut, std::chrono::duration_cast<milliseconds>(end - start));
    if (report && callbacks_.saved) callbacks_.saved(cut.snapshot.journal_position);
    if (!report && callbacks_.failed) callbacks_.failed(report.error(), lacking(report.error()));
    return report;
  }

  // The cut comes behind this, so the generation has all that the journal accepted in the other directory.
  void take_replacement() {
    const auto taken = directory_.take_replacement();
    // An error is that of the save, too.
    if (taken && *taken && callbacks_.directory_replaced) callbacks_.directory_replaced();
  }

  // If the disk is full, and the reserve has the room that was missing, the save begins anew: the failed one
  // has removed its files (decisions/0020). The reserve is not lent for nothing: its owner compares `left`
  // with it first.
  bool reserve_lent(const Snapshot& snapshot, const Error& error) {
    if (error.code != Errc::disk_full || !callbacks_.lend_reserve) return false;
    const Progress reached = status().progress;
    // What was not written, or what would not fit: the first is too much by the piece that failed, the second
    // by all that would be linked.
    const std::uint64_t done = std::max(reached.bytes_done, directory_.free_bytes());
    const std::uint64_t left = reached.bytes_total - std::min(reached.bytes_total, done);
    const bool data_grows = generation_bytes(snapshot) > directory_.saved_bytes();
    if (!callbacks_.lend_reserve(left, data_grows)) return false;
    log::write(log_level_ == log::Level::info ? log::Level::warn : log_level_, "reserve_lent",
               "reserve lent to a save");
    return true;
  }

  // How much room the failed save needs; 0 if lack of room was not the reason. At least 1 for a full disk,
  // even if the save failed before it knew its size.
  [[nodiscard]] std::uint64_t lacking(const Error& error) const {
    return error.code == Errc::disk_full ? std::max<std::uint64_t>(status().progress.bytes_total, 1) : 0;
  }

  // What a save does now and then: note its progress and wait for its bandwidth. False: give up.
  bool follow(const Progress& progress, SaveWatch& watch, const std::function<bool()>& go_on) {
    const SteadyTime now = steady_now();
    const SteadyTime goes_on_at = now + watch.pause(progress, note(progress), now);
    watch.log(progress, now);
    while (go_on()) {
      const auto left = goes_on_at - steady_now();
      if (left <= SteadyTime::duration::zero()) return true;
      const MutexLock lock(mutex_);
      // Asked again after each wait: the journal or a stop may have begun to wait for this save. demand() and
      // make_room() signal wake_; a stop is noticed after give_up_period at the latest.
      if (in_a_hurry()) return true;
      wake_.wait_for(mutex_, std::min<SteadyTime::duration>(left, give_up_period));
    }
    return false;
  }

  struct Cut {
    Snapshot snapshot;
    std::uint64_t changes = 0;
    std::uint64_t journal_gap = 0;
    double gate_seconds = 0;  // the longest single closing of the gate
  };

  // A gap between the cut and the filters' positions would make a replay of this generation end there, and
  // every later replay as well. So a cut with such a gap is taken again. The gap is compared with that at the
  // cut, and not with a position: while filters are taken, the journal may be switched off and on twice, and
  // only the newest gap is known.
  Cut take_whole_cut() {
    Cut cut = take_cut();
    while (journal_gap() != cut.journal_gap) cut = take_cut();
    return cut;
  }

  Cut take_cut() {
    Cut cut;
    std::optional<SnapshotTaker> taker;
    {
      const GateClosed closed(gate_);
      // All of this belongs to one instant, so it is read in one closing: what is counted, recorded or lost
      // later comes after the cut.
      cut.changes = callbacks_.changes();
      cut.journal_gap = journal_gap();
      taker.emplace(keyspace_, std::chrono::system_clock::now(), journal_position());
    }
    taker->reserve();
    for (bool all = false; !all;) {
      std::this_thread::sleep_for(gate_pause);
      const GateClosed closed(gate_);
      const SteadyTime start = steady_now();
      // Read once for the whole closing: with the gate closed, no worker records anything.
      const std::uint64_t position = journal_position();
      SteadyTime now = start;
      for (; !all && now - start < gate_closed_max; now = steady_now())
        all = taker->step(filters_at_once, position);
      cut.gate_seconds = std::max(cut.gate_seconds, seconds_between(start, now));
    }
    cut.snapshot = taker->finish();
    return cut;
  }

  [[nodiscard]] std::uint64_t journal_gap() const {
    return callbacks_.journal_gap ? callbacks_.journal_gap() : 0;
  }

  [[nodiscard]] std::uint64_t journal_position() const {
    return callbacks_.journal_position ? callbacks_.journal_position() : 0;
  }

  // The generation may hold changes that came after the cut: values were frozen later, and they change while
  // they are read. The journal must not lose those changes. Filters would be newer than the keys beside them.
  // A value whose records are applied again (Repeat::again) would lack what came before them. A Bloom filter
  // would know items that it does not count. Once the gate is closed, the journal has the record of each bit
  // that was set. If nothing was recorded, nothing is synced: after a failed sync no other sync succeeds
  // before a save does.
  Result<void> sync_what_was_read(const Snapshot& snapshot) {
    if (!callbacks_.sync_journal) return {};
    std::uint64_t position = 0;
    {
      const GateClosed closed(gate_);
      position = journal_position();
    }
    return position > snapshot.journal_position ? callbacks_.sync_journal(position) : Result<void>();
  }

  void choose_log_level(const Order& order, SteadyTime now) {
    const bool often = order.reason == room_reason && now < room_log_due_;
    log_level_ = often ? log::Level::debug : log::Level::info;
    if (order.reason == room_reason && !often) room_log_due_ = now + room_log_period;
  }

  // Each failure is an error in the log: the pause between tries bounds how many there are.
  void log(const Result<GenerationReport>& report, const Order& order, double seconds) const {
    if (report) {
      log::write(log_level_, "save_finished", "save finished",
                 {{"keys", report->value_count},
                  {"bytes", report->bytes},
                  {"linked_bytes", report->linked_bytes},
                  {"seconds", seconds, 3},
                  {"generation", report->name}});
      return;
    }
    log::error("save_failed", "save failed",
               {{"reason", order.reason}, {"seconds", seconds, 3}, {"error", report.error().detail}});
  }

  void record(const Result<GenerationReport>& report, const Order& order, const Cut& cut,
              milliseconds duration) {
    const MutexLock lock(mutex_);
    SEPAL_ASSERT(status_.running, "a save ends that has not begun");
    status_.running = false;
    status_.last_ok = report.ok();
    status_.last_error = report ? std::string() : report.error().detail;
    status_.last_duration = duration;
    last_time_ = steady_now();
    if (!report) {
      ++status_.saves_failed;
      // begin() has taken the demand, and nothing has met it. The next try writes all files anew again.
      demanded_ = demanded_ || order.demanded;
      retry_at_ = last_time_ + retry_pause_;
      retry_pause_ = std::min(2 * retry_pause_, retry_pause_max);
      return;
    }
    SEPAL_ASSERT(cut.snapshot.journal_position >= status_.journal_position,
                 "a save is older than the one before it");
    retry_at_ = last_time_;
    retry_pause_ = retry_pause_min;
    // Requests for room that came while the save ran are met as well: they ask for a save that ends later.
    room_wanted_ = false;
    misplaced_ = false;
    last_report_ = *report;
    status_.last_success = std::chrono::system_clock::now();
    status_.last_success_steady = std::chrono::steady_clock::now();
    status_.last_bytes = report->bytes;
    status_.changes_saved = cut.changes;
    status_.journal_position = cut.snapshot.journal_position;
    ++status_.saves_done;
  }

  // Notes the progress. Returns how many bytes a second may be written from now on; 0: no limit.
  std::uint64_t note(const Progress& progress) {
    const MutexLock lock(mutex_);
    SEPAL_ASSERT(status_.running, "a save that does not run makes progress");
    status_.progress = progress;
    return in_a_hurry() ? 0 : options_.bytes_per_second_max;
  }

  // The stop or the journal waits for the running save, or for the next one: no bandwidth limit then.
  [[nodiscard]] bool in_a_hurry() const SEPAL_REQUIRES(mutex_) {
    return closing_ || demanded_ || demanded_runs_ || room_wanted_ || misplaced_;
  }

  DataDirectory& directory_;
  keyspace::Keyspace& keyspace_;
  Gate& gate_;
  const SaverCallbacks callbacks_;
  std::atomic<bool> abandoned_{false};  // the running save has to end early

  // Used by the thread that saves; save_at_stop() saves when the saver's own thread is idle for ever.
  log::Level log_level_ = log::Level::info;
  SteadyTime room_log_due_;

  // Lock order: the innermost; not held while the gate is closed.
  mutable Mutex mutex_ SEPAL_ACQUIRED_AFTER(gate_);
  Condition wake_;  // signals a change of any member below
  SaverOptions options_ SEPAL_GUARDED_BY(mutex_);
  SteadyTime last_time_ SEPAL_GUARDED_BY(mutex_) = steady_now();  // the last save, or look for changes
  SteadyTime looked_at_ SEPAL_GUARDED_BY(mutex_) = steady_now();  // when the saver last looked for a due save
  bool demanded_ SEPAL_GUARDED_BY(mutex_) = false;
  bool room_wanted_ SEPAL_GUARDED_BY(mutex_) = false;
  // The path has led away from the directory, and no save has succeeded since.
  bool misplaced_ SEPAL_GUARDED_BY(mutex_) = false;
  bool demanded_runs_ SEPAL_GUARDED_BY(mutex_) = false;  // the running save, or the last one, was demanded
  SteadyTime retry_at_ SEPAL_GUARDED_BY(mutex_) = steady_now();  // no try before this, after a failure
  milliseconds retry_pause_ SEPAL_GUARDED_BY(mutex_) = retry_pause_min;
  std::optional<Order> order_ SEPAL_GUARDED_BY(mutex_);
  bool busy_ SEPAL_GUARDED_BY(mutex_) = false;     // the thread saves, or calls a Done
  bool closing_ SEPAL_GUARDED_BY(mutex_) = false;  // no new orders
  bool ending_ SEPAL_GUARDED_BY(mutex_) = false;   // the thread has to end
  SaverStatus status_ SEPAL_GUARDED_BY(mutex_);
  GenerationReport last_report_ SEPAL_GUARDED_BY(mutex_);

  std::thread thread_;  // Last: it uses all of the above.
};

Saver::Saver(DataDirectory& directory, keyspace::Keyspace& keyspace, Gate& gate, SaverCallbacks callbacks,
             const Loaded& loaded)
    : implementation_(
          std::make_unique<Implementation>(directory, keyspace, gate, std::move(callbacks), loaded)) {}

Saver::~Saver() = default;

void Saver::set_options(const SaverOptions& options) {
  implementation_->set_options(options);
}

Result<void> Saver::start(Done done) {
  return implementation_->start(std::move(done));
}

void Saver::demand() {
  implementation_->demand();
}

void Saver::make_room() {
  implementation_->make_room();
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
