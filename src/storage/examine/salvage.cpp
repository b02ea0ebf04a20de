// Salvage reads what it can of a data directory into a keyspace, and saves that keyspace into a new
// directory. What cannot be read counts as damage (tolerant_disk.hpp): it is lost, and nothing else is.
//
// The steps: choose a generation; read each of its files, record by record (record_salvage.hpp); begin its
// mirrors; apply the journal from its cut up to the first damage; save. Behind that damage nothing is
// applied, because a change may be missing that gave a key another filter. Each filter, file and part of the
// journal that is missing gets one line of the report.
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/format/named_lines.hpp>
#include <sepal/storage/generation/adopted_files.hpp>
#include <sepal/storage/generation/snapshot.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "storage/disk/damage.hpp"
#include "storage/disk/tolerant_disk.hpp"
#include "storage/examine/record_salvage.hpp"
#include "storage/format/sealed_reader.hpp"
#include "storage/generation/current_generation.hpp"
#include "storage/generation/generation_reader.hpp"
#include "storage/generation/identity.hpp"
#include "storage/generation/record_reader.hpp"
#include "storage/journal/frame_groups.hpp"
#include "storage/journal/journal_reader.hpp"
#include "storage/journal/segment_files.hpp"
#include "storage/replay/journal_applier.hpp"

namespace sepal::storage {
namespace {

// Frees at once what the keyspace drops: no client waits here, so no thread is needed for it.
class Freeing final : public keyspace::Housekeeper {
 public:
  void dispose(value::ValuePtr) override {}
  void dispose_database(std::shared_ptr<const void>) override {}
  void give_pages(value::ValuePtr) override {}
  void due_at(keyspace::Deadline) override {}
};

class Salvage {
 public:
  Salvage(Disk& disk, const Path& directory, const ProgressSink& progress)
      : disk_(disk), damaged_(disk), spare_(disk), directory_(directory), progress_(progress) {}

  Result<SalvageReport> run(const Path& into, std::uint64_t seed_drawn) {
    if (auto empty = require_empty(into); !empty) return empty.error();
    if (auto data = require_data_directory(disk_, directory_); !data) return data.error();
    if (auto read = read_generation(); !read) return read.error();
    if (auto read = read_journal(); !read) return read.error();
    const std::uint64_t seed = find_seed(seed_drawn);
    // Asked when everything has been read. The two views keep apart what costs data and what does not.
    for (std::string& sentence : damaged_.unreadable()) lose(std::move(sentence));
    for (std::string& sentence : spare_.unreadable()) note(std::move(sentence));
    if (auto written = write(into, seed, seed_drawn); !written) return written.error();
    return std::move(report_);
  }

 private:
  // A file in a generation's folder.
  struct ListedName {
    std::string name;
    std::optional<format::ListedFile> listed{};  // as the MANIFEST says
  };

  // Reports each loss once, even if several parts are lost for one reason.
  void lose(std::string what) { tell_once(std::move(what), report_.lost); }

  // The same for what is damaged, and costs no data.
  void note(std::string what) { tell_once(std::move(what), report_.noted); }

  void tell_once(std::string what, std::vector<std::string>& lines) {
    what = without_salvage_advice(std::move(what));
    if (told_.insert(what).second) lines.push_back(std::move(what));
  }

  Result<void> require_empty(const Path& into) {
    const auto there = disk_.exists(into);
    if (!there) return there.error();
    if (!*there) return {};
    const auto names = disk_.list(into);
    if (!names) return names.error();
    if (names->empty()) return {};
    return fail(Errc::out_of_range, into.string() + " is not empty; name a new directory");
  }

  // The generation that CURRENT names, if its folder is there. Otherwise the newest one whose MANIFEST
  // verifies, and without such a one the highest number.
  Result<std::optional<std::uint64_t>> choose_generation() {
    const auto current = read_current_generation(spare_, directory_);
    // A CURRENT that is damaged, or cannot be read, is told of below, when it is known whether it costs
    // anything.
    if (!current && !is_damage(current.error())) return current.error();
    const auto names = disk_.list(directory_);
    if (!names) return names.error();
    if (current && *current && std::ranges::count(*names, format::generation_name(**current)) > 0)
      return *current;
    if (current && *current) lose(format::generation_name(**current) + ", which CURRENT names, is not there");
    auto taken = newest_whole_generation(damaged_, directory_);
    if (!taken) return taken.error();
    // Nothing is lost with CURRENT if its generation is there: the newest of all, and whole.
    std::uint64_t highest = 0;
    for (const std::string& name : *names)
      highest = std::max(highest, format::generation_number(name).value_or(0));
    const bool none_newer = *taken && **taken == highest && !(current && *current);
    const auto tell = none_newer ? &Salvage::note : &Salvage::lose;
    if (!current) (this->*tell)(current.error().detail);
    // No MANIFEST verifies. If CURRENT never was there, perhaps nothing was ever saved: then the journal
    // alone has all data, and the folders are remains.
    if (!*taken) {
      const auto needless = current && !*current ? journal_has_all() : Result<bool>(false);
      if (!needless) return needless.error();
      if (*needless) return std::optional<std::uint64_t>();
      if (highest != 0) *taken = highest;
    }
    if (*taken)
      (this->*tell)("CURRENT names no generation: took " + format::generation_name(**taken) +
                    ", the newest there is");
    return taken;
  }

  // If the journal begins at position 0, it has everything, and no generation is missing: only the first save
  // crashed.
  Result<bool> journal_has_all() {
    const auto segments = list_segments(damaged_, directory_);
    if (!segments) return segments.error();
    return std::ranges::any_of(*segments, [](const SegmentFile& segment) {
      return segment.begins() && segment.first_position == 0;
    });
  }

  Result<void> read_generation() {
    const auto number = choose_generation();
    if (!number) return number.error();
    // Nothing of a mixture can be saved without asking: the changes of one directory would be made to the
    // filters of another.
    if (const auto identity = common_identity(damaged_, directory_, *number); !identity)
      return identity.error();
    if (!*number) return {};
    const Path folder = directory_ / format::generation_name(**number);
    const auto names = file_names({.folder = folder, .number = **number});
    if (!names) return names.error();
    for (const ListedName& name : *names)
      if (auto read = read_file(folder / name.name, name.listed); !read) return read;
    // Both filters of a mirror must be there, so this comes after all files.
    for (const keyspace::Mirror& mirror : mirrors_)
      if (!keyspace_.begin_mirror(mirror))
        lose("the mirror from " + key_text(mirror.database, mirror.source) + " to " +
             key_text(mirror.database, mirror.target) + ", with one of them");
    return {};
  }

  // The files that the MANIFEST lists; if it cannot be read, the files that are there.
  Result<std::vector<ListedName>> file_names(const GenerationPlace& place) {
    const Path& folder = place.folder;
    const auto manifest = read_manifest(damaged_, folder / "MANIFEST");
    std::vector<ListedName> names;
    if (manifest) {
      // It is used all the same: whether the files are those that it lists is seen by their seals.
      if (auto right = check_number(manifest->generation, place); !right) lose(right.error().detail);
      cut_ = manifest->journal_position;
      run_ = manifest->run;
      mirrors_ = manifest->mirrors;
      for (const format::ListedFile& listed : manifest->files)
        names.push_back({.name = listed.name, .listed = listed});
      return names;
    }
    if (!is_damage(manifest.error()) && manifest.error().code != Errc::not_found) return manifest.error();
    lose(manifest.error().detail + "; all files of the generation are looked at");
    // Without the cut it is unknown which records of the journal the filters have already.
    cut_known_ = false;
    const auto all = damaged_.list(folder);
    if (!all && !is_damage(all.error())) return all.error();
    if (!all) return names;
    for (const std::string& name : *all)
      if (name.starts_with("pack-") || name.starts_with("filter-")) names.push_back({.name = name});
    return names;
  }

  Result<void> read_file(const Path& path, const std::optional<format::ListedFile>& listed) {
    auto file = damaged_.open(path);
    if (!file) {
      lose(file.error().detail);
      if (listed)
        lose(std::to_string(listed->record_count) + " keys that " + path.string() +
             " had, as the MANIFEST says");
      return {};
    }
    const auto size = (*file)->size();
    if (!size) return size.error();
    const auto take = [&](LoadedValue& loaded, RecordSalvage::Reached reached) {
      return this->take(path, loaded, reached);
    };
    const auto lose_here = [&](const Error& error) { lose(about(path.string(), error).detail); };
    // A wrong size is a loss to be told of, and no reason to leave out the records that are there.
    if (auto right = listed ? check_size(*size, *listed) : Result<void>(); !right) lose_here(right.error());
    RecordSalvage records(**file, *size, buffer_, progress_);
    auto done = records.run(listed ? &*listed : nullptr, take, lose_here);
    return done ? done : Result<void>(about(path.string(), done.error()));
  }

  // Keys are unique in a generation. A client may have made a value that looks like a filter; only a search
  // finds such a one. So a filter that was reached in order counts more. Among those that a search has found,
  // the last one counts: what is in a damaged value stands before the filters behind it.
  Result<void> take(const Path& path, LoadedValue& loaded, RecordSalvage::Reached reached) {
    const std::pair name(loaded.database, loaded.key);
    const keyspace::DatabaseKey key{.database = loaded.database, .key = loaded.key};
    if (const value::Value* const before = keyspace_.find(key)) {
      const bool replaces = searched_.erase(name) != 0;
      lose(path.string() + " has " + key_text(loaded.database, loaded.key) + " a second time, at offset " +
           std::to_string(loaded.offset) +
           (replaces ? ": the one before was left out" : ": this one was left out"));
      if (!replaces) return {};
      // Before put() frees the filter: the next one may get its address, and would then have its position.
      positions_.forget(before);
    }
    const bool in_order = reached == RecordSalvage::Reached::in_order;
    if (!in_order) searched_.insert(name);
    loaded.cut_position = cut_;
    positions_.note(loaded, *loaded.value);
    // A record that a search has found may be a client's value. Its position must not decide how far the
    // journal has to reach: the journal would seem to be damaged.
    if (in_order)
      highest_.note(value::row_of(*loaded.value).repeat, loaded.cut_position, loaded.journal_position);
    return keyspace_.put(key, loaded.value, loaded.deadline);
  }

  Result<void> read_journal() {
    if (!cut_known_) {
      lose("the journal: without a MANIFEST it is not known where it begins");
      return {};
    }
    const auto synced = read_synced(damaged_, synced_path(directory_));
    if (!synced && !is_damage(synced.error())) return synced.error();
    // Without SYNCED the reader relies on the journal alone: it notices damage, but no end that is missing.
    if (!synced) lose(synced.error().detail);
    auto reader = JournalReader::open(
        damaged_, directory_,
        {.cut = cut_, .highest = highest_, .synced = synced ? *synced : std::nullopt, .run = run_});
    if (!reader) return lose_journal(reader.error(), cut_);
    // A change of a filter that was lost is lost with it. A start would take it for damage.
    JournalApplier applier(keyspace_, std::move(positions_), JournalApplier::MissingKeys::lost);
    const auto applied = apply_all(*reader, applier);
    report_.operations = applier.counts().operations;
    for (const auto& [lost, items] : applier.counts().items_lost)
      lose(std::to_string(items) + " items that the journal adds to " + key_text(lost.database, lost.key) +
           ", which is lost");
    for (const auto& [lost, changes] : applier.counts().changes_lost)
      lose(std::to_string(changes) + " changes that the journal makes to " +
           key_text(lost.database, lost.key) + ", which is lost");
    return applied ? Result<void>() : lose_journal(applied.error(), reader->position());
  }

  // Applies frames until the journal ends, is damaged, or was off. The frames before a damage have been
  // applied by then. A group of frames of which the end is missing is not applied, as at a start
  // (frame_groups.hpp).
  Result<void> apply_all(JournalReader& reader, JournalApplier& applier) {
    FrameGroups groups;
    bool goes_on = true;
    while (goes_on) {
      const auto frames = reader.next();
      if (frames && !frames->empty()) {
        auto applied = groups.take(*frames, [&](const auto& whole) -> Result<void> {
          auto more = apply(applier, whole, reader);
          goes_on = more && *more;
          return more ? Result<void>() : about(reader.path_of(whole.front()).string(), more.error());
        });
        if (!applied) return applied;
        continue;
      }
      // The journal ends here. If a group has begun, the end is before that group, and is either a torn tail
      // or damage.
      if (!groups.begun()) return frames ? Result<void>() : frames.error();
      const auto end = frames ? reader.end_before_group(groups.first()) : Result<JournalEnd>(frames.error());
      if (end) return {};
      lose("a transaction at position " + std::to_string(groups.first().position) +
           ", of which the end is missing");
      return end.error();
    }
    return {};
  }

  // False: the journal ends here. Adds that still wait are applied before this returns, because the applier
  // keeps views of the frames, and these are valid only now.
  Result<bool> apply(JournalApplier& applier, std::span<const JournalFrame> frames,
                     const JournalReader& reader) {
    for (const JournalFrame& frame : frames) {
      if (resumes(frame)) {
        lose(reader.path_of(frame).string() + " from offset " + std::to_string(frame.offset) +
             " on: the journal was off before");
        if (auto applied = applier.apply_adds(); !applied) return applied.error();
        return false;
      }
      if (auto brought = bring_file(applier, frame); !brought) return brought.error();
      if (auto applied = applier.apply(frame); !applied) return applied.error();
    }
    if (auto applied = applier.apply_adds(); !applied) return applied.error();
    return true;
  }

  Result<void> bring_file(JournalApplier& applier, const JournalFrame& frame) {
    const auto adopted = adopted_file(frame);
    if (!adopted) return {};
    auto filter = read_adopted(damaged_, directory_, adopted->value.file, any_filter, progress_);
    if (!filter && !is_damage(filter.error())) return filter.error();
    // The key then names nothing, and later changes of it are lost with the filter.
    if (!filter)
      lose(key_text(adopted->key.database, adopted->key.key) +
           ", which came whole: " + filter.error().detail);
    applier.bring(filter ? std::move(*filter) : nullptr);
    return {};
  }

  Result<void> lose_journal(const Error& error, std::uint64_t position) {
    if (!is_damage(error)) return error;
    lose("the journal from position " + std::to_string(position) + " on: " + error.detail);
    return {};
  }

  std::uint64_t find_seed(std::uint64_t seed_drawn) {
    const auto seed = read_seed(spare_, directory_);
    if (!seed) note(seed.error().detail + "; new filters get a new seed");
    return seed ? seed->value_or(seed_drawn) : seed_drawn;
  }

  Result<void> write(const Path& into, std::uint64_t seed, std::uint64_t drawn) {
    // With an identity of its own: the files of the old one must not fit it.
    auto directory = DataDirectory::open(disk_, into, drawn, std::nullopt);
    if (!directory) return directory.error();
    const std::string line = seed_line(seed);
    if (auto kept = replace_file(disk_, into / "SEED", format::bytes_of(std::string_view(line))); !kept)
      return kept;
    // Cut at position 0, because the new directory has no journal. What the old one had is in the filters.
    const Snapshot snapshot = snapshot_of(keyspace_, std::chrono::system_clock::now());
    for (const keyspace::CutEntry& entry : snapshot.entries) {
      ++report_.values[entry.value->kind()];
      report_.items += value::row_of(*entry.value).item_count(*entry.value);
    }
    const auto saved = (*directory)->save(snapshot, progress_);
    return saved ? Result<void>() : Result<void>(saved.error());
  }

  Disk& disk_;
  TolerantDisk damaged_;  // the same disk, as a tolerant view for reading `directory_`
  TolerantDisk spare_;    // another one, for SEED and CURRENT: a salvage can do without them
  const Path& directory_;
  const ProgressSink& progress_;
  Freeing housekeeper_;
  keyspace::Keyspace keyspace_{{}, housekeeper_};
  LoadBuffer buffer_;
  ValuePositions positions_;
  std::vector<keyspace::Mirror> mirrors_;
  std::uint64_t cut_ = 0;
  std::uint32_t run_ = 0;  // that saved the generation
  bool cut_known_ = true;
  HighestPositions highest_;                                  // only of filters that were reached in order
  std::set<std::pair<std::uint32_t, std::string>> searched_;  // keys whose filters a search has found
  std::set<std::string> told_;                                // losses that are in the report
  SalvageReport report_;
};

}  // namespace

Result<SalvageReport> salvage_directory(Disk& disk, const Path& directory, const Path& into,
                                        std::uint64_t seed_drawn, const ProgressSink& progress) {
  return Salvage(disk, directory, progress).run(into, seed_drawn);
}

}  // namespace sepal::storage
