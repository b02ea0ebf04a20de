#include <sepal/base/gate.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/filter/unite.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/keyspace/part_list.hpp>
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/replay/replay.hpp>

#include <algorithm>

#include "support/catch.hpp"
#include "support/generation_files.hpp"
#include "support/journal_files.hpp"
#include "support/storage_fixture.hpp"
#include "support/values.hpp"
#include "unit/storage/examined_directory.hpp"

namespace examine_test {

namespace {

struct Salvaged {
  SimulatedDisk disk;
  SalvageReport report;
  test::LoadOutcome loaded;

  [[nodiscard]] std::uint64_t items(std::uint32_t database, const std::string& key) const {
    const auto found = loaded.filters.find({database, key});
    return found == loaded.filters.end() ? 0 : found->second->item_count();
  }
};

std::unique_ptr<Salvaged> salvage(const Directory& directory) {
  auto salvaged = std::make_unique<Salvaged>();
  directory.put(salvaged->disk);
  const auto report = salvage_directory(salvaged->disk, "data", "saved", 5, {});
  INFO((report ? "" : report.error().detail));
  REQUIRE(report);
  salvaged->report = *report;
  for (const auto& [path, contents] : salvaged->disk.files())
    if (!path.starts_with("saved/")) CHECK(directory.files.at(path) == contents);
  salvaged->loaded = test::open_and_load(salvaged->disk, "saved");
  REQUIRE_FALSE(salvaged->loaded.error);
  CHECK(salvaged->loaded.filters.size() == count_of(salvaged->report.values, value::Kind::bloom));
  return salvaged;
}

std::vector<std::string> inspected(const FileMap& files, const std::string& path, bool json = false) {
  SimulatedDisk disk;
  for (const auto& [name, contents] : files) disk.put(name, contents);
  std::vector<std::string> lines;
  const auto done =
      inspect_file(disk, path, [&](const Fact& fact) { lines.push_back(json ? fact.json() : fact.line()); });
  if (!done) lines.push_back("error: " + done.error().detail);
  return lines;
}

}  // namespace

TEST_CASE("verify finds nothing wrong with a whole directory, and reports a torn tail as harmless") {
  Directory directory;
  const auto findings = directory.verify();
  CHECK_FALSE(any(findings, Grade::damaged));
  const std::string torn = only(findings, Grade::harmless);
  CHECK(contains(torn, "data/journal-000000000001 is torn at offset " + std::to_string(directory.torn_from)));
  CHECK(contains(findings.back().text, "4 changes with 3 items"));

  directory.files["data/journal-000000000001"][directory.torn_from + 30] ^= std::byte{1};
  CHECK_FALSE(any(directory.verify(), Grade::harmless));
}

TEST_CASE("verify names the file and the offset of damage, wherever it is") {
  const Directory whole;
  for (const std::string& path : {std::string("data/CURRENT"), std::string("data/SEED"), folder + "MANIFEST",
                                  folder + "pack-0", folder + "filter-1-0"}) {
    Directory directory = whole;
    directory.files[path].back() ^= std::byte{1};
    CHECK(contains(only(directory.verify(), Grade::damaged), path + " is damaged at offset "));
  }
  Directory directory = whole;
  directory.files.erase(folder + "filter-1-0");
  CHECK(contains(only(directory.verify(), Grade::damaged), folder + "filter-1-0"));
}

TEST_CASE("verify reports a folder in the place of a file without data") {
  const std::string opened = ": it is not a regular file but a folder";
  const auto [name, text] = GENERATE_COPY(table<std::string, std::string>(
      {{"LOCK", "cannot open data/LOCK" + opened},
       {"reserve-1", "cannot open data/reserve-1" + opened},
       {"reserve-4", "cannot open data/reserve-4" + opened},
       {"adopted-000000000009", "cannot remove data/adopted-000000000009: Is a directory"},
       {"adopted-000000000009.tmp", "cannot remove data/adopted-000000000009.tmp: Is a directory"}}));
  SimulatedDisk disk;
  Directory().put(disk);
  for (const bool folder_there : {false, true}) {
    if (folder_there) REQUIRE(disk.make_directory("data/" + name));
    const auto findings = verify_directory(disk, "data", {});
    REQUIRE(findings);
    CHECK(only(*findings, Grade::damaged) == (folder_there ? text : ""));
  }
}

TEST_CASE("verify says that a start removes what is needed no more") {
  const std::string name =
      GENERATE(as<std::string>(), "adopted-000000000009", "adopted-000000000009.tmp", aside_name(7));
  INFO(name);
  Directory directory;
  directory.files["data/journal-000000000001"][directory.torn_from + 30] ^= std::byte{1};  // not torn
  directory.files["data/" + name] = Bytes(10);
  CHECK(contains(only(directory.verify(), Grade::harmless), name + " is needed no more: a start removes it"));
}

TEST_CASE("verify and salvage refuse a missing directory, and one without data") {
  SimulatedDisk disk;
  CHECK(verify_directory(disk, "data", {}).error().code == Errc::not_found);
  CHECK(salvage_directory(disk, "data", "saved", 5, {}).error().code == Errc::not_found);
  const std::string sentence = "data is no data directory: it has no SEED, no CURRENT and no journal";
  REQUIRE(disk.make_directory("data"));
  for (const char* name : {"", "LOCK", "notes", "generation-1", "journal-1"}) {
    if (*name != '\0') disk.put(Path("data") / name, Bytes(1));
    CHECK(verify_directory(disk, "data", {}).error().detail == sentence);
    CHECK(salvage_directory(disk, "data", "saved", 5, {}).error().detail == sentence);
    CHECK_FALSE(*disk.exists("saved"));
  }
}

TEST_CASE("verify and salvage take a directory of which only a part is left") {
  for (const char* name : {"SEED", "CURRENT", "generation-000000000001/pack-0", "journal-000000000001"}) {
    INFO(name);
    Directory directory;
    std::erase_if(directory.files,
                  [&](const auto& file) { return file.first != "data/" + std::string(name); });
    REQUIRE(directory.files.size() == 1);
    static_cast<void>(directory.verify());
    SimulatedDisk disk;
    directory.put(disk);
    CHECK(salvage_directory(disk, "data", "saved", 5, {}).ok());
  }
}

TEST_CASE("inspect prints what each kind of file holds") {
  const Directory directory;
  CHECK(inspected(directory.files, "data/SEED") ==
        std::vector<std::string>{"line kind=\"SEED\" value=\"0x1f\""});
  CHECK(contains(inspected(directory.files, "data/CURRENT")[0], "value=\"generation-000000000001\""));
  const auto manifest = inspected(directory.files, folder + "MANIFEST");
  REQUIRE(manifest.size() == 3);
  CHECK(contains(manifest[0], "manifest generation=1 "));
  CHECK(contains(manifest[0], "keys=3 items=19 "));
  CHECK(contains(manifest[1], "file name=\"pack-0\""));
  const auto pack = inspected(directory.files, folder + "pack-0");
  CHECK(contains(pack[0], "keys count=2"));
  const auto grown = std::find_if(pack.begin(), pack.end(),
                                  [](const std::string& line) { return contains(line, "key=\"grown\""); });
  REQUIRE(grown != pack.end());
  CHECK(contains(*grown, "filter offset="));
  CHECK(contains(*grown, "database=3 key=\"grown\" items=9 journal_position=0 error_rate=0.1 capacity=4 "));
  CHECK(contains(*grown, " deadline_milliseconds=12345"));
  // As `sepal build --seed` takes it. Readers of JSON keep 53 bits of a number, so there it is a text.
  CHECK(contains(*grown, " seed=0x2"));
  const auto pack_json = inspected(directory.files, folder + "pack-0", true);
  CHECK(std::ranges::any_of(pack_json,
                            [](const std::string& line) { return contains(line, R"("seed":"0x2")"); }));
  CHECK(contains(*(grown + 1), "layer items=4 capacity=4 "));

  const auto journal = inspected(directory.files, "data/journal-000000000001");
  CHECK(journal[0] ==
        "segment number=1 first_position=0 bytes=4096 identity=\"0000000000000000\" run=0 run_before=0");
  CHECK(journal[1].starts_with("frame offset=64 position=0 bytes="));
  CHECK(contains(journal[2], "created database=1 key=\"recorded\" error_rate=0.01 capacity=100 "));
  CHECK(journal[4] == "added database=1 key=\"recorded\" items=1");
  CHECK(contains(journal.back(), "end offset=" + std::to_string(directory.torn_from)));
  const auto json = inspected(directory.files, "data/journal-000000000001", true);
  CHECK(json[4] == R"({"what":"added","database":1,"key":"recorded","items":1})");
}

TEST_CASE("inspect tells of which filters one is made, and of how many layers of each") {
  test::Filters filters;
  filters.add(0, "one", 5, {.error_rate = 0.1, .capacity = 4, .seed = 1});
  filters.add(0, "two", 3, {.error_rate = 0.1, .capacity = 4, .seed = 1});
  test::JournalFiles journal(0, 4096);
  keyspace::Mutator mutator(filters.keyspace, &journal);
  const bloom::Filter& one = *filter_at(filters.keyspace, {.database = 0, .key = "one"});
  const auto made =
      bloom::unite(bloom::header_of(one), std::vector<bloom::PartLayers>{one.layers()}, test::roomy, {});
  REQUIRE(made);
  const std::vector<keyspace::Part> parts{{.key = "one", .extent = 2}, {.key = "two", .extent = 0x7'0001}};
  REQUIRE(
      mutator.remake({.database = 0, .key = "union"}, *made, bloom::encode(bloom::header_of(one)), parts));
  journal.end_frame();
  const auto lines = inspected(journal.files(), journal.files().begin()->first);
  const auto remade = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with("remade database=0 key=\"union\""); });
  REQUIRE(remade != lines.end());
  CHECK(contains(*remade, " part=\"one\" part_layers=2 part=\"two\" part_layers=1"));
}

TEST_CASE("inspect escapes keys, prints the part before damage, and refuses other files") {
  Fact fact("filter");
  fact.text("key", std::string("a\"\\\n\xff", 5));
  CHECK(fact.line() == R"(filter key="a\x22\x5c\x0a\xff")");
  CHECK(fact.json() == R"({"what":"filter","key":"a\u0022\u005c\u000a\u00ff"})");

  Directory directory;
  directory.files[folder + "pack-0"].back() ^= std::byte{1};
  const auto pack = inspected(directory.files, folder + "pack-0");
  CHECK(pack.size() > 2);
  CHECK(contains(pack.back(), "error: " + folder + "pack-0 is damaged at offset "));
  directory.files["data/other"] = Bytes(100, std::byte{7});
  CHECK(inspected(directory.files, "data/other")[0] ==
        "error: data/other is no file of Sepal: it begins as none does");
  directory.files["data/empty"] = Bytes(100);
  CHECK(inspected(directory.files, "data/empty")[0] == "unused bytes=100");
}

TEST_CASE("salvage of a whole directory loses nothing") {
  const auto salvaged = salvage(Directory());
  CHECK(salvaged->report.lost.empty());
  CHECK(count_of(salvaged->report.values, value::Kind::bloom) == 4);
  CHECK(salvaged->report.items == 22);
  CHECK(salvaged->items(1, "recorded") == 3);
  CHECK(salvaged->items(3, "grown") == 9);
  const auto pack = inspected(salvaged->disk.files(), "saved/generation-000000000001/pack-0");
  const auto deadlines = std::count_if(pack.begin(), pack.end(), [](const std::string& line) {
    return contains(line, "key=\"grown\"") && contains(line, " deadline_milliseconds=12345");
  });
  CHECK(deadlines == 1);
}

TEST_CASE("salvage of a directory with one wrong byte anywhere loses at most the part at that byte",
          "[exhaustive]") {
  const Directory whole;
  const std::vector<std::string> names{"small", "grown", "large"};
  for (const std::string& path : {folder + "pack-0", folder + "filter-1-0"}) {
    for (std::size_t at = 0; at < whole.files.at(path).size(); ++at) {
      INFO(path << " offset " << at);
      Directory directory = whole;
      directory.files[path][at] ^= std::byte{0x11};
      const auto salvaged = salvage(directory);
      CHECK_FALSE(salvaged->report.lost.empty());
      // Salvage keeps at least the other filter of the pack, and those of the journal.
      CHECK(count_of(salvaged->report.values, value::Kind::bloom) >= 3);
      CHECK(salvaged->items(1, "recorded") == 3);
    }
  }
}

TEST_CASE("verify and salvage report a file that was cut at any byte", "[exhaustive]") {
  const Directory whole;
  for (const std::string& path : {folder + "pack-0", folder + "filter-1-0"}) {
    for (std::size_t length = 0; length < whole.files.at(path).size(); ++length) {
      INFO(path << " length " << length);
      Directory directory = whole;
      directory.files[path].resize(length);
      const std::vector<Finding> findings = directory.verify();
      CHECK(std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
        return finding.grade == Grade::damaged && contains(finding.text, path);
      }));
      const auto salvaged = salvage(directory);
      CHECK_FALSE(salvaged->report.lost.empty());
      CHECK(salvaged->items(1, "recorded") == 3);
    }
  }
}

TEST_CASE("salvage reports a whole file that is not the one of its generation") {
  const Directory whole;
  SimulatedDisk disk;
  test::Filters filters;
  filters.add(0, "small", 5, {.error_rate = 0.1, .capacity = 10, .seed = 1});
  const std::uint64_t grown_items = GENERATE(0, 8, 9);  // 0: no such filter; 9: the same lengths and counts
  if (grown_items != 0) filters.add(3, "grown", grown_items, {.error_rate = 0.1, .capacity = 4, .seed = 2});
  auto other = DataDirectory::open(disk, "data", 0x1f, std::nullopt, {.own_file_bytes_min = 200});
  REQUIRE(other);
  REQUIRE((*other)->save(filters.snapshot(), {}));

  Directory directory = whole;
  directory.files[folder + "pack-0"] = disk.files().at(folder + "pack-0");
  REQUIRE(any(directory.verify(), Grade::damaged));
  const auto salvaged = salvage(directory);
  CHECK(salvaged->items(3, "grown") == grown_items);  // what is there is taken
  CHECK(salvaged->items(1, "recorded") == 3);
  const auto& lost = salvaged->report.lost;
  const auto told = [&](const std::string& part) {
    return std::ranges::count_if(lost, [&](const std::string& line) { return contains(line, part); });
  };
  CHECK(told(folder + "pack-0 is damaged at offset ") == std::ssize(lost));
  CHECK(told("its checksums are not those that the MANIFEST sealed") == (grown_items == 0 ? 0 : 1));
  CHECK(told("1 of its 2 keys are missing") == (grown_items == 0 ? 1 : 0));
  CHECK(told("and should have") == (grown_items == 0 ? 1 : 0));
  CHECK(told("its count of keys is not that of the MANIFEST") == (grown_items == 0 ? 1 : 0));
}

TEST_CASE("salvage reports the MANIFEST of another generation") {
  SimulatedDisk disk;
  test::Filters filters;
  filters.add(0, "a", 5);
  auto data = DataDirectory::open(disk, "data", 0x1f, std::nullopt);
  REQUIRE(data);
  REQUIRE((*data)->save(filters.snapshot(), {}));
  const FileMap first = disk.files();
  REQUIRE((*data)->save(filters.snapshot(), {}));
  Directory directory;
  directory.files = disk.files();
  CHECK(salvage(directory)->report.lost.empty());
  directory.files["data/generation-000000000002/MANIFEST"] = first.at(folder + "MANIFEST");
  const auto salvaged = salvage(directory);
  REQUIRE(salvaged->report.lost.size() == 1);
  CHECK(contains(salvaged->report.lost[0], "MANIFEST is damaged at offset 0: it belongs to 1"));
}

TEST_CASE("salvage works without a CURRENT, a MANIFEST or a file") {
  for (const std::string& path :
       {std::string("data/CURRENT"), folder + "MANIFEST", folder + "filter-1-0", std::string("data/SEED")}) {
    for (const bool gone : {false, true}) {
      INFO(path << " " << gone);
      Directory directory;
      if (gone) {
        directory.files.erase(path);
      } else {
        directory.files[path].back() ^= std::byte{1};
      }
      const auto salvaged = salvage(directory);
      const bool spare = path == "data/SEED" || path == "data/CURRENT";
      CHECK(salvaged->report.lost.empty() == spare);
      CHECK(salvaged->report.noted.empty() == (!spare || (gone && path == "data/SEED")));
      for (const std::string& line : salvaged->report.noted) CHECK_FALSE(contains(line, "sepal salvage"));
      CHECK(salvaged->items(3, "grown") == 9);
      CHECK((salvaged->items(1, "recorded") == 3) == (path != folder + "MANIFEST"));
    }
  }
}

TEST_CASE("salvage reports a damaged CURRENT as a loss if a newer generation is not whole") {
  Directory directory;
  directory.files["data/CURRENT"].back() ^= std::byte{1};
  directory.files["data/generation-000000000002/MANIFEST"] = Bytes(10);
  const auto salvaged = salvage(directory);
  CHECK(salvaged->report.noted.empty());
  CHECK(salvaged->report.lost.size() == 2);
  CHECK(salvaged->items(1, "recorded") == 3);
}

TEST_CASE("salvage leaves out the journal's changes to lost filters, and all changes behind damage") {
  SimulatedDisk disk;
  test::Filters filters;
  filters.add(0, "lost", 5, some_options);
  filters.add(0, "kept", 5, some_options);
  auto directory = DataDirectory::open(disk, "data", 0x1f, std::nullopt, {.own_file_bytes_min = 1});
  REQUIRE(directory);
  REQUIRE((*directory)->save(filters.snapshot(), {}));
  test::JournalFiles journal(0, 4096);
  const Fingerprint fingerprint = fingerprint_of("new", some_options.seed);
  journal.added({.database = 0, .key = "lost"}, {&fingerprint, 1});
  journal.added({.database = 0, .key = "kept"}, {&fingerprint, 1});
  journal.end_frame();
  // A lost filter that is renamed onto another key replaces the filter there.
  journal.created({.database = 0, .key = "target"}, some_options,
                  (*bloom::Filter::create(some_options, test::roomy))->newest_layer().plan());
  journal.renamed(0, "lost", "target");
  journal.end_frame();
  const std::size_t damaged_from = journal.used();
  journal.removed({.database = 0, .key = "kept"});
  journal.end_frame();
  journal.sync();
  journal.flushed_all();
  journal.end_frame();
  journal.files().begin()->second[damaged_from + 30] ^= std::byte{1};
  journal.put(disk, "data");

  auto files = disk.files();
  for (auto& [path, contents] : files) {
    const std::string_view text(reinterpret_cast<const char*>(contents.data()), contents.size());
    if (path.find("filter-") != std::string::npos && text.find("lost") != std::string_view::npos)
      contents.back() ^= std::byte{1};
  }
  Directory damaged;
  damaged.files = files;
  const auto salvaged = salvage(damaged);
  CHECK(salvaged->items(0, "kept") == 6);
  CHECK(count_of(salvaged->report.values, value::Kind::bloom) == 1);
  REQUIRE(salvaged->report.lost.size() == 3);
  for (const std::string& lost : salvaged->report.lost) CHECK_FALSE(contains(lost, "sepal salvage"));
  CHECK(contains(salvaged->report.lost[2],
                 "journal-000000000001 is damaged at offset " + std::to_string(damaged_from)));
  CHECK(contains(salvaged->report.lost[1], "1 items"));
}

TEST_CASE("salvage keeps everything before a change that makes no sense") {
  SimulatedDisk disk;
  test::Filters filters;
  filters.add(0, "kept", 5, some_options);
  auto directory = DataDirectory::open(disk, "data", 0x1f, std::nullopt);
  REQUIRE(directory);
  REQUIRE((*directory)->save(filters.snapshot(), {}));
  test::JournalFiles journal(0, 4096);
  for (const char* item : {"new", "newer"}) {
    const Fingerprint fingerprint = fingerprint_of(item, some_options.seed);
    journal.added({.database = 0, .key = "kept"}, {&fingerprint, 1});
    journal.end_frame();
  }
  journal.frame_of(Bytes(sizeof(format::OperationHead), std::byte{0xff}));
  journal.put(disk, "data");

  Directory damaged;
  damaged.files = disk.files();
  const auto salvaged = salvage(damaged);
  CHECK(salvaged->items(0, "kept") == 7);
  CHECK(salvaged->report.lost.size() == 1);
}

TEST_CASE("salvage writes only into an empty directory") {
  SimulatedDisk disk;
  Directory().put(disk);
  disk.put("other/file", Bytes(1));
  const auto refused = salvage_directory(disk, "data", "other", 5, {});
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::out_of_range);
  CHECK(salvage_directory(disk, "data", "data", 5, {}).error().code == Errc::out_of_range);
}

TEST_CASE("verify reports a key that is too long, and salvage loses only this key") {
  SimulatedDisk disk;
  test::Filters filters;
  filters.add(0, "a", 5);
  filters.add(0, "b", 5);
  Snapshot snapshot = filters.snapshot();
  snapshot.entries[0].key.assign(keyspace::key_bytes_max + 1, 'k');
  auto directory = DataDirectory::open(disk, "data", 0x1f, std::nullopt);
  REQUIRE(directory);
  REQUIRE((*directory)->save(snapshot, {}));
  const auto findings = verify_directory(disk, "data", {});
  REQUIRE(findings);
  CHECK(only(*findings, Grade::damaged).find("pack-0") != std::string::npos);
  const auto report = salvage_directory(disk, "data", "saved", 1, {});
  REQUIRE(report);
  CHECK(count_of(report->values, value::Kind::bloom) == 1);
  CHECK(report->lost.size() == 1);
}

TEST_CASE("salvage takes the newest generation if the one that CURRENT names is missing") {
  Directory directory;
  FileMap& files = directory.files;
  SimulatedDisk disk;
  FileMap moved;
  for (auto& [path, contents] : files)
    moved[path.starts_with(folder) ? "data/generation-000000000003/" + path.substr(folder.size()) : path] =
        contents;
  files = moved;
  directory.put(disk);
  const auto report = salvage_directory(disk, "data", "saved", 1, {});
  REQUIRE(report);
  CHECK(count_of(report->values, value::Kind::bloom) == 4);
  CHECK_FALSE(report->lost.empty());

  std::erase_if(files, [](const auto& file) { return file.first.starts_with("data/generation-"); });
  SimulatedDisk none;
  directory.put(none);
  const auto left = salvage_directory(none, "data", "saved", 1, {});
  REQUIRE(left);
  CHECK(count_of(left->values, value::Kind::bloom) == 1);
  CHECK_FALSE(left->lost.empty());
}

namespace {

// A generation that was cut at `cut`; its filter and its string were taken later. The journal goes on behind.
struct SavedWhileChanged {
  FileMap generation;
  test::JournalFiles journal{0, 4096};
  std::uint64_t cut = 0;
  std::uint64_t filter_position = 0;
  std::uint64_t string_position = 0;

  SavedWhileChanged() {
    journal.removed({.database = 0, .key = "before the cut"});
    journal.end_frame();
    cut = journal.position();
    filter_position = write_bytes();
    string_position = write_bytes();
    SimulatedDisk disk;
    test::Filters filters;
    filters.add(0, "filter", 3);
    REQUIRE(
        filters.keyspace.put({.database = 0, .key = "string"}, *strings::String::of("text", test::roomy)));
    auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
    REQUIRE(directory);
    Snapshot snapshot = filters.snapshot();
    snapshot.journal_position = cut;
    for (std::size_t i = 0; i < snapshot.entries.size(); ++i)
      snapshot.journal_positions[i] =
          snapshot.entries[i].value->kind() == value::Kind::string ? string_position : filter_position;
    REQUIRE((*directory)->save(snapshot, {}));
    generation = disk.files();
  }

  std::uint64_t write_bytes() {
    journal.written({.database = 0, .key = "string"}, 0, "TEXT");
    journal.end_frame();
    return journal.position();
  }
};

// What a start does with these files: the error that ends it, if any.
std::optional<Error> start_with(SimulatedDisk& disk) {
  auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
  if (!directory) return directory.error();
  test::Filters filters;
  ReplayStart start;
  const auto take = [&](std::span<LoadedValue> loaded) -> Result<void> {
    for (LoadedValue& each : loaded) {
      start.positions.note(each, *each.value);
      const keyspace::DatabaseKey key{.database = each.database, .key = each.key};
      if (auto put = filters.keyspace.put(key, std::move(each.value), each.deadline); !put) return put;
    }
    return {};
  };
  const auto loaded = (*directory)->load(test::roomy, take, {});
  if (!loaded) return loaded.error();
  start.cut = loaded->journal_position;
  Gate gate(1);
  const auto replayed = replay_journal(disk, "data", filters.keyspace, gate, std::move(start), {});
  return replayed ? std::nullopt : std::optional(replayed.error());
}

}  // namespace

TEST_CASE("verify and a start agree on journals beside strings that were taken behind the cut") {
  SavedWhileChanged saved;
  const auto begun_at = [&](std::uint64_t position) {
    test::JournalFiles journal(position, 4096);
    journal.written({.database = 0, .key = "string"}, 0, "new");
    journal.end_frame();
    return journal.files();
  };
  const auto ended_at = [&](std::uint64_t position) {
    FileMap files = saved.journal.files();
    Bytes& segment = files.begin()->second;
    std::fill(segment.begin() + static_cast<std::ptrdiff_t>(sizeof(format::SegmentHeader) + position),
              segment.end(), std::byte{0});
    return files;
  };
  const struct {
    const char* what;
    FileMap journal;
    bool starts;
    bool warns = false;  // that strings may be torn
  } cases[] = {
      {"the whole journal", saved.journal.files(), true},
      {"no journal", {}, true, true},
      {"begun behind the string", begun_at(saved.string_position), true, true},
      {"begun behind the filter", begun_at(saved.filter_position), true, true},
      {"begun elsewhere", begun_at(saved.filter_position + 8), false},
      {"ended before the filter", ended_at(saved.cut), false},
      {"ended between filter and string", ended_at(saved.filter_position), false},
  };
  for (const auto& each : cases) {
    INFO(each.what);
    SimulatedDisk disk;
    for (const auto& [path, contents] : saved.generation) disk.put(path, contents);
    for (const auto& [name, contents] : each.journal) disk.put("data/" + name, contents);
    const auto findings = verify_directory(disk, "data", {});
    REQUIRE(findings);
    CHECK(std::ranges::none_of(*findings, &Finding::stops_start) == each.starts);
    const std::string harmless = each.starts ? only(*findings, Grade::harmless) : std::string();
    CHECK(contains(harmless, "strings and cuckoo filters may have a part of a change") == each.warns);
    const auto error = start_with(disk);
    CHECK(error.has_value() == !each.starts);
    if (error) CHECK(only(*findings, Grade::damaged) == error->detail);
  }
}

}  // namespace examine_test
