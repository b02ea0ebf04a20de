// Frames are read and verified outside the gate, a buffer at a time, and applied with the gate closed, a few
// at a time:
//
//     JournalReader    the next frames of one segment, verified
//     FrameGroups      keeps a group back until all of it is there
//     make_ahead()     makes a value that is made of large ones, before the gate is closed for its frame
//     bring_file()     reads the file of a filter that came whole, before the gate is closed for its frame
//     apply_closed()   closes the gate, and JournalApplier applies some frames
//     report()         the end of the journal: it may be before a group without an end, or before a `resumed`
#include <sepal/base/assert.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/value/kind_row.hpp>

#include <optional>
#include <string>
#include <utility>

#include "storage/disk/damage.hpp"
#include "storage/journal/frame_groups.hpp"
#include "storage/journal/journal_reader.hpp"
#include "storage/replay/journal_applier.hpp"

namespace sepal::storage {
namespace {

// The bytes of frames that one closing of the gate applies: they take a fraction of a millisecond.
constexpr std::uint64_t closed_bytes_max = std::uint64_t{64} << 10;

class Replay {
 public:
  Replay(Disk& disk, const Path& directory, JournalReader reader, keyspace::Keyspace& keyspace, Gate& gate,
         ReplayStart start, const ProgressSink& progress)
      : disk_(disk),
        directory_(directory),
        reader_(std::move(reader)),
        limits_(keyspace.machine_limits()),
        gate_(gate),
        progress_(progress),
        cut_(start.cut),
        highest_(start.positions.highest()),
        applier_(keyspace, std::move(start.positions)) {}

  Result<ReplayReport> run() {
    for (;;) {
      const auto frames = reader_.next();
      if (!frames) return frames.error();
      if (frames->empty()) break;
      const auto applied = groups_.take(*frames, [this](const auto& whole) { return apply(whole); });
      if (!applied) return applied.error();
      // What changed while the journal was off is missing, so nothing behind it may be applied.
      if (resumed_) break;
      if (!go_on()) return fail(Errc::io, "given up before the end, as asked");
    }
    return report();
  }

 private:
  Result<void> apply(std::span<const JournalFrame> frames) {
    while (!frames.empty() && !resumed_) {
      // Only the first of them can need a file: few_of() stops before such a frame.
      if (auto brought = bring_file(frames.front()); !brought) return brought;
      if (auto made = make_ahead(frames.front()); !made) return made;
      const std::size_t count = few_of(frames);
      const auto applied = apply_closed(frames.first(count));
      // All these frames are of one segment (FrameGroups::take), so any of them names the file.
      if (!applied) return named(applied.error(), frames.front());
      frames = frames.subspan(count);
    }
    return {};
  }

  // One frame at least, however long it is.
  static std::size_t few_of(std::span<const JournalFrame> frames) {
    std::size_t count = 1;
    for (std::uint64_t bytes = format::frame_bytes(frames[0].body.size());
         count < frames.size() && bytes < closed_bytes_max && !adopted_file(frames[count]) &&
         !remade_first(frames[count]);
         ++count)
      bytes += format::frame_bytes(frames[count].body.size());
    return count;
  }

  // Runs outside the gate, because the file may be large.
  Result<void> bring_file(const JournalFrame& frame) {
    const auto adopted = adopted_file(frame);
    if (!adopted) return {};
    auto filter = read_adopted(disk_, directory_, adopted->value.file, limits_,
                               [this](const Progress&) { return go_on(); });
    if (!filter)
      return is_damage(filter.error()) ? with_advice(filter.error(), restore_or_salvage) : filter.error();
    named_.push_back({.number = adopted->value.file.number,
                      // Behind the frame: a generation that is cut there or later has the filter, and the
                      // file may go.
                      .position = frame.position + format::frame_bytes(frame.body.size()),
                      .byte_count = value::row_of(**filter).byte_count(**filter)});
    applier_.bring(std::move(*filter));
    return {};
  }

  // Runs outside the gate, because the filters may be large.
  Result<void> make_ahead(const JournalFrame& frame) {
    const auto remade = remade_first(frame);
    if (!remade) return {};
    return applier_.make_ahead(*remade, [this](std::uint64_t /*bytes_done*/) { return go_on(); });
  }

  Result<void> apply_closed(std::span<const JournalFrame> frames) {
    const GateClosed closed(gate_);
    for (const JournalFrame& frame : frames) {
      if (resumes(frame)) {
        resumed_ = frame;
        break;
      }
      if (auto applied = applier_.apply(frame); !applied) return applied;
      ++frames_;
      bytes_ += format::frame_bytes(frame.body.size());
    }
    // Before the gate opens and the reader goes on: the adds that wait are views of its buffer.
    return applier_.apply_adds();
  }

  [[nodiscard]] Error named(const Error& error, const JournalFrame& frame) const {
    const Error whole = about(reader_.path_of(frame).string(), error);
    return is_damage(error) ? with_advice(whole, restore_or_salvage) : whole;
  }

  bool go_on() {
    if (!progress_) return true;
    return progress_({.bytes_done = reader_.position() - cut_, .bytes_total = reader_.bytes_total()});
  }

  Result<ReplayReport> report() {
    // The reader has read past the place where the journal ends.
    if (resumed_ || groups_.begun()) {
      const auto before =
          resumed_ ? reader_.end_before(*resumed_) : reader_.end_before_group(groups_.first());
      if (!before) return before.error();
    }
    JournalEnd end = reader_.end();
    SEPAL_ASSERT(end.path.empty() == (end.offset == 0), "a journal ends in a segment without a place there");
    const JournalApplier::Counts& counts = applier_.counts();
    // A journal that begins anew begins behind all that the generation has.
    const std::uint64_t behind = end.path.empty() ? highest_.of_all() : highest_.once;
    return ReplayReport{.position = std::max(end.position, behind),
                        .run = end.run,
                        .segments = reader_.segment_count(),
                        .frames = frames_,
                        .operations = counts.operations,
                        .items = counts.items,
                        .items_left_out = counts.items_left_out,
                        .bytes = bytes_,
                        .cut_bytes = end.cut_bytes,
                        .cut_path = std::move(end.path),
                        .cut_offset = end.offset,
                        .resumed = resumed_.has_value(),
                        .beyond = std::move(end.beyond),
                        .named = std::move(named_),
                        .values_may_be_torn = reader_.values_may_be_torn()};
  }

  Disk& disk_;
  const Path& directory_;
  JournalReader reader_;
  value::Limits limits_;
  Gate& gate_;
  const ProgressSink& progress_;
  std::uint64_t cut_;
  HighestPositions highest_;
  JournalApplier applier_;
  FrameGroups groups_;
  std::uint64_t frames_ = 0;
  std::uint64_t bytes_ = 0;
  std::optional<JournalFrame> resumed_;
  std::vector<NamedFile> named_;
};

// Begins the mirrors of the cut. This happens before the first frame, because later records may change or end
// them.
Result<void> begin_mirrors(keyspace::Keyspace& keyspace, Gate& gate,
                           std::span<const keyspace::Mirror> mirrors) {
  const GateClosed closed(gate);
  for (const keyspace::Mirror& mirror : mirrors)
    if (!keyspace.begin_mirror(mirror))
      return with_advice(fail(Errc::damaged, "the MANIFEST names a mirror that there cannot be"),
                         restore_or_salvage);
  return {};
}

}  // namespace

Result<ReplayReport> replay_journal(Disk& disk, const Path& directory, keyspace::Keyspace& keyspace,
                                    Gate& gate, ReplayStart start, const ProgressSink& progress) {
  if (auto begun = begin_mirrors(keyspace, gate, start.mirrors); !begun) return begun.error();
  const auto synced = read_synced(disk, synced_path(directory));
  if (!synced) return synced.error();
  auto reader = JournalReader::open(
      disk, directory,
      {.cut = start.cut, .highest = start.positions.highest(), .synced = *synced, .run = start.run});
  if (!reader) return reader.error();
  return Replay(disk, directory, std::move(*reader), keyspace, gate, std::move(start), progress).run();
}

Result<void> remove_beyond(Disk& disk, const Path& directory, const ReplayReport& report) {
  // A segment behind the end has a lower number than the next one that is made. A later reader would meet it
  // first, and would not find the way to the newer one. The directory is synced, because a power cut must not
  // bring the file back.
  if (report.beyond.empty()) return {};
  for (const Path& path : report.beyond)
    if (auto removed = disk.remove(path); !removed) return removed;
  return disk.sync_directory(directory);
}

}  // namespace sepal::storage
