#include <sepal/storage/filter_file.hpp>

#include <memory>
#include <utility>

#include "damage.hpp"
#include "progress_meter.hpp"
#include "record_reader.hpp"
#include "sealed_reader.hpp"
#include "sealed_writer.hpp"

namespace sepal::storage {
namespace {

Result<void> write_header(SealedWriter& writer) {
  format::FilterFileHeader header;
  header.record_count = 1;
  const auto fields = format::bytes_of(header).first(sizeof header - format::checksum_bytes);
  if (auto done = writer.append(fields); !done) return done;
  return writer.append_checksum(Checksum::of(fields));
}

Result<void> write_head(SealedWriter& writer, const FilterFile& file) {
  const std::vector<std::byte> image = filter::encode(file.header);
  format::RecordHead head;
  head.key_bytes = static_cast<std::uint32_t>(file.key.size());
  head.image_bytes = static_cast<std::uint32_t>(image.size());
  head.bitmap_bytes = file.header.bitmap_bytes();
  Checksum checksum;
  for (const auto part : {format::bytes_of(head), format::bytes_of(std::string_view(file.key)),
                          std::span(image).first(image.size())}) {
    checksum.update(part);
    if (auto done = writer.append(part); !done) return done;
  }
  return writer.append_checksum(checksum.value());
}

// The bitmaps of all layers, one behind the other, in chunks.
class ChunkWriter {
 public:
  ChunkWriter(SealedWriter& writer, const filter::Filter& filter, std::uint64_t bitmap_bytes)
      : writer_(writer), layers_(filter.layers()), left_(bitmap_bytes) {}

  Result<void> write(ProgressMeter& meter) {
    while (left_ > 0) {
      const auto count = left_ < format::chunk_bytes ? static_cast<std::size_t>(left_) : format::chunk_bytes;
      const auto place = writer_.append_place(count);
      if (!place) return place.error();
      copy_next(*place);
      if (auto done = writer_.append_checksum(Checksum::of(*place)); !done) return done;
      if (auto go_on = meter.add(count); !go_on) return go_on;
      left_ -= count;
    }
    return {};
  }

 private:
  void copy_next(std::span<std::byte> to) {
    while (!to.empty()) {
      const filter::LayerView& layer = layers_[layer_];
      const std::uint64_t layer_left = layer.plan().byte_count() - offset_;
      const std::size_t count = layer_left < to.size() ? static_cast<std::size_t>(layer_left) : to.size();
      layer.copy_bits(offset_, to.first(count));
      to = to.subspan(count);
      offset_ += count;
      if (count < layer_left) continue;
      ++layer_;
      offset_ = 0;
    }
  }

  SealedWriter& writer_;
  std::vector<filter::LayerView> layers_;
  std::uint64_t left_;
  std::size_t layer_ = 0;
  std::uint64_t offset_ = 0;
};

Result<std::uint64_t> write_synced(Disk& disk, const Path& path, const FilterFile& file,
                                   const ProgressSink& progress) {
  auto created = disk.create(path);
  if (!created) return created.error();
  SaveBuffer buffer;
  SealedWriter writer(std::move(*created), buffer);
  ProgressMeter meter(progress, file.header.bitmap_bytes());
  Result<void> done = write_header(writer);
  if (done) done = write_head(writer, file);
  if (done) done = ChunkWriter(writer, *file.filter, file.header.bitmap_bytes()).write(meter);
  if (!done) return done.error();
  const auto sealed = writer.finish();
  if (!sealed) return sealed.error();
  return sealed->byte_count;
}

Result<FilterFile> read_only_record(SealedReader& reader, const filter::FilterLimits& limits,
                                    ProgressMeter& meter) {
  RecordReader records(reader, limits, meter);
  const auto count = records.read_header();
  if (!count) return count.error();
  if (*count != 1) return damaged_at(0, "it holds " + std::to_string(*count) + " filters instead of one");
  auto loaded = records.read_record();
  if (!loaded) return loaded.error();
  if (reader.remaining() != 0) return damaged_at(reader.offset(), "something stands behind its filter");
  FilterFile file{.key = std::move(loaded->key), .filter = std::move(loaded->filter), .header = {}};
  file.header = filter::header_of(*file.filter);
  return file;
}

}  // namespace

Result<std::uint64_t> write_filter_file(Disk& disk, const Path& target, const FilterFile& file,
                                        const ProgressSink& progress) {
  SEPAL_ASSERT(file.key.size() <= keyspace::key_bytes_max, "a key is within its limit");
  // In the same directory: a rename across file systems is no rename.
  Path aside = target;
  aside += ".tmp";
  auto bytes = write_synced(disk, aside, file, progress);
  const Result<void> renamed = bytes ? disk.rename(aside, target) : bytes.error();
  if (!renamed) {
    // The first error is the one to report; a file that cannot be removed is overwritten the next time.
    static_cast<void>(disk.remove(aside));
    return renamed.error();
  }
  if (auto synced = disk.sync_directory(target.parent_path()); !synced) return synced.error();
  return bytes;
}

Result<FilterFile> read_filter_file(Disk& disk, const Path& path, const filter::FilterLimits& limits,
                                    const ProgressSink& progress) {
  auto file = disk.open(path);
  if (!file) return file.error();
  const auto size = (*file)->size();
  if (!size) return size.error();
  LoadBuffer buffer;
  SealedReader reader(**file, *size, buffer);
  ProgressMeter meter(progress, *size);
  auto read = read_only_record(reader, limits, meter);
  if (read || read.error().code == Errc::io) return read;
  return about(path.string(), read.error());
}

}  // namespace sepal::storage
