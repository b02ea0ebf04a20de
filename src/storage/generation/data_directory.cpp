#include <sepal/base/assert.hpp>
#include <sepal/log/event.hpp>
#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/format/named_lines.hpp>
#include <sepal/storage/format/snapshot_format.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/journal/reserve.hpp>

#include <algorithm>
#include <utility>

#include "storage/disk/damage.hpp"
#include "storage/generation/current_generation.hpp"
#include "storage/generation/generation_import.hpp"
#include "storage/generation/generation_reader.hpp"
#include "storage/generation/generation_writer.hpp"
#include "storage/generation/identity.hpp"
#include "storage/generation/known_files.hpp"

namespace sepal::storage {
namespace {

// Creates a directory and its missing parents, and makes their names survive power loss.
Result<void> make_directories(Disk& disk, const Path& directory) {
  const auto there = disk.exists(directory);
  if (!there) return there.error();
  const Path parent = directory.parent_path();
  // The parent of a name without a slash is empty: the current directory, which is there. The parent of the
  // root is the root itself.
  if (!*there && !parent.empty() && parent != directory) {
    if (auto done = make_directories(disk, parent); !done) return done;
  }
  // Called even if the name exists, because the name may be that of a file.
  if (auto done = disk.make_directory(directory); !done || *there) return done;
  return disk.sync_directory(parent);
}

// Whether an operation of this process may have made it in a directory that had just come into the place of
// the locked one. A directory that others use has other files as well, such as SEED.
bool may_be_own(std::string_view name) {
  return is_aside_name(name) || Reserve::is_piece(name) || format::segment_number(name) ||
         format::generation_number(name);
}

}  // namespace

class DataDirectory::Implementation {
 public:
  Implementation(Disk& disk, Path directory, const DataDirectoryOptions& options)
      : disk_(disk), directory_(std::move(directory)), options_(options) {}

  Result<void> open(std::uint64_t drawn, std::optional<std::uint64_t> seed_fixed) {
    if (auto made = make_directories(disk_, directory_); !made) return made;
    // The lock comes first: all that follows reads or removes files that another sepald may be writing.
    auto lock = disk_.lock(directory_ / "LOCK");
    if (!lock) return lock.error();
    lock_ = std::move(*lock);
    // Before SEED is written: a directory that a start refuses stays as it is, except for LOCK.
    const auto current = find_current_generation(disk_, directory_);
    if (!current) return current.error();
    const auto identity = common_identity(disk_, directory_, current->number);
    if (!identity) return identity.error();
    lineage_ = drawn_lineage(drawn);
    if (*identity != 0) lineage_.identity = *identity;
    const bool has_data = current->number || *identity != 0;
    if (auto seeded = find_seed(drawn, seed_fixed, has_data); !seeded) return seeded;
    remove_asides();
    if (!current->number) return remove_first_remains();
    // FIRST may name the generation, and CURRENT not yet. CURRENT is written before remains are removed,
    // because FIRST is one of them.
    if (current->unnamed) {
      if (auto named = name_first(*current->number); !named) return named;
    }
    return remove_remains_at_open(*current->number);
  }

  Result<GenerationReport> save(const Snapshot& snapshot, const ProgressSink& progress, Linking linking,
                                const std::function<Result<void>()>& all_read) {
    SEPAL_ASSERT(lock_ != nullptr, "a save into a directory that is not locked");
    remove_unfinished();
    const auto number = next_number();
    if (!number) return number.error();
    if (auto seeded = keep_seed(); !seeded) return seeded.error();
    const GenerationPlace place{.folder = folder(*number), .number = *number, .lineage = lineage_};
    const KnownFiles none;
    auto written = write(place, [&] {
      return write_generation(disk_, place, snapshot, linking == Linking::none ? none : files_, options_,
                              progress, all_read);
    });
    if (!written) {
      drop_unfinished(place);
      return written.error();
    }
    SEPAL_ASSERT(written->report.value_count == snapshot.entries.size(),
                 "a generation has all filters of its cut");
    // Only after a success. A failed save leaves the older generation, and the next save links that one's
    // files.
    files_ = std::move(written->files);
    saved_bytes_ = written->report.bytes;
    // The new generation is current and on disk, so the older ones may go now.
    remove_others(*number);
    return std::move(written->report);
  }

  Result<GenerationReport> import_filters(FilterStream& filters, WallTime now, const ProgressSink& progress) {
    SEPAL_ASSERT(lock_ != nullptr, "an import into a directory that is not locked");
    const auto current = read_current();
    if (!current) return current.error();
    if (*current) return fail(Errc::in_use, directory_.string() + " has data already");
    const auto number = next_number();
    if (!number) return number.error();
    const GenerationPlace place{.folder = folder(*number), .number = *number, .lineage = lineage_};
    const auto write_files = [&] {
      return import_generation(disk_, place, filters, now, options_, progress);
    };
    auto written = write(place, write_files);
    if (!written) {
      drop_unfinished(place);
      return written.error();
    }
    remove_others(*number);
    return written;
  }

  Result<GenerationReport> load(const value::Limits& limits, const LoadSink& sink,
                                const ProgressSink& progress) {
    const auto current = read_current();
    if (!current) return current.error();
    // find_current_generation() has made sure at the open that CURRENT is there if anything was saved.
    if (!*current) return GenerationReport{};
    const GenerationPlace place{.folder = folder(**current), .number = **current};
    auto read =
        read_generation(disk_, place, limits, sink, progress, {}, {.thread_count = options_.thread_count});
    if (read) {
      // So the first save after a start can link files as well.
      files_ = std::move(read->files);
      saved_bytes_ = read->report.bytes;
      return std::move(read->report);
    }
    return is_damage(read.error()) ? with_advice(read.error(), restore_or_salvage) : read.error();
  }

  [[nodiscard]] std::uint64_t free_bytes() const {
    const auto free = disk_.free_bytes(directory_);
    return free ? *free : 0;
  }

  [[nodiscard]] Result<void> check() { return lock_->check(); }

  Result<bool> take_replacement() {
    auto taken = lock_->take_replacement(may_be_own);
    if (!taken || !*taken) return taken;
    files_ = {};
    saved_bytes_ = 0;
    log::warn("directory_replaced", "data directory replaced by an empty one, which is used from now on",
              {{"dir", directory_.native()}});
    return true;
  }

  [[nodiscard]] const Path& path() const { return directory_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] Lineage lineage() const { return lineage_; }
  [[nodiscard]] std::uint64_t saved_bytes() const { return saved_bytes_; }
  Result<void> note(std::string_view lines) { return lock_->note(lines); }

 private:
  [[nodiscard]] Path folder(std::uint64_t number) const {
    return directory_ / format::generation_name(number);
  }

  Result<std::optional<std::uint64_t>> read_current() const {
    return read_current_generation(disk_, directory_);
  }

  Result<void> find_seed(std::uint64_t seed_drawn, std::optional<std::uint64_t> seed_fixed, bool has_data) {
    const auto seed = read_seed(disk_, directory_);
    // A seed that the operator names counts, also where the file cannot be read.
    if (!seed && !seed_fixed) return seed.error();
    seed_ = seed_fixed.value_or(seed ? seed->value_or(seed_drawn) : 0);
    if (!seed || *seed) return {};
    if (has_data && !seed_fixed)
      log::warn("seed_missing",
                "SEED is missing beside data: new filters get a new seed, and cannot be merged "
                "with older ones",
                {{"advice", "to merge them, put SEED back from a backup while sepald is stopped"}});
    // The file is written in any case: it also tells a data directory and its copies from others.
    return write_seed(seed_drawn);
  }

  Result<void> write_seed(std::uint64_t seed) {
    const std::string line = seed_line(seed);
    return replace_file(disk_, directory_ / "SEED", format::bytes_of(std::string_view(line)));
  }

  // An operator may have put an empty directory in the place of one that was lost.
  Result<void> keep_seed() {
    const auto there = disk_.exists(directory_ / "SEED");
    if (!there) return there.error();
    return *there ? Result<void>() : write_seed(seed_);
  }

  Result<std::vector<std::uint64_t>> generations() const { return list_generations(disk_, directory_); }

  // The number is above that of the current generation, and no folder has it: so no folder is ever written
  // into twice, and no new file has the name of a linked one.
  Result<std::uint64_t> next_number() const {
    const auto numbers = generations();
    if (!numbers) return numbers.error();
    const auto current = read_current();
    if (!current) return current.error();
    std::uint64_t highest = current->value_or(0);
    if (!numbers->empty()) highest = std::max(highest, numbers->back());
    if (highest < format::generation_number_max) return highest + 1;
    // A folder has the highest number there is. A gap below it does as well.
    std::uint64_t free = current->value_or(0) + 1;
    while (std::ranges::binary_search(*numbers, free)) ++free;
    if (free <= format::generation_number_max) return free;
    return fail(Errc::io, "cannot name a generation after " + folder(highest).string() +
                              ", which has the highest number there is; move it away");
  }

  // `write_files` writes all files into the folder, and returns a result.
  template <class WriteFiles>
  auto write(const GenerationPlace& place, const WriteFiles& write_files) -> decltype(write_files()) {
    if (auto made = disk_.make_directory(place.folder); !made) return made.error();
    // Before the first byte of the generation: a crash may leave any part of what follows.
    if (auto announced = announce_first(place); !announced) return announced.error();
    auto written = write_files();
    if (!written) return written;
    // The files are synced by now, but not their names. A CURRENT on the disk must not name a folder in which
    // a file is missing.
    if (auto synced = disk_.sync_directory(place.folder); !synced) return synced.error();
    // The folder's own name is on disk before CURRENT names it.
    if (auto synced = disk_.sync_directory(directory_); !synced) return synced.error();
    if (auto named = name_current(place.number); !named) return named.error();
    return written;
  }

  Result<void> name_current(std::uint64_t number) {
    const std::string line = current_line(format::generation_name(number));
    return replace_file(disk_, directory_ / "CURRENT", format::bytes_of(std::string_view(line)));
  }

  // Runs before the first save makes a MANIFEST. Without FIRST, a MANIFEST without a CURRENT looks like a
  // lost CURRENT.
  Result<void> announce_first(const GenerationPlace& place) {
    const auto current = read_current();
    if (!current) return current.error();
    if (*current) return {};
    const std::string line = first_line(format::generation_name(place.number));
    return replace_file(disk_, directory_ / "FIRST", format::bytes_of(std::string_view(line)));
  }

  // Does what the first save had left to do when it crashed. Its MANIFEST can be read, but may not be on disk
  // yet.
  Result<void> name_first(std::uint64_t number) {
    log::info("first_save_taken", "the first save had all but ended, and is taken",
              {{"generation", format::generation_name(number)}});
    auto manifest = disk_.open(folder(number) / "MANIFEST");
    if (!manifest) return manifest.error();
    // The filter files were synced before the first save made the MANIFEST. Their names were not.
    if (auto synced = (*manifest)->sync(); !synced) return synced;
    if (auto synced = disk_.sync_directory(folder(number)); !synced) return synced;
    if (auto synced = disk_.sync_directory(directory_); !synced) return synced;
    return name_current(number);
  }

  // Runs after a failed save. If CURRENT names the new generation, only the sync of the rename failed. If
  // CURRENT cannot be read, the outcome is unknown. In both cases the folder stays until the next save
  // (remove_unfinished).
  void drop_unfinished(const GenerationPlace& place) {
    const auto current = read_current();
    if (current && *current != place.number) remove_generation(place.number);
  }

  // Runs before a save. A folder behind the current one, or the one that FIRST names, is of a save that
  // failed and could not remove it, because the directory was away. Its room may be what the next save lacks.
  void remove_unfinished() {
    const auto numbers = generations();
    const auto current = read_current();
    // The save fails for the same reason, and tells it.
    if (!numbers || !current) return;
    if (!*current) {
      const auto first = read_first_generation(disk_, directory_);
      if (first && *first && std::ranges::binary_search(*numbers, **first)) remove_generation(**first);
      return;
    }
    // Where the numbers have come to their end, a new generation may have a lower one (next_number).
    if (!numbers->empty() && numbers->back() == format::generation_number_max) return;
    for (const std::uint64_t number : *numbers)
      if (number > **current) remove_generation(number);
  }

  Result<void> remove_remains_at_open(std::uint64_t current) {
    // The CURRENT that was read may come from a rename that is not synced. Sync it before the older
    // generations go: a power cut could bring the older CURRENT back.
    if (const auto synced = disk_.sync_directory(directory_); !synced) {
      log::warn("remains_not_removed", "remains not removed", {{"reason", synced.error().detail}});
    } else {
      remove_others(current);
    }
    return {};
  }

  // Files that were to become others. Only now: later another thread may be writing one.
  void remove_asides() {
    const auto names = disk_.list(directory_);
    // The list of generations, which is asked for next, gives the error.
    if (!names) return;
    for (const std::string& name : *names) {
      if (!is_aside_name(name)) continue;
      if (const auto removed = disk_.remove(directory_ / name); !removed)
        log::warn("remains_not_removed", "remains not removed", {{"reason", removed.error().detail}});
    }
  }

  // Nothing has been saved. A crashed first save may have left a MANIFEST of an incomplete generation. That
  // folder is removed before FIRST names another generation; otherwise CURRENT would seem to be lost. For the
  // same reason the removal is synced, and a failure ends the start. A folder without a MANIFEST cannot be
  // mistaken, so it stays.
  Result<void> remove_first_remains() {
    const auto numbers = generations();
    if (!numbers) return numbers.error();
    for (const std::uint64_t number : *numbers) {
      const auto announced = disk_.exists(folder(number) / "MANIFEST");
      if (!announced) return announced.error();
      if (!*announced) {
        log::warn("generation_left_alone", "generation without MANIFEST left alone until the next save",
                  {{"folder", folder(number).native()}});
        continue;
      }
      if (auto removed = disk_.remove_tree(folder(number)); !removed) return removed;
      if (auto synced = disk_.sync_directory(directory_); !synced) return synced;
    }
    return {};
  }

  // Remains only take space. A failed removal is logged, and tried again after the next save. CURRENT is on
  // disk by now, so FIRST is not needed any more.
  void remove_others(std::uint64_t current) {
    const auto numbers = generations();
    if (!numbers) {
      log::warn("remains_not_removed", "remains not removed", {{"reason", numbers.error().detail}});
      return;
    }
    for (const std::uint64_t number : *numbers)
      if (number != current) remove_generation(number);
    // Earlier versions left the files that end in ".tmp".
    for (const char* name : {"CURRENT.tmp", "SEED.tmp", "SYNCED.tmp", "FIRST.tmp", "FIRST"}) {
      if (const auto removed = disk_.remove(directory_ / name); !removed)
        log::warn("remains_not_removed", "remains not removed", {{"reason", removed.error().detail}});
    }
  }

  void remove_generation(std::uint64_t number) {
    if (const auto removed = disk_.remove_tree(folder(number)); !removed)
      log::warn("remains_not_removed", "remains not removed", {{"reason", removed.error().detail}});
  }

  Disk& disk_;
  Path directory_;
  DataDirectoryOptions options_;
  std::unique_ptr<DirectoryLock> lock_;
  KnownFiles files_;  // the files of the generation that was loaded or saved last
  std::uint64_t seed_ = 0;
  Lineage lineage_;
  std::uint64_t saved_bytes_ = 0;
};

Result<std::vector<std::string>> read_notes(Disk& disk, const Path& directory) {
  // The file is read whole, so its size is bounded: an operator can put anything in the place of LOCK.
  constexpr std::size_t bytes_max = 65'536;
  const Path path = directory / "LOCK";
  const auto there = disk.exists(path);
  if (!there) return there.error();
  if (!*there) return std::vector<std::string>();
  const auto file = disk.open(path);
  if (!file) return file.error();
  std::string text(bytes_max, '\0');
  const auto count = (*file)->read_at(0, std::as_writable_bytes(std::span(text)));
  if (!count) return count.error();
  // There may be more of it. A part of the notes would look like all of them.
  if (*count == bytes_max) return std::vector<std::string>();
  text.resize(*count);
  std::vector<std::string> lines;
  // The first line is the process id. A line without its end was not written to the end.
  for (std::size_t end = text.find('\n'), next = 0; end != std::string::npos; end = next) {
    next = text.find('\n', end + 1);
    if (next != std::string::npos) lines.push_back(text.substr(end + 1, next - end - 1));
  }
  return lines;
}

Result<DirectoryUse> use_of(Disk& disk, const Path& directory) {
  const Path path = directory / "LOCK";
  const auto there = disk.exists(path);
  if (!there) return there.error();
  // Asked also if LOCK is not there: a daemon locks the directory as well, and keeps that lock when LOCK is
  // removed.
  const auto locked = disk.is_locked(path);
  if (!locked) return locked.error();
  if (*locked) return DirectoryUse::now;
  return *there ? DirectoryUse::former : DirectoryUse::none;
}

DataDirectory::DataDirectory(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
DataDirectory::~DataDirectory() = default;

Result<std::unique_ptr<DataDirectory>> DataDirectory::open(Disk& disk, Path directory, std::uint64_t drawn,
                                                           std::optional<std::uint64_t> seed_fixed,
                                                           const DataDirectoryOptions& options) {
  auto implementation = std::make_unique<Implementation>(disk, std::move(directory), options);
  if (auto opened = implementation->open(drawn, seed_fixed); !opened) return opened.error();
  return std::unique_ptr<DataDirectory>(new DataDirectory(std::move(implementation)));
}

std::uint64_t DataDirectory::free_bytes() const {
  return implementation_->free_bytes();
}

Result<void> DataDirectory::check() {
  return implementation_->check();
}

Result<bool> DataDirectory::take_replacement() {
  return implementation_->take_replacement();
}

Result<void> DataDirectory::note(std::string_view lines) {
  return implementation_->note(lines);
}

const Path& DataDirectory::path() const {
  return implementation_->path();
}

std::uint64_t DataDirectory::seed() const {
  return implementation_->seed();
}

Lineage DataDirectory::lineage() const {
  return implementation_->lineage();
}

std::uint64_t DataDirectory::saved_bytes() const {
  return implementation_->saved_bytes();
}

Result<GenerationReport> DataDirectory::save(const Snapshot& snapshot, const ProgressSink& progress,
                                             Linking linking, const std::function<Result<void>()>& all_read) {
  return implementation_->save(snapshot, progress, linking, all_read);
}

Result<GenerationReport> DataDirectory::import_filters(FilterStream& filters, WallTime now,
                                                       const ProgressSink& progress) {
  return implementation_->import_filters(filters, now, progress);
}

Result<GenerationReport> DataDirectory::load(const value::Limits& limits, const LoadSink& sink,
                                             const ProgressSink& progress) {
  return implementation_->load(limits, sink, progress);
}

}  // namespace sepal::storage
