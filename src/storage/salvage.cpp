// Filters are taken one by one: where one cannot be read, the next begins where its head says that it ends,
// or at the next place that looks like a head and verifies as one.
#include <sepal/storage/adopted_files.hpp>
#include <sepal/storage/examine.hpp>
#include <sepal/storage/snapshot.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "damage.hpp"
#include "generation_reader.hpp"
#include "journal_applier.hpp"
#include "journal_reader.hpp"
#include "named_lines.hpp"
#include "record_reader.hpp"
#include "sealed_reader.hpp"

namespace sepal::storage {
namespace {

class Freeing final : public keyspace::Housekeeper {
 public:
  void dispose(keyspace::FilterPtr) override {}
  void dispose_database(std::shared_ptr<const void>) override {}
  void settle(keyspace::FilterPtr, filter::LayerView) override {}
  void due_at(keyspace::Deadline) override {}
};

// The records of one filter file, damaged or not.
class RecordSalvage {
 public:
  using Take = std::function<Result<void>(LoadedFilter& loaded)>;
  using Lose = std::function<void(const Error& error)>;

  RecordSalvage(File& file, std::uint64_t byte_count, LoadBuffer& buffer, const ProgressSink& progress)
      : file_(file), byte_count_(byte_count), buffer_(buffer), meter_(progress, byte_count) {}

  // Errors: those of Disk, of `take`, too_large and out_of_memory.
  Result<void> run(const Take& take, const Lose& lose) {
    begin_at(0);
    if (const auto count = records_->read_header(); !count) {
      if (!is_damage(count.error())) return count.error();
      lose(count.error());
      begin_at(std::min<std::uint64_t>(sizeof(format::FilterFileHeader), byte_count_));
    }
    while (reader_->remaining() > 0) {
      const std::uint64_t start = reader_->offset();
      auto loaded = records_->read_record();
      if (loaded) {
        if (auto taken = take(*loaded); !taken) return taken;
        continue;
      }
      if (!is_damage(loaded.error()) && loaded.error().code != Errc::too_large) return loaded.error();
      lose(loaded.error());
      const auto next = records_->end_of_record() ? records_->end_of_record() : next_head(start + 1);
      if (!next) return fail(Errc::io, "cannot be read any further");
      go_on_at(*next);
    }
    return {};
  }

 private:
  void begin_at(std::uint64_t offset) {
    reader_.emplace(file_, byte_count_, buffer_);
    reader_->skip(offset);
    records_.emplace(*reader_, any_filter, meter_);
  }

  // With the version that the header says, if it says one.
  void go_on_at(std::uint64_t offset) {
    begin_at(0);
    if (records_->read_header()) {
      reader_->skip(offset - reader_->offset());
    } else {
      begin_at(offset);
    }
  }

  // Where a head may begin, at or behind `from`; else the end. Nothing when the disk fails.
  std::optional<std::uint64_t> next_head(std::uint64_t from) {
    constexpr auto magic = format::RecordHead::expected_magic;
    std::vector<char> bytes(format::chunk_bytes);
    while (from < byte_count_) {
      const auto read = file_.read_at(from, std::as_writable_bytes(std::span(bytes)));
      if (!read) return std::nullopt;
      const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(*read);
      const auto found = std::search(bytes.begin(), end, magic.begin(), magic.end());
      if (found != end) return from + static_cast<std::uint64_t>(found - bytes.begin());
      if (*read < bytes.size()) break;
      from += *read - magic.size() + 1;  // it may stand across the two
    }
    return byte_count_;
  }

  File& file_;
  std::uint64_t byte_count_;
  LoadBuffer& buffer_;
  ProgressMeter meter_;
  std::optional<SealedReader> reader_;
  std::optional<RecordReader> records_;
};

class Salvage {
 public:
  Salvage(Disk& disk, const Path& directory, const ProgressSink& progress)
      : disk_(disk), directory_(directory), progress_(progress) {}

  Result<SalvageReport> run(const Path& into, std::uint64_t seed_drawn) {
    if (auto empty = require_empty(into); !empty) return empty.error();
    if (auto read = read_generation(); !read) return read.error();
    if (auto read = read_journal(); !read) return read.error();
    if (auto written = write(into, seed_drawn); !written) return written.error();
    return std::move(report_);
  }

 private:
  void lose(std::string what) { report_.lost.push_back(std::move(what)); }

  Result<void> require_empty(const Path& into) {
    const auto there = disk_.exists(into);
    if (!there) return there.error();
    if (!*there) return {};
    const auto names = disk_.list(into);
    if (!names) return names.error();
    if (names->empty()) return {};
    return fail(Errc::out_of_range, into.string() + " is not empty; name a new directory");
  }

  // The number that CURRENT names, if it is there, or else the highest that is.
  Result<std::optional<std::uint64_t>> choose_generation() {
    const auto current = read_current_generation(disk_, directory_);
    if (!current && !is_damage(current.error())) return current.error();
    const auto names = disk_.list(directory_);
    if (!names) return names.error();
    if (current && *current && std::ranges::count(*names, format::generation_name(**current)) > 0)
      return *current;
    if (!current) lose(current.error().detail);
    if (current && *current) lose(format::generation_name(**current) + ", which CURRENT names, is not there");
    std::optional<std::uint64_t> highest;
    for (const std::string& name : *names)
      if (const auto number = format::generation_number(name)) highest = std::max(highest, number);
    if (highest)
      lose("CURRENT names no generation: took " + format::generation_name(*highest) +
           ", the newest there is");
    return highest;
  }

  Result<void> read_generation() {
    const auto number = choose_generation();
    if (!number) return number.error();
    if (!*number) return {};
    const Path folder = directory_ / format::generation_name(**number);
    const auto names = file_names(folder);
    if (!names) return names.error();
    for (const std::string& name : *names)
      if (auto read = read_file(folder / name); !read) return read;
    for (const keyspace::Mirror& mirror : mirrors_)
      if (!keyspace_.begin_mirror(mirror)) lose("a mirror, with one of its filters");
    return {};
  }

  // Those that the MANIFEST lists, or that are there when it cannot be read.
  Result<std::vector<std::string>> file_names(const Path& folder) {
    const auto manifest = read_manifest(disk_, folder / "MANIFEST");
    std::vector<std::string> names;
    if (manifest) {
      cut_ = manifest->journal_position;
      mirrors_ = manifest->mirrors;
      for (const format::ListedFile& listed : manifest->files) names.push_back(listed.name);
      return names;
    }
    if (!is_damage(manifest.error()) && manifest.error().code != Errc::not_found) return manifest.error();
    lose(manifest.error().detail + "; all files of the generation are looked at");
    cut_known_ = false;
    const auto all = disk_.list(folder);
    if (!all) return all.error();
    for (const std::string& name : *all)
      if (name.starts_with("pack-") || name.starts_with("filter-")) names.push_back(name);
    return names;
  }

  Result<void> read_file(const Path& path) {
    auto file = disk_.open(path);
    if (!file && file.error().code == Errc::not_found) {
      lose(file.error().detail);
      return {};
    }
    if (!file) return file.error();
    const auto size = (*file)->size();
    if (!size) return size.error();
    const auto take = [this](LoadedFilter& loaded) {
      loaded.cut_position = cut_;
      const filter::Filter& filter = *loaded.filter;
      positions_.note(loaded, filter);
      return keyspace_.put({.database = loaded.database, .key = loaded.key}, loaded.filter, loaded.deadline);
    };
    RecordSalvage records(**file, *size, buffer_, progress_);
    auto done = records.run(take, [&](const Error& error) { lose(about(path.string(), error).detail); });
    return done ? done : Result<void>(about(path.string(), done.error()));
  }

  Result<void> read_journal() {
    if (!cut_known_) {
      lose("the journal: without a MANIFEST it is not known where it begins");
      return {};
    }
    const std::uint64_t highest = positions_.highest();
    auto reader = JournalReader::open(disk_, directory_, {.cut = cut_, .highest_position = highest});
    if (!reader) return lose_journal(reader.error(), cut_);
    JournalApplier applier(keyspace_, std::move(positions_), JournalApplier::MissingKeys::lost);
    const auto applied = apply_all(*reader, applier);
    report_.operations = applier.counts().operations;
    if (const std::uint64_t lost = applier.counts().items_lost; lost > 0)
      lose(std::to_string(lost) + " items that the journal adds to filters that are lost");
    return applied ? Result<void>() : lose_journal(applied.error(), reader->position());
  }

  Result<void> apply_all(JournalReader& reader, JournalApplier& applier) {
    for (;;) {
      const auto frames = reader.next();
      if (!frames) return frames.error();
      const auto goes_on = apply(applier, *frames, reader);
      if (!goes_on) return about(reader.path().string(), goes_on.error());
      if (frames->empty() || !*goes_on) return {};
    }
  }

  // False: the end.
  Result<bool> apply(JournalApplier& applier, std::span<const JournalFrame> frames,
                     const JournalReader& reader) {
    for (const JournalFrame& frame : frames) {
      if (resumes(frame)) {
        lose(reader.path().string() + " from offset " + std::to_string(frame.offset) +
             " on: the journal was off before");
        if (auto settled = applier.settle(); !settled) return settled.error();
        return false;
      }
      if (auto brought = bring_file(applier, frame); !brought) return brought.error();
      if (auto applied = applier.apply(frame); !applied) return applied.error();
    }
    if (auto settled = applier.settle(); !settled) return settled.error();
    return true;
  }

  Result<void> bring_file(JournalApplier& applier, const JournalFrame& frame) {
    const auto file = file_of(frame);
    if (!file) return {};
    auto filter = read_adopted(disk_, directory_, *file, any_filter, progress_);
    if (!filter && !is_damage(filter.error())) return filter.error();
    if (!filter) lose("a filter that came whole: " + filter.error().detail);
    applier.bring(filter ? std::move(*filter) : nullptr);
    return {};
  }

  Result<void> lose_journal(const Error& error, std::uint64_t position) {
    if (!is_damage(error)) return error;
    lose("the journal from position " + std::to_string(position) + " on: " + error.detail);
    return {};
  }

  Result<void> write(const Path& into, std::uint64_t seed_drawn) {
    const auto seed = read_seed(disk_, directory_);
    if (!seed && !is_damage(seed.error())) return seed.error();
    if (!seed) lose(seed.error().detail);
    const std::uint64_t kept_seed = seed ? seed->value_or(seed_drawn) : seed_drawn;
    auto directory = DataDirectory::open(disk_, into, kept_seed, std::nullopt);
    if (!directory) return directory.error();
    const Snapshot snapshot = snapshot_of(keyspace_, std::chrono::system_clock::now());
    for (const keyspace::CutEntry& entry : snapshot.entries) report_.items += entry.filter->item_count();
    report_.filters = snapshot.entries.size();
    const auto saved = (*directory)->save(snapshot, progress_);
    return saved ? Result<void>() : Result<void>(saved.error());
  }

  Disk& disk_;
  const Path& directory_;
  const ProgressSink& progress_;
  Freeing housekeeper_;
  keyspace::Keyspace keyspace_{{}, housekeeper_};
  LoadBuffer buffer_;
  FilterPositions positions_;
  std::vector<keyspace::Mirror> mirrors_;
  std::uint64_t cut_ = 0;
  bool cut_known_ = true;
  SalvageReport report_;
};

}  // namespace

Result<SalvageReport> salvage_directory(Disk& disk, const Path& directory, const Path& into,
                                        std::uint64_t seed_drawn, const ProgressSink& progress) {
  return Salvage(disk, directory, progress).run(into, seed_drawn);
}

}  // namespace sepal::storage
