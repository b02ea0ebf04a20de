#include <sepal/storage/examine/backup.hpp>
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/format/named_lines.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/disk/damage.hpp"
#include "storage/format/synced_file.hpp"
#include "storage/generation/current_generation.hpp"
#include "storage/generation/generation_reader.hpp"
#include "storage/generation/identity.hpp"
#include "storage/generation/progress_meter.hpp"
#include "storage/journal/segment_files.hpp"

namespace sepal::storage {
namespace {

constexpr std::size_t copied_bytes = std::size_t{1} << 20;  // in one go

Error replaced_meanwhile(const Path& directory) {
  return fail(Errc::in_use, "a save has replaced the generation of " + directory.string() + " meanwhile");
}

// A file of the source that is needed.
struct WantedFile {
  Path from;
  Path to;
  std::uint64_t byte_count = 0;  // that are needed
  std::uint64_t length = 0;      // of the copy; zeros behind the bytes that are needed
  bool never_changes = true;
  std::unique_ptr<File> open{};  // null: it was linked
};

class DataCopy {
 public:
  DataCopy(Disk& disk, const CopyOrder& order, const ProgressSink& progress)
      : disk_(disk), order_(order), progress_(progress) {}

  Result<CopyReport> run() {
    // A name in it may be a link to a file of the source, which must not be written to.
    const auto there = disk_.exists(order_.into);
    if (!there) return there.error();
    if (*there) return fail(Errc::in_use, order_.into.string() + " is there already");
    if (auto made = disk_.make_directory(order_.into); !made) return made.error();
    // All files are held before the first byte is copied. Copying takes long, and a save removes files
    // meanwhile.
    if (auto held = hold_all(); !held) return explained(held.error());
    std::uint64_t bytes_total = 0;
    for (const WantedFile& file : wanted_) bytes_total += file.byte_count;
    report_.bytes = bytes_total;
    ProgressMeter meter(progress_, bytes_total);
    for (WantedFile& file : wanted_)
      if (auto copied = copy(file, meter); !copied) return copied.error();
    // These come last, and CURRENT is the last of them: without it, no reader takes a part of a copy for the
    // whole.
    if (auto written = write_small_files(); !written) return written.error();
    if (generation_)
      if (auto synced = disk_.sync_directory(order_.into / folder_name()); !synced) return synced.error();
    if (auto synced = disk_.sync_directory(order_.into); !synced) return synced.error();
    return std::move(report_);
  }

 private:
  [[nodiscard]] std::string folder_name() const { return format::generation_name(*generation_); }

  // A file that is gone was replaced by a save, unless no daemon uses the directory.
  [[nodiscard]] Error explained(const Error& error) const {
    return error.code == Errc::not_found && order_.until ? replaced_meanwhile(order_.from) : error;
  }

  Result<void> hold_all() {
    const auto current = find_current_generation(disk_, order_.from);
    if (!current) return current.error();
    // Only a start can end such a save: it syncs what may not be on the disk yet (data_directory.cpp).
    if (current->unnamed)
      return fail(Errc::in_use,
                  "the first save in " + order_.from.string() +
                      " has not quite ended; start sepald with this directory once, which ends it");
    generation_ = current->number;
    if (const auto identity = common_identity(disk_, order_.from, generation_); !identity)
      return identity.error();
    if (generation_)
      if (auto held = hold_generation(); !held) return held;
    for (const auto step : {&DataCopy::hold_journal, &DataCopy::hold_adopted})
      if (auto held = (this->*step)(); !held) return held;
    // Behind the last file that is held, and not before: a save replaces CURRENT before it removes a file. So
    // if the name is still the same, no file that was needed had been removed (decisions/0033).
    const auto still = read_current_generation(disk_, order_.from);
    if (!still) return still.error();
    return *still == generation_ ? Result<void>() : replaced_meanwhile(order_.from);
  }

  Result<void> hold_generation() {
    const Path folder = order_.from / folder_name();
    const auto manifest = read_manifest(disk_, folder / "MANIFEST");
    if (!manifest) return manifest.error();
    report_.generation = folder_name();
    report_.saved_at = WallTime(std::chrono::milliseconds(manifest->taken_at));
    report_.keys = manifest->filter_count;
    report_.items = manifest->item_count;
    cut_ = manifest->journal_position;
    if (auto made = disk_.make_directory(order_.into / folder_name()); !made) return made;
    for (const format::ListedFile& listed : manifest->files)
      if (auto held = hold_whole(Path(folder_name()) / listed.name); !held) return held;
    return hold_whole(Path(folder_name()) / "MANIFEST");
  }

  // The name is relative to both directories.
  Result<void> hold_whole(const Path& name) {
    return hold({.from = order_.from / name, .to = order_.into / name});
  }

  // Links a file that never changes if it can, and opens any other one.
  Result<void> hold(WantedFile file) {
    const bool linked = order_.may_link && file.never_changes && disk_.link(file.from, file.to).ok();
    // A linked file is opened only for its length. Its second name keeps it, so it needs no descriptor from
    // then on.
    auto opened = disk_.open(linked ? file.to : file.from);
    if (!opened) return opened.error();
    if (file.never_changes) {
      const auto size = (*opened)->size();
      if (!size) return size.error();
      file.byte_count = file.length = *size;
    }
    if (linked) report_.linked_bytes += file.byte_count;
    if (!linked) file.open = std::move(*opened);
    wanted_.push_back(std::move(file));
    return {};
  }

  // The segments that have something between the cut and the moment of the copy. Only bytes before a synced
  // position are copied from a running server: workers never store there again, but may be storing behind it.
  // Without a server a segment is copied as it is, also one whose header is lost: the copy is verified later,
  // and has to show the same damage.
  Result<void> hold_journal() {
    const auto segments = list_segments(disk_, order_.from);
    if (!segments) return segments.error();
    for (const SegmentFile& segment : *segments) {
      if (segment.header == SegmentFile::Header::unused) continue;
      // A segment that was prepared ahead, or begins behind the moment, has nothing that the copy needs.
      if (order_.until && (!segment.begins() || segment.first_position >= *order_.until)) continue;
      if (order_.until && *order_.until <= cut_) continue;
      // The copy of the last segment keeps its full length, with zeros behind the moment: a reader takes a
      // file that is shorter than its header says for damage.
      const std::uint64_t byte_count =
          order_.until ? std::min(segment.byte_count,
                                  sizeof(format::SegmentHeader) + *order_.until - segment.first_position)
                       : segment.byte_count;
      auto held = hold({.from = segment.path,
                        .to = order_.into / segment.path.filename(),
                        .byte_count = byte_count,
                        .length = segment.byte_count,
                        .never_changes = false});
      if (!held) return held;
      report_.journal_bytes += byte_count;
      // Segments come in the order of their numbers, so the last one that is held is the newest.
      mark_ = {.segment_number = segment.number,
               .first_position = segment.first_position,
               .position = order_.until.value_or(0),
               .identity = segment.lineage.identity};
    }
    return {};
  }

  // Those that no record names are harmless: a start removes them.
  Result<void> hold_adopted() {
    const auto names = disk_.list(order_.from);
    if (!names) return names.error();
    for (const std::string& name : *names)
      if (format::adopted_number(name))
        if (auto held = hold_whole(name); !held) return held;
    return {};
  }

  Result<void> copy(WantedFile& wanted, ProgressMeter& meter) {
    if (wanted.open == nullptr) return meter.add(wanted.byte_count);
    auto target = disk_.create(wanted.to);
    if (!target) return target.error();
    if (auto copied = copy_bytes(wanted, **target, meter); !copied) return copied;
    if (auto synced = (*target)->sync(); !synced) return synced;
    // A copy of many files does not keep all of them open to its end.
    wanted.open.reset();
    return {};
  }

  Result<void> copy_bytes(const WantedFile& wanted, File& target, ProgressMeter& meter) {
    std::uint64_t end = 0;
    for (std::uint64_t at = 0; at < wanted.byte_count;) {
      const auto piece =
          std::span(buffer_).first(std::min<std::uint64_t>(buffer_.size(), wanted.byte_count - at));
      const auto read = wanted.open->read_at(at, piece);
      if (!read) return read.error();
      if (*read < piece.size())
        return fail(Errc::io, wanted.from.string() + " became shorter while it was copied");
      // Pieces of zeros take no room in the copy either.
      const bool empty = std::ranges::all_of(piece, [](std::byte byte) { return byte == std::byte{0}; });
      if (auto written = empty ? Result<void>() : write(target, at, piece); !written) return written;
      at += piece.size();
      if (!empty) end = at;
      if (auto go_on = meter.add(piece.size()); !go_on) return go_on;
    }
    if (wanted.length <= end) return {};
    // The last byte gives the file its length.
    const std::array<std::byte, 1> zero{};
    return target.write_at(wanted.length - 1, zero);
  }

  static Result<void> write(File& target, std::uint64_t at, std::span<const std::byte> piece) {
    if (auto written = target.write_at(at, piece); !written) return written;
    return target.write_back(at, piece.size());
  }

  Result<void> write_small_files() {
    const auto seed = read_seed(disk_, order_.from);
    if (!seed) return seed.error();
    if (*seed)
      if (auto written = write_line("SEED", seed_line(**seed)); !written) return written;
    if (auto written = write_mark(); !written) return written;
    return generation_ ? write_line("CURRENT", current_line(folder_name())) : Result<void>();
  }

  Result<void> write_mark() {
    // SYNCED of a running server may say more than was copied, or less. The mark is made anew for the moment
    // of the copy, so that a copy that loses its last segment later is found to be damaged.
    std::optional<SyncedMark> mark;
    if (order_.until) {
      mark = mark_;
    } else {
      const auto found = read_synced(disk_, synced_path(order_.from));
      if (!found) return found.error();
      mark = *found;
    }
    return mark ? SyncedFile(disk_, order_.into).write(*mark) : Result<void>();
  }

  Result<void> write_line(const char* name, const std::string& line) {
    return replace_file(disk_, order_.into / name, format::bytes_of(std::string_view(line)));
  }

  Disk& disk_;
  const CopyOrder& order_;
  const ProgressSink& progress_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(copied_bytes);
  std::optional<std::uint64_t> generation_;
  std::uint64_t cut_ = 0;
  std::vector<WantedFile> wanted_;
  std::optional<SyncedMark> mark_;  // of the last segment
  CopyReport report_;
};

}  // namespace

Result<CopyReport> copy_data(Disk& disk, const CopyOrder& order, const ProgressSink& progress) {
  return DataCopy(disk, order, progress).run();
}

Result<void> require_whole(Disk& disk, const Path& directory, const ProgressSink& progress) {
  const auto findings = verify_directory(disk, directory, progress);
  if (!findings) return findings.error();
  for (const Finding& finding : *findings)
    if (finding.stops_start()) return fail(Errc::damaged, finding.text);
  return {};
}

}  // namespace sepal::storage
