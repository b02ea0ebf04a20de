#include "generation_writer.hpp"

#include <sepal/filter/image.hpp>

#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "progress_meter.hpp"
#include "sealed_writer.hpp"

namespace sepal::storage {
namespace {

constexpr const char* pack_name = "pack-0";
static_assert(std::string_view(SEPAL_VERSION).size() <= format::writer_bytes_max);

// Where one filter of a snapshot stands in its two lists.
struct Position {
  std::size_t entry = 0;
  std::size_t first_layer = 0;
};

std::uint64_t bitmap_bytes_of(const Snapshot& snapshot, const Position& at) {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < snapshot.layer_counts[at.entry]; ++i)
    bytes += snapshot.layers[at.first_layer + i].view.plan().byte_count();
  return bytes;
}

filter::ImageHeader image_header_of(const Snapshot& snapshot, const Position& at) {
  filter::ImageHeader header{.options = snapshot.entries[at.entry].filter->options(), .layers = {}};
  for (std::uint32_t i = 0; i < snapshot.layer_counts[at.entry]; ++i) {
    const Snapshot::Layer& layer = snapshot.layers[at.first_layer + i];
    header.layers.push_back({.plan = layer.view.plan(), .item_count = layer.item_count});
  }
  return header;
}

// Runs through the bitmaps of one filter as if they were one.
class BitmapReader {
 public:
  BitmapReader(const Snapshot& snapshot, const Position& at) : layer_(&snapshot.layers[at.first_layer]) {}

  // As many bytes as fit; the caller asks for no more than there are.
  void copy_next(std::span<std::byte> to) {
    while (!to.empty()) {
      const std::uint64_t left = layer_->view.plan().byte_count() - offset_;
      const std::size_t count = left < to.size() ? static_cast<std::size_t>(left) : to.size();
      layer_->view.copy_bits(offset_, to.first(count));
      to = to.subspan(count);
      offset_ += count;
      if (offset_ < layer_->view.plan().byte_count()) continue;
      ++layer_;
      offset_ = 0;
    }
  }

 private:
  const Snapshot::Layer* layer_;
  std::uint64_t offset_ = 0;
};

class GenerationWriter {
 public:
  GenerationWriter(Disk& disk, const GenerationPlace& place, const Snapshot& snapshot,
                   const ProgressSink& progress)
      : disk_(disk), place_(place), snapshot_(snapshot), meter_(progress, total_bytes(snapshot)) {}

  Result<GenerationReport> run(const DataDirectoryOptions& options) {
    SEPAL_ASSERT(snapshot_.layer_counts.size() == snapshot_.entries.size(), "a snapshot without its layers");
    sort_into_files(options);
    Result<void> done = packed_.empty() ? Result<void>() : write_filter_file(pack_name, packed_);
    for (std::size_t i = 0; i < own_.size() && done; ++i)
      done = write_filter_file("filter-" + std::to_string(i), std::span(own_).subspan(i, 1));
    if (!done) return done.error();
    return write_manifest();
  }

 private:
  static std::uint64_t total_bytes(const Snapshot& snapshot) {
    std::uint64_t bytes = 0;
    for (const Snapshot::Layer& layer : snapshot.layers) bytes += layer.view.plan().byte_count();
    return bytes;
  }

  void sort_into_files(const DataDirectoryOptions& options) {
    Position at;
    for (; at.entry < snapshot_.entries.size(); ++at.entry) {
      const bool own = bitmap_bytes_of(snapshot_, at) >= options.own_file_bytes_min &&
                       own_.size() + 1 < format::manifest_files_max;  // one is the pack's
      (own ? own_ : packed_).push_back(at);
      at.first_layer += snapshot_.layer_counts[at.entry];
    }
  }

  Result<void> write_filter_file(const std::string& name, std::span<const Position> filters) {
    auto file = disk_.create(place_.folder / name);
    if (!file) return file.error();
    SealedWriter writer(std::move(*file), buffer_);
    Result<void> done = write_header(writer, filters.size());
    for (std::size_t i = 0; i < filters.size() && done; ++i) done = write_record(writer, filters[i]);
    if (!done) return done;
    const auto sealed = writer.finish();
    if (!sealed) return sealed.error();
    files_.push_back({.name = name,
                      .byte_count = sealed->byte_count,
                      .record_count = filters.size(),
                      .seal = sealed->seal});
    return {};
  }

  static Result<void> write_header(SealedWriter& writer, std::uint64_t record_count) {
    format::FilterFileHeader header;
    header.record_count = record_count;
    const auto fields = format::bytes_of(header).first(sizeof header - format::checksum_bytes);
    if (auto done = writer.append(fields); !done) return done;
    return writer.append_checksum(Checksum::of(fields));
  }

  Result<void> write_record(SealedWriter& writer, const Position& at) {
    const keyspace::CutEntry& entry = snapshot_.entries[at.entry];
    if (entry.key.size() > std::numeric_limits<std::uint32_t>::max())
      return fail(Errc::too_large, "cannot save a key of " + std::to_string(entry.key.size()) + " bytes");
    const filter::ImageHeader image = image_header_of(snapshot_, at);
    for (const auto& layer : image.layers) items_ += layer.item_count;
    const std::vector<std::byte> image_bytes = filter::encode(image);
    format::RecordHead head;
    head.database = entry.database;
    head.key_bytes = static_cast<std::uint32_t>(entry.key.size());
    head.image_bytes = static_cast<std::uint32_t>(image_bytes.size());
    head.bitmap_bytes = bitmap_bytes_of(snapshot_, at);
    Checksum checksum;
    for (const auto part : {format::bytes_of(head), format::bytes_of(std::string_view(entry.key)),
                            std::span<const std::byte>(image_bytes)}) {
      checksum.update(part);
      if (auto done = writer.append(part); !done) return done;
    }
    if (auto done = writer.append_checksum(checksum.value()); !done) return done;
    return write_bits(writer, at, head.bitmap_bytes);
  }

  Result<void> write_bits(SealedWriter& writer, const Position& at, std::uint64_t bitmap_bytes) {
    BitmapReader bits(snapshot_, at);
    for (std::uint64_t done = 0; done < bitmap_bytes;) {
      const std::uint64_t left = bitmap_bytes - done;
      const auto count = left < format::chunk_bytes ? static_cast<std::size_t>(left) : format::chunk_bytes;
      auto place = writer.append_place(count);
      if (!place) return place.error();
      bits.copy_next(*place);
      if (auto sealed = writer.append_checksum(Checksum::of(*place)); !sealed) return sealed;
      if (auto go_on = meter_.add(count); !go_on) return go_on;
      done += count;
    }
    return {};
  }

  Result<GenerationReport> write_manifest() {
    format::Manifest manifest{.generation = place_.number,
                              .taken_at = milliseconds_of(snapshot_.taken_at),
                              .filter_count = snapshot_.entries.size(),
                              .item_count = items_,
                              .byte_count = 0,
                              .journal_position = 0,
                              .writer = SEPAL_VERSION,
                              .files = files_};
    for (const format::ListedFile& file : files_) manifest.byte_count += file.byte_count;
    const std::vector<std::byte> bytes = format::encode(manifest);
    auto file = disk_.create(place_.folder / "MANIFEST");
    if (!file) return file.error();
    if (auto done = (*file)->write_at(0, bytes); !done) return done.error();
    if (auto done = (*file)->sync(); !done) return done.error();
    return GenerationReport{.name = format::generation_name(place_.number),
                            .filters = manifest.filter_count,
                            .bytes = manifest.byte_count + bytes.size(),
                            .journal_position = manifest.journal_position};
  }

  // A clock before 1970 is wrong, and its time is nothing to fail a save for.
  static std::uint64_t milliseconds_of(WallTime time) {
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
    return since < 0 ? 0 : static_cast<std::uint64_t>(since);
  }

  Disk& disk_;
  const GenerationPlace& place_;
  const Snapshot& snapshot_;
  ProgressMeter meter_;
  SaveBuffer buffer_;
  std::vector<Position> packed_;
  std::vector<Position> own_;
  std::vector<format::ListedFile> files_;
  std::uint64_t items_ = 0;
};

}  // namespace

Result<GenerationReport> write_generation(Disk& disk, const GenerationPlace& place, const Snapshot& snapshot,
                                          const DataDirectoryOptions& options, const ProgressSink& progress) {
  return GenerationWriter(disk, place, snapshot, progress).run(options);
}

}  // namespace sepal::storage
