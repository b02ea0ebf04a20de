#include <sepal/base/assert.hpp>
#include <sepal/storage/generation/filter_file.hpp>

#include <memory>
#include <utility>

#include "storage/disk/damage.hpp"
#include "storage/format/sealed_reader.hpp"
#include "storage/format/sealed_writer.hpp"
#include "storage/generation/progress_meter.hpp"
#include "storage/generation/record_reader.hpp"
#include "storage/generation/record_writer.hpp"

namespace sepal::storage {
namespace {

template <class WriteRecord>
Result<WrittenFile> write_synced(std::unique_ptr<File> to, std::uint64_t bitmap_bytes,
                                 const ProgressSink& progress, const WriteRecord& write_record) {
  SaveBuffer buffer;
  SealedWriter writer(std::move(to), buffer);
  ProgressMeter meter(progress, bitmap_bytes);
  RecordWriter records(writer, meter);
  Result<void> done = records.write_header(1);
  if (done) done = write_record(records);
  if (!done) return done.error();
  const auto sealed = writer.finish();
  if (!sealed) return sealed.error();
  return WrittenFile{.byte_count = sealed->byte_count, .seal = sealed->seal};
}

template <class WriteRecord>
Result<WrittenFile> write_in_place(Disk& disk, const Path& target, std::uint64_t bitmap_bytes,
                                   const ProgressSink& progress, const WriteRecord& write_record) {
  // In the same directory, because a rename across file systems fails. The file is synced before it is
  // renamed: otherwise a power cut could leave the target's name on an empty file.
  auto aside = disk.create_aside(target);
  if (!aside) return aside.error();
  auto written = write_synced(std::move(aside->file), bitmap_bytes, progress, write_record);
  const Result<void> renamed = written ? disk.rename(aside->path, target) : written.error();
  if (!renamed) {
    // Reports the first error, not one of the clean-up.
    static_cast<void>(disk.remove(aside->path));
    return renamed.error();
  }
  // If this fails, the file stays under its name: it is whole, and only a power cut could still take the name
  // away.
  if (auto synced = disk.sync_directory(target.parent_path()); !synced) return synced.error();
  return written;
}

Result<FilterFile> read_only_record(SealedReader& reader, const value::Limits& limits, ProgressMeter& meter) {
  RecordReader records(reader, limits, meter);
  const auto count = records.read_header();
  if (!count) return count.error();
  // No damage: a pack of a generation may be a file that is whole. It is just no file to import.
  if (*count != 1)
    return fail(Errc::out_of_range, "holds " + std::to_string(*count) + " keys instead of one");
  auto loaded = records.read_record();
  if (!loaded) return loaded.error();
  if (reader.remaining() != 0) return damaged_at(reader.offset(), "something stands behind its filter");
  return FilterFile{.key = std::move(loaded->key), .value = std::move(loaded->value), .seal = reader.seal()};
}

}  // namespace

Result<WrittenFile> write_filter_file(Disk& disk, const Path& target, std::string_view key,
                                      const value::FrozenView& value, const ProgressSink& progress) {
  SEPAL_ASSERT(key.size() <= keyspace::key_bytes_max, "a key is within its limit");
  return write_in_place(
      disk, target, value::row_of(value.value).body_bytes(value), progress,
      [&](RecordWriter& records) { return records.write_record({.key = key, .value = value}); });
}

Result<WrittenFile> write_filter_file(Disk& disk, const Path& target, const StreamedFilter& filter,
                                      const ProgressSink& progress) {
  SEPAL_ASSERT(filter.key.size() <= keyspace::key_bytes_max, "a key is within its limit");
  StreamedFilter stored = filter;
  stored.database = 0;
  stored.deadline = keyspace::no_deadline;
  return write_in_place(disk, target, filter.body_bytes, progress,
                        [&](RecordWriter& records) { return records.write_streamed(stored); });
}

Result<FilterFile> read_filter_file(Disk& disk, const Path& path, const value::Limits& limits,
                                    const ProgressSink& progress) {
  auto file = disk.open(path);
  if (!file) return file.error();
  return read_filter_file(**file, path, limits, progress);
}

Result<FilterFile> read_filter_file(File& file, const Path& name, const value::Limits& limits,
                                    const ProgressSink& progress) {
  const auto size = file.size();
  if (!size) return size.error();
  LoadBuffer buffer;
  SealedReader reader(file, *size, buffer);
  ProgressMeter meter(progress, *size);
  auto read = read_only_record(reader, limits, meter);
  // Errors of the disk have the name already.
  if (read || read.error().code == Errc::io) return read;
  return about(name.string(), read.error());
}

}  // namespace sepal::storage
