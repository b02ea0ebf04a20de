#include "storage/generation/generation_reader.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/disk/damage.hpp"
#include "storage/disk/ordered_work.hpp"
#include "storage/format/sealed_reader.hpp"
#include "storage/generation/record_slice.hpp"

namespace sepal::storage {
namespace {

// Filters that are handed over together. Enough of them, so that closing the gate is a small part of the
// work; few enough, so that the gate is closed for a fraction of a millisecond only.
constexpr std::size_t batch_filters_max = 256;
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

struct SliceWork {
  RecordSlice slice;
  Result<void> decoded;
};

// Reads the MANIFEST, then the files in its order, each from front to back. What a file says of itself is
// compared with what the MANIFEST lists of it, the cheapest first: the size, the count of records, and the
// seal at the end. A whole file of another time fails one of these, although its own checksums are right.
class GenerationReader {
 public:
  GenerationReader(Disk& disk, const GenerationPlace& place, const value::Limits& limits,
                   const LoadSink& sink, const DamagedFileSink& damaged, const ReadOptions& options)
      : disk_(disk),
        place_(place),
        limits_(limits),
        sink_(sink),
        damaged_(damaged),
        options_(options),
        work_(options.thread_count, Helping::beside),
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
    RecordReader records(reader, limits_, meter, options_.bits, options_.thread_count);
    const auto count = records.read_header();
    if (!count) return named(path, count.error());
    if (auto right = check_count(*count, listed); !right) return about(path, right.error());
    ValueState own;
    for (std::uint64_t left = *count; left > 0;) {
      // A file of one record is read by one thread, unless its body is big (RecordReader).
      if (*count > 1) {
        auto read = read_slices(reader, left, meter);
        if (!read) return named(path, read.error());
        left = *read;
        if (left == 0) break;
      }
      // The next record goes into no slice: it is long, or damaged, or the file ends.
      auto loaded = records.read_record();
      if (!loaded) return named(path, loaded.error());
      items_ += loaded->item_count;
      // Before the sink takes the filter and leaves null behind. With several records `own` stays empty. It
      // has no identity then, so files_.add() leaves it out.
      if (*count == 1) own = state_of(*loaded);
      if (auto handed = hand_over({&*loaded, 1}); !handed) return named(path, handed.error());
      --left;
    }
    if (reader.remaining() != 0)
      return about(path, damaged_at(reader.offset(), "something stands behind its last filter"));
    if (auto right = check_seal(reader.seal(), listed); !right) return about(path, right.error());
    // A pack is never linked, because it has the same name in each generation.
    if (!listed.name.starts_with(pack_prefix)) files_.add(std::move(own), listed);
    return {};
  }

  // Reads records that slices take. Other threads check them and make their values, in the order of the file
  // they are handed over. Returns how many of the `left` records are left.
  Result<std::uint64_t> read_slices(SealedReader& reader, std::uint64_t left, ProgressMeter& meter) {
    if (!next_is_short(reader)) return left;
    if (slices_.empty()) slices_.resize(work_.slot_count());
    std::uint64_t offset = reader.offset();
    std::uint64_t unread = left;
    const auto done =
        work_.run({.prepare = [&](std::size_t slot) -> Result<bool> {
                     if (unread == 0) return false;
                     RecordSlice& slice = slices_[slot].slice;
                     const auto read =
                         slice.read(reader.file(), {.offset = offset,
                                                    .file_bytes = reader.offset() + reader.remaining(),
                                                    .record_count_max = unread});
                     if (!read) return read.error();
                     offset = slice.end();
                     unread -= slice.record_count();
                     return slice.record_count() > 0;
                   },
                   .work =
                       [&](std::size_t slot) {
                         slices_[slot].decoded = slices_[slot].slice.decode(limits_, options_.bits);
                       },
                   .take = [&](std::size_t slot) -> Result<void> {
                     SliceWork& work = slices_[slot];
                     if (!work.decoded) return work.decoded;
                     reader.accept_read(work.slice.checksums(), work.slice.end());
                     items_ += work.slice.item_count();
                     if (auto go_on = meter.add(work.slice.end() - work.slice.begin()); !go_on) return go_on;
                     return hand_over(work.slice.values());
                   }});
    if (!done) return done.error();
    return unread;
  }

  // Whether a slice takes the next record. What the reader cannot read, it tells when it reads the record.
  static bool next_is_short(SealedReader& reader) {
    const auto bytes = reader.peek(sizeof(format::RecordHead));
    if (!bytes) return false;
    format::RecordHead head;
    std::memcpy(&head, bytes->data(), sizeof head);
    return RecordSlice::takes(head);
  }

  // The sink gets filters before the seal of the whole file is checked. A later error ends the load, so a
  // start never serves them.
  Result<void> hand_over(std::span<LoadedValue> values) {
    for (LoadedValue& loaded : values) loaded.cut_position = cut_position_;
    while (!values.empty()) {
      const auto batch = values.first(std::min(values.size(), batch_filters_max));
      if (const auto taken = sink_(batch); !taken)
        return refused_by_sink(taken.error(), offset_of_refused(batch));
      values = values.subspan(batch.size());
    }
    return {};
  }

  static std::uint64_t offset_of_refused(std::span<const LoadedValue> batch) {
    const auto refused =
        std::ranges::find_if(batch, [](const auto& loaded) { return loaded.value != nullptr; });
    return refused == batch.end() ? 0 : refused->offset;
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
  ReadOptions options_;
  OrderedWork work_;
  std::vector<SliceWork> slices_;  // by the slots of work_; made when a file has two records
  LoadBuffer buffer_;
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
  return damaged_at(0, "its count of keys is not that of the MANIFEST");
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
                                       const DamagedFileSink& damaged, const ReadOptions& options) {
  return GenerationReader(disk, place, limits, sink, damaged, options).run(progress);
}

}  // namespace sepal::storage
