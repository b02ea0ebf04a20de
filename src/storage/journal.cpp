// The journal's thread: all that waits for a disk.
#include <sepal/base/thread.hpp>
#include <sepal/storage/journal.hpp>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "journal_core.hpp"
#include "journal_log.hpp"

namespace sepal::storage {
namespace {

// Pages of a new segment that are prepared at once: a rotation finds them.
constexpr std::uint64_t first_pages_bytes = std::uint64_t{1} << 20;
constexpr std::uint64_t segment_bytes_unit = 4096;

}  // namespace

class JournalThread final : public Journal {
 public:
  JournalThread(Disk& disk, Path directory, std::uint64_t position, std::size_t worker_count,
                const JournalOptions& options, Callbacks callbacks)
      : disk_(disk),
        directory_(std::move(directory)),
        options_(options),
        callbacks_(std::move(callbacks)),
        core_(options, position),
        add_counts_(worker_count),
        told_durable_(position) {
    logs_.reserve(worker_count);
    for (std::size_t worker = 0; worker < worker_count; ++worker)
      logs_.push_back(std::make_unique<JournalLog>(core_, add_counts_, worker));
  }
  ~JournalThread() override { static_cast<void>(stop()); }
  JournalThread(const JournalThread&) = delete;
  JournalThread& operator=(const JournalThread&) = delete;

  Result<void> open() {
    if (auto found = take_over_segments(); !found) return found;
    if (options_.policy != JournalPolicy::off) {
      auto first = make_segment();
      if (!first) return first.error();
      core_.add_segment(std::move(*first));
    }
    if (options_.threaded) thread_ = std::thread([this] { run(); });
    return {};
  }

  [[nodiscard]] keyspace::WorkerLog& log(std::size_t worker) override { return *logs_[worker]; }
  [[nodiscard]] std::uint64_t position() const override { return core_.position(); }
  [[nodiscard]] std::uint64_t gap() const override { return core_.gap(); }
  [[nodiscard]] std::uint64_t durable_position() const override { return core_.durable_position(); }

  [[nodiscard]] JournalStatus status() const override {
    JournalStatus status = core_.status();
    status.segment_count = segment_count_.load(std::memory_order_relaxed);
    return status;
  }

  void set_policy(JournalPolicy policy) override {
    for (const auto& log : logs_) log->release_reserve();
    core_.set_policy(policy);
  }

  void generation_saved(std::uint64_t position) override { core_.generation_saved(position); }

  Result<void> sync_until(std::uint64_t position) override {
    core_.ask_sync(position);
    if (!options_.threaded) work();
    return core_.await_sync(position);
  }

  void work() override { do_chores(core_.chores()); }

  Result<void> stop() override {
    if (std::exchange(stopped_, true)) return last_sync_;
    core_.end();
    if (thread_.joinable()) thread_.join();
    if (core_.chores().sync) sync();
    // What could not be synced may be in a generation.
    if (core_.durable_position() >= core_.position()) last_sync_ = {};
    remove(core_.take_ahead());
    remove(std::move(fresh_));
    return last_sync_;
  }

 private:
  // A segment that is written to no more.
  struct Past {
    std::uint64_t number = 0;
    std::uint64_t end_position = 0;
  };

  // What the last process wrote may not have reached the disk, and is relied on from here on.
  Result<void> take_over_segments() {
    const auto names = disk_.list(directory_);
    if (!names) return names.error();
    for (const std::string& name : *names) {
      const auto number = format::segment_number(name);
      if (!number) continue;
      auto file = disk_.open(directory_ / name);
      if (!file) return file.error();
      if (auto synced = (*file)->sync(); !synced) return synced;
      next_number_ = std::max(next_number_, *number + 1);
      // Somewhere below: it is in use until the next generation.
      past_.push_back({.number = *number, .end_position = core_.position()});
    }
    segment_count_.store(past_.size(), std::memory_order_relaxed);
    return {};
  }

  void run() {
    name_this_thread("journal");
    for (;;) {
      const JournalCore::Chores chores = core_.wait_for_chores();
      if (chores.end) return;
      do_chores(chores);
    }
  }

  void do_chores(const JournalCore::Chores& chores) {
    if (chores.sync) sync();
    tell_durable();
    if (chores.tell) tell_progress();
    if (chores.restart) restart();
    if (chores.prepare) prepare_segments();
    prepare_pages();
    let_go(core_.take_synced());
    remove_past();
    tell_refusal();
    if (chores.ask_save && callbacks_.on_save_needed) callbacks_.on_save_needed();
  }

  void sync() {
    const JournalCore::Sync sync = core_.begin_sync();
    // While it runs, nobody can.
    prepare_pages();
    for (const JournalCore::Sync::Part& part : sync.parts) {
      last_sync_ = part.range.file->sync(part.range.from, part.range.to - part.range.from);
      if (last_sync_) continue;
      core_.sync_failed(last_sync_.error().detail);
      return;
    }
    core_.end_sync(sync);
  }

  void prepare_pages() {
    for (const SegmentRange& pages : core_.next_pages())
      pages.file->prepare(pages.from, pages.to - pages.from);
  }

  void prepare_segments() {
    while (core_.wants_segment()) {
      auto segment = make_segment();
      if (!segment) {
        core_.preparing_failed(segment.error().detail);
        break;
      }
      core_.add_segment(std::move(*segment));
    }
    tell_progress();
  }

  // After a failed sync nothing of before is trusted, nor are the segments ahead.
  void restart() {
    while (fresh_.size() < core_.segments_to_restart()) {
      auto segment = make_segment();
      if (!segment) {
        core_.preparing_failed(segment.error().detail);
        return;
      }
      fresh_.push_back(std::move(*segment));
    }
    JournalSegments old = core_.restart(std::move(fresh_));
    fresh_.clear();
    let_go(std::move(old));
  }

  Result<std::unique_ptr<JournalSegment>> make_segment() {
    if (next_number_ > format::segment_number_max)
      return fail(Errc::io, "cannot name a segment after " +
                                (directory_ / format::segment_name(next_number_ - 1)).string() +
                                ", which has the highest number there is; move it away");
    const std::uint64_t number = next_number_++;
    const Path path = directory_ / format::segment_name(number);
    auto file = disk_.create_mapped(path, options_.segment_bytes);
    if (!file) return file.error();
    if (auto synced = disk_.sync_directory(directory_); !synced) {
      static_cast<void>(disk_.remove(path));
      return synced.error();
    }
    (*file)->prepare(0, std::min(first_pages_bytes, options_.segment_bytes));
    segment_count_.fetch_add(1, std::memory_order_relaxed);
    return std::make_unique<JournalSegment>(std::move(*file), number);
  }

  // From memory; the files stay until a generation has what they have.
  void let_go(JournalSegments segments) {
    for (const auto& segment : segments)
      past_.push_back({.number = segment->number(), .end_position = segment->end_position()});
  }

  void remove(JournalSegments segments) {
    for (const auto& segment : segments) static_cast<void>(remove_file(segment->number()));
  }

  void remove_past() {
    const std::uint64_t saved = core_.saved_position();
    // One that cannot be removed is tried again after the next save.
    if (saved == removed_until_) return;
    removed_until_ = saved;
    std::erase_if(past_,
                  [&](const Past& past) { return past.end_position <= saved && remove_file(past.number); });
  }

  bool remove_file(std::uint64_t number) {
    const Path path = directory_ / format::segment_name(number);
    if (const auto removed = disk_.remove(path); !removed) {
      spdlog::warn("journal segment not removed: reason=\"{}\"", removed.error().detail);
      return false;
    }
    segment_count_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

  // Syncs have raised it, or generations, whoever saved them.
  void tell_durable() {
    const std::uint64_t durable = core_.durable_position();
    if (std::exchange(told_durable_, durable) != durable) tell_progress();
  }

  void tell_progress() {
    if (callbacks_.on_progress) callbacks_.on_progress();
  }

  void tell_refusal() {
    const std::optional<std::string> refusal = core_.refusal();
    if (refusal.has_value() == refusing_) return;
    refusing_ = refusal.has_value();
    if (refusing_) {
      spdlog::error("journal refuses changes: reason=\"{}\"", *refusal);
    } else {
      spdlog::info("journal accepts changes again");
    }
    tell_progress();
  }

  Disk& disk_;
  const Path directory_;
  const JournalOptions options_;
  const Callbacks callbacks_;
  JournalCore core_;
  std::vector<AddCount> add_counts_;
  std::vector<std::unique_ptr<JournalLog>> logs_;
  std::atomic<std::uint64_t> segment_count_{0};  // A gauge. Relaxed: nothing is ordered by it.

  // The thread's, and stop()'s after it.
  std::uint64_t next_number_ = 1;
  std::vector<Past> past_;
  std::uint64_t removed_until_ = 0;
  JournalSegments fresh_;  // for a restart
  Result<void> last_sync_;
  std::uint64_t told_durable_;
  bool refusing_ = false;
  bool stopped_ = false;

  std::thread thread_;  // Last: it uses all of the above.
};

Result<std::unique_ptr<Journal>> Journal::open(Disk& disk, Path directory, std::uint64_t position,
                                               std::size_t worker_count, const JournalOptions& options,
                                               Callbacks callbacks) {
  JournalOptions checked = options;
  checked.segments_ahead = std::max(options.segments_ahead, 1U);
  checked.segment_bytes += (0 - checked.segment_bytes) % segment_bytes_unit;
  auto journal = std::make_unique<JournalThread>(disk, std::move(directory), position, worker_count, checked,
                                                 std::move(callbacks));
  if (auto opened = journal->open(); !opened) return opened.error();
  return std::unique_ptr<Journal>(std::move(journal));
}

}  // namespace sepal::storage
