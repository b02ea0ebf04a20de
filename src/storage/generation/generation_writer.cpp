#include "storage/generation/generation_writer.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "storage/disk/ordered_work.hpp"
#include "storage/format/sealed_writer.hpp"
#include "storage/generation/manifest_writer.hpp"
#include "storage/generation/progress_meter.hpp"
#include "storage/generation/record_writer.hpp"

namespace sepal::storage {
namespace {

constexpr const char* pack_name = "pack-0";

// Filters lie scattered in memory. So many are asked for together, so that the waits for them overlap.
constexpr std::size_t asked_together = 32;
static_assert(run_bytes_max <= format::chunk_bytes, "a value of a run has one chunk");

// Where one value of a snapshot stands in its two lists.
struct Place {
  std::size_t entry = 0;
  std::size_t first_number = 0;
};

// Some entries of the snapshot that go into the pack.
struct Part {
  Place begin;
  std::size_t end = 0;
  std::uint64_t body_bytes = 0;
  bool single = false;  // one value, longer than run_bytes_max
};

// A part as the bytes of a file.
struct PackedPart {
  Part part;
  std::unique_ptr<std::byte[]> room = std::make_unique_for_overwrite<std::byte[]>(run_bytes_max);
  std::size_t byte_count = 0;
  std::vector<format::U64> checksums;
};

// The element of a list by entries; null where there is none.
template <class List>
auto* find_entry(const List& list, std::size_t entry) {
  const auto found = std::ranges::lower_bound(list, entry, {}, [](const auto& each) { return each.entry; });
  return found == list.end() || found->entry != entry ? nullptr : &*found;
}

class SnapshotValue {
 public:
  SnapshotValue(const Snapshot& snapshot, const Place& at) : snapshot_(snapshot), at_(at) {}

  [[nodiscard]] const keyspace::CutEntry& entry() const { return snapshot_.entries[at_.entry]; }
  [[nodiscard]] value::FrozenView view() const {
    const auto* const held = find_entry(snapshot_.held, at_.entry);
    return {
        .value = *entry().value,
        .numbers = std::span(snapshot_.numbers).subspan(at_.first_number, snapshot_.number_counts[at_.entry]),
        .still = held == nullptr ? nullptr : held->still.get()};
  }
  [[nodiscard]] Record record() const {
    return {.database = entry().database,
            .key = entry().key,
            .journal_position = snapshot_.journal_positions[at_.entry],
            .deadline = entry().deadline,
            .value = view()};
  }
  [[nodiscard]] std::uint64_t body_bytes() const { return value::row_of(*entry().value).body_bytes(view()); }
  // Without an identity where the value has none.
  [[nodiscard]] ValueState state() const {
    const auto* const known = find_entry(snapshot_.known, at_.entry);
    if (known == nullptr) return {};
    return {.database = entry().database,
            .key = entry().key,
            .deadline = entry().deadline,
            .identity = known->identity,
            .changes = known->changes};
  }

 private:
  const Snapshot& snapshot_;
  Place at_;
};

// The steps: sort the filters into those with a file of their own and those of the pack; link the files of
// filters that are unchanged; write the pack, and then the other files; call all_read(); write the MANIFEST.
// Each file is synced when it ends. So the MANIFEST never lists a file whose bytes may be lost.
//
// The names are given by the generation's number and by a count. So a linked file, which keeps its name,
// never meets a new one: its name has the number of an older generation.
class GenerationWriter {
 public:
  GenerationWriter(Disk& disk, const GenerationPlace& place, const Snapshot& snapshot,
                   const KnownFiles& known)
      : disk_(disk),
        place_(place),
        snapshot_(snapshot),
        known_(known),
        written_{.report = {}, .files = KnownFiles(place.folder)} {}

  Result<WrittenGeneration> run(const DataDirectoryOptions& options, const ProgressSink& progress,
                                const std::function<Result<void>()>& all_read) {
    SEPAL_ASSERT(snapshot_.number_counts.size() == snapshot_.entries.size(),
                 "a value of the snapshot is not frozen");
    SEPAL_ASSERT(snapshot_.journal_positions.size() == snapshot_.entries.size(),
                 "a filter of the snapshot has no position in the journal");
    SEPAL_ASSERT(place_.number != 0 && place_.number <= format::generation_number_max,
                 "a generation has a number that no name can have");
    sort_into_files(options);
    // Links come first: the rest is what has to be written. The predicate makes the link, and erase_if()
    // calls it exactly once for each filter.
    std::erase_if(own_, [this](const Place& at) { return link(SnapshotValue(snapshot_, at)); });
    ProgressMeter meter(progress, packed_bytes_ + bytes_of(own_));
    // Reports the total before the first write: if the disk is full at once, the saver still knows how much
    // room was missing.
    Result<void> done = meter.add(0);
    if (done && packed_count_ != 0) done = write_pack(options.thread_count, meter);
    for (std::size_t i = 0; i < own_.size() && done; ++i)
      done =
          write_own_file("filter-" + std::to_string(place_.number) + "-" + std::to_string(i), own_[i], meter);
    // All bits are read. The MANIFEST is not there yet, so an error here leaves nothing that a start could
    // take.
    if (done && all_read) done = all_read();
    if (done) done = write_last();
    if (!done) return done.error();
    return std::move(written_);
  }

 private:
  [[nodiscard]] std::uint64_t bytes_of(std::span<const Place> filters) const {
    std::uint64_t bytes = 0;
    for (const Place& at : filters) bytes += SnapshotValue(snapshot_, at).body_bytes();
    return bytes;
  }

  void sort_into_files(const DataDirectoryOptions& options) {
    for (std::size_t index = 0; index < snapshot_.runs.size(); ++index) {
      const Snapshot::Run& run = snapshot_.runs[index];
      const bool last = index + 1 == snapshot_.runs.size();
      const std::size_t end = last ? snapshot_.entries.size() : snapshot_.runs[index + 1].first_entry;
      const bool single = run.record_bytes > run_bytes_max;
      SEPAL_ASSERT(end > run.first_entry && (!single || end == run.first_entry + 1),
                   "a run of the snapshot has no value, or is too long");
      const Part part{.begin = {.entry = run.first_entry, .first_number = run.first_number},
                      .end = end,
                      .body_bytes = run.body_bytes,
                      .single = single};
      // Nearly always. The values are in no cache, so only runs that have a big one are looked through.
      if (run.body_bytes_max < options.own_file_bytes_min) {
        add_part(part);
      } else {
        sort_run(part, options.own_file_bytes_min);
      }
    }
  }

  void sort_run(Part part, std::uint64_t own_file_bytes_min) {
    const std::size_t end = part.end;
    part.body_bytes = 0;
    for (Place at = part.begin; at.entry < end; ++at.entry) {
      const std::uint64_t bytes = SnapshotValue(snapshot_, at).body_bytes();
      const std::size_t next_number = at.first_number + snapshot_.number_counts[at.entry];
      const bool own =
          bytes >= own_file_bytes_min && own_.size() + 1 < format::manifest_files_max;  // one is the pack's
      if (own) {
        own_.push_back(at);
        part.end = at.entry;
        add_part(part);
        part.begin = {.entry = at.entry + 1, .first_number = next_number};
        part.body_bytes = 0;
      } else {
        part.body_bytes += bytes;
      }
      at.first_number = next_number;
    }
    part.end = end;
    add_part(part);
  }

  void add_part(const Part& part) {
    if (part.begin.entry == part.end) return;
    parts_.push_back(part);
    packed_count_ += part.end - part.begin.entry;
    packed_bytes_ += part.body_bytes;
  }

  // The reason for a refused link does not matter: the file is written instead. For example, the file system
  // may have no links.
  //
  // The record in the linked file holds an older position in the journal, that of its counts. The counts have
  // not changed since, so the journal has nothing of the filter between there and this snapshot.
  bool link(const SnapshotValue& filter) {
    ValueState state = filter.state();
    const format::ListedFile* const file = known_.find(state);
    if (file == nullptr || !disk_.link(known_.folder() / file->name, place_.folder / file->name))
      return false;
    SEPAL_ASSERT(file->record_count == 1, "a file that is linked holds one filter");
    written_.report.linked_bytes += file->byte_count;
    ++filters_in_files_;
    files_.push_back(*file);
    written_.files.add(std::move(state), *file);
    return true;
  }

  Result<void> write_own_file(const std::string& name, const Place& at, ProgressMeter& meter) {
    const auto write = [&](SealedWriter&, RecordWriter& records) {
      return records.write_record(SnapshotValue(snapshot_, at).record());
    };
    if (auto done = write_filter_file({.name = name, .value_count = 1}, meter, write); !done) return done;
    // The state is that of the snapshot, although the bits were read later: an add in between changes the
    // count, and the next save then writes the file again (known_files.hpp).
    written_.files.add(SnapshotValue(snapshot_, at).state(), files_.back());
    return {};
  }

  // Several threads make the bytes of the parts. This one writes them, in their order.
  Result<void> write_pack(std::size_t thread_count, ProgressMeter& meter) {
    return write_filter_file(
        {.name = pack_name, .value_count = packed_count_}, meter,
        [&](SealedWriter& writer, RecordWriter& records) {
          OrderedWork work(thread_count, Helping::behind);
          std::vector<PackedPart> slots(std::min(work.slot_count(), parts_.size()));
          auto next = parts_.begin();
          return work.run(
              {.prepare = [&](std::size_t slot) -> Result<bool> {
                 if (next == parts_.end()) return false;
                 slots[slot].part = *next++;
                 return true;
               },
               .work = [&](std::size_t slot) { pack(slots[slot]); },
               .take = [&](std::size_t slot) { return write_part(slots[slot], writer, records, meter); }});
        });
  }

  void pack(PackedPart& packed) const {
    packed.byte_count = 0;
    packed.checksums.clear();
    if (packed.part.single) return;
    Place at = packed.part.begin;
    for (; at.entry < packed.part.end; ++at.entry) {
      if ((at.entry - packed.part.begin.entry) % asked_together == 0)
        ask_for(at.entry, std::min(at.entry + asked_together, packed.part.end));
      const SnapshotValue value(snapshot_, at);
      packed.byte_count += pack_record(
          value.record(), {packed.room.get() + packed.byte_count, run_bytes_max - packed.byte_count},
          packed.checksums);
      at.first_number += snapshot_.number_counts[at.entry];
    }
  }

  Result<void> write_part(const PackedPart& packed, SealedWriter& writer, RecordWriter& records,
                          ProgressMeter& meter) const {
    if (packed.part.single) return records.write_record(SnapshotValue(snapshot_, packed.part.begin).record());
    if (auto done = writer.append_sealed({packed.room.get(), packed.byte_count}, packed.checksums); !done)
      return done;
    return meter.add(packed.part.body_bytes);
  }

  struct NewFile {
    std::string name;
    std::uint64_t value_count = 0;
  };
  // `write_records` writes all records of the file.
  template <class WriteRecords>
  Result<void> write_filter_file(const NewFile& made, ProgressMeter& meter,
                                 const WriteRecords& write_records) {
    auto file = disk_.create(place_.folder / made.name);
    if (!file) return file.error();
    SealedWriter writer(std::move(*file), buffer_);
    RecordWriter records(writer, meter);
    if (auto done = records.write_header(made.value_count); !done) return done;
    if (auto done = write_records(writer, records); !done) return done;
    const auto sealed = writer.finish();
    if (!sealed) return sealed.error();
    filters_in_files_ += made.value_count;
    files_.push_back({.name = made.name,
                      .byte_count = sealed->byte_count,
                      .record_count = made.value_count,
                      .seal = sealed->seal});
    return {};
  }

  // Reads a byte of each value: where a prefetch finds no translation of the address, it may do nothing, and
  // with many values there is none. The rest of a value is mostly in the same page, so a prefetch asks for
  // it.
  void ask_for(std::size_t begin, std::size_t end) const {
    constexpr std::size_t line_bytes = 64;
    constexpr std::size_t lines = 3;  // a filter of the default size
    for (std::size_t entry = begin; entry < end; ++entry)
      static_cast<void>(__atomic_load_n(memory_of(entry), __ATOMIC_RELAXED));
    for (std::size_t entry = begin; entry < end; ++entry)
      for (std::size_t line = 1; line < lines; ++line)
        __builtin_prefetch(memory_of(entry) + line * line_bytes);
  }

  [[nodiscard]] const std::uint8_t* memory_of(std::size_t entry) const {
    return static_cast<const std::uint8_t*>(static_cast<const void*>(snapshot_.entries[entry].value.get()));
  }

  Result<void> write_last() {
    // A start refuses a MANIFEST whose sums are wrong. The older generation would be gone by then, so this
    // ends the process instead.
    SEPAL_ASSERT(filters_in_files_ == snapshot_.entries.size(),
                 "each filter is in one file of the generation");
    auto report = write_manifest(disk_, place_,
                                 {.generation = place_.number,
                                  .taken_at = manifest_time(snapshot_.taken_at),
                                  .filter_count = snapshot_.entries.size(),
                                  .item_count = snapshot_.item_count,
                                  .byte_count = 0,
                                  .journal_position = snapshot_.journal_position,
                                  .writer = {},
                                  .files = std::move(files_),
                                  .mirrors = snapshot_.mirrors});
    if (!report) return report.error();
    report->linked_bytes = written_.report.linked_bytes;
    written_.report = std::move(*report);
    return {};
  }

  Disk& disk_;
  const GenerationPlace& place_;
  const Snapshot& snapshot_;
  const KnownFiles& known_;
  SaveBuffer buffer_;
  std::vector<Part> parts_;  // of the pack
  std::uint64_t packed_count_ = 0;
  std::uint64_t packed_bytes_ = 0;
  std::vector<Place> own_;
  std::vector<format::ListedFile> files_;
  WrittenGeneration written_;
  std::size_t filters_in_files_ = 0;
};

}  // namespace

std::uint64_t generation_bytes(const Snapshot& snapshot) {
  std::uint64_t bytes = 0;
  for (const Snapshot::Run& run : snapshot.runs) bytes += run.record_bytes;
  return bytes;
}

Result<WrittenGeneration> write_generation(Disk& disk, const GenerationPlace& place, const Snapshot& snapshot,
                                           const KnownFiles& known, const DataDirectoryOptions& options,
                                           const ProgressSink& progress,
                                           const std::function<Result<void>()>& all_read) {
  return GenerationWriter(disk, place, snapshot, known).run(options, progress, all_read);
}

}  // namespace sepal::storage
