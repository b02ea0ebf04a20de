// Makes the tables of docs/formats.md from the structures that stand in files.
#include <sepal/base/endian.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/format/journal_operations.hpp>

#include <type_traits>
#include <variant>

#include "support/catch.hpp"
#include "support/document_table.hpp"

namespace sepal::storage::format_tables_test {
namespace {

using namespace format;

struct Member {
  std::string_view name;
  std::size_t offset;
  std::size_t bytes;
};
using Members = std::vector<Member>;

#define MEMBER(Structure, member)                                   \
  Member {                                                          \
#member, offsetof(Structure, member), sizeof(Structure::member) \
  }

test::DocumentTable table(const std::string& name) {
  return {SEPAL_SOURCE_FOLDER "/docs/formats.md", name};
}

std::string code(std::string_view name) {
  return "`" + std::string(name) + "`";
}

// The members stand one behind the other: none is forgotten here.
void check_order(const Members& members, std::size_t total) {
  std::size_t end = 0;
  for (const Member& member : members) {
    INFO(member.name);
    CHECK(member.offset == end);
    end = member.offset + member.bytes;
  }
  CHECK(end == total);
}

// What follows the structure has no name, and is written by hand.
void expect_layout(const std::string& name, const Members& members, std::size_t total) {
  INFO(name);
  check_order(members, total);
  const test::DocumentTable document = table("layout " + name);
  std::vector<std::string> rows;
  for (const Member& member : members)
    rows.push_back("| " + std::to_string(member.offset) + " | " + std::to_string(member.bytes) + " | " +
                   code(member.name) + " | " + document.last_cell(code(member.name)) + " |");
  for (const std::string& row : document.rows())
    if (row.find(" | | ") != std::string::npos) rows.push_back(row);
  document.expect(rows);
}

// The name of a structure, without its namespaces.
template <class Structure>
std::string_view name_of() {
  const std::string_view function = __PRETTY_FUNCTION__;  // "... [with Structure = sepal::...::Name; ..."
  const std::size_t begin = function.find("Structure = ") + std::string_view("Structure = ").size();
  const std::string_view whole = function.substr(begin, function.find_first_of(";]", begin) - begin);
  return whole.substr(whole.rfind(':') + 1);
}

const std::map<std::string_view, Members> shapes{
    {"DeadlineShape", {MEMBER(DeadlineShape, deadline)}},
    {"AdoptedShape",
     {MEMBER(AdoptedShape, deadline), MEMBER(AdoptedShape, file_number), MEMBER(AdoptedShape, file_seal),
      MEMBER(AdoptedShape, image_bytes), MEMBER(AdoptedShape, reserved)}},
    {"StateShape", {MEMBER(StateShape, state), MEMBER(StateShape, reserved)}},
    {"NumberShape", {MEMBER(NumberShape, number)}},
    {"TargetHead", {MEMBER(TargetHead, key_bytes), MEMBER(TargetHead, reserved)}},
    {"BytesHead", {MEMBER(BytesHead, byte_count), MEMBER(BytesHead, reserved)}},
    {"OtherDatabase", {MEMBER(OtherDatabase, database), MEMBER(OtherDatabase, reserved)}}};

// The rows of the kinds and of the shapes that they use, made from the layouts.
struct Operations {
  std::map<unsigned, std::string> kinds;
  std::vector<std::string_view> shape_names;  // as they are met
  std::map<std::string_view, std::string> shape_rows;

  template <class... Changes>
  void visit(const std::variant<Changes...>* /*operations*/) {
    (add<Changes>(), ...);
  }
  template <class Change>
  void add() {
    std::string behind;
    each_field<Change>([&](const auto& field) {
      using Shape = typename std::decay_t<decltype(field)>::Shape;
      behind += (behind.empty() ? "" : ", ") + code(name_of<Shape>());
      add_shape<Shape>();
    });
    if (has_items<Change>) behind += behind.empty() ? "entries" : ", entries";
    if (!HasKey<Change>) behind += behind.empty() ? "no key" : "; no key";
    const std::string name = code(layout<Change>.name);
    kinds[static_cast<unsigned>(layout<Change>.kind)] =
        name + " | " + behind + (behind.empty() ? "| " : " | ") + table("operations").last_cell(name) + " |";
  }
  template <class Shape>
  void add_shape() {
    const std::string_view name = name_of<Shape>();
    if (shape_rows.contains(name)) return;
    INFO(name);
    REQUIRE(shapes.contains(name));
    const Members& members = shapes.at(name);
    check_order(members, sizeof(Shape));
    std::string fields;
    for (const Member& member : members)
      fields += (fields.empty() ? "" : ", ") + code(member.name) + " " + std::to_string(member.bytes);
    shape_names.push_back(name);
    shape_rows[name] = "| " + code(name) + " | " + std::to_string(sizeof(Shape)) + " | " + fields + " | " +
                       table("shapes").last_cell(code(name)) + " |";
  }
};

// A field of the image header, and a number that the bytes have in its place.
struct ImageField {
  std::string_view name;
  std::size_t bytes;
  std::uint64_t number;
};

// Writes the fields with their offsets, and looks for their numbers in the bytes.
void expect_image(const std::string& name, std::span<const std::byte> bytes,
                  const std::vector<ImageField>& fields) {
  Members members;
  std::size_t offset = 0;
  for (const ImageField& field : fields) {
    std::uint64_t found = 0;
    for (std::size_t i = field.bytes; i > 0; --i)
      found = found << 8 | std::to_integer<std::uint64_t>(bytes[offset + i - 1]);
    INFO(field.name);
    CHECK(found == field.number);
    members.push_back({field.name, offset, field.bytes});
    offset += field.bytes;
  }
  expect_layout(name, members, bytes.size());
}

}  // namespace

TEST_CASE("docs/formats.md has the layouts; with SEPAL_WRITE=1 this test writes them") {
  expect_layout(
      "FilterFileHeader",
      {MEMBER(FilterFileHeader, magic), MEMBER(FilterFileHeader, version), MEMBER(FilterFileHeader, flags),
       MEMBER(FilterFileHeader, record_count), MEMBER(FilterFileHeader, checksum)},
      sizeof(FilterFileHeader));
  expect_layout("RecordHead",
                {MEMBER(RecordHead, magic), MEMBER(RecordHead, database), MEMBER(RecordHead, key_bytes),
                 MEMBER(RecordHead, image_bytes), MEMBER(RecordHead, bitmap_bytes),
                 MEMBER(RecordHead, journal_position), MEMBER(RecordHead, deadline)},
                sizeof(RecordHead));
  expect_layout(
      "ManifestHead",
      {MEMBER(ManifestHead, magic), MEMBER(ManifestHead, version), MEMBER(ManifestHead, flags),
       MEMBER(ManifestHead, generation), MEMBER(ManifestHead, taken_at), MEMBER(ManifestHead, filter_count),
       MEMBER(ManifestHead, item_count), MEMBER(ManifestHead, byte_count), MEMBER(ManifestHead, file_count),
       MEMBER(ManifestHead, writer_bytes), MEMBER(ManifestHead, journal_position),
       MEMBER(ManifestHead, mirror_count), MEMBER(ManifestHead, reserved), MEMBER(ManifestHead, identity),
       MEMBER(ManifestHead, run), MEMBER(ManifestHead, reserved_too)},
      sizeof(ManifestHead));
  expect_layout(
      "ManifestFile",
      {MEMBER(ManifestFile, name_bytes), MEMBER(ManifestFile, flags), MEMBER(ManifestFile, byte_count),
       MEMBER(ManifestFile, record_count), MEMBER(ManifestFile, seal)},
      sizeof(ManifestFile));
  expect_layout(
      "ManifestMirror",
      {MEMBER(ManifestMirror, database), MEMBER(ManifestMirror, state), MEMBER(ManifestMirror, items_before),
       MEMBER(ManifestMirror, source_bytes), MEMBER(ManifestMirror, target_bytes)},
      sizeof(ManifestMirror));
  expect_layout(
      "SegmentHeader",
      {MEMBER(SegmentHeader, magic), MEMBER(SegmentHeader, version), MEMBER(SegmentHeader, flags),
       MEMBER(SegmentHeader, segment_number), MEMBER(SegmentHeader, first_position),
       MEMBER(SegmentHeader, segment_bytes), MEMBER(SegmentHeader, identity), MEMBER(SegmentHeader, run),
       MEMBER(SegmentHeader, run_before), MEMBER(SegmentHeader, checksum)},
      sizeof(SegmentHeader));
  expect_layout("FrameHead",
                {MEMBER(FrameHead, body_bytes), MEMBER(FrameHead, flags), MEMBER(FrameHead, synced_position),
                 MEMBER(FrameHead, checksum)},
                sizeof(FrameHead));
  expect_layout(
      "OperationHead",
      {MEMBER(OperationHead, operation), MEMBER(OperationHead, database), MEMBER(OperationHead, flags),
       MEMBER(OperationHead, kind), MEMBER(OperationHead, count), MEMBER(OperationHead, key_bytes),
       MEMBER(OperationHead, what), MEMBER(OperationHead, reserved)},
      sizeof(OperationHead));
  expect_layout(
      "SyncedSlot",
      {MEMBER(SyncedSlot, magic), MEMBER(SyncedSlot, version), MEMBER(SyncedSlot, flags),
       MEMBER(SyncedSlot, segment_number), MEMBER(SyncedSlot, first_position), MEMBER(SyncedSlot, position),
       MEMBER(SyncedSlot, identity), MEMBER(SyncedSlot, reserved), MEMBER(SyncedSlot, checksum)},
      sizeof(SyncedSlot));
}

TEST_CASE("docs/formats.md has the journal's operations; with SEPAL_WRITE=1 this test writes them") {
  Operations operations;
  operations.visit(static_cast<const AnyOperation*>(nullptr));
  std::vector<std::string> rows;
  for (const auto& [kind, row] : operations.kinds) rows.push_back("| " + std::to_string(kind) + " | " + row);
  table("operations").expect(rows);
  rows.clear();
  for (const std::string_view name : operations.shape_names) rows.push_back(operations.shape_rows.at(name));
  table("shapes").expect(rows);
}

TEST_CASE("docs/formats.md has the image header; with SEPAL_WRITE=1 this test writes it") {
  bloom::ImageHeader header;
  header.options.error_rate = 0.5;
  header.options.capacity = 2;
  header.options.expansion = 3;
  header.options.seed = 4;
  header.options.hash = bloom::ItemHash::xxh3_above_bitmap;
  bloom::Filter::LayerState layer;
  layer.plan.capacity = 5;
  layer.plan.error_rate = 0.25;
  layer.plan.block_count = 6;
  layer.plan.block_bits = 64;
  layer.plan.probe_count = 7;
  layer.plan.layout = bloom::Layout::client;
  layer.plan.scheme = bloom::Scheme::murmur3_32;
  layer.plan.unused_bits = 8;
  layer.plan.first_seed = 9;
  layer.item_count = 10;
  header.layers = {layer};
  const std::vector<std::byte> bytes = bloom::encode(header);
  const auto head = std::span(bytes).first(bloom::image_header_bytes);
  expect_image("image header", head,
               {{"magic", 4, 0x464c5053},
                {"version", 2, 4},
                {"hash", 2, 3},
                {"seed", 8, 4},
                {"error_rate", 8, 0x3fe0000000000000},
                {"capacity", 8, 2},
                {"expansion", 4, 3},
                {"layer_count", 4, 1}});
  expect_image("layer", std::span(bytes).subspan(head.size()),
               {{"capacity", 8, 5},
                {"error_rate", 8, 0x3fd0000000000000},
                {"block_count", 8, 6},
                {"block_bits", 4, 64},
                {"probe_count", 4, 7},
                {"item_count", 8, 10},
                {"layout", 1, static_cast<std::uint64_t>(bloom::Layout::client)},
                {"scheme", 1, static_cast<std::uint64_t>(bloom::Scheme::murmur3_32)},
                {"unused_bits", 1, 8},
                {"reserved", 1, 0},
                {"first_seed", 4, 9}});
}

}  // namespace sepal::storage::format_tables_test
