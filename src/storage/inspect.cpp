#include <sepal/storage/examine.hpp>
#include <sepal/storage/journal_format.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "damage.hpp"
#include "journal_reader.hpp"
#include "operation_decoder.hpp"
#include "record_reader.hpp"
#include "sealed_reader.hpp"

namespace sepal::storage {
namespace {

constexpr std::size_t magic_bytes = 8;

std::string_view name_of(format::Operation operation) {
  switch (operation) {
    case format::Operation::added:
      return "added";
    case format::Operation::created:
      return "created";
    case format::Operation::grown:
      return "grown";
    case format::Operation::removed:
      return "removed";
    case format::Operation::renamed:
      return "renamed";
    case format::Operation::flushed:
      return "flushed";
    case format::Operation::flushed_all:
      return "flushed_all";
    case format::Operation::resumed:
      return "resumed";
    case format::Operation::expires:
      return "expires";
    case format::Operation::adopted:
      return "adopted";
    case format::Operation::swapped:
      return "swapped";
    case format::Operation::moved:
      return "moved";
    case format::Operation::mirrored:
      return "mirrored";
  }
  return "unknown";
}

Fact& add_layer(Fact& fact, const filter::LayerPlan& plan) {
  fact.number("capacity", plan.capacity)
      .real("error_rate", plan.error_rate)
      .number("blocks", plan.block_count)
      .number("block_bits", plan.block_bits)
      .number("probes", plan.probe_count);
  return plan.layout == filter::Layout::blocked ? fact : fact.text("layout", "double_hashing");
}

Fact& add_options(Fact& fact, const filter::FilterOptions& options) {
  fact.real("error_rate", options.error_rate)
      .number("capacity", options.capacity)
      .number("expansion", options.expansion)
      .number("seed", options.seed);
  return options.hash == filter::ItemHash::xxh3 ? fact : fact.text("hash", "redisbloom");
}

void add_adopted(Fact& fact, const DecodedOperation& operation) {
  if (operation.file.number != 0) {
    fact.text("file", format::adopted_name(operation.file.number)).number("seal", operation.file.seal);
    return;
  }
  fact.number("image_bytes", operation.image.size());
  const auto image = filter::decode_image_header(operation.image, any_filter.layers_max);
  if (!image) return;
  std::uint64_t items = 0;
  for (const auto& layer : image->layers) items += layer.item_count;
  add_options(fact.number("items", items).number("layers", image->layers.size()), image->options);
}

class Inspection {
 public:
  Inspection(File& file, std::uint64_t byte_count, const FactSink& sink)
      : file_(file), byte_count_(byte_count), sink_(sink) {}

  Result<void> run(Disk& disk, const Path& path) {
    std::string begin(magic_bytes, '\0');
    const auto read = file_.read_at(0, std::as_writable_bytes(std::span(begin.data(), begin.size())));
    if (!read) return read.error();
    const auto is = [&](const auto& magic) { return std::equal(magic.begin(), magic.end(), begin.begin()); };
    if (is(format::FilterFileHeader::expected_magic)) return filters();
    if (is(format::ManifestHead::expected_magic)) return manifest();
    if (is(format::SegmentHeader::expected_magic)) return segment(disk, path);
    if (begin.starts_with("SEPAL-")) return line();
    if (begin == std::string(magic_bytes, '\0')) {
      sink_(Fact("unused").number("bytes", byte_count_));
      return {};
    }
    return damaged_at(0, "it begins as no file of sepal does");
  }

 private:
  Result<void> line() {
    std::string text(format::sealed_line_bytes_max, '\0');
    const auto read = file_.read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
    if (!read) return read.error();
    text.resize(*read);
    constexpr std::string_view prefix = "SEPAL-";
    const std::string kind =
        text.substr(prefix.size(), text.find(' ') - std::min(text.find(' '), prefix.size()));
    const auto value = format::decode_sealed_line(kind, text);
    if (!value) return value.error();
    sink_(Fact("line").text("kind", kind).text("value", *value));
    return {};
  }

  Result<void> manifest() {
    if (byte_count_ > format::manifest_bytes_max) return damaged_at(0, "it is longer than a manifest can be");
    std::vector<std::byte> bytes(static_cast<std::size_t>(byte_count_));
    const auto read = file_.read_at(0, bytes);
    if (!read) return read.error();
    const auto manifest = format::decode_manifest(std::span(bytes).first(*read));
    if (!manifest) return manifest.error();
    sink_(Fact("manifest")
              .number("generation", manifest->generation)
              .number("taken_at_milliseconds", manifest->taken_at)
              .number("filters", manifest->filter_count)
              .number("items", manifest->item_count)
              .number("bytes", manifest->byte_count)
              .number("journal_position", manifest->journal_position)
              .text("writer", manifest->writer));
    for (const format::ListedFile& listed : manifest->files)
      sink_(Fact("file")
                .text("name", listed.name)
                .number("bytes", listed.byte_count)
                .number("filters", listed.record_count)
                .number("seal", listed.seal));
    for (const keyspace::Mirror& mirror : manifest->mirrors)
      sink_(Fact("mirror")
                .number("database", mirror.database)
                .text("key", mirror.source)
                .text("target", mirror.target)
                .number("state", static_cast<std::uint64_t>(mirror.state))
                .number("items_before", mirror.items_before));
    return {};
  }

  Result<void> filters() {
    LoadBuffer buffer;
    SealedReader reader(file_, byte_count_, buffer);
    const ProgressSink nobody;
    ProgressMeter meter(nobody, byte_count_);
    RecordReader records(reader, any_filter, meter);
    const auto count = records.read_header();
    if (!count) return count.error();
    sink_(Fact("filters").number("count", *count).number("bytes", byte_count_));
    for (std::uint64_t i = 0; i < *count; ++i) {
      const auto loaded = records.read_record();
      if (!loaded) return loaded.error();
      tell(*loaded);
    }
    if (reader.remaining() != 0)
      return damaged_at(reader.offset(), "something stands behind its last filter");
    return {};
  }

  void tell(const LoadedFilter& loaded) {
    Fact fact("filter");
    fact.number("offset", loaded.offset).number("database", loaded.database).text("key", loaded.key);
    fact.number("items", loaded.filter->item_count()).number("journal_position", loaded.journal_position);
    add_options(fact, loaded.filter->options());
    if (loaded.deadline != keyspace::no_deadline)
      fact.number("deadline_milliseconds", static_cast<std::uint64_t>(loaded.deadline));
    sink_(fact);
    for (const filter::LayerView& layer : loaded.filter->layers()) {
      Fact of_layer("layer");
      of_layer.number("items", layer.item_count());
      sink_(add_layer(of_layer, layer.plan()));
    }
  }

  // As if it were the only one.
  Result<void> segment(Disk& disk, const Path& path) {
    auto reader = JournalReader::open_segment(disk, path);
    if (!reader) return reader.error();
    sink_(Fact("segment")
              .number("number", reader->segment().number)
              .number("first_position", reader->segment().first_position)
              .number("bytes", byte_count_));
    for (;;) {
      const auto frames = reader->next();
      if (!frames) return frames.error();
      if (frames->empty()) break;
      for (const JournalFrame& frame : *frames)
        if (auto told = tell(frame); !told) return told;
    }
    Fact end("end");
    end.number("offset", reader->end().offset).number("position", reader->end().position);
    sink_(end.number("bytes_behind", reader->end().cut_bytes));
    return {};
  }

  Result<void> tell(const JournalFrame& frame) {
    sink_(Fact("frame")
              .number("offset", frame.offset)
              .number("position", frame.position)
              .number("bytes", frame.body.size()));
    OperationDecoder decoder(frame.body);
    while (!decoder.at_end()) {
      const auto operation = decoder.next();
      if (!operation) return damaged_at(frame.offset, operation.error().detail);
      tell(**operation);
    }
    return {};
  }

  void tell(const DecodedOperation& operation) {
    using format::Operation;
    const Operation kind = operation.operation;
    Fact fact(name_of(kind));
    if (kind == Operation::flushed_all || kind == Operation::resumed) return sink_(fact);
    fact.number("database", operation.database);
    if (kind == Operation::flushed) return sink_(fact);
    if (kind == Operation::swapped) return sink_(fact.number("with", operation.other));
    fact.text("key", operation.key);
    if (operation.count != 0) fact.number("items", operation.count);
    if (kind == Operation::created) {
      add_options(fact, operation.options);
      fact.number("blocks", operation.layer.block_count).number("block_bits", operation.layer.block_bits);
      fact.number("probes", operation.layer.probe_count);
    }
    if (kind == Operation::grown) add_layer(fact, operation.layer);
    if (kind == Operation::renamed) fact.text("to", operation.target);
    if (kind == Operation::moved) fact.number("to_database", operation.other);
    if (kind == Operation::mirrored)
      fact.text("target", operation.target)
          .number("state", static_cast<std::uint64_t>(operation.mirror_state))
          .number("items_before", operation.items_before);
    if (kind == Operation::adopted) add_adopted(fact, operation);
    if (kind == Operation::expires ||
        (kind == Operation::adopted && operation.deadline != keyspace::no_deadline))
      fact.number("deadline_milliseconds", static_cast<std::uint64_t>(operation.deadline));
    sink_(fact);
  }

  File& file_;
  std::uint64_t byte_count_;
  const FactSink& sink_;
};

}  // namespace

Result<void> inspect_file(Disk& disk, const Path& path, const FactSink& sink) {
  auto file = disk.open(path);
  if (!file) return file.error();
  const auto size = (*file)->size();
  if (!size) return size.error();
  auto done = Inspection(**file, *size, sink).run(disk, path);
  if (done || !is_damage(done.error())) return done;
  const std::string name = path.string();
  // What the reader of the journal says has the name already.
  return done.error().detail.starts_with(name) ? done : about(name, done.error());
}

}  // namespace sepal::storage
