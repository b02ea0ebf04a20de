#include "storage/generation/generation_import.hpp"

#include <sepal/storage/format/snapshot_format.hpp>

#include <optional>
#include <string>
#include <utility>

#include "storage/format/sealed_writer.hpp"
#include "storage/generation/manifest_writer.hpp"
#include "storage/generation/progress_meter.hpp"
#include "storage/generation/record_writer.hpp"

namespace sepal::storage {
namespace {

// Goes through the stream twice. The first time it counts: the pack's header says how many records follow,
// and the manifest may list a limited number of files, so a large filter may have to go into the pack. The
// second time it writes.
//
// Nothing ties the two passes together, because the stream reads files that may be replaced in between. So
// the second pass decides as the first did (the first own_count_ large filters get files), it never writes
// more records than a header announces, and run() compares what both have seen. If they differ, no MANIFEST
// is written, so nothing of it is ever read.
class GenerationImport {
 public:
  GenerationImport(Disk& disk, const GenerationPlace& place, FilterStream& filters, WallTime now,
                   const DataDirectoryOptions& options)
      : disk_(disk), place_(place), filters_(filters), options_(options) {
    manifest_.generation = place.number;
    manifest_.taken_at = manifest_time(now);
  }

  Result<GenerationReport> run(const ProgressSink& progress) {
    Result<void> done = for_each([this](const StreamedFilter& filter) { return count(filter); });
    if (!done) return done.error();
    manifest_.filter_count = counted_.filters;
    manifest_.item_count = counted_.items;
    own_left_ = own_count_;
    packed_left_ = packed_count_;
    ProgressMeter meter(progress, counted_.bitmap_bytes);
    if (packed_count_ != 0) done = begin_pack(meter);
    if (done) done = for_each([&](const StreamedFilter& filter) { return write(filter, meter); });
    // Here, because the sums of the manifest are those of the first pass. A start would refuse a generation
    // with other sums.
    if (done && written_ != counted_) done = changed();
    if (done && pack_) done = end_file(packed_name, packed_count_, *pack_);
    if (!done) return done.error();
    return write_manifest(disk_, place_, std::move(manifest_));
  }

 private:
  static constexpr const char* packed_name = "pack-0";

  // What one pass has seen.
  struct Seen {
    std::uint64_t filters = 0;
    std::uint64_t items = 0;
    std::uint64_t bitmap_bytes = 0;

    void add(const StreamedFilter& filter) {
      ++filters;
      bitmap_bytes += filter.body_bytes;
      items += filter.item_count;
    }
    bool operator==(const Seen&) const = default;
  };

  template <class Work>
  Result<void> for_each(const Work& work) {
    if (auto done = filters_.rewind(); !done) return done;
    for (;;) {
      const auto filter = filters_.next();
      if (!filter) return filter.error();
      if (*filter == nullptr) return {};
      if (auto done = work(**filter); !done) return done;
    }
  }

  [[nodiscard]] bool is_large(const StreamedFilter& filter) const {
    return filter.body_bytes >= options_.own_file_bytes_min;
  }

  Result<void> count(const StreamedFilter& filter) {
    counted_.add(filter);
    const bool own = is_large(filter) && own_count_ + 1 < format::manifest_files_max;  // one is the pack's
    ++(own ? own_count_ : packed_count_);
    return {};
  }

  // The file that the filters come from may be replaced while it is read for the second time.
  static Error changed() {
    return fail(Errc::damaged, "the filters changed while they were read: the second time there were others");
  }

  Result<void> begin_pack(ProgressMeter& meter) {
    auto file = disk_.create(place_.folder / packed_name);
    if (!file) return file.error();
    pack_.emplace(std::move(*file), pack_buffer_);
    return RecordWriter(*pack_, meter).write_header(packed_count_);
  }

  Result<void> write(const StreamedFilter& filter, ProgressMeter& meter) {
    written_.add(filter);
    const bool own = is_large(filter) && own_left_ != 0;
    std::uint64_t& left = own ? own_left_ : packed_left_;
    // One filter more than was counted. It must not be written: the header of its file is written already.
    if (left == 0) return changed();
    --left;
    if (!own) return RecordWriter(*pack_, meter).write_streamed(filter);
    const std::string name =
        "filter-" + std::to_string(place_.number) + "-" + std::to_string(own_count_ - own_left_ - 1);
    auto file = disk_.create(place_.folder / name);
    if (!file) return file.error();
    SealedWriter writer(std::move(*file), own_buffer_);
    RecordWriter records(writer, meter);
    Result<void> done = records.write_header(1);
    if (done) done = records.write_streamed(filter);
    return done ? end_file(name, 1, writer) : done;
  }

  Result<void> end_file(const std::string& name, std::uint64_t record_count, SealedWriter& writer) {
    const auto sealed = writer.finish();
    if (!sealed) return sealed.error();
    manifest_.files.push_back(
        {.name = name, .byte_count = sealed->byte_count, .record_count = record_count, .seal = sealed->seal});
    return {};
  }

  Disk& disk_;
  const GenerationPlace& place_;
  FilterStream& filters_;
  const DataDirectoryOptions& options_;
  // Two buffers, because the pack stays open while the large filters between its records are written to their
  // files.
  SaveBuffer pack_buffer_;
  SaveBuffer own_buffer_;
  std::optional<SealedWriter> pack_;
  format::Manifest manifest_;
  Seen counted_;
  Seen written_;
  std::uint64_t packed_count_ = 0;
  std::uint64_t own_count_ = 0;
  std::uint64_t own_left_ = 0;
  std::uint64_t packed_left_ = 0;
};

}  // namespace

Result<GenerationReport> import_generation(Disk& disk, const GenerationPlace& place, FilterStream& filters,
                                           WallTime now, const DataDirectoryOptions& options,
                                           const ProgressSink& progress) {
  return GenerationImport(disk, place, filters, now, options).run(progress);
}

}  // namespace sepal::storage
