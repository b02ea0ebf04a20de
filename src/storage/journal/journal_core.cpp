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

constexpr std::uint64_t reserve_bytes_max = std::uint64_t{256} << 10;
// In small segments a frame and a worker's reserve are smaller, so that one of them never takes most of a
// segment.
constexpr std::uint64_t frames_in_segment_min = 8;
constexpr std::uint64_t reserves_in_segment_min = 64;

}  // namespace

JournalCore::JournalCore(const JournalOptions& options, std::uint64_t position)
    : options_(options),
      frame_bytes_max_(std::min(format::frame_bytes(format::frame_body_bytes_max),
                                options.segment_bytes / frames_in_segment_min)),
      reserve_bytes_(std::min(reserve_bytes_max, options.segment_bytes / reserves_in_segment_min)),
      policy_(options.policy),
      position_(position),
      durable_(position),
      room_({.frame_bytes_max = frame_bytes_max_,
             .reserve_bytes = reserve_bytes_,
             .segments_ahead = options.segments_ahead}),
      trust_(position),
      times_(options) {
  SEPAL_ASSERT(options.segments_ahead >= 1, "a journal prepares no segment, and could never go on");
  SEPAL_ASSERT(frame_bytes_max_ <= JournalSegment::room_of(options.segment_bytes),
               "a segment has no room for one frame");
  SEPAL_ASSERT(position <= format::position_max, "a journal begins at a position that none can have");
}

Admission JournalCore::refill(std::uint64_t& reserve, std::uint64_t needed_bytes, Change change) {
  const MutexLock lock(mutex_);
  if (!accepting(change)) return Admission::refused;
  SEPAL_ASSERT(needed_bytes > reserve, "a worker asks for room that it has");
  const std::uint64_t lacking = needed_bytes - reserve;
  if (room_.reserve(reserve, lacking, change)) return Admission::granted;
  // The thread makes small segments for this change. So it does not matter here that no ordinary segment
  // could be made.
  if (change == Change::frees) {
    room_.want(lacking, change);
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
  room_.want(lacking, change);
  note_due();
  return Admission::later;
}

void JournalCore::release(std::uint64_t& reserve) {
  const MutexLock lock(mutex_);
  room_.give_back(reserve, 0);
}

void JournalCore::append(std::span<const std::byte> body, std::uint64_t& reserve) {
  // The body's checksum needs no position, so it is computed before the lock is taken.
  const std::uint64_t body_checksum = Checksum::of(body);
  const MutexLock lock(mutex_);
  append_frame(body, body_checksum);
  room_.use(reserve, format::frame_bytes(body.size()));
}

// The lock is held for the whole group, so no sync ends within it, and no filler comes into it.
void JournalCore::append_group(std::span<const std::vector<std::byte>> bodies, std::uint64_t& reserve) {
  std::vector<std::uint64_t> checksums;
  checksums.reserve(bodies.size());
  for (const auto& body : bodies) checksums.push_back(Checksum::of(body));
  const MutexLock lock(mutex_);
  for (std::size_t at = 0; at < bodies.size(); ++at) {
    append_frame(bodies[at], checksums[at], at + 1 < bodies.size() ? format::frame_continues : 0);
    room_.use(reserve, format::frame_bytes(bodies[at].size()));
  }
  give_back(reserve);
}

void JournalCore::trim(std::uint64_t& reserve) {
  const MutexLock lock(mutex_);
  give_back(reserve);
}

void JournalCore::give_back(std::uint64_t& reserve) {
  if (!is_large(reserve)) return;
  room_.give_back(reserve, reserve_bytes_);
  // The thread tells the clients that wait for this room.
  if (!room_.meet_wishes()) return;
  times_.tell_due = true;
  note_due();
}

void JournalCore::append_frame(std::span<const std::byte> body, std::uint64_t body_checksum,
                               std::uint32_t flags) {
  const std::uint64_t bytes = format::frame_bytes(body.size());
  SEPAL_ASSERT(bytes <= frame_bytes_max_, "an operation that no segment has room for");
  if (room_.needs_next(bytes)) rotate();
  // The first frame since the last sync wakes the journal's thread, which may sleep without a timeout. Under
  // `always` seal_record() wakes it.
  if (policy() == JournalPolicy::everysec && !unsynced()) note_due();
  JournalSegment& active = *room_.active();
  SEPAL_ASSERT(active.end_position() == position(), "the active segment does not end where the journal ends");
  active.append(body, body_checksum, trust_.synced(), flags);
  // Release, which pairs with the acquire in position().
  position_.store(active.end_position(), std::memory_order_release);
  ++frames_;
  if (active.wants_pages()) {
    times_.pages_wanted();
    note_due();
  }
}

void JournalCore::rotate() {
  room_.go_on().begin(end_position(), options_.lineage);
  times_.pages_wanted();
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
  SEPAL_ASSERT(room_.reserved() == 0, "a worker keeps room in the journal while the policy changes");
  const JournalPolicy before = policy_.exchange(policy, std::memory_order_relaxed);
  // Between `everysec` and `always` nothing is missing.
  if (policy == JournalPolicy::off) {
    // The segment for it may still be on its way. A journal that is off records nothing.
    room_.set_resumed_due(false);
  } else if (before == JournalPolicy::off) {
    room_.set_resumed_due(true);
    append_resumed();
  }
  // Workers have clients that wait for room. Without a call of on_progress these would wait for ever, because
  // a journal that is off prepares no room. It needs none either.
  times_.tell_due = true;
  note_due();
}

// Appends it now, or when a segment comes. Until then nothing can be recorded before it.
void JournalCore::append_resumed() {
  OperationEncoder encoder;
  encoder.resumed();
  if (!room_.resumed_due() || !room_.has_beside_reserves(format::frame_bytes(encoder.bytes().size()))) return;
  SEPAL_ASSERT(policy() != JournalPolicy::off, "a journal that is off begins anew");
  room_.set_resumed_due(false);
  append_frame(encoder.bytes(), Checksum::of(encoder.bytes()));
  // Behind the `resumed`: only a generation that is cut there or later has what was not recorded.
  trust_.lacks_before(end_position());
  ask_save();
}

std::uint64_t JournalCore::gap() const {
  const MutexLock lock(mutex_);
  return trust_.gap();
}

void JournalCore::generation_saved(std::uint64_t position) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(position <= position_.load(std::memory_order_relaxed),
               "a generation was cut behind the end of the journal");
  trust_.generation_saved(position);
  publish_durable();
  failed_save_ = {};
  times_.surplus_due = true;
  // The save has given room back.
  times_.retry_now();
  times_.succeeded();
  // After a save, small segments may be made again (JournalThread::remove_past).
  accept_freeing();
  note_due();
}

void JournalCore::save_failed(const std::string& reason, std::uint64_t lacking_bytes) {
  SEPAL_ASSERT(!reason.empty(), "a save fails without a reason and would count as one that succeeded");
  const MutexLock lock(mutex_);
  failed_save_ = {.reason = reason, .lacking_bytes = lacking_bytes};
  // It is what keeps the journal closed now. Why the sync failed may be over: the directory may be back.
  if (trust_.failed() && !trust_.may_restart(end_position()))
    refuse("the save that has to follow a failed sync of the journal has failed: " + reason);
  // At once: changes that wait for this save have to be refused, with the reason (JournalThread::may_grow).
  times_.retry_now();
  note_due();
}

JournalCore::FailedSave JournalCore::failed_save() const {
  const MutexLock lock(mutex_);
  return failed_save_;
}

void JournalCore::publish_durable() {
  SEPAL_ASSERT(trust_.durable() <= end_position(), "more is durable than was recorded");
  durable_.store(trust_.durable(), std::memory_order_release);
}

void JournalCore::refuse(const std::string& reason) {
  SEPAL_ASSERT(!reason.empty(), "the journal refuses changes without a reason");
  refusal_ = reason;
  accepting_.store(false, std::memory_order_relaxed);
  note_due();
}

void JournalCore::accept_freeing() {
  if (!trust_.failed()) accepting_freeing_.store(true, std::memory_order_relaxed);
}

void JournalCore::accept() {
  preparing_error_.clear();
  times_.succeeded();
  waits_for_save_ = false;
  // New segments do not help after a failed sync. restart() ends that state before it calls this.
  if (trust_.failed()) return;
  accept_freeing();
  refusal_.clear();
  accepting_.store(true, std::memory_order_relaxed);
  note_due();
}

void JournalCore::note_due() {
  times_.due = true;
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
  while (trust_.synced() < position && !trust_.failed() && !ending_) synced_or_not_.wait(mutex_);
  if (trust_.synced() >= position) return {};
  return fail(Errc::io, trust_.failed() ? sync_error_ : "the journal ends");
}

JournalStatus JournalCore::status() const {
  const MutexLock lock(mutex_);
  const JournalPolicy policy = policy_.load(std::memory_order_relaxed);
  return {.policy = policy,
          .accepting = policy == JournalPolicy::off || accepting(),
          .refusal = policy == JournalPolicy::off ? std::string() : refusal_,
          .position = position_.load(std::memory_order_relaxed),
          .synced_position = trust_.synced(),
          .segment_count = 0,
          .byte_count = 0,
          .syncs = trust_.syncs(),
          .failed_syncs = trust_.failed_syncs(),
          .frames = frames_,
          .waits_for_save = waits_for_save_ && policy != JournalPolicy::off,
          .resumes = room_.resumed_due()};
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
  return !trust_.failed() && policy() != JournalPolicy::off && room_.short_of_segments();
}

bool JournalCore::wants_preparing() const {
  // After a failed sync the directory may be another one, and restart() may need the room.
  return short_of_segments() || (reserve_missing_ && !trust_.failed());
}

bool JournalCore::may_restart() const {
  return policy() != JournalPolicy::off && trust_.may_restart(end_position());
}

void JournalCore::ask_save() {
  times_.ask_due = true;
  note_due();
}

// When the journal is switched off, everything that was recorded before is synced at once.
SteadyTime JournalCore::sync_time() const {
  if (sync_asked_ > trust_.synced() || policy() == JournalPolicy::off) return SteadyTime::min();
  return times_.sync_time(policy());
}

JournalCore::Chores JournalCore::chores_at(SteadyTime now) {
  Chores chores;
  chores.end = ending_;
  chores.sync = unsynced() && sync_time() <= now;
  chores.prepare = wants_preparing() && times_.retry_time() <= now;
  chores.restart = may_restart() && times_.retry_time() <= now;
  // A save that has ended since may have met the need.
  chores.ask_save = std::exchange(times_.ask_due, false) && trust_.needs_save(end_position());
  chores.tell = std::exchange(times_.tell_due, false);
  return chores;
}

SteadyTime JournalCore::next_time() const {
  SteadyTime next = SteadyTime::max();
  if (unsynced()) next = std::min({next, sync_time(), times_.pages_time()});
  if (wants_preparing() || may_restart()) next = std::min(next, times_.retry_time());
  if (trust_.needs_mark()) next = std::min(next, times_.mark_time());
  return next;
}

JournalCore::Chores JournalCore::wait_for_chores() {
  const MutexLock lock(mutex_);
  for (;;) {
    const SteadyTime now = steady_now();
    const SteadyTime next = next_time();
    // Taken before the chores are done: a chore that becomes due meanwhile sets it again.
    if (std::exchange(times_.due, false) || ending_ || next <= now) return chores_at(now);
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
  JournalSegment* const active = room_.active();
  if (active != nullptr && trust_.synced() < end_position()) {
    // The filler ends the page. A store into a page that is on its way to the disk would wait for the file
    // system, under the lock that all workers need.
    const std::uint64_t bytes = active->filler_bytes();
    // It takes no room that workers have reserved: their admitted records need that.
    if (bytes != 0 && bytes <= room_.unreserved()) active->append_filler(bytes, trust_.synced());
    position_.store(active->end_position(), std::memory_order_release);
  }
  Sync sync{.parts = {}, .position = end_position(), .frames = frames_};
  room_.each_unsynced([&](JournalSegment& segment) {
    const SegmentRange range = segment.unsynced();
    if (range.from != range.to) sync.parts.push_back({.segment = &segment, .range = range});
  });
  times_.sync_begins(trust_.begin_sync(sync.position));
  return sync;
}

void JournalCore::end_sync(const Sync& sync) {
  const MutexLock lock(mutex_);
  trust_.end_sync(sync.position, end_position());
  // Only to the end of the range: workers have appended behind it during the sync.
  for (const Sync::Part& part : sync.parts) part.segment->synced(part.range.to);
  times_.sync_ends(sync.frames, frames_, end_position() - sync.position);
  if (!sync.parts.empty()) {
    const JournalSegment& newest = *sync.parts.back().segment;
    if (trust_.note_newest(newest.number(), newest.first_position())) times_.mark_now();
  }
  synced_or_not_.notify_all();
  publish_durable();
}

void JournalCore::sync_failed(const std::string& reason) {
  const MutexLock lock(mutex_);
  trust_.fail_sync();
  lose(reason);
  ask_save();
}

void JournalCore::directory_replaced(const std::string& reason) {
  const MutexLock lock(mutex_);
  trust_.replace_directory();
  lose(reason);
}

void JournalCore::lose(const std::string& reason) {
  // What was admitted before is still recorded, in the old segments: its room is reserved, and the generation
  // has to be cut behind it.
  sync_error_ = reason;
  accepting_freeing_.store(false, std::memory_order_relaxed);
  synced_or_not_.notify_all();
  refuse(reason);
}

JournalSegments JournalCore::take_synced() {
  const MutexLock lock(mutex_);
  return room_.take_synced();
}

// --- the mark ---------------------------------------------------------------------------------------------

void JournalCore::took_over(const SyncedMark& mark) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(mark.segment_number != 0, "the journal takes over a segment without a number");
  trust_.take_over(mark);
  note_due();
}

std::optional<SyncedMark> JournalCore::take_mark(SteadyTime now) {
  const MutexLock lock(mutex_);
  if (!trust_.needs_mark() || now < times_.mark_time()) return std::nullopt;
  // Not from `now`, which a stop sets to the end of time.
  times_.mark_later();
  return trust_.mark();
}

void JournalCore::mark_written(const SyncedMark& mark) {
  const MutexLock lock(mutex_);
  trust_.mark_written(mark);
}

// --- segments ---------------------------------------------------------------------------------------------

bool JournalCore::wants_segment() const {
  const MutexLock lock(mutex_);
  return short_of_segments();
}

void JournalCore::add_segment(std::unique_ptr<JournalSegment> segment) {
  const MutexLock lock(mutex_);
  room_.add(std::move(segment), false);
  // First: until the `resumed` is recorded, nothing can be reserved.
  append_resumed();
  static_cast<void>(room_.meet_wishes());
  accept();
}

bool JournalCore::wants_freeing_segment() const {
  const MutexLock lock(mutex_);
  return accepting(Change::frees) && room_.lacks_wanted_freeing();
}

void JournalCore::add_freeing_segment(std::unique_ptr<JournalSegment> segment) {
  const MutexLock lock(mutex_);
  room_.add(std::move(segment), true);
  // First, as in add_segment().
  append_resumed();
  if (!room_.lacks_wanted_freeing()) room_.forget_freeing();
}

void JournalCore::freeing_failed(const std::string& reason) {
  const MutexLock lock(mutex_);
  // The worker that waits asks again after on_progress, and is refused.
  room_.forget_freeing();
  accepting_freeing_.store(false, std::memory_order_relaxed);
  refuse(reason);
}

// Once the reserve is whole, the rest of the segments for changes that free is open to any change again.
void JournalCore::reserve_is_whole(bool whole) {
  const MutexLock lock(mutex_);
  if (std::exchange(reserve_missing_, !whole) == whole) note_due();
  if (!whole) return;
  // It had no piece left when a deletion was refused. Other segments may not be made meanwhile: the room that
  // is left may be kept for a save.
  accept_freeing();
  if (!room_.freeing_only()) return;
  room_.set_freeing_only(false);
  accept();
}

void JournalCore::preparing_failed(const std::string& reason) {
  SEPAL_ASSERT(!reason.empty(), "no segment can be made, and there is no reason");
  const MutexLock lock(mutex_);
  preparing_error_ = reason;
  waits_for_save_ = false;
  times_.retry_later();
  // A client that waits for room must get its refusal. If the journal has only small segments, no ordinary
  // change finds room, whether a client waits or not.
  if (room_.freeing_only() || room_.lacks_wanted()) refuse(reason);
}

void JournalCore::preparing_waits() {
  const MutexLock lock(mutex_);
  // An older error would make refill() refuse changes that only have to wait.
  preparing_error_.clear();
  waits_for_save_ = true;
  times_.retry_later();
}

void JournalCore::prepare_later() {
  const MutexLock lock(mutex_);
  times_.retry_later();
}

std::size_t JournalCore::segments_kept() const {
  const MutexLock lock(mutex_);
  return room_.segments_kept();
}

std::uint64_t JournalCore::lacks_to_restart(const JournalSegments& fresh) const {
  const MutexLock lock(mutex_);
  return room_.lacks_to_replace(fresh);
}

JournalSegments JournalCore::take_spare() {
  const MutexLock lock(mutex_);
  // Asked again: a change that had been admitted may have been recorded, and no generation has it.
  return may_restart() ? room_.take_spare() : JournalSegments();
}

void JournalCore::restart_failed(const std::string& reason) {
  const MutexLock lock(mutex_);
  times_.retry_later();
  refuse(reason);
}

JournalSegments JournalCore::restart(JournalSegments fresh, bool for_freeing) {
  const MutexLock lock(mutex_);
  // Asked again: while the thread made the segments, a change that had been admitted may have been recorded.
  if (!may_restart()) return fresh;
  JournalSegments old = room_.replace(std::move(fresh), for_freeing);
  rotate();
  trust_.restart(end_position());
  append_resumed();
  accept();
  return old;
}

JournalSegments JournalCore::take_ahead() {
  const MutexLock lock(mutex_);
  return room_.take_ahead();
}

JournalSegments JournalCore::take_surplus() {
  const MutexLock lock(mutex_);
  return std::exchange(times_.surplus_due, false) ? room_.take_surplus() : JournalSegments();
}

std::vector<SegmentRange> JournalCore::next_pages() {
  const MutexLock lock(mutex_);
  if (room_.active() == nullptr) {
    times_.look_at_pages_later();
    return {};
  }
  if (!times_.take_pages_due()) return {room_.active()->pages(JournalTimes::near_bytes)};
  return room_.next_pages(times_.window_bytes());
}

std::uint64_t JournalCore::saved_position() const {
  const MutexLock lock(mutex_);
  return trust_.saved();
}

}  // namespace sepal::storage
