// Verify reads what a start reads, by the same code, and goes on where a start would stop. A step needs what
// an earlier one has found: the generation says where the journal begins and how far it has to reach, and the
// journal says which adopted files are needed.
//
// There are two views of the disk. Through disk_ a piece that cannot be read is damage, and is told of at the
// end. whole_disk_ gives the errors of the disk as they are, for questions whose answer is no part of the
// data.
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/format/named_lines.hpp>
#include <sepal/storage/generation/adopted_files.hpp>
#include <sepal/storage/generation/filter_file.hpp>
#include <sepal/storage/journal/reserve.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include "storage/disk/damage.hpp"
#include "storage/disk/tolerant_disk.hpp"
#include "storage/examine/beginning.hpp"
#include "storage/examine/record_salvage.hpp"
#include "storage/format/operation_decoder.hpp"
#include "storage/generation/current_generation.hpp"
#include "storage/generation/generation_reader.hpp"
#include "storage/generation/generation_writer.hpp"
#include "storage/generation/identity.hpp"
#include "storage/generation/record_reader.hpp"
#include "storage/journal/frame_groups.hpp"
#include "storage/journal/journal_reader.hpp"
#include "storage/replay/journal_applier.hpp"

namespace sepal::storage {
namespace {

using Grade = Finding::Grade;

// Such an error would end a start.
Finding finding_of(const Error& error) {
  return {.grade = error.code == Errc::unsupported_version ? Grade::newer : Grade::damaged,
          .text = error.detail};
}

class Verification {
 public:
  Verification(Disk& disk, const Path& directory, const ProgressSink& progress)
      : whole_disk_(disk), disk_(disk), directory_(directory), progress_(progress) {}

  // A part that cannot be read counts as damaged; the other parts are still checked.
  Result<std::vector<Finding>> run() {
    if (auto data = require_data_directory(whole_disk_, directory_); !data) return data.error();
    for (const auto step : {&Verification::seed, &Verification::generation, &Verification::journal,
                            &Verification::files_without_data}) {
      const auto done = (this->*step)();
      if (!done && !is_damage(done.error())) return done.error();
      if (!done) find(done.error());
    }
    // Damage in a torn tail looks harmless. If it is there because the disk could not be read, it is not.
    for (std::string& sentence : disk_.unreadable()) find(Grade::damaged, std::move(sentence));
    return std::move(findings_);
  }

 private:
  // Reports each finding once, even if several parts are damaged for one reason.
  void find(Grade grade, std::string text) {
    if (told_.insert(text).second) findings_.push_back({.grade = grade, .text = std::move(text)});
  }

  void find(const Error& error) {
    const Finding finding = finding_of(error);
    find(finding.grade, finding.text);
  }

  Result<void> seed() {
    const auto seed = read_seed(disk_, directory_);
    if (!seed) return seed.error();
    if (*seed) {
      find(Grade::fine, (directory_ / "SEED").string() + " holds the seed of new filters");
    } else {
      find(Grade::harmless, (directory_ / "SEED").string() + " is not there: new filters get a new seed");
    }
    return {};
  }

  Result<void> generation() {
    const auto current = find_current_generation(disk_, directory_);
    cut_known_ = current.ok();
    if (!current) return current.error();
    if (const auto identity = common_identity(disk_, directory_, current->number); !identity) {
      cut_known_ = false;
      return identity.error();
    }
    if (!current->number) return no_generation();
    generation_ = *current->number;
    const GenerationPlace place{.folder = directory_ / format::generation_name(*current->number),
                                .number = *current->number};
    if (current->unnamed)
      find(Grade::harmless, (directory_ / "CURRENT").string() +
                                " is not there, because the first save has not quite ended: a start ends it");
    const auto look = [this](std::span<LoadedValue> filters) {
      for (LoadedValue& loaded : filters) {
        highest_.note(value::row_of(*loaded.value).repeat, loaded.cut_position, loaded.journal_position);
        ++counts_[loaded.value->kind()];
        // Frees it. Its bits were verified, and not filled in (Bits::checked), so it has hardly taken any
        // memory.
        loaded.value = nullptr;
      }
      return Result<void>();
    };
    bool whole = true;
    const auto read = read_generation(disk_, place, any_filter, look, progress_,
                                      [&](const Path& path, const Error& error) {
                                        // A file that is damaged is reported, and the others are still read.
                                        // The sums of the generation say nothing then, so there is no finding
                                        // that it is fine.
                                        whole = false;
                                        find(error);
                                        find_records(path);
                                      },
                                      {.bits = Bits::checked});
    if (!read) {
      cut_known_ = false;
      return is_damage(read.error()) ? with_advice(read.error(), restore_or_salvage) : read.error();
    }
    cut_ = read->report.journal_position;
    run_ = read->report.run;
    if (!whole) return {};
    find(Grade::fine, place.folder.string() + " has " + text_of(counts_) + " in " +
                          std::to_string(read->report.bytes) + " bytes, cut at position " +
                          std::to_string(cut_) + " of the journal");
    return {};
  }

  // Finds all damaged records of a file. A load stops at the first, so the file is read once more, as salvage
  // reads it. A finding that the load has made already is told once.
  void find_records(const Path& path) {
    auto file = disk_.open(path);
    const auto size = file ? (*file)->size() : Result<std::uint64_t>(file.error());
    if (!size) return;
    LoadBuffer buffer;
    RecordSalvage records(**file, *size, buffer, progress_);
    const auto done = records.run(
        nullptr, [](LoadedValue&, RecordSalvage::Reached) { return Result<void>(); },
        [&](const Error& error) { find(about(path.string(), error)); });
    if (!done) find(about(path.string(), done.error()));
  }

  Result<void> no_generation() {
    const auto names = disk_.list(directory_);
    if (!names) return names.error();
    const auto is_generation = [](const std::string& name) {
      return format::generation_number(name).has_value();
    };
    const bool left = std::any_of(names->begin(), names->end(), is_generation);
    const std::string current = (directory_ / "CURRENT").string();
    if (left) {
      find(Grade::harmless,
           current + " is not there, but folders are of generations that no save has finished");
    } else {
      find(Grade::fine, current + " is not there: nothing has been saved yet");
    }
    return {};
  }

  Result<void> journal() {
    if (!cut_known_) {
      find(Grade::harmless, "the journal was not looked at: where it begins is not known");
      return {};
    }
    const auto synced = read_synced(disk_, synced_path(directory_));
    if (!synced && !is_damage(synced.error())) return synced.error();
    // A start would end here. The journal is read all the same, as if there were no SYNCED.
    if (!synced) find(synced.error());
    auto reader = JournalReader::open(
        disk_, directory_,
        {.cut = cut_, .highest = highest_, .synced = synced ? *synced : std::nullopt, .run = run_});
    if (!reader) return reader.error();
    if (reader->values_may_be_torn())
      find(Grade::harmless, "strings and cuckoo filters may have a part of a change: they changed while " +
                                format::generation_name(generation_) +
                                " was saved, and the journal of that time is not there");
    return journal(*reader);
  }

  // Reads the frames as a replay does, without a keyspace. A group of frames of which the end is missing, and
  // all behind a `resumed`, is not looked at, because a start cuts it off.
  Result<void> journal(JournalReader& reader) {
    FrameGroups groups;
    std::optional<JournalFrame> resumed;
    const auto look = [&](std::span<const JournalFrame> frames) -> Result<void> {
      for (const JournalFrame& frame : frames) {
        // Only its position and its segment are used later: its bytes are valid for this call only.
        if (resumes(frame)) resumed = frame;
        if (resumed) break;
        if (auto looked = look_at(frame, reader.path_of(frame)); !looked) return looked;
      }
      return {};
    };
    for (;;) {
      const auto frames = reader.next();
      if (!frames) return frames.error();
      if (frames->empty()) break;
      if (auto taken = groups.take(*frames, look); !taken) return taken;
      if (resumed) return found_resumed(reader, *resumed);
    }
    if (groups.begun()) {
      const auto end = reader.end_before_group(groups.first());
      if (!end) return end.error();
    }
    find_end(reader.end(), reader.segment_count(), groups.begun());
    return files_without_records();
  }

  Result<void> look_at(const JournalFrame& frame, const Path& segment) {
    if (const auto adopted = adopted_file(frame)) {
      if (auto looked = look_at(*adopted); !looked) return looked;
    }
    if (auto decoded = decode(frame); !decoded) return about(segment.string(), decoded.error());
    return {};
  }

  Result<void> decode(const JournalFrame& frame) {
    OperationDecoder decoder(frame.body);
    while (!decoder.at_end()) {
      const auto operation = decoder.next();
      if (!operation) return at_offset(frame.offset, operation.error());
      ++operations_;
      items_ += (*operation)->count;
    }
    return {};
  }

  // Checks the file of a filter that came whole. Damage in it is a finding, and the rest of the journal is
  // still read: unlike a damaged frame, it hides no other change.
  Result<void> look_at(const keyspace::Adopted& adopted) {
    named_.insert(format::adopted_name(adopted.value.file.number));
    const auto filter = read_adopted(disk_, directory_, adopted.value.file, any_filter, progress_);
    if (!filter && !is_damage(filter.error())) return filter.error();
    if (!filter)
      find(fail(filter.error().code,
                filter.error().detail + " (" + key_text(adopted.key.database, adopted.key.key) + ")"));
    return {};
  }

  Result<void> files_without_records() {
    const auto names = disk_.list(directory_);
    if (!names) return names.error();
    for (const std::string& name : *names)
      if (format::adopted_number(name) ? !named_.contains(name) : is_unfinished_filter_file(name))
        find_needless(directory_ / name);
    return {};
  }

  // A start removes such a file, and ends if it cannot. Only a folder can be listed, and the start could not
  // remove that. Asked of whole_disk_, because disk_ would note a file that cannot be listed as one that
  // cannot be read.
  void find_needless(const Path& path) {
    if (whole_disk_.list(path)) {
      find(Grade::damaged, "cannot remove " + path.string() + ": Is a directory");
    } else {
      find(Grade::harmless, path.string() + " is needed no more: a start removes it");
    }
  }

  // A start opens these files, and ends if it cannot. It makes those that are missing.
  Result<void> files_without_data() {
    const auto names = disk_.list(directory_);
    if (!names) return names.error();
    for (const std::string& name : *names) {
      const bool is_lock = name == "LOCK";
      if (!is_lock && !Reserve::is_piece(name)) continue;
      // A piece that is a link to nothing is not there for a start.
      const auto there = whole_disk_.exists(directory_ / name);
      if (!is_lock && there && !*there) continue;
      const auto file = disk_.open(directory_ / name);
      if (!file && (is_lock || file.error().code != Errc::not_found))
        find(Grade::damaged, file.error().detail);
    }
    return {};
  }

  Result<void> found_resumed(JournalReader& reader, const JournalFrame& frame) {
    const auto end = reader.end_before(frame);
    if (!end) return end.error();
    find(Grade::harmless,
         end->path.string() + " from offset " + std::to_string(end->offset) +
             " on cannot be used: the journal was off before, and no save has ended since; " +
             std::to_string(end->cut_bytes) + " bytes");
    find_contents(reader.segment_count());
    return files_without_records();
  }

  // `in_group`: the journal ends before a group of frames of which the end is missing.
  void find_end(const JournalEnd& end, std::size_t segments, bool in_group) {
    if (end.cut_bytes > 0)
      find(Grade::harmless, (end.path.empty() ? directory_ : end.path).string() + " is torn at offset " +
                                std::to_string(end.offset) +
                                (in_group ? ", before a transaction that is not whole" : "") + ": " +
                                std::to_string(end.cut_bytes) +
                                " bytes that were written last had not got to the disk");
    find_contents(segments);
  }

  void find_contents(std::size_t segments) {
    find(Grade::fine, "the journal has " + std::to_string(operations_) + " changes with " +
                          std::to_string(items_) + " items behind the generation, in " +
                          std::to_string(segments) + " segments");
  }

  Disk& whole_disk_;
  TolerantDisk disk_;  // a view of it
  const Path& directory_;
  const ProgressSink& progress_;
  std::vector<Finding> findings_;
  std::set<std::string> told_;   // texts of findings
  std::set<std::string> named_;  // files that records name, of filters that came whole
  bool cut_known_ = true;
  std::uint64_t generation_ = 0;
  std::uint64_t cut_ = 0;
  std::uint32_t run_ = 0;  // that saved the generation
  HighestPositions highest_;
  KindCounts counts_;  // whole values of the generation
  std::uint64_t operations_ = 0;
  std::uint64_t items_ = 0;
};

}  // namespace

Result<std::vector<Finding>> verify_directory(Disk& disk, const Path& directory,
                                              const ProgressSink& progress) {
  return Verification(disk, directory, progress).run();
}

std::string text_of(const KindCounts& counts) {
  // Filters and strings are always named; a kind that few have only where it is there.
  std::vector<std::string> each;
  for (const value::KindRow* const row : value::kinds)
    if (const std::uint64_t count = count_of(counts, row->kind);
        count != 0 || row->kind <= value::Kind::string)
      each.push_back(std::to_string(count) + " " + std::string(row->word) + "s");
  std::string words;
  for (std::size_t at = 0; at < each.size(); ++at) {
    if (at != 0) words += at + 1 == each.size() ? " and " : ", ";
    words += each[at];
  }
  return words;
}

namespace {

// Not for a file that begins as a filter file does.
Error no_filter_file(const Path& path, Beginning beginning) {
  if (beginning == Beginning::empty || beginning == Beginning::other)
    return no_file_of_sepal(path, beginning);
  return fail(Errc::out_of_range,
              path.string() +
                  " is no filter file: sepal inspect prints it, and sepal verify takes its data directory");
}

}  // namespace

Result<Finding> verify_filter_file(Disk& disk, const Path& path, const ProgressSink& progress) {
  const auto file = disk.open(path);
  if (!file) return file.error();
  const auto beginning = beginning_of(**file);
  if (!beginning) return beginning.error();
  if (*beginning != Beginning::filters) return no_filter_file(path, *beginning);
  const auto read = read_filter_file(disk, path, any_filter, progress);
  if (read)
    return Finding{.grade = Grade::fine,
                   .text = path.string() + " has " + value::row_of(*read->value).sentence(*read->value)};
  if (!is_damage(read.error())) return read.error();
  return finding_of(read.error());
}

}  // namespace sepal::storage
