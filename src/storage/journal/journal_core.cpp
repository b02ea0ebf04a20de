#include "storage/journal/journal_core.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/hash.hpp>

#include <algorithm>
#include <utility>

#include "storage/disk/steady_now.hpp"
#include "storage/format/operation_encoder.hpp"

namespace sepal::storage {
namespace {

using keyspace::Admission;
using keyspace::Change;
using std::chrono::milliseconds;

constexpr std::uint64_t reserve_bytes_max = std::uint64_t{256} << 10;
// In small segments a frame and a worker's reserve are smaller, so that one of them never takes most of a
// segment.
constexpr std::uint64_t frames_in_segment_min = 8;
constexpr std::uint64_t reserves_in_segment_min = 64;

constexpr milliseconds retry_delay_first{100};
constexpr milliseconds retry_delay_max{2000};
static_assert(retry_delay_first <= retry_delay_max);

// Under `always`, a sync releases replies, and their clients ask again at once. The next sync waits for them:
// for 1/gather_part of the time that the last sync took, and gather_max at most. Without the delay it would
// serve only the requests that came during the last sync, and the released clients would wait for the sync
// after it.
constexpr int gather_part = 4;
constexpr milliseconds gather_max{1};

// Pages are prepared for twice the bytes that were stored during the last sync, or for the bytes that were
// stored between the last two syncs, whichever is more, and for at least this many.
constexpr std::uint64_t window_bytes_min = std::uint64_t{1} << 20;
// The system may write prepared pages back at any time, and a page that was written has to be prepared again.
// So the next few pages are prepared at every sync, and at this interval while something is recorded. No more
// than a few, because each prepared page costs another write.
constexpr std::uint64_t near_bytes = std::uint64_t{64} << 10;
constexpr milliseconds near_interval{100};

// SYNCED is written no more often than this, but at once when a segment begins. The interval is shorter than
// the pause between two syncs of `everysec`, so each of these syncs is marked without a further wait.
constexpr milliseconds mark_interval{500};

}  // namespace

JournalCore::JournalCore(const JournalOptions& options, std::uint64_t position)
    : options_(options),
      frame_bytes_max_(std::min(format::frame_bytes(format::frame_body_bytes_max),
                                options.segment_bytes / frames_in_segment_min)),
      reserve_bytes_(std::min(reserve_bytes_max, options.segment_bytes / reserves_in_segment_min)),
      policy_(options.policy),
      position_(position),
      durable_(position),
      synced_(position),
      sync_begun_(position),
      marked_(position),
      last_sync_(steady_now()),
      retry_delay_(retry_delay_first),
      window_bytes_(window_bytes_min) {
  SEPAL_ASSERT(options.segments_ahead >= 1, "a journal prepares no segment, and could never go on");
  SEPAL_ASSERT(frame_bytes_max_ <= JournalSegment::room_of(options.segment_bytes),
               "a segment has no room for one frame");
  SEPAL_ASSERT(position <= format::position_max, "a journal begins at a position that none can have");
}

std::uint64_t JournalCore::room() const {
  std::uint64_t bytes = 0;
  if (active_) bytes = active_->room();
  for (const auto& segment : ahead_) bytes += segment->room() - frame_bytes_max_;
  // No segment is before the very first one, so nothing stays unused there.
  if (!active_ && !ahead_.empty()) bytes += frame_bytes_max_;
  return bytes;
}

std::uint64_t JournalCore::unreserved() const {
  if (resumed_due_) return 0;
  const std::uint64_t bytes = room();
  return bytes > reserved_ ? bytes - reserved_ : 0;
}

Admission JournalCore::refill(std::uint64_t& reserve, std::uint64_t needed_bytes, Change change) {
  const MutexLock lock(mutex_);
  if (!accepting(change)) return Admission::refused;
  SEPAL_ASSERT(reserve <= reserved_, "a worker holds more room than all workers together");
  SEPAL_ASSERT(needed_bytes > reserve, "a worker asks for room that it has");
  const std::uint64_t lacking = needed_bytes - reserve;
  const std::uint64_t available = unreserved();
  const bool frees = change == Change::frees;
  if (lacking <= available && (frees || !freeing_only_)) {
    // Room that is kept for changes that free must not end up in the reserve of another change.
    const std::uint64_t taken =
        freeing_only_ ? lacking : std::min(available, std::max(lacking, reserve_bytes_));
    reserve += taken;
    reserved_ += taken;
    return Admission::granted;
  }
  // The thread makes small segments for this change. So it does not matter here that no ordinary segment
  // could be made.
  if (frees) {
    wanted_freeing_ = std::max(wanted_freeing_, lacking);
    note_due();
    return Admission::later;
  }
  // The prepared room is used up, and the last attempt to make more failed: the client gets the reason at
  // once. Without an error the client waits, for a segment or for the save that preparing_waits() has
  // announced.
  if (!preparing_error_.empty()) {
    refuse(preparing_error_);
    return Admission::refused;
  }
  wanted_ = std::max(wanted_, lacking);
  note_due();
  return Admission::later;
}

void JournalCore::release(std::uint64_t& reserve) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(reserve <= reserved_, "a worker gives back more room than is reserved");
  reserved_ -= std::exchange(reserve, 0);
}

void JournalCore::append(std::span<const std::byte> body, std::uint64_t& reserve) {
  // The body's checksum needs no position, so it is computed before the lock is taken.
  const std::uint64_t body_checksum = Checksum::of(body);
  const MutexLock lock(mutex_);
  append_frame(body, body_checksum);
  use_reserve(reserve, format::frame_bytes(body.size()));
}

// The lock is held for the whole group, so no sync ends within it, and no filler comes into it.
void JournalCore::append_group(std::span<const std::vector<std::byte>> bodies, std::uint64_t& reserve) {
  std::vector<std::uint64_t> checksums;
  checksums.reserve(bodies.size());
  for (const auto& body : bodies) checksums.push_back(Checksum::of(body));
  const MutexLock lock(mutex_);
  for (std::size_t at = 0; at < bodies.size(); ++at) {
    append_frame(bodies[at], checksums[at], at + 1 < bodies.size() ? format::frame_continues : 0);
    use_reserve(reserve, format::frame_bytes(bodies[at].size()));
  }
  give_back(reserve);
}

void JournalCore::trim(std::uint64_t& reserve) {
  const MutexLock lock(mutex_);
  give_back(reserve);
}

void JournalCore::give_back(std::uint64_t& reserve) {
  if (reserve <= reserve_bytes_) return;
  SEPAL_ASSERT(reserve <= reserved_, "a worker trims more room than is reserved");
  reserved_ -= reserve - reserve_bytes_;
  reserve = reserve_bytes_;
  // The thread tells the clients that wait for this room.
  for (std::uint64_t* const wanted : {&wanted_, &wanted_freeing_})
    if (*wanted != 0 && *wanted <= unreserved()) {
      *wanted = 0;
      tell_due_ = true;
      note_due();
    }
}

void JournalCore::use_reserve(std::uint64_t& reserve, std::uint64_t bytes) {
  const std::uint64_t used = std::min(reserve, bytes);
  SEPAL_ASSERT(used <= reserved_, "a frame takes more room than is reserved");
  reserve -= used;
  reserved_ -= used;
}

void JournalCore::append_frame(std::span<const std::byte> body, std::uint64_t body_checksum,
                               std::uint32_t flags) {
  const std::uint64_t bytes = format::frame_bytes(body.size());
  SEPAL_ASSERT(bytes <= frame_bytes_max_, "an operation that no segment has room for");
  // A frame lies in one segment. The rest of the active one then stays unused, as room() has assumed.
  if (!active_ || active_->room() < bytes) rotate();
  // The first frame since the last sync wakes the journal's thread, which may sleep without a timeout. Under
  // `always` settle() wakes it.
  if (policy() == JournalPolicy::everysec && !unsynced()) note_due();
  SEPAL_ASSERT(active_->end_position() == position(),
               "the active segment does not end where the journal ends");
  active_->append(body, body_checksum, synced_, flags);
  // Release, which pairs with the acquire in position().
  position_.store(active_->end_position(), std::memory_order_release);
  ++frames_;
  if (active_->wants_pages()) {
    pages_due_ = true;
    note_due();
  }
}

void JournalCore::rotate() {
  SEPAL_ASSERT(!ahead_.empty(), "more was recorded than was admitted");
  // The thread keeps it there until all of it is synced (take_synced).
  if (active_) written_.push_back(std::move(active_));
  active_ = std::move(ahead_.front());
  ahead_.pop_front();
  SEPAL_ASSERT(active_->room() >= frame_bytes_max_, "the next segment has no room for the longest frame");
  active_->begin(position_.load(std::memory_order_relaxed), options_.lineage);
  pages_due_ = true;
  note_due();
}

void JournalCore::request_sync() {
  // Relaxed is enough. The thread looks for unsynced frames and sets sleeping_ under one lock, and the append
  // of this worker took that lock too. So either the thread has seen the frame, or this load sees that it
  // sleeps. No due_ is set: once awake, the thread finds what is unsynced by itself (next_time).
  if (!sleeping_.load(std::memory_order_relaxed)) return;
  const MutexLock lock(mutex_);
  wake_.notify_all();
}

void JournalCore::set_policy(JournalPolicy policy) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(reserved_ == 0, "a worker keeps room in the journal while the policy changes");
  const JournalPolicy before = policy_.exchange(policy, std::memory_order_relaxed);
  // Between `everysec` and `always` nothing is missing.
  if (policy == JournalPolicy::off) {
    // The segment for it may still be on its way. A journal that is off records nothing.
    resumed_due_ = false;
  } else if (before == JournalPolicy::off) {
    resumed_due_ = true;
    append_resumed();
  }
  // Workers have clients that wait for room. Without a call of on_progress these would wait for ever, because
  // a journal that is off prepares no room. It needs none either.
  tell_due_ = true;
  note_due();
}

// Appends it now, or when a segment comes. Until then unreserved() is 0, so nothing can be recorded before
// it.
void JournalCore::append_resumed() {
  OperationEncoder encoder;
  encoder.resumed();
  // Room that workers have reserved is not taken for it.
  if (!resumed_due_ || room() < reserved_ + format::frame_bytes(encoder.bytes().size())) return;
  SEPAL_ASSERT(policy() != JournalPolicy::off, "a journal that is off begins anew");
  resumed_due_ = false;
  append_frame(encoder.bytes(), Checksum::of(encoder.bytes()));
  // Behind the `resumed`: only a generation that is cut there or later has what was not recorded.
  gap_ = position_.load(std::memory_order_relaxed);
  ask_save();
}

std::uint64_t JournalCore::gap() const {
  const MutexLock lock(mutex_);
  return gap_;
}

void JournalCore::generation_saved(std::uint64_t position) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(position <= position_.load(std::memory_order_relaxed),
               "a generation was cut behind the end of the journal");
  saved_ = std::max(saved_, position);
  failed_save_ = {};
  surplus_due_ = true;
  // The save has given room back.
  retry_time_ = steady_now();
  retry_delay_ = retry_delay_first;
  // After a save, small segments may be made again (JournalThread::remove_past).
  accept_freeing();
  raise_durable(saved_);
  // The generation has closed the gap: from here on syncs count again.
  if (!failed_ && saved_ >= gap_) raise_durable(synced_);
  note_due();
}

void JournalCore::save_failed(const std::string& reason, std::uint64_t lacking_bytes) {
  SEPAL_ASSERT(!reason.empty(), "a save fails without a reason and would count as one that succeeded");
  const MutexLock lock(mutex_);
  failed_save_ = {.reason = reason, .lacking_bytes = lacking_bytes};
  // At once: changes that wait for this save have to be refused, with the reason (JournalThread::may_grow).
  retry_time_ = steady_now();
  note_due();
}

JournalCore::FailedSave JournalCore::failed_save() const {
  const MutexLock lock(mutex_);
  return failed_save_;
}

void JournalCore::raise_durable(std::uint64_t position) {
  SEPAL_ASSERT(position <= position_.load(std::memory_order_relaxed), "more is durable than was recorded");
  if (durable_.load(std::memory_order_relaxed) < position)
    durable_.store(position, std::memory_order_release);
}

void JournalCore::refuse(const std::string& reason) {
  SEPAL_ASSERT(!reason.empty(), "the journal refuses changes without a reason");
  refusal_ = reason;
  accepting_.store(false, std::memory_order_relaxed);
  note_due();
}

void JournalCore::accept_freeing() {
  if (!failed_) accepting_freeing_.store(true, std::memory_order_relaxed);
}

void JournalCore::accept() {
  preparing_error_.clear();
  retry_delay_ = retry_delay_first;
  waits_for_save_ = false;
  // New segments do not help after a failed sync. restart() ends that state before it calls this.
  if (failed_) return;
  accept_freeing();
  refusal_.clear();
  accepting_.store(true, std::memory_order_relaxed);
  note_due();
}

void JournalCore::note_due() {
  due_ = true;
  wake_.notify_all();
}

void JournalCore::ask_sync(std::uint64_t position) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(position <= position_.load(std::memory_order_relaxed),
               "a sync is asked for of what was not recorded");
  sync_asked_ = std::max(sync_asked_, position);
  note_due();
}

Result<void> JournalCore::await_sync(std::uint64_t position) {
  const MutexLock lock(mutex_);
  // A failure ends the wait. The saver is the caller, and no sync succeeds before it has saved.
  while (synced_ < position && !failed_ && !ending_) synced_or_not_.wait(mutex_);
  if (synced_ >= position) return {};
  return fail(Errc::io, failed_ ? refusal_ : "the journal ends");
}

JournalStatus JournalCore::status() const {
  const MutexLock lock(mutex_);
  const JournalPolicy policy = policy_.load(std::memory_order_relaxed);
  return {.policy = policy,
          .accepting = policy == JournalPolicy::off || accepting(),
          .refusal = policy == JournalPolicy::off ? std::string() : refusal_,
          .position = position_.load(std::memory_order_relaxed),
          .synced_position = synced_,
          .segment_count = 0,
          .byte_count = 0,
          .syncs = syncs_,
          .failed_syncs = failed_syncs_,
          .frames = frames_,
          .waits_for_save = waits_for_save_ && policy != JournalPolicy::off,
          .resumes = resumed_due_};
}

std::optional<std::string> JournalCore::refusal() const {
  const JournalStatus now = status();
  if (now.accepting) return std::nullopt;
  return now.refusal;
}

void JournalCore::end() {
  const MutexLock lock(mutex_);
  ending_ = true;
  wake_.notify_all();
  synced_or_not_.notify_all();
}

// --- what there is to do ----------------------------------------------------------------------------------

bool JournalCore::short_of_segments() const {
  // After a failed sync restart() makes all new segments. A journal that is off needs none.
  if (failed_ || policy() == JournalPolicy::off) return false;
  return freeing_only_ || ahead_.size() < options_.segments_ahead ||
         room() < reserved_ + std::max(wanted_, wanted_freeing_);
}

bool JournalCore::unsynced() const {
  return !failed_ && synced_ < position_.load(std::memory_order_relaxed);
}

bool JournalCore::may_restart() const {
  // The old segments are given up then, so a generation must have all that they may lack.
  return failed_ && policy() != JournalPolicy::off && saved_ >= position_.load(std::memory_order_relaxed);
}

bool JournalCore::needs_save() const {
  return saved_ < gap_ || (failed_ && saved_ < position_.load(std::memory_order_relaxed));
}

void JournalCore::ask_save() {
  ask_due_ = true;
  note_due();
}

// When the journal is switched off, everything that was recorded before is synced at once.
SteadyTime JournalCore::sync_time() const {
  if (sync_asked_ > synced_ || policy() == JournalPolicy::off) return SteadyTime::min();
  return policy() == JournalPolicy::everysec ? last_sync_ + options_.sync_interval : gathered_at_;
}

JournalCore::Chores JournalCore::chores_at(SteadyTime now) {
  Chores chores;
  chores.end = ending_;
  chores.sync = unsynced() && sync_time() <= now;
  chores.prepare = (short_of_segments() || reserve_missing_) && retry_time_ <= now;
  chores.restart = may_restart() && retry_time_ <= now;
  // A save that has ended since may have met the need.
  chores.ask_save = std::exchange(ask_due_, false) && needs_save();
  chores.tell = std::exchange(tell_due_, false);
  return chores;
}

SteadyTime JournalCore::next_time() const {
  SteadyTime next = SteadyTime::max();
  if (unsynced()) next = std::min({next, sync_time(), pages_time_});
  if (short_of_segments() || reserve_missing_ || may_restart()) next = std::min(next, retry_time_);
  if (needs_mark()) next = std::min(next, mark_time_);
  return next;
}

JournalCore::Chores JournalCore::wait_for_chores() {
  const MutexLock lock(mutex_);
  for (;;) {
    const SteadyTime now = steady_now();
    const SteadyTime next = next_time();
    // Taken before the chores are done: a chore that becomes due meanwhile sets it again.
    if (std::exchange(due_, false) || ending_ || next <= now) {
      return chores_at(now);
    }
    sleeping_.store(true, std::memory_order_relaxed);
    if (next == SteadyTime::max()) {
      wake_.wait(mutex_);
    } else {
      wake_.wait_until(mutex_, next);
    }
    sleeping_.store(false, std::memory_order_relaxed);
  }
}

JournalCore::Chores JournalCore::chores() {
  const MutexLock lock(mutex_);
  return chores_at(SteadyTime::max());
}

// --- syncs ------------------------------------------------------------------------------------------------

JournalCore::Sync JournalCore::begin_sync() {
  const MutexLock lock(mutex_);
  last_sync_ = steady_now();
  Sync sync;
  if (active_ && synced_ < position_.load(std::memory_order_relaxed)) {
    // The filler ends the page. A store into a page that is on its way to the disk would wait for the file
    // system, under the lock that all workers need.
    const std::uint64_t bytes = active_->filler_bytes();
    // It takes no room that workers have reserved: their admitted records need that.
    if (bytes != 0 && bytes <= unreserved()) active_->append_filler(bytes, synced_);
    position_.store(active_->end_position(), std::memory_order_release);
  }
  const auto add = [&](JournalSegment& segment) {
    const SegmentRange range = segment.unsynced();
    if (range.from != range.to) sync.parts.push_back({.segment = &segment, .range = range});
  };
  for (const auto& segment : written_) add(*segment);
  if (active_) add(*active_);
  sync.position = position_.load(std::memory_order_relaxed);
  sync.frames = frames_;
  SEPAL_ASSERT(sync.position >= sync_begun_, "a sync ends before the one before it");
  widen_window(sync.position - std::exchange(sync_begun_, sync.position));
  return sync;
}

void JournalCore::end_sync(const Sync& sync) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(sync.position >= synced_ && sync.position <= position_.load(std::memory_order_relaxed),
               "a sync ends before the one before it, or behind the end of the journal");
  SEPAL_ASSERT(!failed_, "a sync ends after one that failed");
  // Only to the end of the range: workers have appended behind it during the sync.
  for (const Sync::Part& part : sync.parts) part.segment->synced(part.range.to);
  const SteadyTime now = steady_now();
  // With a single frame since the sync before, there is at most one client to wait for: no delay.
  gathered_at_ = frames_ - std::exchange(frames_synced_, sync.frames) > 1
                     ? now + std::min<SteadyTime::duration>((now - last_sync_) / gather_part, gather_max)
                     : SteadyTime::min();
  synced_ = sync.position;
  note_newest_synced(sync);
  ++syncs_;
  synced_or_not_.notify_all();
  // A replay does not get past an open gap, so no client may be told that a change behind it is durable.
  if (saved_ >= gap_) raise_durable(synced_);
  window_bytes_ = window_bytes_min;
  widen_window(2 * (position_.load(std::memory_order_relaxed) - sync.position));
}

void JournalCore::widen_window(std::uint64_t bytes) {
  if (bytes <= window_bytes_) return;
  window_bytes_ = std::min(bytes, options_.segment_bytes);
  pages_due_ = true;
}

void JournalCore::sync_failed(const std::string& reason) {
  const MutexLock lock(mutex_);
  // The kernel may have dropped the pages. A second sync would succeed and prove nothing, so only a
  // generation and new segments help (restart()). What was admitted before is still recorded, in the old
  // segments: its room is reserved, and the generation has to be cut behind it.
  failed_ = true;
  accepting_freeing_.store(false, std::memory_order_relaxed);
  ++failed_syncs_;
  synced_or_not_.notify_all();
  ask_save();
  refuse(reason);
}

JournalSegments JournalCore::take_synced() {
  const MutexLock lock(mutex_);
  JournalSegments taken;
  // A segment that was filled up during the sync stays for the next one, and so do all behind it.
  const auto unsynced_one = std::find_if(written_.begin(), written_.end(), [](const auto& segment) {
    const SegmentRange range = segment->unsynced();
    return range.from != range.to;
  });
  taken.assign(std::make_move_iterator(written_.begin()), std::make_move_iterator(unsynced_one));
  written_.erase(written_.begin(), unsynced_one);
  return taken;
}

// --- the mark ---------------------------------------------------------------------------------------------

void JournalCore::took_over(const SyncedMark& mark) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(mark.segment_number != 0, "the journal takes over a segment without a number");
  newest_synced_ = mark;
  // What SYNCED says is not known here. 0 makes the thread write it once, even if nothing is recorded.
  marked_ = 0;
  note_due();
}

void JournalCore::note_newest_synced(const Sync& sync) {
  if (sync.parts.empty()) return;
  const JournalSegment& newest = *sync.parts.back().segment;
  if (newest.number() != newest_synced_.segment_number) mark_time_ = SteadyTime::min();
  newest_synced_.segment_number = newest.number();
  newest_synced_.first_position = newest.first_position();
}

// The mark follows the durable position: what lies behind a gap is durable only with the generation that
// closes it.
bool JournalCore::needs_mark() const {
  return newest_synced_.segment_number != 0 && marked_ < durable_.load(std::memory_order_relaxed);
}

std::optional<SyncedMark> JournalCore::take_mark(SteadyTime now) {
  const MutexLock lock(mutex_);
  if (!needs_mark() || now < mark_time_) return std::nullopt;
  // Not from `now`, which a stop sets to the end of time.
  mark_time_ = steady_now() + mark_interval;
  SyncedMark mark = newest_synced_;
  mark.position = durable_.load(std::memory_order_relaxed);
  return mark;
}

void JournalCore::mark_written(const SyncedMark& mark) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(mark.position >= marked_, "SYNCED says less than it said before");
  marked_ = mark.position;
}

// --- segments ---------------------------------------------------------------------------------------------

bool JournalCore::wants_segment() const {
  const MutexLock lock(mutex_);
  return short_of_segments();
}

void JournalCore::add_segment(std::unique_ptr<JournalSegment> segment) {
  SEPAL_ASSERT(segment->is_unused() && segment->room() >= frame_bytes_max_,
               "a segment ahead is in use, or has no room for a frame");
  const MutexLock lock(mutex_);
  ahead_.push_back(std::move(segment));
  freeing_only_ = false;
  // First: until the `resumed` is recorded, unreserved() gives 0.
  append_resumed();
  if (wanted_ <= unreserved()) wanted_ = 0;
  if (wanted_freeing_ <= unreserved()) wanted_freeing_ = 0;
  accept();
}

bool JournalCore::wants_freeing_segment() const {
  const MutexLock lock(mutex_);
  return accepting(Change::frees) && wanted_freeing_ > unreserved();
}

void JournalCore::add_freeing_segment(std::unique_ptr<JournalSegment> segment) {
  SEPAL_ASSERT(segment->is_unused() && segment->room() >= frame_bytes_max_,
               "a small segment is in use, or has no room for a frame");
  const MutexLock lock(mutex_);
  ahead_.push_back(std::move(segment));
  freeing_only_ = true;
  // First, as in add_segment().
  append_resumed();
  if (wanted_freeing_ <= unreserved()) wanted_freeing_ = 0;
}

void JournalCore::freeing_failed(const std::string& reason) {
  const MutexLock lock(mutex_);
  // The worker that waits asks again after on_progress, and is refused.
  wanted_freeing_ = 0;
  accepting_freeing_.store(false, std::memory_order_relaxed);
  refuse(reason);
}

// Once the reserve is whole, the rest of the segments for changes that free is open to any change again.
void JournalCore::reserve_is_whole(bool whole) {
  const MutexLock lock(mutex_);
  reserve_missing_ = !whole;
  if (whole && std::exchange(freeing_only_, false)) accept();
}

void JournalCore::preparing_failed(const std::string& reason) {
  SEPAL_ASSERT(!reason.empty(), "no segment can be made, and there is no reason");
  const MutexLock lock(mutex_);
  preparing_error_ = reason;
  waits_for_save_ = false;
  retry_later();
  // A client that waits for room must get its refusal. If the journal has only small segments, no ordinary
  // change finds room, whether a client waits or not.
  if (freeing_only_ || wanted_ > unreserved()) refuse(reason);
}

void JournalCore::preparing_waits() {
  const MutexLock lock(mutex_);
  // An older error would make refill() refuse changes that only have to wait.
  preparing_error_.clear();
  waits_for_save_ = true;
  retry_later();
}

void JournalCore::retry_later() {
  retry_time_ = steady_now() + retry_delay_;
  retry_delay_ = std::min(2 * retry_delay_, retry_delay_max);
}

// As many segments as before, because workers hold reserves in that room.
std::size_t JournalCore::segments_to_restart() const {
  const MutexLock lock(mutex_);
  return std::max<std::size_t>(options_.segments_ahead, ahead_.size()) + 1;
}

JournalSegments JournalCore::restart(JournalSegments fresh) {
  const MutexLock lock(mutex_);
  // Asked again: while the thread made the segments, a change that had been admitted may have been recorded.
  if (!may_restart()) return fresh;
  SEPAL_ASSERT(fresh.size() > ahead_.size(),
               "the journal begins anew with less room than workers have reserved");
  JournalSegments old = std::move(written_);
  written_.clear();
  if (active_) old.push_back(std::move(active_));
  for (auto& segment : ahead_) old.push_back(std::move(segment));
  ahead_.assign(std::make_move_iterator(fresh.begin()), std::make_move_iterator(fresh.end()));
  // There is no active segment at this moment, so none gets into written_.
  rotate();
  synced_ = position_.load(std::memory_order_relaxed);
  // The old segments may lack something before this position. The generation that was saved has it.
  gap_ = synced_;
  failed_ = false;
  freeing_only_ = false;
  wanted_ = 0;
  append_resumed();
  accept();
  return old;
}

JournalSegments JournalCore::take_ahead() {
  const MutexLock lock(mutex_);
  JournalSegments taken(std::make_move_iterator(ahead_.begin()), std::make_move_iterator(ahead_.end()));
  ahead_.clear();
  return taken;
}

JournalSegments JournalCore::take_surplus() {
  const MutexLock lock(mutex_);
  JournalSegments taken;
  if (!std::exchange(surplus_due_, false) || freeing_only_) return taken;
  const std::uint64_t needed = reserved_ + std::max(wanted_, wanted_freeing_);
  while (ahead_.size() > options_.segments_ahead &&
         room() - (ahead_.back()->room() - frame_bytes_max_) >= needed) {
    taken.push_back(std::move(ahead_.back()));
    ahead_.pop_back();
  }
  return taken;
}

std::vector<SegmentRange> JournalCore::next_pages() {
  const MutexLock lock(mutex_);
  pages_time_ = steady_now() + near_interval;
  if (!active_) return {};
  if (!std::exchange(pages_due_, false)) return {active_->pages(near_bytes)};
  std::vector<SegmentRange> ranges{active_->next_pages(window_bytes_)};
  const std::uint64_t covered = ranges.back().to - ranges.back().from;
  SEPAL_ASSERT(covered <= window_bytes_, "more pages are prepared than the window has");
  // The window may reach over the end of the active segment.
  if (covered < window_bytes_ && !ahead_.empty())
    ranges.push_back(ahead_.front()->next_pages(window_bytes_ - covered));
  return ranges;
}

std::uint64_t JournalCore::saved_position() const {
  const MutexLock lock(mutex_);
  return saved_;
}

}  // namespace sepal::storage
