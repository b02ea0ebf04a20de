// Data directories of every earlier version can be read, and give the original filters.
//
// tests/golden/formats/<version>/ is a whole data directory. The hidden test "write the directory" writes the
// newest one, once for each version. A change of the format needs a new version and a new directory.
#include <sepal/base/gate.hpp>
#include <sepal/bloom/foreign/client_bitmap.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/generation/adopted_files.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/writers/bloom_writer.hpp>
#include <sepal/writers/string_writer.hpp>

#include "golden_cuckoo.hpp"
#include "golden_remade.hpp"
#include "golden_window.hpp"
#include "support/bitmap_of_bytes.hpp"
#include "support/catch.hpp"
#include "support/journal_files.hpp"
#include "support/redisbloom_filter.hpp"
#include "support/storage_fixture.hpp"
#include "support/values.hpp"

namespace formats_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

const std::filesystem::path formats = SEPAL_GOLDEN_FORMATS;
constexpr std::uint64_t segment_bytes = 8192;
// Filters of this size get a file of their own. It is small, so that the directory stays small.
constexpr DataDirectoryOptions small_files{.own_file_bytes_min = 400};

// --- the newest version -----------------------------------------------------------------------------------

// Adds the items `from` to `to` - 1, named after the filter's first key.
void add(keyspace::Mutator& mutator, keyspace::Keyspace& keyspace, keyspace::DatabaseKey key,
         const std::string& name, std::uint64_t from, std::uint64_t to) {
  std::vector<bloom::Filter::AddOutcome> outcomes;
  for (std::uint64_t i = from; i < to; ++i) {
    const std::string item = item_of(name, i);
    const std::string_view view = item;
    sepal::writers::add_alone(mutator, key, *sepal::test::filter_at(keyspace, key), {&view, 1}, outcomes);
  }
}

// A filter to adopt, with five items of this name.
sepal::bloom::FilterPtr whole(const std::string& name, const bloom::FilterPtr& made) {
  for (std::uint64_t i = 0; i < 5; ++i) static_cast<void>(made->add_alone(item_of(name, i), test::roomy));
  return made;
}

// A group of three frames: what one transaction did. `next_segment` runs before the last frame.
template <class NextSegment>
void run_transaction(keyspace::Mutator& mutator, keyspace::Keyspace& keyspace, test::JournalFiles& journal,
                     const NextSegment& next_segment) {
  constexpr keyspace::DatabaseKey key{.database = 12, .key = "transaction"};
  REQUIRE(sepal::writers::create(mutator, key, {.seed = 5}));
  add(mutator, keyspace, key, "transaction", 0, 2);
  journal.continue_group();
  add(mutator, keyspace, key, "transaction", 2, 5);
  REQUIRE(mutator.rename(12, "transaction", "grouped"));
  journal.continue_group();
  next_segment();
  add(mutator, keyspace, {.database = 12, .key = "grouped"}, "transaction", 5, 7);
  journal.end_frame();
}

// Mirrors, as the cut has them.
void add_mirrored(test::Filters& filters) {
  filters.add(10, "source", 2, {.seed = 8});
  filters.add(10, "target", 0, {.seed = 9});
  REQUIRE(filters.keyspace.begin_mirror({.database = 10, .source = "source", .target = "target"}));
  filters.add(10, "left", 2, {.seed = 8});
  filters.add(10, "left alone", 0, {.seed = 9});
  REQUIRE(filters.keyspace.begin_mirror({.database = 10, .source = "left", .target = "left alone"}));
}

void change_everything_but_strings(keyspace::Mutator& mutator, keyspace::Keyspace& keyspace,
                                   SimulatedDisk& disk) {
  // Two filters of one shape in one frame.
  REQUIRE(sepal::writers::create(mutator, {.database = 4, .key = "moved"}, {.seed = 5}));
  add(mutator, keyspace, {.database = 4, .key = "moved"}, "moved", 0, 3);
  REQUIRE(sepal::writers::create(mutator, {.database = 6, .key = "swapped"}, {.seed = 5}));
  add(mutator, keyspace, {.database = 6, .key = "swapped"}, "swapped", 0, 3);
  REQUIRE(mutator.move({.database = 4, .key = "moved"}, 5));
  mutator.swap_databases(6, 7);
  const auto small = *bloom::Filter::create({.seed = 9}, test::roomy);
  REQUIRE(mutator.adopt({.database = 8, .key = "whole"}, whole("whole", small), 33'177'117'420'000));
  REQUIRE(mutator.adopt({.database = 9, .key = "foreign"},
                        whole("foreign", test::redisbloom_filter({.capacity = 3})), keyspace::no_deadline));
  add(mutator, keyspace, {.database = 10, .key = "source"}, "source", 2, 6);
  REQUIRE(mutator.end_mirror({.database = 10, .key = "left"}));
  REQUIRE(sepal::writers::create(mutator, {.database = 11, .key = "source"}, {.seed = 5}));
  REQUIRE(sepal::writers::create(mutator, {.database = 11, .key = "full"},
                                 {.capacity = 1, .expansion = 0, .seed = 5}));
  REQUIRE(mutator.begin_mirror(11, "source", "full"));
  add(mutator, keyspace, {.database = 11, .key = "source"}, "broken", 0, 3);
  const auto files = AdoptedFiles::open(disk, "data", {});
  REQUIRE(files);
  const auto large = whole("file", *bloom::Filter::create({.seed = 9}, test::roomy));
  const auto file = (*files)->write(large, {});
  REQUIRE(file);
  // Begins a frame of its own.
  REQUIRE(mutator.adopt({.database = 8, .key = "file"}, large, keyspace::no_deadline, *file));
}

// Strings are recorded from version 8 on: one that came whole, one that was written, and one whose bits were
// set.
void change_as_in_version_8(keyspace::Mutator& mutator, keyspace::Keyspace& keyspace) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); };
  auto whole = strings::String::of("a whole string", test::roomy);
  REQUIRE(whole);
  REQUIRE(sepal::writers::put_string(mutator, {.database = 13, .key = "whole"}, std::move(*whole),
                                     33'177'117'420'000));
  REQUIRE(sepal::writers::write(mutator, {.database = 13, .key = "written"}, 5, bytes("written")));
  REQUIRE(sepal::writers::write(mutator, {.database = 13, .key = "written"}, 0, bytes("W")));
  REQUIRE(
      sepal::writers::write(mutator, {.database = 13, .key = "bits"}, 3, bytes(std::string_view("\0", 1))));
  const keyspace::DatabaseKey bits{.database = 13, .key = "bits"};
  REQUIRE(sepal::writers::try_set_bit(mutator, bits, *sepal::test::string_at(keyspace, bits), 0) == false);
  REQUIRE(sepal::writers::try_set_bit(mutator, bits, *sepal::test::string_at(keyspace, bits), 31) == false);
}

// A filter that began as a bitmap of go-zero with the items "bits/0" to "bits/19".
bloom::FilterPtr client_filter() {
  constexpr int bytes_of_bitmap = 250;
  const bloom::ClientBits bits{
      .scheme = bloom::Scheme::go_zero, .bit_count = 8 * bytes_of_bitmap, .probe_count = 14};
  std::string bytes(bytes_of_bitmap, '\0');
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::array<std::uint64_t, 14> positions{};
    bloom::positions_of(item_of("bits", i), bits, positions);
    for (const std::uint64_t position : positions)
      bytes[position / 8] = static_cast<char>(bytes[position / 8] | 0x80 >> position % 8);
  }
  const auto made = bloom::filter_of_bitmap(
      test::BitmapOfBytes(bytes),
      {.bits = bits, .capacity = 30, .error_rate = 0.01, .expansion = 2, .seed = 5}, test::roomy, {});
  REQUIRE(made);
  return *made;
}

// From version 9 on there are filters that began as a client's bitmap. One is in the generation, one came
// whole.
void change_as_in_version_9(keyspace::Mutator& mutator, keyspace::Keyspace& keyspace) {
  REQUIRE(mutator.adopt({.database = 14, .key = "whole"}, client_filter(), keyspace::no_deadline));
  add(mutator, keyspace, {.database = 14, .key = "saved"}, "above", 2, 4);
}

void add_what_the_cut_has(test::Filters& filters) {
  keyspace::Keyspace& keyspace = filters.keyspace;
  filters.add(0, "small", 20, {.error_rate = 0.01, .capacity = 100, .seed = 0x1f});
  filters.add(0, "large", 300, {.error_rate = 0.001, .capacity = 300, .expansion = 0, .seed = 2});
  filters.add(15, std::string("binary\0\xff", 8), 12,
              {.error_rate = 0.1, .capacity = 4, .expansion = 3, .seed = 3});
  filters.add(1, "flushed", 3, {.seed = 4});
  REQUIRE(keyspace.set_deadline({.database = 0, .key = "small"}, 1'000));
  REQUIRE(keyspace.set_deadline({.database = 0, .key = "large"}, 33'177'117'420'000));

  add_mirrored(filters);
  REQUIRE(sepal::writers::write(keyspace, {.database = 13, .key = "saved"}, 0,
                                std::as_bytes(std::span("saved", 5))));

  REQUIRE(keyspace.put({.database = 14, .key = "saved"}, client_filter(), keyspace::no_deadline));
  keyspace::Mutator without_journal(keyspace, nullptr);
  add(without_journal, keyspace, {.database = 14, .key = "saved"}, "above", 0, 2);
  add_cuckoo_of_the_cut(keyspace);
  add_windows_of_the_cut(keyspace);
  add_shrunk_of_the_cut(keyspace);
}

// A cut and a journal after it: every kind of operation, three segments, a filler, a filter whose layers were
// noted after the cut, a group of frames in two segments, and a group at the end that is torn.
void write_newest(SimulatedDisk& disk) {
  auto directory = DataDirectory::open(disk, "data", 0xfedcba9876543210, std::nullopt, small_files);
  REQUIRE(directory);
  test::Filters filters;
  keyspace::Keyspace& keyspace = filters.keyspace;
  add_what_the_cut_has(filters);
  test::JournalFiles journal(4096, segment_bytes, 0, (*directory)->lineage());
  keyspace::Mutator mutator(keyspace, &journal);
  const std::uint64_t cut = journal.position();
  SnapshotTaker taker(keyspace, test::some_time, cut);
  taker.reserve();
  add(mutator, keyspace, {.database = 0, .key = "small"}, "small", 20, 30);
  journal.end_frame();
  taker.step(1000, journal.position());
  const Snapshot snapshot = taker.finish();

  add(mutator, keyspace, {.database = 0, .key = "small"}, "small", 30, 250);
  journal.end_frame();
  journal.filler(100);
  journal.sync();
  REQUIRE(sepal::writers::create(mutator, {.database = 2, .key = "created"},
                                 {.error_rate = 0.02, .capacity = 50, .seed = 5}));
  add(mutator, keyspace, {.database = 2, .key = "created"}, "created", 0, 10);
  journal.end_frame();
  REQUIRE(sepal::writers::create(mutator, {.database = 2, .key = "removed"}, {.seed = 6}));
  journal.end_frame();
  REQUIRE(mutator.remove({.database = 2, .key = "removed"}));
  journal.end_frame();
  journal.begin_segment();
  REQUIRE(mutator.set_deadline({.database = 2, .key = "created"}, 0x0102030405060708));
  REQUIRE(mutator.set_deadline({.database = 0, .key = "small"}, keyspace::no_deadline));
  REQUIRE(mutator.rename(2, "created", "renamed"));
  add(mutator, keyspace, {.database = 2, .key = "renamed"}, "created", 10, 20);
  mutator.flush(1);
  journal.end_frame();
  change_everything_but_strings(mutator, keyspace, disk);
  journal.end_frame();
  change_as_in_version_8(mutator, keyspace);
  journal.end_frame();
  change_as_in_version_9(mutator, keyspace);
  journal.end_frame();
  change_as_in_version_12(mutator);
  journal.end_frame();
  change_as_in_version_13(mutator);
  journal.end_frame();
  change_as_in_version_14(mutator, keyspace);
  journal.end_frame();
  journal.begin_segment();
  change_as_in_version_15(mutator);
  journal.end_frame();
  run_transaction(mutator, keyspace, journal, [&] { journal.begin_segment(); });
  journal.sync();
  journal.mark();
  // A start cuts this group off: its last frame is the journal's last, and torn.
  mutator.flush(12);
  journal.continue_group();
  mutator.flush_all();
  journal.end_frame();
  journal.files().rbegin()->second[journal.used() - 1] ^= std::byte{1};
  journal.prepare_segment();

  REQUIRE((*directory)->save(snapshot, {}));
  journal.put(disk, "data");
}

// Checks that all given items are found, and that no other items are counted.
bool holds(const bloom::Filter& filter, const std::string& name, std::uint64_t items) {
  for (std::uint64_t i = 0; i < items; ++i)
    if (!test::contains(filter, item_of(name, i))) return false;
  return true;
}

void require_strings(const keyspace::Keyspace& keyspace) {
  const std::pair<std::string_view, std::string> expected[] = {
      {"saved", "saved"},
      {"whole", "a whole string"},
      {"written", std::string("W\0\0\0\0written", 12)},
      {"bits", std::string("\x80\0\0\x01", 4)}};
  for (const auto& [key, text] : expected) {
    INFO(key);
    const auto* const string = sepal::test::string_at(keyspace, {.database = 13, .key = key});
    REQUIRE(string != nullptr);
    CHECK(string->text() == text);
  }
  CHECK(keyspace.size(13) == std::size(expected));
  CHECK(keyspace.deadline({.database = 13, .key = "whole"}) == 33'177'117'420'000);
}

void require_client_filters(const keyspace::Keyspace& keyspace) {
  const bloom::Filter* const saved = sepal::test::filter_at(keyspace, {.database = 14, .key = "saved"});
  const bloom::Filter* const whole = sepal::test::filter_at(keyspace, {.database = 14, .key = "whole"});
  REQUIRE(saved != nullptr);
  REQUIRE(whole != nullptr);
  for (const bloom::Filter* const each : {saved, whole}) {
    CHECK(holds(*each, "bits", 20));
    CHECK(each->options().hash == bloom::ItemHash::xxh3_above_bitmap);
  }
  CHECK(holds(*saved, "above", 4));
  CHECK(saved->layers().size() == 2);
  CHECK(whole->layers().size() == 1);
  CHECK(keyspace.size(14) == 2);
}

struct Expected {
  std::uint32_t database = 0;
  std::string key;
  std::string name;  // the first part of its items' names
  std::uint64_t given = 0;
  std::uint64_t counted = 0;  // adds of the other given items answered "known"
  std::uint32_t layers = 1;
  bloom::FilterOptions options;
  keyspace::Deadline deadline = keyspace::no_deadline;
};

void require_holds(const keyspace::Keyspace& keyspace, const std::vector<Expected>& all) {
  // Those databases have other values.
  CHECK(keyspace.total_size() - keyspace.size(3) - keyspace.size(4) - keyspace.size(13) - keyspace.size(14) -
            keyspace.size(1) - keyspace.size(6) ==
        all.size());
  for (const Expected& expected : all) {
    INFO(expected.key);
    const bloom::Filter* const filter =
        sepal::test::filter_at(keyspace, {.database = expected.database, .key = expected.key});
    REQUIRE(filter != nullptr);
    CHECK(filter->item_count() == expected.counted);
    CHECK(filter->layer_count() == expected.layers);
    CHECK(filter->options() == expected.options);
    CHECK(keyspace.deadline({.database = expected.database, .key = expected.key}) == expected.deadline);
    CHECK(holds(*filter, expected.name, expected.given));
    CHECK_FALSE(test::contains(*filter, "something else"));
  }
}

void read(const std::string& version, SimulatedDisk& disk) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(formats / version)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string contents{std::istreambuf_iterator<char>(file), {}};
    const auto bytes = std::as_bytes(std::span(contents.data(), contents.size()));
    disk.put("data" / entry.path().lexically_relative(formats / version), {bytes.begin(), bytes.end()});
  }
}

// Does what a start of sepald does.
ReplayReport start(SimulatedDisk& disk, keyspace::Keyspace& keyspace) {
  auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
  INFO((directory ? "" : directory.error().detail));
  REQUIRE(directory);
  ValuePositions positions;
  const auto take = [&](std::span<LoadedValue> filters) {
    for (LoadedValue& loaded : filters) {
      positions.note(loaded, *loaded.value);
      REQUIRE(keyspace.put({.database = loaded.database, .key = loaded.key}, loaded.value, loaded.deadline));
      loaded.value = nullptr;
    }
    return Result<void>();
  };
  const auto loaded = (*directory)->load(test::roomy, take, {});
  INFO((loaded ? "" : loaded.error().detail));
  REQUIRE(loaded);
  Gate gate(1);
  const auto replayed = replay_journal(disk, "data", keyspace, gate,
                                       {.cut = loaded->journal_position,
                                        .positions = std::move(positions),
                                        .mirrors = loaded->mirrors,
                                        .run = loaded->run},
                                       {});
  INFO((replayed ? "" : replayed.error().detail));
  REQUIRE(replayed);
  return *replayed;
}

int number_of(const std::string& version) {
  return std::stoi(version.substr(version.find('-') + 1));
}

// The contents of all versions. `more` are the filters that not all of them have.
void require_journaled(const std::string& version, const std::vector<Expected>& more,
                       const std::vector<keyspace::Mirror>& mirrors) {
  SimulatedDisk disk;
  read(version, disk);
  const auto findings = verify_directory(disk, "data", {});
  REQUIRE(findings);
  for (const Finding& finding : *findings) CHECK(finding.grade != Finding::Grade::damaged);
  test::Filters filters;
  const ReplayReport report = start(disk, filters.keyspace);
  CHECK(report.cut_bytes > 0);
  CHECK(report.items_left_out == 10);
  CHECK(report.beyond.size() == 1);
  const std::string binary("binary\0\xff", 8);
  const bloom::FilterOptions small{.error_rate = 0.01, .capacity = 100, .seed = 0x1f};
  const bloom::FilterOptions large{.error_rate = 0.001, .capacity = 300, .expansion = 0, .seed = 2};
  const bloom::FilterOptions binary_options{.error_rate = 0.1, .capacity = 4, .expansion = 3, .seed = 3};
  const bloom::FilterOptions renamed{.error_rate = 0.02, .capacity = 50, .expansion = 2, .seed = 5};
  std::vector<Expected> all{{0, "small", "small", 250, 250, 2, small},
                            {0, "large", "large", 300, 300, 1, large, 33'177'117'420'000},
                            {15, binary, binary, 12, 12, 2, binary_options},
                            {2, "renamed", "created", 20, 20, 1, renamed, 0x0102030405060708}};
  all.insert(all.end(), more.begin(), more.end());
  require_holds(filters.keyspace, all);
  CHECK(filters.keyspace.mirrors().all() == mirrors);
  if (number_of(version) >= 8) {
    require_strings(filters.keyspace);
  } else {
    CHECK(filters.keyspace.size(14) == 0);
  }
  if (number_of(version) >= 9) require_client_filters(filters.keyspace);
  if (number_of(version) >= 12) {
    require_cuckoo_filters(filters.keyspace);
  } else {
    CHECK(filters.keyspace.size(3) == 0);
  }
  if (number_of(version) >= 13) {
    require_windows(filters.keyspace);
  } else {
    CHECK(filters.keyspace.size(4) == 0);
  }
  if (number_of(version) >= 14) {
    require_remade(filters.keyspace);
  } else {
    CHECK(filters.keyspace.size(6) == 0);
  }
  if (number_of(version) >= 15) require_united_windows(filters.keyspace);
  CHECK(filters.keyspace.size(1) == (number_of(version) >= 15 ? 4 : number_of(version) == 14 ? 2 : 0));
}

}  // namespace

// Version 5 is what Sepal 0.1.0 wrote. Version 6 has a SYNCED, version 7 has groups of frames, version 8 has
// strings, version 9 has bitmaps of clients, version 10 has an identity, version 11 names the kind of each
// value that is made or changed, version 12 has filters that delete, version 13 those that forget, version 14
// those made of others, and version 15 those made of filters that forget.
TEST_CASE("data directories of versions 5 to 15 can be read, with adopted filters, mirrors and databases") {
  const bloom::FilterOptions plain{.seed = 5};
  const bloom::FilterOptions of_source{.seed = 8};
  const bloom::FilterOptions of_target{.seed = 9};
  const bloom::FilterOptions foreign{
      .error_rate = 0.01, .capacity = 3, .expansion = 2, .hash = bloom::ItemHash::redisbloom};
  const bloom::FilterOptions full{.capacity = 1, .expansion = 0, .seed = 5};
  const std::string version =
      GENERATE("version-5", "version-6", "version-7", "version-8", "version-9", "version-10", "version-11",
               "version-12", "version-13", "version-14", "version-15");
  std::vector<Expected> more{{5, "moved", "moved", 3, 3, 1, plain},
                             {7, "swapped", "swapped", 3, 3, 1, plain},
                             {8, "whole", "whole", 5, 5, 1, of_target, 33'177'117'420'000},
                             {8, "file", "file", 5, 5, 1, of_target},
                             {9, "foreign", "foreign", 5, 5, 2, foreign},
                             {10, "source", "source", 6, 6, 1, of_source},
                             {10, "target", "source", 0, 4, 1, of_target},
                             {10, "left", "left", 2, 2, 1, of_source},
                             {10, "left alone", "", 0, 0, 1, of_target},
                             {11, "source", "broken", 3, 3, 1, plain},
                             {11, "full", "broken", 1, 1, 1, full}};
  if (number_of(version) >= 7) more.push_back({12, "grouped", "transaction", 7, 7, 1, plain});
  require_journaled(version, more,
                    {{.database = 10, .source = "source", .target = "target", .items_before = 0},
                     {.database = 11,
                      .source = "source",
                      .target = "full",
                      .state = keyspace::MirrorState::full,
                      .items_before = 0}});
}

TEST_CASE("a directory of an earlier version has no identity, and gets one") {
  for (const std::string version : {"version-9", "version-10"}) {
    SimulatedDisk disk;
    read(version, disk);
    const std::uint64_t drawn = 77;
    const auto directory = DataDirectory::open(disk, "data", drawn, std::nullopt);
    REQUIRE(directory);
    SimulatedDisk empty;
    const auto other = DataDirectory::open(empty, "data", drawn, std::nullopt);
    REQUIRE(other);
    CHECK(((*directory)->lineage() == (*other)->lineage()) == (version == "version-9"));
  }
}

TEST_CASE("files written today are equal to the newest golden files") {
  SimulatedDisk written;
  write_newest(written);
  SimulatedDisk committed;
  read("version-15", committed);
  auto files = written.files();
  files.erase("data/LOCK");
  // The version of Sepal stands in the MANIFEST.
  for (const auto& [path, contents] : committed.files()) {
    INFO(path);
    if (!path.ends_with("MANIFEST")) CHECK((files[path] == contents));
  }
  CHECK(files.size() == committed.files().size());
}

TEST_CASE("write the directory of the newest version into the folder that SEPAL_GOLDEN names", "[.golden]") {
  const char* const folder = std::getenv("SEPAL_GOLDEN");
  REQUIRE(folder != nullptr);
  SimulatedDisk disk;
  write_newest(disk);
  for (const auto& [path, contents] : disk.files()) {
    const auto target =
        std::filesystem::path(folder) / std::filesystem::path(path).lexically_relative("data");
    std::filesystem::create_directories(target.parent_path());
    std::ofstream file(target, std::ios::binary);
    file.write(reinterpret_cast<const char*>(contents.data()), static_cast<std::streamsize>(contents.size()));
    CHECK(file.good());
  }
}

}  // namespace formats_test
