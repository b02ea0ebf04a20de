#include "storage/generation/generation_reader.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "storage/disk/damage.hpp"
#include "storage/format/sealed_reader.hpp"

namespace sepal::storage {
namespace {

// Filters that are handed over together. Enough of them, so that closing the gate is a small part of the
// work; few enough, so that the gate is closed for a fraction of a millisecond only. A batch of
// batch_bytes_min is handed over even if it has fewer filters.
constexpr std::size_t batch_filters_max = 256;
constexpr std::uint64_t batch_bytes_min = std::uint64_t{1} << 20;
constexpr std::string_view pack_prefix = "pack-";

// A missing file is damage if CURRENT or a MANIFEST names it.
Error missing_is_damage(const Error& error, const std::string& what) {
  if (error.code != Errc::not_found) return error;
  return fail(Errc::damaged, error.detail + " (" + what + " names it)");
}

// The error with which the sink refused a filter, with a sentence if it has none.
Error refused_by_sink(const Error& error, std::uint64_t offset) {
  const std::string where = "has a filter at offset " + std::to_string(offset) + " that cannot be taken";
  if (!error.detail.empty()) return fail(error.code, where + ": " + error.detail);
  switch (error.code) {
    case Errc::memory_limit:
    case Errc::too_large:
      return fail(error.code, where + ": the memory limit would be exceeded; raise maxmemory");
    case Errc::key_limit:
      return fail(error.code, where + ": there are as many keys as there may be; raise keys_max");
    default: return fail(error.code, where);
  }
}

// Reads the MANIFEST, then the files in its order, each from front to back. What a file says of itself is
// compared with what the MANIFEST lists of it, the cheapest first: the size, the count of records, and the
// seal at the end. A whole file of another time fails one of these, although its own checksums are right.
class GenerationReader {
 public:
  GenerationReader(Disk& disk, const GenerationPlace& place, const value::Limits& limits,
                   const LoadSink& sink, const DamagedFileSink& damaged, Bits bits)
      : disk_(disk),
        place_(place),
        limits_(limits),
        sink_(sink),
        damaged_(damaged),
        bits_(bits),
        files_(place.folder) {}

  Result<ReadGeneration> run(const ProgressSink& progress) {
    const Path manifest_path = place_.folder / "MANIFEST";
    const auto manifest = read_manifest(disk_, manifest_path);
    if (!manifest) return missing_is_damage(manifest.error(), "CURRENT");
    // A folder that was renamed verifies in itself, but its cut belongs to another place in the journal.
    if (auto right = check_number(manifest->generation, place_); !right) return right.error();
    cut_position_ = manifest->journal_position;
    ProgressMeter meter(progress, manifest->byte_count);
    bool whole = true;
    for (const format::ListedFile& listed : manifest->files) {
      const auto done = read_file(listed, meter);
      if (!done && !(damaged_ && is_lasting(done.error()))) return done.error();
      if (!done) damaged_(place_.folder / listed.name, done.error());
      whole = whole && done;
    }
    // Left out after a damaged file, because its items were not counted.
    if (whole && items_ != manifest->item_count)
      return about(manifest_path.string(), damaged_at(0, "its count of items is not that of the filters"));
    return ReadGeneration{.report = {.name = format::generation_name(place_.number),
                                     .value_count = manifest->filter_count,
                                     .bytes = manifest->byte_count + format::encode(*manifest).size(),
                                     .linked_bytes = 0,
                                     .journal_position = manifest->journal_position,
                                     .run = manifest->run,
                                     .mirrors = manifest->mirrors},
                          .files = std::move(files_)};
  }

 private:
  Result<void> read_file(const format::ListedFile& listed, ProgressMeter& meter) {
    const Path path = place_.folder / listed.name;
    auto file = disk_.open(path);
    if (!file) return missing_is_damage(file.error(), (place_.folder / "MANIFEST").string());
    const auto size = (*file)->size();
    if (!size) return size.error();
    // A file that was cut off is named as such before gigabytes of it are read.
    if (auto right = check_size(*size, listed); !right) return about(path.string(), right.error());
    SealedReader reader(**file, *size, buffer_);
    return read_records(listed, reader, meter);
  }

  Result<void> read_records(const format::ListedFile& listed, SealedReader& reader, ProgressMeter& meter) {
    const std::string path = (place_.folder / listed.name).string();
    RecordReader records(reader, limits_, meter, bits_);
    const auto count = records.read_header();
    if (!count) return named(path, count.error());
    if (auto right = check_count(*count, listed); !right) return about(path, right.error());
    ValueState own;
    for (std::uint64_t left = *count; left > 0; left -= batch_.size()) {
      if (auto read = read_batch(records, left); !read) return named(path, read.error());
      // Before the sink takes the filter and leaves null behind. With several records `own` stays empty. It
      // has no identity then, so files_.add() leaves it out.
      if (*count == 1) own = state_of(batch_.front());
      // The sink gets filters before the seal of the whole file is checked. A later error ends the load, so a
      // start never serves them.
      if (const auto taken = sink_(batch_); !taken)
        return about(path, refused_by_sink(taken.error(), offset_of_refused()));
    }
    if (reader.remaining() != 0)
      return about(path, damaged_at(reader.offset(), "something stands behind its last filter"));
    if (auto right = check_seal(reader.seal(), listed); !right) return about(path, right.error());
    // A pack is never linked, because it has the same name in each generation.
    if (!listed.name.starts_with(pack_prefix)) files_.add(std::move(own), listed);
    return {};
  }

  // Fills batch_ with at least one of the `left` records that are still to be read.
  Result<void> read_batch(RecordReader& records, std::uint64_t left) {
    batch_.clear();
    std::uint64_t bytes = 0;
    // The sink is called with the batch when this has returned. So an error here loses the filters before it:
    // a load ends anyway, and salvage reads records by itself (record_salvage.hpp).
    while (batch_.size() < left && batch_.size() < batch_filters_max && bytes < batch_bytes_min) {
      auto loaded = records.read_record();
      if (!loaded) return loaded.error();
      loaded->cut_position = cut_position_;
      items_ += value::row_of(*loaded->value).item_count(*loaded->value);
      bytes += value::row_of(*loaded->value).byte_count(*loaded->value);
      batch_.push_back(std::move(*loaded));
    }
    return {};
  }

  [[nodiscard]] std::uint64_t offset_of_refused() const {
    const auto refused =
        std::ranges::find_if(batch_, [](const auto& loaded) { return loaded.value != nullptr; });
    return refused == batch_.end() ? 0 : refused->offset;
  }

  // A file that describes an impossible filter is damaged, too.
  static bool is_lasting(const Error& error) { return is_damage(error) || is_over_limit(error); }

  static ValueState state_of(const LoadedValue& loaded) {
    const value::KindRow& row = value::row_of(*loaded.value);
    return {.database = loaded.database,
            .key = loaded.key,
            .deadline = loaded.deadline,
            .identity = row.identity(*loaded.value),
            .changes = row.changes(*loaded.value)};
  }

  // Errors about bytes lack the file's name; errors of the disk have it already.
  static Error named(const std::string& path, const Error& error) {
    const bool of_disk = error.code == Errc::io || error.code == Errc::disk_full ||
                         error.code == Errc::read_only || error.code == Errc::not_found;
    return of_disk ? error : about(path, error);
  }

  Disk& disk_;
  const GenerationPlace& place_;
  const value::Limits& limits_;
  const LoadSink& sink_;
  const DamagedFileSink& damaged_;
  Bits bits_;
  LoadBuffer buffer_;
  std::vector<LoadedValue> batch_;
  KnownFiles files_;
  std::uint64_t items_ = 0;
  std::uint64_t cut_position_ = 0;
};

}  // namespace

Result<void> check_number(std::uint64_t number, const GenerationPlace& place) {
  if (number == place.number) return {};
  return about((place.folder / "MANIFEST").string(),
               damaged_at(0, "it belongs to " + std::to_string(number) + ", another generation"));
}

Result<void> check_size(std::uint64_t byte_count, const format::ListedFile& listed) {
  if (byte_count == listed.byte_count) return {};
  return damaged_at(
      std::min(byte_count, listed.byte_count),
      "it has " + std::to_string(byte_count) + " bytes and should have " + std::to_string(listed.byte_count));
}

Result<void> check_count(std::uint64_t record_count, const format::ListedFile& listed) {
  if (record_count == listed.record_count) return {};
  return damaged_at(0, "its count of filters is not that of the MANIFEST");
}

Result<void> check_seal(std::uint64_t seal, const format::ListedFile& listed) {
  if (seal == listed.seal) return {};
  return damaged_at(0, "its checksums are not those that the MANIFEST sealed");
}

Result<format::Manifest> read_manifest(Disk& disk, const Path& path) {
  auto file = disk.open(path);
  if (!file) return file.error();
  const auto size = (*file)->size();
  if (!size) return size.error();
  if (*size > format::manifest_bytes_max)
    return about(path.string(), damaged_at(0, "it is longer than a manifest can be"));
  // The size is within the limit here, so a false one cannot take the memory of the machine.
  std::vector<std::byte> bytes(static_cast<std::size_t>(*size));
  const auto read = (*file)->read_at(0, bytes);
  if (!read) return read.error();
  // Fewer bytes than the size says were read if the file has just become shorter. Then it is damaged.
  auto manifest = format::decode_manifest(std::span(bytes).first(*read));
  if (!manifest) return about(path.string(), manifest.error());
  return manifest;
}

Result<ReadGeneration> read_generation(Disk& disk, const GenerationPlace& place, const value::Limits& limits,
                                       const LoadSink& sink, const ProgressSink& progress,
                                       const DamagedFileSink& damaged, Bits bits) {
  return GenerationReader(disk, place, limits, sink, damaged, bits).run(progress);
}

}  // namespace sepal::storage
