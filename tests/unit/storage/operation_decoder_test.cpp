// Operations with right checksums that no journal would record.
#include "storage/format/operation_decoder.hpp"

#include <sepal/base/gate.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/kind/kind.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/strings/kind.hpp>
#include <sepal/value/image.hpp>

#include "support/catch.hpp"
#include "support/journal_files.hpp"
#include "support/storage_fixture.hpp"

namespace operation_decoder_test {

using namespace sepal;
using namespace sepal::storage;
using format::Operation;
using format::OperationHead;

namespace {

constexpr keyspace::DatabaseKey some_key{.database = 3, .key = "key"};
constexpr bloom::FilterOptions some_options{.error_rate = 0.01, .capacity = 2, .seed = 7};
constexpr std::size_t made_head_bytes = sizeof(format::BytesHead) + bloom::made_bytes;
constexpr Fingerprint some_fingerprint{.low = 5, .high = 6};

bloom::LayerPlan first_layer() {
  return (*bloom::Filter::create(some_options, test::roomy))->newest_layer().plan();
}

// The error of a replay of operations after the creation of some_key.
template <class Tell>
std::string refusal(const Tell& tell) {
  test::JournalFiles journal;
  journal.created(some_key, some_options, first_layer());
  journal.end_frame();
  tell(journal);
  journal.end_frame();
  test::SimulatedDisk disk;
  journal.put(disk, "data");
  test::Filters filters;
  Gate gate(1);
  const auto report = replay_journal(disk, "data", filters.keyspace, gate, {}, {});
  if (report) return "";
  CHECK(report.error().code == Errc::damaged);
  const std::string file = "data/journal-000000000001 is damaged at offset ";
  CHECK(report.error().detail.substr(0, file.size()) == file);
  return report.error().detail.substr(file.size());
}

std::vector<std::byte> bytes_of(const OperationHead& head, std::string_view rest = "") {
  std::vector<std::byte> bytes(sizeof head + rest.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, rest.data(), rest.size());
  return bytes;
}

OperationHead head_of(Operation operation, std::uint32_t key_bytes = 3) {
  OperationHead head;
  head.operation = static_cast<std::uint8_t>(operation);
  head.database = 3;
  head.key_bytes = key_bytes;
  return head;
}

bool says(const std::string& refusal, const std::string& what) {
  return refusal.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("changes that contradict the keyspace are damage") {
  const std::vector<Fingerprint> three(3, some_fingerprint);
  const keyspace::DatabaseKey other{.database = 0, .key = "other"};
  using Journal = test::JournalFiles;
  CHECK(says(refusal([&](Journal& journal) { journal.added(other, three); }),
             "added to a key that is not there"));
  CHECK(says(refusal([&](Journal& journal) { journal.added(some_key, three); }), "more items"));
  CHECK(says(refusal([&](Journal& journal) {
               journal.created(other, some_options, first_layer());
               journal.added(other, three);
             }),
             "more items"));
  CHECK(says(refusal([&](Journal& journal) { journal.created(some_key, some_options, first_layer()); }),
             "there already"));
  CHECK(says(refusal([&](Journal& journal) { journal.grown(some_key, first_layer()); }), "cannot be"));
  CHECK(says(refusal([&](Journal& journal) { journal.grown(other, first_layer()); }), "not there"));
  CHECK(says(refusal([&](Journal& journal) { journal.removed(other); }), "removed that is not there"));
  CHECK(says(refusal([&](Journal& journal) { journal.renamed(0, "other", "key"); }),
             "renamed that is not there"));
  CHECK(says(
      refusal([&](Journal& journal) { journal.mirrored({.database = 3, .source = "key", .target = "x"}); }),
      "a mirror changes"));
  using keyspace::MirrorState;
  for (const MirrorState state : {MirrorState::off, MirrorState::full})
    CHECK(says(refusal([&](Journal& journal) {
                 journal.mirrored({.database = 3, .source = "key", .target = "", .state = state});
               }),
               "a mirror changes"));
  CHECK(says(refusal([&](Journal& journal) {
               journal.removed(some_key);
               journal.resumed();
             }),
             "does not begin a frame"));
  CHECK(says(refusal([&](Journal& journal) { journal.moved(other, 1); }), "moved that is not there"));
  CHECK(says(refusal([&](Journal& journal) {
               journal.created({.database = 1, .key = "key"}, some_options, first_layer());
               journal.moved({.database = 1, .key = "key"}, some_key.database);
             }),
             "where one is already"));
  bloom::LayerPlan absurd = first_layer();
  absurd.block_count = ~std::uint64_t{0};
  CHECK(says(refusal([&](Journal& journal) { journal.created(other, some_options, absurd); }), "cannot be"));
}

TEST_CASE("an adopted filter without shape or file, or cut off, is damage") {
  using Journal = test::JournalFiles;
  const auto made = bloom::Filter::create(some_options, test::roomy);
  std::vector<std::byte> image = value::image_of(**made);
  CHECK(refusal([&](Journal& journal) { journal.adopted(some_key, {.image = image}); }).empty());
  CHECK(says(refusal([&](Journal& journal) { journal.adopted(some_key, {}); }), "in no file"));
  CHECK(says(refusal([&](Journal& journal) {
               journal.adopted(some_key, {.image = image, .file = {.number = 1, .seal = 1}});
             }),
             "in no file"));
  CHECK(says(refusal([&](Journal& journal) { journal.adopted(some_key, {.image = image, .deadline = -1}); }),
             "a deadline"));
  CHECK(says(refusal([&](Journal& journal) {
               journal.frame_of([] {
                 test::TellingEncoder encoder;
                 encoder.removed(some_key);
                 encoder.adopted(some_key, {.file = {.number = 1, .seal = 1}});
                 return std::vector<std::byte>(encoder.bytes().begin(), encoder.bytes().end());
               }());
             }),
             "does not begin a frame"));
  image.pop_back();
  CHECK(says(refusal([&](Journal& journal) { journal.adopted(some_key, {.image = image}); }), "not as long"));
  image[0] ^= std::byte{1};
  CHECK(says(refusal([&](Journal& journal) { journal.adopted(some_key, {.image = image}); }),
             "the image of no value"));
}

namespace {

std::string refused(const std::vector<std::byte>& body) {
  return refusal([&](test::JournalFiles& journal) { journal.frame_of(body); });
}

}  // namespace

TEST_CASE("operations that are cut off are damage") {
  test::TellingEncoder encoder;
  encoder.created({.database = 1, .key = "new"}, some_options, first_layer());
  encoder.added({.database = 1, .key = "new"}, {&some_fingerprint, 1});
  encoder.grown({.database = 1, .key = "new"}, [] {
    const auto grown = bloom::Filter::create(some_options, test::roomy);
    for (const char* item : {"a", "b", "c"}) static_cast<void>((*grown)->add_alone(item, test::roomy));
    return (*grown)->newest_layer().plan();
  }());
  encoder.created({.database = 1, .key = "next"}, some_options, first_layer());
  encoder.mirrored({.database = 1, .source = "new", .target = "next"});
  encoder.renamed(1, "new", "newer");
  encoder.adopted({.database = 1, .key = "newest"},
                  {.image = value::image_of(**bloom::Filter::create(some_options, test::roomy))});
  encoder.swapped(1, 2);
  encoder.moved({.database = 2, .key = "newer"}, 1);
  encoder.removed({.database = 1, .key = "newer"});
  const std::vector<std::byte> whole(encoder.bytes().begin(), encoder.bytes().end());
  CHECK(refused(whole).empty());
  std::size_t ends = 0;
  for (std::size_t length = 1; length < whole.size(); ++length)
    ends += refused({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)}).empty() ? 1 : 0;
  CHECK(ends == 8);  // between two operations
}

TEST_CASE("operations that are too long or unknown are damage") {
  OperationHead head = head_of(Operation::removed);
  head.operation = 0;
  CHECK(says(refused(bytes_of(head, "key")), "of a kind"));
  head.operation = static_cast<std::uint8_t>(storage::format::last_operation) + 1;
  CHECK(says(refused(bytes_of(head, "key")), "of a kind"));
  const std::string negative = "key" + std::string(7, '\0') + "\x80";
  CHECK(says(refused(bytes_of(head_of(Operation::expires), negative)), "a deadline"));
  CHECK(says(refused(bytes_of(head_of(Operation::expires), "key")), "longer than"));
  const std::string nowhere = "key" + std::string(1, char{keyspace::database_count}) + std::string(7, '\0');
  CHECK(says(refused(bytes_of(head_of(Operation::moved), nowhere)), "no such database"));
  const std::string flagged = "key" + std::string(7, '\0') + "\1";
  CHECK(says(refused(bytes_of(head_of(Operation::moved), flagged)), "a database has flags"));
  CHECK(says(refused(bytes_of(head_of(Operation::swapped, 0), "")), "longer than its frame"));
  const std::string no_state = "key" + std::string(1, '\x05') + std::string(23, '\0');
  CHECK(says(refused(bytes_of(head_of(Operation::mirrored), no_state)), "a mirror has a state"));
  CHECK(says(refused(bytes_of(head_of(Operation::mirrored), "key")), "longer than"));
  head = head_of(Operation::removed);
  head.database = keyspace::database_count;
  CHECK(says(refused(bytes_of(head, "key")), "no such database"));
  head = head_of(Operation::removed);
  head.reserved[2] = 1;
  CHECK(says(refused(bytes_of(head, "key")), "flags"));
  head = head_of(Operation::removed);
  head.kind = 1;
  CHECK(says(refused(bytes_of(head, "key")), "flags"));
  head = head_of(Operation::removed);
  head.what = 1;
  CHECK(says(refused(bytes_of(head, "key")), "flags"));
  head = head_of(Operation::grown);
  head.kind = 1;
  CHECK(says(refused(bytes_of(head, "key")), "flags"));
  head = head_of(Operation::removed);
  head.count = 1;
  CHECK(says(refused(bytes_of(head, "key")), "a count"));
  CHECK(says(refused(bytes_of(head_of(Operation::removed, 0xffffffff), "key")), "longer than its frame"));
  head = head_of(Operation::added);
  head.count = 0xffffffff;
  CHECK(says(refused(bytes_of(head, "key")), "longer than its frame"));
  head = head_of(Operation::made);
  head.count = 0xffffffff;
  CHECK(says(refused(bytes_of(head, "key" + std::string(made_head_bytes + 15, '\0'))),
             "longer than its frame"));
  const std::string too_many = "key" + std::string(8, '\0') + std::string(8, '\xff');
  CHECK(says(refused(bytes_of(head_of(Operation::written), too_many)), "longer than its frame"));
  CHECK(says(refused(bytes_of(head_of(Operation::written), "key")), "longer than its frame"));
  CHECK(says(refused(bytes_of(head_of(Operation::flushed), "key")), "a key that it should not have"));
  head = head_of(Operation::removed, 0);
  head.flags = format::operation_same_key;
  CHECK(says(refused(bytes_of(head)), "names the key of none"));
  head = head_of(Operation::made);
  head.flags = format::operation_same_head;
  CHECK(says(refused(bytes_of(head, "key")), "the head of none"));
  head = head_of(Operation::removed);
  head.flags = format::operation_same_head;
  CHECK(says(refused(bytes_of(head, "key")), "flags"));
}

TEST_CASE("a value of a kind that this build does not know is of a newer version") {
  for (const Operation operation : {Operation::made, Operation::changed}) {
    OperationHead head = head_of(operation);
    head.kind = static_cast<std::uint8_t>(value::kinds.size());
    const std::vector<std::byte> body = bytes_of(head, "key" + std::string(8, '\0'));
    OperationDecoder decoder(body);
    const auto refused = decoder.next();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::unsupported_version);
  }
}

// Versions 4 to 7 had operations for each kind.
TEST_CASE("what earlier versions wrote is read as what is made and changed") {
  const auto made = bloom::made_record({.options = some_options, .first_layer = first_layer()});
  const auto grown = bloom::grown_record(first_layer());
  const auto written = strings::written_head(7, 2);
  std::vector<std::byte> body;
  const auto append = [&](Operation operation, std::span<const std::byte> bytes, std::string_view more = "") {
    const std::vector<std::byte> head = bytes_of(head_of(operation), "key");
    for (const auto part : {std::span<const std::byte>(head), bytes, std::as_bytes(std::span(more))})
      body.insert(body.end(), part.begin(), part.end());
  };
  append(Operation::created, made);
  append(Operation::grown, grown);
  append(Operation::written, written, "ab");
  OperationDecoder decoder(body);
  const auto* const first = std::get_if<keyspace::Made>(&(*decoder.next())->change);
  REQUIRE(first != nullptr);
  CHECK(first->kind == value::Kind::bloom);
  CHECK(std::ranges::equal(first->head, made));
  const auto* const second = std::get_if<keyspace::Changed>(&(*decoder.next())->change);
  REQUIRE(second != nullptr);
  CHECK((second->kind == value::Kind::bloom && second->what == bloom::grown_change));
  CHECK(std::ranges::equal(second->bytes, grown));
  const auto* const third = std::get_if<keyspace::Changed>(&(*decoder.next())->change);
  REQUIRE(third != nullptr);
  CHECK((third->kind == value::Kind::string && third->what == strings::written_change));
  CHECK(third->bytes.size() == strings::written_head_bytes + 2);
  CHECK(decoder.at_end());
}

TEST_CASE("filters of one shape that are made in one frame share its record") {
  bloom::FilterOptions others = some_options;
  others.seed = 8;
  test::TellingEncoder encoder;
  encoder.created({.database = 3, .key = "a"}, some_options, first_layer());
  const std::size_t first_bytes = encoder.bytes().size();
  encoder.added({.database = 3, .key = "a"}, {&some_fingerprint, 1});
  const std::size_t before_second = encoder.bytes().size();
  encoder.created({.database = 4, .key = "b"}, some_options, first_layer());
  CHECK(encoder.bytes().size() - before_second == first_bytes - made_head_bytes);
  encoder.created({.database = 3, .key = "c"}, others, first_layer());
  encoder.created({.database = 3, .key = "d"}, others, first_layer());
  encoder.added({.database = 3, .key = "d"}, {&some_fingerprint, 1});

  OperationDecoder decoder(encoder.bytes());
  std::string keys;
  while (!decoder.at_end()) {
    const auto operation = decoder.next();
    REQUIRE(operation);
    const auto* const made = std::get_if<keyspace::Made>(&(*operation)->change);
    if (made == nullptr) continue;
    const std::string_view key = made->key.key;
    keys += key;
    const auto expected =
        bloom::made_record({.options = key < "c" ? some_options : others, .first_layer = first_layer()});
    CHECK(std::ranges::equal(made->head, expected));
    std::vector<Fingerprint> items;
    append_fingerprints((*operation)->fingerprints, items);
    const bool has_item = key == "a" || key == "d";
    CHECK(items == std::vector<Fingerprint>(has_item ? 1 : 0, some_fingerprint));
  }
  CHECK(keys == "abcd");

  encoder.clear();
  encoder.created({.database = 3, .key = "a"}, others, first_layer());
  CHECK(encoder.bytes().size() == first_bytes);
}

}  // namespace operation_decoder_test
