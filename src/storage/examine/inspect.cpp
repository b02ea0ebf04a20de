#include <sepal/keyspace/part_list.hpp>
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/format/journal_format.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <type_traits>
#include <variant>
#include <vector>

#include "storage/disk/damage.hpp"
#include "storage/examine/beginning.hpp"
#include "storage/format/operation_decoder.hpp"
#include "storage/format/sealed_reader.hpp"
#include "storage/generation/record_reader.hpp"
#include "storage/journal/journal_reader.hpp"

namespace sepal::storage {
namespace {

void add_figures(Fact& fact, std::span<const value::Figure> figures) {
  for (const auto& [name, value] : figures) {
    if (const auto* const number = std::get_if<std::uint64_t>(&value)) fact.number(name, *number);
    if (const auto* const real = std::get_if<double>(&value)) fact.real(name, *real);
    if (const auto* const text = std::get_if<std::string_view>(&value)) fact.text(name, *text);
    if (const auto* const seed = std::get_if<value::Seed>(&value)) fact.identity(name, seed->number);
  }
}

// Each tell() adds a field of an operation, whose shape it is given, to the fact.

void tell(Fact& fact, std::string_view name, format::DeadlineShape /*shape*/, keyspace::Deadline deadline) {
  fact.number(name, static_cast<std::uint64_t>(deadline));
}

void add_image(Fact& fact, std::span<const std::byte> bytes) {
  // An image that does not decode is told of by its length only: the frame around it verifies, and the other
  // operations can still be told.
  fact.number("image_bytes", bytes.size());
  value::Figures figures;
  if (const value::KindRow* const row = value::row_of_image(bytes)) row->tell_head(bytes, figures);
  add_figures(fact, figures.figures);
}

void tell(Fact& fact, std::string_view /*name*/, format::AdoptedShape /*shape*/,
          const keyspace::AdoptedValue& adopted) {
  if (adopted.file.number == 0) {
    add_image(fact, adopted.image);
  } else {
    fact.text("file", format::adopted_name(adopted.file.number)).number("seal", adopted.file.seal);
  }
  if (adopted.deadline != keyspace::no_deadline)
    fact.number("deadline_milliseconds", static_cast<std::uint64_t>(adopted.deadline));
}

void tell(Fact& fact, std::string_view name, format::StateShape /*shape*/, keyspace::MirrorState state) {
  fact.number(name, static_cast<std::uint64_t>(state));
}

void tell(Fact& fact, std::string_view name, format::NumberShape /*shape*/, std::uint64_t number) {
  fact.number(name, number);
}

void tell(Fact& fact, std::string_view name, format::TargetHead /*shape*/, std::string_view target) {
  fact.text(name, target);
}

// Only Remade has fields of this shape here.
void tell(Fact& fact, std::string_view name, format::BytesHead /*shape*/, std::span<const std::byte> bytes) {
  if (name == "head") return add_image(fact, bytes);
  const auto parts = keyspace::decode_parts(bytes);
  if (!parts) return;
  for (const keyspace::Part& part : *parts)
    fact.text("part", part.key).number("part_layers", keyspace::layers_of(part));
}

void tell(Fact& fact, std::string_view name, format::OtherDatabase /*shape*/, std::uint32_t database) {
  fact.number(name, database);
}

// What `made` and `changed` are called is a matter of the value's kind.
std::string_view tell_name(const keyspace::Made& made, value::Figures& to) {
  return value::row_of(made.kind).tell_made(made.head, to);
}
std::string_view tell_name(const keyspace::Changed& changed, value::Figures& to) {
  return value::row_of(changed.kind).tell_changed(changed.what, changed.bytes, to);
}
template <class Change>
std::string_view tell_name(const Change& /*change*/, value::Figures& /*to*/) {
  return format::layout<Change>.name;
}

template <class Change>
Fact fact_of(const Change& change, const DecodedOperation& operation) {
  value::Figures figures;
  Fact fact(tell_name(change, figures));
  if constexpr (format::HasKey<Change> || format::HasDatabase<Change>)
    fact.number("database", operation.key.database);
  if constexpr (format::HasKey<Change>) fact.text("key", operation.key.key);
  if (operation.count != 0) fact.number("items", operation.count);
  add_figures(fact, figures.figures);
  if constexpr (std::is_same_v<Change, keyspace::Made> || std::is_same_v<Change, keyspace::Changed>)
    return fact;
  // Two rounds over the fields: those from told_first on, and then those before it. So the order of the text
  // may differ from that of the bytes.
  const auto tell_fields = [&](bool first_ones) {
    std::size_t index = 0;
    format::each_field<Change>([&](const auto& field) {
      using Shape = typename std::decay_t<decltype(field)>::Shape;
      if ((index++ >= format::told_first<Change>) == first_ones)
        tell(fact, field.name, Shape(), change.*field.member);
    });
  };
  tell_fields(true);
  tell_fields(false);
  return fact;
}

class Inspection {
 public:
  Inspection(File& file, std::uint64_t byte_count, const FactSink& sink)
      : file_(file), byte_count_(byte_count), sink_(sink) {}

  Result<void> run(Disk& disk, const Path& path) {
    const auto beginning = beginning_of(file_);
    if (!beginning) return beginning.error();
    switch (*beginning) {
      case Beginning::filters: return filters();
      case Beginning::manifest: return manifest();
      case Beginning::segment: return segment(disk, path);
      case Beginning::synced: return synced(disk, path);
      case Beginning::line: return line();
      case Beginning::unused: sink_(Fact("unused").number("bytes", byte_count_)); return {};
      case Beginning::empty:
      case Beginning::other: break;
    }
    return no_file_of_sepal(path, *beginning);
  }

 private:
  Result<void> line() {
    std::string text(format::sealed_line_bytes_max, '\0');
    const auto read = file_.read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
    if (!read) return read.error();
    text.resize(*read);
    constexpr std::string_view prefix = "SEPAL-";
    // Taken from the text itself, so that the line is decoded as what it says it is. Without a blank the kind
    // is the rest of the text, and the decoder refuses it.
    const std::string kind =
        text.substr(prefix.size(), text.find(' ') - std::min(text.find(' '), prefix.size()));
    const auto value = format::decode_sealed_line(kind, text);
    if (!value) return value.error();
    // As `sepal build --seed` takes it.
    const std::string shown = kind == "SEED" ? "0x" + *value : *value;
    sink_(Fact("line").text("kind", kind).text("value", shown));
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
              .number("keys", manifest->filter_count)
              .number("items", manifest->item_count)
              .number("bytes", manifest->byte_count)
              .number("journal_position", manifest->journal_position)
              .text("identity", format::hexadecimal(manifest->identity))
              .number("run", manifest->run)
              .text("writer", manifest->writer));
    for (const format::ListedFile& listed : manifest->files)
      sink_(Fact("file")
                .text("name", listed.name)
                .number("bytes", listed.byte_count)
                .number("keys", listed.record_count)
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
    const ProgressSink no_sink;
    ProgressMeter meter(no_sink, byte_count_);
    RecordReader records(reader, any_filter, meter, Bits::checked);
    const auto count = records.read_header();
    if (!count) return count.error();
    sink_(Fact("keys").number("count", *count).number("bytes", byte_count_));
    for (std::uint64_t i = 0; i < *count; ++i) {
      const auto loaded = records.read_record();
      if (!loaded) return loaded.error();
      tell(*loaded);
    }
    if (reader.remaining() != 0)
      return damaged_at(reader.offset(), "something stands behind its last filter");
    return {};
  }

  // What the value counts stands in front of the position at which it was counted.
  void tell(const LoadedValue& loaded) {
    const value::KindRow& row = value::row_of(*loaded.value);
    value::Figures told;
    row.tell(*loaded.value, told);
    const std::span<const value::Figure> figures = told.figures;
    const std::size_t counts = std::min<std::size_t>(figures.size(), 1);
    Fact fact(row.word);
    fact.number("offset", loaded.offset).number("database", loaded.database).text("key", loaded.key);
    add_figures(fact, figures.first(counts));
    fact.number("journal_position", loaded.journal_position);
    add_figures(fact, figures.subspan(counts));
    if (loaded.deadline != keyspace::no_deadline)
      fact.number("deadline_milliseconds", static_cast<std::uint64_t>(loaded.deadline));
    sink_(fact);
    for (const auto& part : told.parts) {
      Fact of_part(told.part);
      add_figures(of_part, part);
      sink_(of_part);
    }
  }

  Result<void> synced(Disk& disk, const Path& path) {
    const auto mark = read_synced(disk, path);
    if (!mark) return mark.error();
    if (!*mark) return {};
    sink_(Fact("synced")
              .number("segment", (*mark)->segment_number)
              .number("first_position", (*mark)->first_position)
              .number("position", (*mark)->position)
              .text("identity", format::hexadecimal((*mark)->identity)));
    return {};
  }

  // Reads the segment as if it were the only one.
  Result<void> segment(Disk& disk, const Path& path) {
    auto reader = JournalReader::open_segment(disk, path);
    if (!reader) return reader.error();
    const Lineage& lineage = reader->segment().lineage;
    sink_(Fact("segment")
              .number("number", reader->segment().number)
              .number("first_position", reader->segment().first_position)
              .number("bytes", byte_count_)
              .text("identity", format::hexadecimal(lineage.identity))
              .number("run", lineage.run)
              .number("run_before", lineage.run_before));
    // A group may go on in the next segment, which is not looked at here. Then the fact at the end has the
    // group's position, so that it can be found there.
    bool in_group = false;  // the last frame continues
    std::uint64_t group_position = 0;
    for (;;) {
      const auto frames = reader->next();
      if (!frames) return frames.error();
      if (frames->empty()) break;
      for (const JournalFrame& frame : *frames) {
        if (auto told = tell(frame); !told) return told;
        if (frame.continues && !in_group) group_position = frame.position;
        in_group = frame.continues;
      }
    }
    Fact end("end");
    end.number("offset", reader->end().offset).number("position", reader->end().position);
    end.number("bytes_behind", reader->end().cut_bytes);
    if (in_group) end.number("group_position", group_position);
    sink_(end);
    return {};
  }

  Result<void> tell(const JournalFrame& frame) {
    Fact fact("frame");
    fact.number("offset", frame.offset).number("position", frame.position);
    fact.number("bytes", frame.body.size());
    if (frame.continues) fact.text("group", "continues");
    sink_(fact);
    OperationDecoder decoder(frame.body);
    while (!decoder.at_end()) {
      const auto operation = decoder.next();
      if (!operation) return at_offset(frame.offset, operation.error());
      sink_(
          std::visit([&](const auto& change) { return fact_of(change, **operation); }, (*operation)->change));
    }
    return {};
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
  // Errors of the journal's reader and of SYNCED's reader have the name already.
  return done.error().detail.starts_with(name) ? done : about(name, done.error());
}

}  // namespace sepal::storage
