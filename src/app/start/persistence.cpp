#include "app/start/persistence.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/log/event.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

namespace sepal::app {
namespace {

// Where there is much data, clients may soon change much: the journal begins with segments of this part of
// it.
constexpr std::uint64_t segments_of_data = 16;

double seconds_from(SteadyTime start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

storage::SaverOptions saver_options(const command::RuntimeOptions& options) {
  return {.interval = options.save_interval,
          .bytes_per_second_max = options.save_bandwidth_bytes,
          .journal_bytes_min = options.journal_save_min_bytes,
          .journal_share = static_cast<double>(options.journal_save_percent) / 100};
}

storage::JournalBound journal_bound(const command::RuntimeOptions& options, std::uint64_t segment_bytes) {
  return {.bytes_max = options.journal_bytes_max,
          .percent_of_data = options.journal_bytes_max_percent,
          .segment_bytes = segment_bytes};
}

// An operator who comes from Redis may expect that its files are loaded.
void tell_of_redis_files(storage::Disk& disk, const storage::Path& directory) {
  for (const char* const name : {"dump.rdb", "appendonlydir", "appendonly.aof"}) {
    const storage::Path path = directory / name;
    const auto is_there = disk.exists(path);
    if (!is_there || !*is_there) continue;
    const std::string file = std::filesystem::absolute(path).string();
    log::warn(
        "redis_file_not_read", "sepald does not read files of Redis",
        {{"file", file},
         {"advice", "sepal convert " + file +
                        " --data NEW makes a data directory of it, NEW, for another start with --dir NEW; "
                        "what it cannot read, it names with what to do"}});
  }
}

}  // namespace

Persistence::Persistence(storage::Disk& disk, Gate& gate, const settings::Settings& settings,
                         const command::ServerFacts& facts, const std::vector<command::WorkerStats>& workers,
                         StopSignal& stop_signal, Callbacks callbacks)
    : disk_(disk),
      gate_(gate),
      settings_(settings),
      facts_(facts),
      workers_(workers),
      stop_signal_(stop_signal),
      callbacks_(std::move(callbacks)) {}

Result<void> Persistence::open(const storage::Saver::Loaded& loaded, std::uint64_t position,
                               std::uint64_t reserve_bytes) {
  // The saver may ask for the journal's position before there is a journal.
  journal_view_.begins_at(position);
  storage::JournalPolicy policy{};
  {
    const GateClosed closed(gate_);
    policy = settings_.runtime.journal;
  }
  auto reserve = storage::Reserve::open(disk_, data_->path(), reserve_bytes);
  if (!reserve) return reserve.error();
  // The journal and the saver use the reserve, so it comes before both.
  reserve_ = std::move(*reserve);
  // The saver is made first, because the journal's thread may call it at once. Requests find neither before
  // begin().
  auto saver = std::make_unique<storage::Saver>(*data_, *keyspace_, gate_, saver_callbacks(), loaded);
  auto journal = storage::Journal::open(disk_, data_->path(), position, workers_.size() + logs_beside_workers,
                                        {.policy = policy,
                                         .segment_bytes = facts_.journal_segment_bytes,
                                         .first_segment_bytes = keyspace_->memory_used() / segments_of_data,
                                         .lineage = lineage_},
                                        {.on_progress = [this] { callbacks_.journal_progressed(); },
                                         .on_save_needed = [&demanding = *saver] { demanding.demand(); },
                                         .on_room_needed = [&asked = *saver] { asked.make_room(); },
                                         .bytes_max = [this] { return journal_bytes_max(); },
                                         .bytes_beside = [this] { return adopted_files_->byte_count(); }},
                                        reserve_.get());
  if (!journal) return journal.error();
  opened_saver_ = std::move(saver);
  opened_journal_ = std::move(*journal);
  return {};
}

void Persistence::begin() {
  SEPAL_ASSERT(saver_ == nullptr && opened_journal_ != nullptr, "the service begins once, with a journal");
  saver_ = std::move(opened_saver_);
  journal_ = std::move(opened_journal_);
  journal_view_.show(*journal_);
}

void Persistence::settings_changed(const std::vector<keyspace::WorkerLog*>& logs) {
  const command::RuntimeOptions& options = settings_.runtime;
  saver_->set_options(saver_options(options));
  {
    const MutexLock lock(bound_mutex_);
    bound_ = journal_bound(options, facts_.journal_segment_bytes);
  }
  // Changes that the running batch made before are recorded under the old policy.
  for (keyspace::WorkerLog* const log : logs) log->commit();
  journal_->set_policy(options.journal);
  note_policy(options.journal);
}

Result<void> Persistence::stop(command::StopMode mode, ServiceManager& manager) {
  Result<void> outcome;
  if (mode == command::StopMode::save) {
    const auto saved = saver_->save_at_stop([&] {
      manager.saving_at_stop();
      return false;
    });
    if (!saved) outcome = saved.error();
  } else {
    // No worker runs any more, so the settings can be read outside the gate.
    const bool kept = settings_.runtime.journal != storage::JournalPolicy::off;
    log::write(kept ? log::Level::info : log::Level::warn, "stopping_without_save",
               "stopping without a save, as asked",
               {{"changes", status().changes_since}, {"in_journal", kept}});
  }
  saver_->stop();
  // The journal stops after the last save, because that save allows it to remove its segments.
  const auto stopped = journal_->stop();
  if (!stopped)
    log::error("journal_not_synced", "the journal could not be synced", {{"reason", stopped.error().detail}});
  // After a save that succeeded, nothing depends on the last sync: the generation has everything.
  if (!stopped && (mode == command::StopMode::no_save || !outcome)) outcome = stopped;
  return outcome;
}

storage::SaverCallbacks Persistence::saver_callbacks() {
  return {.changes = [this] { return changes(); },
          .journal_position = [this] { return journal_view_.position(); },
          .adopted_bytes = [this] { return adopted_files_->byte_count(); },
          .journal_gap = [this] { return journal_view_.gap(); },
          .sync_journal = [this](std::uint64_t at) { return journal_view_.sync_until(at); },
          .saved =
              [this](std::uint64_t at) {
                // First the journal and the files make room. Then those that may wait for that room look
                // again.
                journal_view_.generation_saved(at);
                adopted_files_->generation_saved(at);
                note_saved(at);
                callbacks_.save_ended();
              },
          .directory_replaced = [this] { journal_view_.directory_replaced(); },
          .failed =
              [this](const Error& error, std::uint64_t lacking_bytes) {
                journal_view_.save_failed(error.detail, lacking_bytes);
                callbacks_.save_ended();
              },
          .lend_reserve =
              [this](std::uint64_t bytes_left, bool data_grows) {
                return reserve_->lend({.byte_count = bytes_left, .for_good = data_grows});
              },
          .reserve_returned = [this] { reserve_->returned(); }};
}

Result<std::uint64_t> Persistence::replay(Loader& loader, const storage::GenerationReport& loaded) {
  const SteadyTime start = std::chrono::steady_clock::now();
  auto report = loader.replay(disk_, data_->path(), loaded);
  if (!report) return report.error();
  // Only now: the journal of a server that was killed before its first save has all of its data.
  if (loaded.name.empty() && report->frames == 0) {
    log::info("nothing_to_load", "nothing to load", {{"dir", facts_.data_directory}});
  } else if (loaded.name.empty()) {
    log::info("no_save_yet", "no save yet: the data is in the journal", {{"dir", facts_.data_directory}});
  }
  tell_of_redis_files(disk_, data_->path());
  if (report->segments > 0)
    log::info("journal_replayed", "journal replayed",
              {{"frames", report->frames},
               {"items", report->items},
               {"bytes", report->bytes},
               {"seconds", seconds_from(start), 3},
               {"position", report->position}});
  if (report->values_may_be_torn)
    log::warn("strings_may_be_torn", "strings and cuckoo filters may have a part of a change",
              {{"reason", "they changed while " + loaded.name +
                              " was saved, and the journal of that time is not there"},
               {"advice", "take copies with sepal backup, which have the journal"}});
  if (report->resumed || report->cut_bytes > 0)
    log::warn("journal_cut_off", "journal cut off",
              {{"bytes", report->cut_bytes},
               {"file", report->cut_path.native()},
               {"offset", report->cut_offset},
               {"reason", report->resumed ? "the journal was off before, and no save has ended since"
                                          : "what was written last had not got to the disk"}});
  // Before begin_service(), which begins a new segment where the replay has ended.
  if (const auto removed = storage::remove_beyond(disk_, data_->path(), *report); !removed)
    return removed.error();
  auto files = storage::AdoptedFiles::open(disk_, data_->path(), std::move(report->named));
  if (!files) return files.error();
  adopted_files_ = std::move(*files);
  lineage_ = data_->lineage();
  lineage_.run_before = report->run;
  return report->position;
}

// The keyspace counts what it changes itself. The workers count what values count (KindRow::changes) when
// requests change them in the shared gate. An add that lets a filter grow is in both: a save asks only
// whether the sum has grown. INFO shows the growth as changes_unsaved.
std::uint64_t Persistence::changes() const {
  std::uint64_t sum = keyspace_->changes();
  for (const command::WorkerStats& stats : workers_)
    sum += stats.items_added.get() + stats.items_removed.get() + stats.other_changes.get();
  return sum;
}

Result<void> Persistence::start_save() {
  SEPAL_ASSERT(saver_ != nullptr, "a save is asked for while the data is loaded");
  return saver_->start({});
}

Result<void> Persistence::start_save_for(std::uint64_t id) {
  SEPAL_ASSERT(saver_ != nullptr, "a client waits for a save while the data is loaded");
  return saver_->start([this, id](const Result<storage::GenerationReport>& report) {
    callbacks_.answer(id, report ? Result<void>() : report.error());
  });
}

// There is no saver while the data is loaded.
storage::SaverStatus Persistence::saver_status() const {
  if (saver_ != nullptr) return saver_->status();
  storage::SaverStatus status;
  status.last_success = facts_.started_wall;
  status.changes_saved = changes();
  return status;
}

command::SaveStatus Persistence::status() const {
  const storage::SaverStatus saver = saver_status();
  command::SaveStatus status{.running = saver.running,
                             .last_success = saver.last_success,
                             .last_success_steady = saver.last_success_steady.value_or(facts_.started_at),
                             .last_ok = saver.last_ok,
                             .last_error = saver.last_error,
                             .last_duration = saver.last_duration,
                             .last_bytes = saver.last_bytes,
                             .journal_position = saver.journal_position,
                             .changes_since = changes() - saver.changes_saved,
                             .saves_done = saver.saves_done,
                             .saves_failed = saver.saves_failed};
  if (saver.running) {
    status.running_for = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - saver.started_at);
  }
  if (saver.running && saver.progress.bytes_total > 0) {
    status.progress =
        static_cast<double>(saver.progress.bytes_done) / static_cast<double>(saver.progress.bytes_total);
  }
  return status;
}

storage::JournalBound Persistence::bound_now() const {
  const MutexLock lock(bound_mutex_);
  return bound_;
}

std::uint64_t Persistence::journal_bytes_max() const {
  return bound_now().bytes_for(keyspace_->memory_used());
}

std::optional<Result<void>> Persistence::room_for_adopted(std::uint64_t byte_count) {
  SEPAL_ASSERT(saver_ != nullptr && adopted_files_ != nullptr,
               "a filter comes whole while the data is loaded");
  const storage::JournalBound bound = bound_now();
  const std::uint64_t bytes_max = bound.bytes_for(keyspace_->memory_used());
  const std::uint64_t taken = journal_view_.status().bytes + adopted_files_->byte_count();
  const storage::Room room = bound.room_for(byte_count, taken, bytes_max);
  if (room == storage::Room::now) return Result<void>();
  const std::string need = "the filter or string takes " + std::to_string(byte_count) +
                           " bytes of the disk until a save has it, and journal_size_max is " +
                           std::to_string(bytes_max);
  if (room == storage::Room::never) return fail(Errc::not_recorded, need);
  const storage::SaverStatus saver = saver_->status();
  // The save is asked for in any case. If the last one has failed, the client hears why, instead of waiting
  // for a try that may fail as well.
  saver_->make_room();
  if (!saver.running && !saver.last_ok)
    return fail(Errc::not_recorded, need + "; the last save failed: " + saver.last_error);
  return std::nullopt;
}

command::DiskStatus Persistence::disk_status() const {
  if (saver_ == nullptr) return {};
  return {.adopted_bytes = adopted_files_->byte_count(),
          .journal_bytes_max = journal_bytes_max(),
          .reserve_bytes = reserve_->byte_count()};
}

// A journal that was off lacks the changes of that time, until a save has them.
void Persistence::note_policy(storage::JournalPolicy policy) {
  journal_on_ = policy != storage::JournalPolicy::off;
  if (!journal_on_) stop_signal_.set_changes_are_kept(false);
}

void Persistence::note_saved(std::uint64_t position) {
  // A generation that was cut before the end of the gap lacks changes that the journal lacks, too.
  if (journal_on_ && position >= journal_view_.gap()) stop_signal_.set_changes_are_kept(true);
}

}  // namespace sepal::app
