#include "app/threads/expiry.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/thread.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sepal::app {
namespace {

using keyspace::Admission;
using keyspace::Deadline;
using keyspace::no_deadline;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// The thread stays inside the gate for this long at a time, and for a few keys more.
constexpr microseconds inside_max{300};
constexpr std::size_t keys_at_once = 64;
// A pause is this many times as long as the work before it: so the thread takes a quarter of a core.
constexpr int pause_ratio = 3;
constexpr microseconds pause_min{200};
// The pause if the journal has no room or refuses changes, or a script is suspended.
constexpr milliseconds full_journal_pause{100};
// Until it is looked again whether what was taken out can be freed.
constexpr milliseconds limbo_period{10};
// The wall clock may be changed. So it is read at least this often while there are deadlines.
constexpr milliseconds look_period{1000};
static_assert(keys_at_once > 0 && pause_ratio > 0 && pause_min.count() > 0);

Deadline sooner(Deadline a, Deadline b) {
  if (a == no_deadline || b == no_deadline) return std::max(a, b);
  return std::min(a, b);
}

// Removes keys that are due, a few for each call of remove_few().
class Removal {
 public:
  Removal(keyspace::Keyspace& keyspace, keyspace::WorkerLog& log, Limbo* limbo)
      : keyspace_(keyspace),
        log_(log.recording() ? &log : nullptr),
        mutator_(keyspace, log_, limbo),
        now_(std::chrono::system_clock::now()) {}

  // False: nothing is due, or the journal does not admit the removal.
  bool remove_few() {
    keys_.clear();
    const bool more = keyspace_.collect_due(now_, keys_at_once, keys_);
    for (const keyspace::NamedKey& due : keys_) {
      // A key whose removal is not admitted stays. Requests do not find it, because it is past its deadline.
      if (!admitted(due.key)) return false;
      mutator_.expire({.database = due.database, .key = due.key}, now_);
    }
    return more;
  }
  [[nodiscard]] bool refused() const { return refused_; }

 private:
  bool admitted(std::string_view key) {
    if (log_ == nullptr) return true;
    const std::uint64_t bytes = keyspace::record_bytes_of_keys({&key, 1});
    refused_ = log_->admit(bytes, keyspace::Change::frees) != Admission::granted;
    return !refused_;
  }

  keyspace::Keyspace& keyspace_;
  keyspace::WorkerLog* log_;
  keyspace::Mutator mutator_;
  WallTime now_;
  std::vector<keyspace::NamedKey> keys_;
  bool refused_ = false;
};

void drop_uploads(const Expiry::Parts& parts) {
  const WallTime now = std::chrono::system_clock::now();
  if (!keyspace::is_past(parts.uploads.earliest_deadline(), now)) return;
  const GateClosed closed(parts.gate);
  parts.uploads.expire(now);
}

}  // namespace

Expiry::~Expiry() {
  stop();
}

void Expiry::begin(const Parts& parts) {
  SEPAL_ASSERT(!thread_.joinable(), "the removal of keys begins once");
  due_at(parts.keyspace.due());
  thread_ = start_thread("expiry", [this, parts] { run(parts); });
}

void Expiry::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Expiry::due_at(Deadline deadline) {
  if (deadline == no_deadline) return;
  {
    const MutexLock lock(mutex_);
    if (next_ == no_deadline || deadline < next_) next_ = deadline;
  }
  changed_.notify_all();
}

void Expiry::run(const Parts& parts) {
  Limbo limbo(&parts.gate);
  for (Pause pause; wait(pause);) {
    pause = remove_some(parts, limbo);
    limbo.end_some();
    pause.limbo_waits = !limbo.empty();
    // No client waits for these removals, but they must not stay unsynced: under `always`, seal_record() asks
    // for a sync.
    static_cast<void>(parts.log.seal_record(false));
  }
}

Expiry::Pause Expiry::remove_some(const Parts& parts, Limbo& limbo) {
  drop_uploads(parts);
  // A mirror concerns two keys: while there is one, the gate is closed.
  bool alone = false;
  bool refused = false;
  const SteadyTime start = std::chrono::steady_clock::now();
  SteadyTime now = start;
  Deadline next = no_deadline;
  const auto remove = [&](Limbo* shared) {
    Removal removal(parts.keyspace, parts.log, shared);
    for (bool more = true; more && now - start < inside_max; now = std::chrono::steady_clock::now())
      more = removal.remove_few();
    refused = removal.refused();
    next = parts.keyspace.due();
  };
  {
    const GateEntered inside(parts.gate, parts.side);
    // A suspended script sees the keys as they were when it began, and its records come later.
    if (parts.gate.is_reserved()) return {.at_least = full_journal_pause, .until = parts.keyspace.due()};
    alone = !parts.keyspace.mirrors().empty();
    if (!alone) remove(&limbo);
    parts.log.append();
  }
  if (alone) {
    const GateClosed closed(parts.gate);
    remove(nullptr);
    // Before the gate opens, as for a worker: what other threads see is in the journal.
    parts.log.commit();
  }
  const auto worked_for = std::chrono::duration_cast<microseconds>(now - start);
  worked_.fetch_add(worked_for.count(), std::memory_order_relaxed);
  return {.at_least = refused ? full_journal_pause : std::max(pause_ratio * worked_for, pause_min),
          .until = sooner(next, parts.uploads.earliest_deadline())};
}

bool Expiry::wait(const Pause& pause) {
  const SteadyTime earliest_end = std::chrono::steady_clock::now() + pause.at_least;
  // A request may have set a deadline meanwhile: next_ becomes the earlier one.
  due_at(pause.until);
  const MutexLock lock(mutex_);
  while (!stopping_) {
    const auto pause_left = earliest_end - std::chrono::steady_clock::now();
    // due_at() may end the wait, but it does not end the pause: requests need the cores.
    if (pause_left > SteadyTime::duration::zero()) {
      changed_.wait_for(mutex_, pause_left);
      continue;
    }
    if (pause.limbo_waits) {
      changed_.wait_for(mutex_, limbo_period);
      return !stopping_;
    }
    if (next_ == no_deadline) {
      changed_.wait(mutex_);
      continue;
    }
    const Deadline left = next_ - keyspace::deadline_at(std::chrono::system_clock::now());
    if (left <= 0) {
      next_ = no_deadline;
      return true;
    }
    changed_.wait_for(mutex_, milliseconds(std::min<Deadline>(left, look_period.count())));
  }
  return false;
}

}  // namespace sepal::app
