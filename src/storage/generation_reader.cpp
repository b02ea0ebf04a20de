#include "generation_reader.hpp"

#include <memory>
#include <string>
#include <utility>

#include "damage.hpp"
#include "record_reader.hpp"
#include "sealed_reader.hpp"

namespace sepal::storage {
namespace {

// What CURRENT or a MANIFEST names has to be there.
Error missing_is_damage(const Error& error, const std::string& what) {
  if (error.code != Errc::not_found) return error;
  return fail(Errc::damaged, error.detail + " (" + what + " names it)");
}

// What the sink says of a filter, with a sentence where it said none.
Error refused_by_sink(const Error& error, std::uint64_t offset) {
  const std::string where = "has a filter at offset " + std::to_string(offset) + " that cannot be taken";
  if (!error.detail.empty()) return fail(error.code, where + ": " + error.detail);
  switch (error.code) {
    case Errc::memory_limit:
    case Errc::too_large:
      return fail(error.code, where + ": the memory limit would be exceeded; raise maxmemory");
    case Errc::key_limit:
      return fail(error.code, where + ": there are as many keys as there may be; raise keys_max");
    default:
      return fail(error.code, where);
  }
}

Result<format::Manifest> read_manifest(Disk& disk, const Path& path) {
  auto file = disk.open(path);
  if (!file) return missing_is_damage(file.error(), "CURRENT");
  const auto size = (*file)->size();
  if (!size) return size.error();
  if (*size > format::manifest_bytes_max)
    return about(path.string(), damaged_at(0, "it is longer than a manifest can be"));
  std::vector<std::byte> bytes(static_cast<std::size_t>(*size));
  const auto read = (*file)->read_at(0, bytes);
  if (!read) return read.error();
  auto manifest = format::decode_manifest(std::span(bytes).first(*read));
  if (!manifest) return about(path.string(), manifest.error());
  return manifest;
}

class GenerationReader {
 public:
  GenerationReader(Disk& disk, const GenerationPlace& place, const filter::FilterLimits& limits,
                   const LoadSink& sink)
      : disk_(disk), place_(place), limits_(limits), sink_(sink) {}

  Result<GenerationReport> run(const ProgressSink& progress) {
    const Path manifest_path = place_.folder / "MANIFEST";
    const auto manifest = read_manifest(disk_, manifest_path);
    if (!manifest) return manifest.error();
    if (manifest->generation != place_.number)
      return about(
          manifest_path.string(),
          damaged_at(0, "it belongs to " + std::to_string(manifest->generation) + ", another generation"));
    ProgressMeter meter(progress, manifest->byte_count);
    for (const format::ListedFile& listed : manifest->files) {
      if (auto done = read_file(listed, meter); !done) return done.error();
    }
    if (items_ != manifest->item_count)
      return about(manifest_path.string(), damaged_at(0, "its count of items is not that of the filters"));
    return GenerationReport{.name = format::generation_name(place_.number),
                            .filters = manifest->filter_count,
                            .bytes = manifest->byte_count + format::encode(*manifest).size(),
                            .journal_position = manifest->journal_position};
  }

 private:
  Result<void> read_file(const format::ListedFile& listed, ProgressMeter& meter) {
    const Path path = place_.folder / listed.name;
    auto file = disk_.open(path);
    if (!file) return missing_is_damage(file.error(), (place_.folder / "MANIFEST").string());
    const auto size = (*file)->size();
    if (!size) return size.error();
    if (*size != listed.byte_count)
      return about(path.string(), damaged_at(*size < listed.byte_count ? *size : listed.byte_count,
                                             "it has " + std::to_string(*size) + " bytes and should have " +
                                                 std::to_string(listed.byte_count)));
    SealedReader reader(**file, *size, buffer_);
    return read_records(listed, reader, meter);
  }

  Result<void> read_records(const format::ListedFile& listed, SealedReader& reader, ProgressMeter& meter) {
    const std::string path = (place_.folder / listed.name).string();
    RecordReader records(reader, limits_, meter);
    const auto count = records.read_header();
    if (!count) return named(path, count.error());
    if (*count != listed.record_count)
      return about(path, damaged_at(0, "its count of filters is not that of the MANIFEST"));
    for (std::uint64_t i = 0; i < *count; ++i) {
      auto record = records.read_record();
      if (!record) return named(path, record.error());
      items_ += record->loaded.filter->item_count();
      const auto taken = sink_(std::move(record->loaded));
      if (!taken) return about(path, refused_by_sink(taken.error(), record->offset));
    }
    if (reader.remaining() != 0)
      return about(path, damaged_at(reader.offset(), "something stands behind its last filter"));
    if (reader.seal() != listed.seal)
      return about(path, damaged_at(0, "its checksums are not those that the MANIFEST sealed"));
    return {};
  }

  // What is wrong with the bytes says so without the file's name; what the disk says has it already.
  static Error named(const std::string& path, const Error& error) {
    const bool of_disk = error.code == Errc::io || error.code == Errc::disk_full ||
                         error.code == Errc::read_only || error.code == Errc::not_found;
    return of_disk ? error : about(path, error);
  }

  Disk& disk_;
  const GenerationPlace& place_;
  const filter::FilterLimits& limits_;
  const LoadSink& sink_;
  LoadBuffer buffer_;
  std::uint64_t items_ = 0;
};

}  // namespace

Result<GenerationReport> read_generation(Disk& disk, const GenerationPlace& place,
                                         const filter::FilterLimits& limits, const LoadSink& sink,
                                         const ProgressSink& progress) {
  return GenerationReader(disk, place, limits, sink).run(progress);
}

}  // namespace sepal::storage
