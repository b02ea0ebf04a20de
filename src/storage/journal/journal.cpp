// The journal's thread: everything of the journal that waits for a disk. JournalCore holds the state that it
// shares with the workers, and says what there is to do. The way of a segment:
//
//     JournalFiles::make()         a file with all its space, whose name is on disk
//     JournalCore::add_segment()   it is kept ahead, until a worker's frame needs its room
//     JournalFiles::let_go()       full and synced, or given up by a restart: only the file is left
//     JournalFiles::remove_past()  a generation has all of it: the file is removed
#include <sepal/base/assert.hpp>
#include <sepal/base/thread.hpp>
#include <sepal/log/event.hpp>
#include <sepal/storage/journal/journal.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <thread>
#include <utility>

#include "storage/disk/steady_now.hpp"
#include "storage/journal/journal_core.hpp"
#include "storage/journal/journal_files.hpp"
#include "storage/journal/journal_log.hpp"
#include "storage/journal/segment_files.hpp"

namespace sepal::storage {
namespace {

constexpr std::uint64_t segment_bytes_unit = 4096;
// A small segment holds at least this many of the longest frames.
constexpr std::uint64_t frames_in_small_segment = 4;
// A segment is at most so many times as long as what was recorded before it. A client at full speed fills the
// two segments ahead before the thread has made the next, if this is much less.
constexpr std::uint64_t growth_max = 16;
// Small segments that may be made beyond the bound of the journal, until a save succeeds.
constexpr std::size_t freeing_segments_max = 8;

std::uint64_t whole_units(std::uint64_t bytes) {
  return bytes + (0 - bytes) % segment_bytes_unit;
}

}  // namespace

class JournalThread final : public Journal {
 public:
  JournalThread(Disk& disk, Path directory, std::uint64_t position, std::size_t worker_count,
                const JournalOptions& options, Callbacks callbacks, Reserve* reserve)
      : disk_(disk),
        directory_(std::move(directory)),
        options_(options),
        callbacks_(std::move(callbacks)),
        reserve_(reserve),
        began_at_(position),
        core_(options, position),
        segment_bytes_(first_segment_bytes()),
        add_counts_(worker_count),
        files_(disk, directory_),
        synced_file_(disk, directory_),
        told_durable_(position) {
    logs_.reserve(worker_count);
    for (std::size_t worker = 0; worker < worker_count; ++worker)
      logs_.push_back(
          std::make_unique<JournalLog>(core_, add_counts_, logs_, worker, [this] { return room_max(); }));
  }
  ~JournalThread() override { static_cast<void>(stop()); }
  JournalThread(const JournalThread&) = delete;
  JournalThread& operator=(const JournalThread&) = delete;

  Result<void> open() {
    const auto newest = files_.take_over(core_.position());
    if (!newest) return newest.error();
    if (newest->segment_number != 0) core_.took_over(*newest);
    if (reserve_ != nullptr) reserve_->demand(reserve_piece_bytes(segment_bytes_));
    core_.reserve_is_whole(reserve_ == nullptr || reserve_->whole());
    if (options_.policy != JournalPolicy::off) {
      if (auto begun = begin(); !begun) return begun;
    }
    if (options_.threaded) thread_ = start_thread("journal", [this] { run(); });
    return {};
  }

  [[nodiscard]] keyspace::WorkerLog& log(std::size_t worker) override {
    SEPAL_ASSERT(worker < logs_.size(), "a worker without a log");
    return *logs_[worker];
  }
  [[nodiscard]] std::uint64_t position() const override { return core_.position(); }
  [[nodiscard]] std::uint64_t gap() const override { return core_.gap(); }
  [[nodiscard]] std::uint64_t durable_position() const override { return core_.durable_position(); }

  [[nodiscard]] JournalStatus status() const override {
    JournalStatus status = core_.status();
    status.segment_count = files_.count();
    status.byte_count = files_.byte_count();
    return status;
  }

  void set_policy(JournalPolicy policy) override {
    // The gate is closed, so no worker is in the middle of a record. What the workers keep for later requests
    // goes back, so that a `resumed` finds room.
    for (const auto& log : logs_) log->release_reserve();
    core_.set_policy(policy);
  }

  void generation_saved(std::uint64_t position) override { core_.generation_saved(position); }
  void directory_replaced() override {
    if (core_.policy() != JournalPolicy::off)
      core_.directory_replaced(
          "the data directory was replaced, and the save into the new one has not ended");
  }
  void save_failed(const std::string& reason, std::uint64_t lacking_bytes) override {
    core_.save_failed(reason, lacking_bytes);
  }

  Result<void> sync_until(std::uint64_t position) override {
    SEPAL_ASSERT(std::this_thread::get_id() != thread_.get_id(),
                 "the thread of the journal would wait for itself");
    core_.ask_sync(position);
    if (!options_.threaded) work();
    return core_.await_sync(position);
  }

  void work() override { do_chores(core_.chores(), SteadyTime::max()); }

  Result<void> stop() override {
    if (std::exchange(stopped_, true)) return last_sync_;
    SEPAL_ASSERT(std::this_thread::get_id() != thread_.get_id(),
                 "the thread of the journal cannot wait for its own end");
    core_.end();
    // From then on only the caller uses the members below, and does the rest of the thread's work.
    if (thread_.joinable()) thread_.join();
    if (core_.chores().sync) sync();
    write_mark(SteadyTime::max());
    // A failed sync does not matter if a generation holds everything that was recorded.
    if (core_.durable_position() >= core_.position()) last_sync_ = {};
    files_.remove(core_.take_ahead());
    return last_sync_;
  }

 private:
  // The most room that one request can get. At its bound the journal has its segments less one, which is in
  // use, and less the room of another, which holds what the other workers keep.
  [[nodiscard]] std::uint64_t room_max() const {
    const std::uint64_t bytes_max = callbacks_.bytes_max ? callbacks_.bytes_max() : 0;
    if (bytes_max == 0) return std::numeric_limits<std::uint64_t>::max();
    constexpr std::uint64_t kept_segments = 2;
    const std::uint64_t segments = std::max(bytes_max / options_.segment_bytes, kept_segments);
    return (segments - kept_segments) *
           (JournalSegment::room_of(options_.segment_bytes) - core_.frame_bytes_max());
  }

  // The least that a segment has, whatever it is for.
  [[nodiscard]] std::uint64_t segment_bytes_min() const {
    return std::min(whole_units(frames_in_small_segment * core_.frame_bytes_max()), options_.segment_bytes);
  }
  [[nodiscard]] std::uint64_t first_segment_bytes() const {
    return std::clamp(options_.first_segment_bytes, segment_bytes_min(), options_.segment_bytes);
  }
  // The next segments for changes of any kind become longer with what was recorded. On a disk without much
  // room they stay as they are: then those that a save removes leave room for as many others.
  void grow_segments() {
    const std::uint64_t recorded = std::min(core_.position() - began_at_, options_.segment_bytes);
    const std::uint64_t wanted = std::min(std::bit_floor(growth_max * recorded), options_.segment_bytes);
    if (wanted <= segment_bytes_) return;
    const auto free = disk_.free_bytes(directory_);
    const std::uint64_t needed = core_.failed_save().lacking_bytes + core_.segments_kept() * wanted +
                                 Reserve::piece_count * reserve_piece_bytes(wanted);
    if (!free || *free >= needed) segment_bytes_ = wanted;
  }
  // The reserve has its full size when the segments have.
  [[nodiscard]] std::uint64_t reserve_piece_bytes(std::uint64_t segment_bytes) const {
    if (reserve_ == nullptr) return 0;
    return std::max(reserve_->piece_bytes_max() / (options_.segment_bytes / segment_bytes),
                    segment_bytes_min());
  }

  Result<void> begin() {
    auto first = files_.make(segment_bytes_);
    if (first) {
      core_.add_segment(std::move(*first));
      return {};
    }
    // A full disk does not keep sepald from starting: it answers look-ups, and takes removals if there is
    // room for a small segment (decisions/0020).
    const Error error = first.error();
    if (error.code != Errc::disk_full) return error;
    release_tail();
    auto small = make_freeing_segment();
    if (small) {
      core_.add_freeing_segment(std::move(*small));
    } else {
      core_.freeing_failed(with_way_out(small.error()));
    }
    // Last: it refuses ordinary changes if there is a small segment, and else keeps the refusal of
    // freeing_failed().
    core_.preparing_failed(error.detail);
    return {};
  }

  // The bytes of the last segment behind the end of the replay mean nothing any more, so their room is free
  // to take.
  void release_tail() {
    const auto segments = list_segments(disk_, directory_);
    if (!segments || segments->empty() || !segments->back().begins()) return;
    const SegmentFile& last = segments->back();
    const std::uint64_t position = core_.position();
    if (last.first_position > position) return;
    const std::uint64_t end = sizeof(format::SegmentHeader) + position - last.first_position;
    if (const auto released = disk_.release(last.path, end); !released)
      log::warn("journal_room_not_released", "room behind the end of the journal not released",
                {{"reason", released.error().detail}});
  }

  void run() {
    for (;;) {
      const JournalCore::Chores chores = core_.wait_for_chores();
      if (chores.end) return;
      do_chores(chores, steady_now());
    }
  }

  // One round of work. First comes what releases held replies, then what makes room. restart() and
  // take_synced() let segments go, so remove_past() follows them.
  void do_chores(const JournalCore::Chores& chores, SteadyTime now) {
    note_missing_reserve();
    if (chores.sync) sync();
    tell_durable();
    if (chores.tell) tell_progress();
    // After the clients have been told: the mark costs another sync, and no reply waits for it.
    write_mark(now);
    if (chores.restart) restart();
    files_.let_go(core_.take_synced());
    // Before the segments are prepared, because it makes room for them.
    remove_past();
    files_.remove(core_.take_surplus());
    if (chores.prepare) prepare_segments();
    if (core_.wants_freeing_segment()) prepare_for_freeing();
    prepare_pages();
    tell_waiting();
    tell_refusal();
    if (chores.ask_save && callbacks_.on_save_needed) callbacks_.on_save_needed();
  }

  void sync() {
    const JournalCore::Sync sync = core_.begin_sync();
    // Pages are prepared now, because this thread prepares none during the sync.
    prepare_pages();
    for (const JournalCore::Sync::Part& part : sync.parts) {
      // Without the lock: workers go on to append behind the range.
      last_sync_ = part.range.file->sync(part.range.from, part.range.to - part.range.from);
      if (last_sync_) continue;
      // The parts before this one do not count as synced either, because end_sync() is not called.
      core_.sync_failed(last_sync_.error().detail);
      return;
    }
    core_.end_sync(sync);
  }

  void prepare_pages() {
    for (const SegmentRange& pages : core_.next_pages())
      pages.file->prepare(pages.from, pages.to - pages.from);
  }

  // A save borrows the reserve on its own thread. When it has ended, it wakes this thread: by
  // generation_saved() or save_failed().
  void note_missing_reserve() {
    if (reserve_ != nullptr && !reserve_->lent() && !reserve_->whole()) core_.reserve_is_whole(false);
  }

  // Makes the reserve again while the journal has all segments that it needs, so that no change waits for
  // this. A save that did not fit has the first right to the room then. On a disk that stays full this only
  // asks how much room there is.
  void restore_reserve() {
    const std::uint64_t lacking = core_.failed_save().lacking_bytes;
    const std::uint64_t needed = lacking == 0 ? reserve_->piece_bytes() : lacking + reserve_->missing_bytes();
    const auto free = disk_.free_bytes(directory_);
    if (reserve_->lent() || (free && *free < needed)) return core_.prepare_later();
    if (const auto restored = reserve_->restore(); restored) {
      core_.reserve_is_whole(true);
    } else {
      if (restored.error().code == Errc::not_found) core_.sync_failed(restored.error().detail);
      core_.prepare_later();
    }
  }

  void prepare_segments() {
    if (reserve_ != nullptr && !core_.wants_segment()) return restore_reserve();
    // Progress is told after failures too: clients that wait for room ask again, and get their refusal.
    if (!keep_reserve()) return tell_progress();
    grow_segments();
    while (core_.wants_segment()) {
      if (!may_grow()) break;
      auto segment = files_.make(segment_bytes_);
      if (!segment) {
        // The directory is gone, and the segments before this one with it: when it is there again, only a
        // generation replaces them.
        if (segment.error().code == Errc::not_found) core_.sync_failed(segment.error().detail);
        core_.preparing_failed(segment.error().detail);
        if (segment.error().code == Errc::disk_full) ask_for_room();
        break;
      }
      core_.add_segment(std::move(*segment));
    }
    tell_progress();
    // Last, because clients may wait for the segments.
    if (reserve_ != nullptr) reserve_->grow(reserve_piece_bytes(segment_bytes_));
  }

  // New room goes to the reserve first, then to the journal (docs/decisions/0020).
  bool keep_reserve() {
    if (reserve_ == nullptr) return true;
    const Result<void> restored = reserve_->restore();
    core_.reserve_is_whole(restored.ok());
    if (restored) return true;
    // The save that borrows it gives it back when it ends. So changes wait instead of being refused.
    if (reserve_->lent()) {
      core_.preparing_waits();
    } else {
      if (restored.error().code == Errc::not_found) core_.sync_failed(restored.error().detail);
      core_.preparing_failed("no room for the reserve: " + with_way_out(restored.error()));
      ask_for_room();
    }
    return false;
  }

  bool may_grow() {
    // First the bound of the journal, then the room of a save that did not fit (rules 1 and 3 of
    // decisions/0020).
    const JournalCore::FailedSave failed = core_.failed_save();
    const std::uint64_t bytes_max = callbacks_.bytes_max ? callbacks_.bytes_max() : 0;
    const std::uint64_t taken = files_.byte_count() + bytes_beside();
    if (bytes_max != 0 && taken + segment_bytes_ > bytes_max) {
      ask_for_room();
      if (failed.reason.empty()) {
        core_.preparing_waits();
      } else {
        core_.preparing_failed("the journal has reached journal_size_max, and the last save failed: " +
                               failed.reason);
      }
      return false;
    }
    if (failed.lacking_bytes == 0) return true;
    // If the file system does not tell its free space, no room is kept for the save.
    const auto free = disk_.free_bytes(directory_);
    if (!free || *free >= failed.lacking_bytes + segment_bytes_) return true;
    if (callbacks_.on_room_needed) callbacks_.on_room_needed();
    core_.preparing_failed(
        "the last save did not fit on the disk, so the journal leaves the free room to the next save: " +
        failed.reason);
    return false;
  }

  [[nodiscard]] std::uint64_t bytes_beside() const {
    return callbacks_.bytes_beside ? callbacks_.bytes_beside() : 0;
  }

  // A save helps only if files can be removed after it: those with changes that no save has yet. Without this
  // test, saves would follow each other without end on a disk that another program has filled.
  void ask_for_room() {
    const bool helps = bytes_beside() > 0 || files_.has_past_behind(core_.saved_position());
    if (helps && callbacks_.on_room_needed) callbacks_.on_room_needed();
  }

  // With so much room the reserve is whole again, and the journal grows by so many segments.
  [[nodiscard]] std::string with_way_out(const Error& error, std::uint64_t segment_count = 1) const {
    if (error.code != Errc::disk_full) return error.detail;
    const std::uint64_t missing = reserve_ == nullptr ? 0 : reserve_->missing_bytes();
    return error.detail + "; free " + std::to_string(missing + segment_count * segment_bytes_) +
           " bytes on the disk of " + directory_.string();
  }

  void prepare_for_freeing() {
    while (core_.wants_freeing_segment()) {
      if (freeing_segments_ == freeing_segments_max) {
        core_.freeing_failed("deletions have used the room that is kept for them; a save frees it");
        break;
      }
      auto segment = make_freeing_segment();
      if (!segment) {
        core_.freeing_failed(with_way_out(segment.error()));
        break;
      }
      ++freeing_segments_;
      core_.add_freeing_segment(std::move(*segment));
    }
    tell_progress();
  }

  [[nodiscard]] std::uint64_t freeing_segment_bytes() const {
    const std::uint64_t piece_bytes = reserve_ == nullptr ? 0 : reserve_->piece_bytes();
    // Never below what the longest frames need, even if a piece of the reserve is smaller.
    return std::clamp(piece_bytes, segment_bytes_min(), options_.segment_bytes);
  }

  // Makes a small segment, about as large as one piece of the reserve; the smallest there may be if the
  // reserve is used up and the disk has no more room than that.
  Result<std::unique_ptr<JournalSegment>> make_freeing_segment() {
    const std::uint64_t bytes = freeing_segment_bytes();
    auto segment = files_.make(bytes);
    while (is_full(segment) && reserve_ != nullptr && reserve_->give_to_journal()) {
      log::warn("reserve_given", "reserve given to the journal", {{"bytes_left", reserve_->byte_count()}});
      core_.reserve_is_whole(false);
      segment = files_.make(bytes);
    }
    if (is_full(segment) && bytes > segment_bytes_min()) segment = files_.make(segment_bytes_min());
    return segment;
  }

  // After a failed sync no earlier segment is trusted, and no segment ahead either. The directory may be
  // another one since the save. What workers have reserved needs room in the new segments; more of them are
  // prepared as usual.
  void restart() {
    synced_file_.forget();
    if (reserve_ != nullptr) {
      reserve_->look_again();
      core_.reserve_is_whole(reserve_->whole());
    }
    JournalSegments fresh;
    std::string small_because;
    while (core_.lacks_to_restart(fresh) > 0) {
      auto segment = make_segment_to_restart(small_because);
      if (!segment) {
        // The next try makes all of them: the directory may be another one by then.
        files_.remove(std::move(fresh));
        const std::uint64_t room = JournalSegment::room_of(segment_bytes_) - core_.frame_bytes_max();
        const std::uint64_t lacking = core_.lacks_to_restart({});
        core_.restart_failed(with_way_out(segment.error(), (lacking + room - 1) / room));
        return;
      }
      fresh.push_back(std::move(*segment));
    }
    SEPAL_ASSERT(std::ranges::all_of(fresh, [](const auto& segment) { return segment->is_unused(); }),
                 "the journal begins anew in a segment that was used");
    // A generation has all that the old ones hold, so remove_past() removes them in this round.
    files_.let_go(core_.restart(std::move(fresh), !small_because.empty()));
    // As in begin().
    if (!small_because.empty()) core_.preparing_failed(small_because);
  }

  // On a full disk the old segments make room: the generation has all that they hold. Those that workers may
  // still write into stay until the new ones are there, so what was admitted finds its room whatever fails
  // here. If that is not enough, the journal goes on as after a start. `small_because`: why the segment is
  // only for changes that free.
  Result<std::unique_ptr<JournalSegment>> make_segment_to_restart(std::string& small_because) {
    auto segment = files_.make(segment_bytes_);
    if (is_full(segment)) {
      if (JournalSegments spare = core_.take_spare(); !spare.empty()) {
        files_.let_go(std::move(spare));
        remove_past();
        segment = files_.make(segment_bytes_);
      }
    }
    if (is_full(segment) && segment_bytes_ > first_segment_bytes()) {
      segment_bytes_ = first_segment_bytes();
      segment = files_.make(segment_bytes_);
    }
    if (!is_full(segment)) return segment;
    auto small = make_freeing_segment();
    if (small) small_because = with_way_out(segment.error());
    return small;
  }

  static bool is_full(const Result<std::unique_ptr<JournalSegment>>& made) {
    return !made && made.error().code == Errc::disk_full;
  }

  // If the write fails, SYNCED says less than it could, but nothing wrong. So the journal goes on.
  void write_mark(SteadyTime now) {
    std::optional<SyncedMark> mark = core_.take_mark(now);
    if (!mark) return;
    mark->identity = options_.lineage.identity;
    const auto written = synced_file_.write(*mark);
    if (written) core_.mark_written(*mark);
    if (written.ok() == mark_fails_) log_mark(written);
    mark_fails_ = !written;
  }

  void log_mark(const Result<void>& written) const {
    if (written) {
      log::info("position_noted", "journal position noted again",
                {{"file", synced_path(directory_).native()}});
    } else {
      log::warn("position_not_noted", "journal position not noted",
                {{"file", synced_path(directory_).native()}, {"reason", written.error().detail}});
    }
  }

  void remove_past() {
    if (files_.remove_past(core_.saved_position())) freeing_segments_ = 0;
  }

  // Both syncs and generations raise the durable position.
  void tell_durable() {
    const std::uint64_t durable = core_.durable_position();
    if (std::exchange(told_durable_, durable) != durable) tell_progress();
  }

  void tell_progress() {
    if (callbacks_.on_progress) callbacks_.on_progress();
  }

  void tell_waiting() {
    const bool waiting = core_.status().waits_for_save;
    if (std::exchange(waiting_, waiting) == waiting) return;
    if (waiting) {
      log::warn("journal_waits", "journal waits for a save before it grows",
                {{"bytes", files_.byte_count()}});
    } else {
      log::info("journal_goes_on", "journal waits for a save no more");
    }
  }

  void tell_refusal() {
    const std::optional<std::string> refusal = core_.refusal();
    if (refusal.has_value() == refusing_) return;
    refusing_ = refusal.has_value();
    if (refusing_) {
      log::error("journal_refuses", "journal refuses changes", {{"reason", *refusal}});
    } else {
      log::info("journal_accepts", "journal accepts changes again");
    }
    // Clients that wait for room ask again, and are served or refused.
    tell_progress();
  }

  Disk& disk_;
  const Path directory_;
  const JournalOptions options_;
  const Callbacks callbacks_;
  Reserve* const reserve_;  // null: no reserve
  const std::uint64_t began_at_;
  JournalCore core_;
  std::uint64_t segment_bytes_;  // of the next segment for changes of any kind
  std::vector<AddCount> add_counts_;
  std::vector<std::unique_ptr<JournalLog>> logs_;
  // Used by the thread, and by stop() after the thread has ended.
  JournalFiles files_;                // but for its gauges
  std::size_t freeing_segments_ = 0;  // made since the last save
  SyncedFile synced_file_;
  bool mark_fails_ = false;
  Result<void> last_sync_;
  std::uint64_t told_durable_;
  bool refusing_ = false;
  bool waiting_ = false;
  bool stopped_ = false;

  std::thread thread_;  // Last: it uses all of the above.
};

Result<std::unique_ptr<Journal>> Journal::open(Disk& disk, Path directory, std::uint64_t position,
                                               std::size_t worker_count, const JournalOptions& options,
                                               Callbacks callbacks, Reserve* reserve) {
  JournalOptions checked = options;
  checked.segments_ahead = std::max(options.segments_ahead, 1U);
  checked.segment_bytes = whole_units(checked.segment_bytes);
  checked.first_segment_bytes = whole_units(checked.first_segment_bytes);
  auto journal = std::make_unique<JournalThread>(disk, std::move(directory), position, worker_count, checked,
                                                 std::move(callbacks), reserve);
  if (auto opened = journal->open(); !opened) return opened.error();
  return std::unique_ptr<Journal>(std::move(journal));
}

}  // namespace sepal::storage
