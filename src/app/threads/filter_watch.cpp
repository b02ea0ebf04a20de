#include "app/threads/filter_watch.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/glob.hpp>
#include <sepal/base/thread.hpp>

#include <algorithm>
#include <utility>

namespace sepal::app {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Their names take a fraction of a millisecond inside the gate.
constexpr std::uint64_t keys_a_step = 256;
// What is read of a filter to judge it: the rate is then within some percent, and rate_margin is far more.
constexpr std::uint64_t judged_bytes_max = std::uint64_t{16} << 10;
// What is read of a filter that is shown. The items of one filled to 10% are then within 2%.
constexpr std::uint64_t watched_bytes_max = std::uint64_t{512} << 10;
// After a step the thread pauses this many times as long as the step took.
constexpr int step_pause_share = 4;
constexpr std::chrono::nanoseconds step_pause_min = 500us;
// After a round the same for the whole round, which includes the pauses.
constexpr int round_pause_share = 4;

constexpr auto is_larger = [](const auto& one, const auto& other) {
  return one.byte_count > other.byte_count;
};
constexpr auto is_worse = [](const auto& one, const auto& other) {
  return one.state != other.state ? one.state < other.state : is_larger(one, other);
};

// Those in trouble first.
bool stands_before(const command::SeenFilter& one, const command::SeenFilter& other) {
  const auto rank = [](const command::SeenFilter& filter) {
    return std::min(command::state_of(filter), command::FilterState::grown);
  };
  return rank(one) != rank(other) ? rank(one) < rank(other) : is_larger(one, other);
}

}  // namespace

FilterWatch::FilterWatch(Gate& gate, std::size_t side, const keyspace::Keyspace& keyspace, Options options)
    : gate_(gate), side_(side), keyspace_(keyspace), options_(std::move(options)) {
  thread_ = start_thread("watch", [this] { run(); });
}

FilterWatch::~FilterWatch() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<const command::FiltersSeen> FilterWatch::seen() const {
  const MutexLock lock(mutex_);
  return seen_;
}

command::FilterLook FilterWatch::begin_look(std::uint32_t database, const std::string& key) const {
  const GateEntered inside(gate_, side_);
  return command::look_at_filter(keyspace_, {.database = database, .key = key},
                                 std::chrono::system_clock::now(), Clock::now());
}

std::vector<FilterHistory::Point> FilterWatch::history_of(std::uint32_t database,
                                                          const std::string& key) const {
  const MutexLock lock(mutex_);
  const auto found = histories_.find({database, key});
  return found == histories_.end() ? std::vector<FilterHistory::Point>() : found->second.points();
}

std::optional<command::FilterDetail> FilterWatch::look_at(std::uint32_t database,
                                                          const std::string& key) const {
  // A key that the metrics leave out is not shown here either (decisions/0029).
  if (!command::is_shown(options_.pattern, key)) return std::nullopt;
  const auto look = begin_look(database, key);
  if (!look) return std::nullopt;
  command::FilterDetail detail = look(watched_bytes_max);
  hide_keys(detail.seen);
  for (const FilterHistory::Point& point : history_of(database, key))
    detail.history.push_back({.age_seconds = std::chrono::duration<double>(Clock::now() - point.at).count(),
                              .fill = point.fill,
                              .false_positive_rate = point.false_positive_rate});
  return detail;
}

// The pattern leaves out the other end of a mirror as well.
void FilterWatch::hide_keys(command::SeenFilter& seen) const {
  if (seen.mirror && seen.mirror->other && !command::is_shown(options_.pattern, *seen.mirror->other))
    seen.mirror->other.reset();
}

void FilterWatch::run() {
  while (!ended_) {
    const auto begun = Clock::now();
    walk_until(begun + options_.round_min);
    if (ended_) return;
    measure_all();
    if (ended_) return;
    const std::chrono::nanoseconds took = Clock::now() - begun;
    wait(std::max<std::chrono::nanoseconds>(options_.round_min - took, round_pause_share * took));
  }
}

FilterWatch::Changes FilterWatch::changes() const {
  const GateEntered inside(gate_, side_);
  return {.keyspace = keyspace_.changes(),
          // A filter that deletes grows cell by cell, which is no change of structure.
          .bytes = keyspace_.memory_used(),
          // Whether a filter can grow depends on it.
          .bytes_max = keyspace_.memory_limit(),
          .values = options_.value_changes ? options_.value_changes() : judged_.values + 1};
}

// Goes on with the walk that is under way, or begins one if there are changes. One step at least, so that
// each walk ends.
void FilterWatch::walk_until(SteadyTime until) {
  if (!walk_) {
    // Read before the walk: what changes during it leads to another walk.
    const Changes now = changes();
    // Filters that forget change by the clock, too, and so does the time at which one will be full.
    const bool by_clock =
        counts_.of(value::Kind::window) != 0 || counts_.of(command::FilterState::filling) != 0;
    if (judged_at_ && now == judged_ && !by_clock) return;
    walk_.emplace(Walk{.begun_at = now});
  }
  while (walk_->database < keyspace::database_count) {
    const auto begun = Clock::now();
    const std::vector<std::string> keys = next_keys();
    for (const std::string& key : keys) judge(key);
    if (walk_->cursor == 0) ++walk_->database;
    // Nearly all databases are empty.
    if (keys.empty() && walk_->cursor == 0) continue;
    if (!pause_after(Clock::now() - begun)) return;
    if (Clock::now() >= until && walk_->database < keyspace::database_count) return;
  }
  end_walk();
}

// A step of a few keys for each entry into the gate: while this thread is inside, no thread can close it.
std::vector<std::string> FilterWatch::next_keys() {
  const GateEntered inside(gate_, side_);
  keyspace::ScanStep step =
      keyspace_.scan(walk_->database, walk_->cursor, keys_a_step, std::chrono::system_clock::now());
  walk_->cursor = step.cursor;
  return std::move(step.keys);
}

// Counts the filter, if the key names one. All are counted; only keys that may be shown are kept.
void FilterWatch::judge(const std::string& key) {
  const auto look = begin_look(walk_->database, key);
  if (!look) return;
  command::SeenFilter seen = look(judged_bytes_max).seen;
  if (command::state_of(seen) == command::FilterState::overfilled) {
    // A small sample may be wrong about a low rate.
    const auto closer_look = begin_look(walk_->database, key);
    if (!closer_look) return;
    seen = closer_look(watched_bytes_max).seen;
  }
  const command::FilterState state = command::state_of(seen);
  walk_->counts.count(seen.kind, state);
  if (!command::is_shown(options_.pattern, key)) return;
  const Candidate candidate{.state = state, .byte_count = seen.byte_count, .place = {walk_->database, key}};
  keep(walk_->largest, candidate, is_larger);
  if (command::is_trouble(state)) keep(walk_->troubled, candidate, is_worse);
}

template <class Before>
void FilterWatch::keep(Candidates& all, const Candidate& candidate, const Before& before) const {
  if (options_.filters_max == 0) return;
  if (all.size() == options_.filters_max) {
    // The last of them is in front. So nearly every key costs one comparison.
    if (!before(candidate, all.front())) return;
    std::ranges::pop_heap(all, before);
    all.pop_back();
  }
  all.push_back(candidate);
  std::ranges::push_heap(all, before);
  SEPAL_ASSERT(all.size() <= options_.filters_max, "more filters are watched than are asked for");
}

void FilterWatch::end_walk() {
  shown_.clear();
  for (Candidates* const all : {&walk_->troubled, &walk_->largest})
    for (Candidate& each : *all) shown_.insert(std::move(each.place));
  counts_ = walk_->counts;
  judged_ = walk_->begun_at;
  judged_at_ = Clock::now();
  walk_.reset();
}

void FilterWatch::measure_all() {
  auto seen = std::make_shared<command::FiltersSeen>();
  for (const auto& [database, key] : shown_) {
    const auto begun = Clock::now();
    // Since the walk the key may have gone, or may name a value of another kind.
    const auto look = begin_look(database, key);
    if (!look) continue;
    seen->filters.push_back(look(watched_bytes_max).seen);
    hide_keys(seen->filters.back());
    if (!pause_after(Clock::now() - begun)) return;
  }
  std::ranges::sort(seen->filters, stands_before);
  seen->counts = counts_;
  seen->judged_at = judged_at_;
  remember(seen->filters);
  const MutexLock lock(mutex_);
  seen_ = std::move(seen);
}

// Filters that are not shown any more are forgotten.
void FilterWatch::remember(const std::vector<command::SeenFilter>& seen) {
  const MutexLock lock(mutex_);
  Histories histories;
  for (const command::SeenFilter& each : seen) {
    Place place{each.database, each.key_bytes};
    const auto known = histories_.find(place);
    FilterHistory history = known == histories_.end() ? FilterHistory() : std::move(known->second);
    history.record({.at = Clock::now(),
                    .fill = static_cast<float>(each.fill),
                    .false_positive_rate = static_cast<float>(each.false_positive_rate)});
    histories.insert_or_assign(std::move(place), std::move(history));
  }
  histories_ = std::move(histories);
}

bool FilterWatch::pause_after(std::chrono::nanoseconds worked) {
  return wait(std::max(step_pause_min, step_pause_share * worked));
}

// Ticks if it is time. When the next tick is due.
SteadyTime FilterWatch::ticked() {
  if (!options_.tick) return SteadyTime::max();
  if (const SteadyTime now = Clock::now(); now >= next_tick_) {
    options_.tick();
    next_tick_ = now + options_.tick_interval;
  }
  return next_tick_;
}

bool FilterWatch::wait(std::chrono::nanoseconds duration) {
  const auto until = Clock::now() + duration;
  do {
    const SteadyTime next = std::min<SteadyTime>(until, ticked());
    const MutexLock lock(mutex_);
    while (!stopping_ && changed_.wait_until(mutex_, next) == std::cv_status::no_timeout) {
    }
    ended_ = stopping_;
  } while (!ended_ && Clock::now() < until);
  return !ended_;
}

}  // namespace sepal::app
