// Files of two data directories, or of two copies of one, that stand in one directory.
#include <sepal/storage/examine/backup.hpp>
#include <sepal/storage/examine/examine.hpp>

#include "support/catch.hpp"
#include "support/journal_files.hpp"
#include "support/simulated_disk.hpp"
#include "support/small_server.hpp"

namespace identity_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

using Files = std::map<std::string, Bytes>;

// One directory's files, whose names begin at the directory.
Files files_of(const SimulatedDisk& disk, const std::string& directory) {
  Files files;
  for (auto& [path, contents] : disk.files())
    if (path.starts_with(directory + "/") && !path.ends_with("LOCK"))
      files[path.substr(directory.size() + 1)] = contents;
  return files;
}

bool of_generation(const std::string& name) {
  return name == "CURRENT" || name.starts_with("generation-");
}
bool of_journal(const std::string& name) {
  return name == "SYNCED" || name.starts_with("journal-");
}
bool is_segment(const std::string& name) {
  return name.starts_with("journal-");
}

using Chosen = std::function<bool(const std::string& name)>;

// The files of `home`, with the chosen ones of `other` in the place of its own.
Files with_files_of(const Files& other, const Files& home, const Chosen& chosen) {
  Files mixture;
  for (const auto& file : home)
    if (!chosen(file.first)) mixture.insert(file);
  for (const auto& file : other)
    if (chosen(file.first)) mixture.insert(file);
  return mixture;
}

std::unique_ptr<SimulatedDisk> disk_of(const Files& files) {
  auto disk = std::make_unique<SimulatedDisk>();
  for (const auto& [name, contents] : files) disk->put(Path("data") / name, contents);
  return disk;
}

// The same keys and changes in each directory, with other items: all positions are the same.
Files directory_of(const std::string& name, std::uint64_t drawn, bool saved = true) {
  SimulatedDisk disk;
  SmallServer server(disk, "data", drawn);
  REQUIRE(server.error().empty());
  for (int number = 0; number < 5; ++number) server.add("key", name + " " + std::to_string(number));
  if (saved) REQUIRE(server.save());
  for (int number = 5; number < 10; ++number) server.add("key", name + " " + std::to_string(number));
  REQUIRE(server.journal().sync_until(server.journal().position()));
  return files_of(*disk.crashed_copy(test::Survival::all, 1), "data");
}

// The error with which a start, verify, salvage and a backup refuse the directory.
void require_refused(const Files& files, const std::string& text) {
  const auto disk = disk_of(files);
  const SmallServer server(*disk, "data", 77);
  INFO(server.error());
  CHECK(server.error().find(text) != std::string::npos);
  CHECK(files_of(*disk, "data") == files);

  const auto findings = verify_directory(*disk, "data", {});
  REQUIRE(findings);
  CHECK(std::ranges::any_of(*findings, [&](const Finding& finding) {
    return finding.stops_start() && finding.text.find(text) != std::string::npos;
  }));
  CHECK_FALSE(require_whole(*disk, "data", {}));
}

void require_mixture_refused(const Files& files) {
  require_refused(files, "of different data directories");
  const auto disk = disk_of(files);
  const auto salvaged = salvage_directory(*disk, "data", "saved", 7, {});
  REQUIRE_FALSE(salvaged);
  CHECK(salvaged.error().detail.find("of different data directories") != std::string::npos);
  CHECK(salvaged.error().detail.find("type: cd 'data' && mkdir not-of-") != std::string::npos);
  CHECK(files_of(*disk, "saved").empty());
  const auto copied = copy_data(*disk, {.from = "data", .into = "copy", .until = std::nullopt}, {});
  REQUIRE_FALSE(copied);
  CHECK(copied.error().detail.find("of different data directories") != std::string::npos);
}

// A start and a save, and a stop.
Files saved_and_stopped(const Files& files) {
  const auto disk = disk_of(files);
  {
    SmallServer server(*disk, "data", 2);
    REQUIRE(server.error().empty());
    REQUIRE(server.save());
  }
  return files_of(*disk, "data");
}

// Goes on with a copy: a start, an add, and a stop.
Files gone_on(const Files& files, std::uint64_t drawn, const std::string& item, bool saves) {
  const auto disk = disk_of(files);
  {
    SmallServer server(*disk, "data", drawn);
    INFO(server.error());
    REQUIRE(server.error().empty());
    server.add("key", item);
    if (saves) REQUIRE(server.save());
    server.add("key", item + " too");
    REQUIRE(server.journal().sync_until(server.journal().position()));
  }
  return files_of(*disk, "data");
}

}  // namespace

TEST_CASE("the files of another data directory are refused, though all positions fit") {
  const Files home = directory_of("home", 1);
  const Files other = directory_of("away", 2);
  for (const auto& chosen : {of_generation, of_journal, is_segment})
    require_mixture_refused(with_files_of(other, home, chosen));
}

TEST_CASE("another directory's generation beside a journal without one is refused") {
  require_mixture_refused(
      with_files_of(directory_of("away", 2), directory_of("home", 1, false), of_generation));
}

TEST_CASE("the message tells the file and the line for each of the two directories") {
  const auto disk = disk_of(with_files_of(directory_of("away", 2), directory_of("home", 1), of_generation));
  const std::string text = SmallServer(*disk, "data", 3).error();
  INFO(text);
  CHECK(text.find(" belong generation-000000000001") != std::string::npos);
  CHECK(text.find(" && mv CURRENT generation-000000000001 not-of-") != std::string::npos);
  CHECK(text.find(" && mv journal-000000000") != std::string::npos);
  CHECK(text.find(" SYNCED not-of-") != std::string::npos);
}

namespace {

// The lines that the message offers.
std::vector<std::string> offered(const Files& files) {
  const auto disk = disk_of(files);
  const std::string text = SmallServer(*disk, "data", 3).error();
  std::vector<std::string> lines;
  const std::string before = "type: ";
  for (std::size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1))
    lines.push_back(text.substr(at + before.size(), text.find(';', at) - at - before.size()));
  return lines;
}

// What stands behind `text` in the one line that has it.
std::string behind(const std::string& text, const std::vector<std::string>& lines) {
  const auto with_text = [&](const std::string& line) { return line.find(text) != std::string::npos; };
  REQUIRE(std::ranges::count_if(lines, with_text) == 1);
  const std::string& line = *std::ranges::find_if(lines, with_text);
  return line.substr(line.find(text) + text.size());
}

}  // namespace

TEST_CASE("a mixture in which only SYNCED is another directory's offers to move SYNCED alone") {
  const Files mixture = with_files_of(directory_of("away", 2), directory_of("home", 1),
                                      [](const std::string& name) { return name == "SYNCED"; });
  const auto lines = offered(mixture);
  REQUIRE(lines.size() == 1);
  CHECK(behind(" && mv ", lines).starts_with("SYNCED not-of-"));
}

TEST_CASE("the line that moves another directory's segment leaves the files that this journal may name") {
  Files mixture = directory_of("home", 1);
  const Files away = directory_of("away", 2);
  Bytes segment = std::ranges::find_if(away, [](const auto& file) { return is_segment(file.first); })->second;
  test::reseal_segment("journal-000000000099", segment);
  mixture["journal-000000000099"] = segment;
  mixture["adopted-000000000001"] = Bytes(100);
  const auto lines = offered(mixture);
  REQUIRE(lines.size() == 2);
  CHECK(behind(" && mv journal-000000000099 ", lines).starts_with("not-of-"));
  // The other directory's journal may name them as well, and a start removes what its journal does not name.
  for (const std::string& line : lines) {
    CHECK(line.find(" && cp -p adopted-000000000001 not-of-") != std::string::npos);
    CHECK(line.substr(line.find(" && mv ")).find("adopted") == std::string::npos);
  }
}

TEST_CASE("the line that moves all segments moves the files that they may name") {
  Files mixture = with_files_of(directory_of("away", 2), directory_of("home", 1), of_generation);
  mixture["adopted-000000000001"] = Bytes(100);
  const auto lines = offered(mixture);
  REQUIRE(lines.size() == 2);
  CHECK(behind(" && mv journal-", lines).find(" adopted-000000000001 not-of-") != std::string::npos);
  CHECK(behind(" && mv CURRENT ", lines).find("adopted") == std::string::npos);
}

TEST_CASE("the line names a folder that is not there yet") {
  Files mixture = with_files_of(directory_of("away", 2), directory_of("home", 1), of_generation);
  std::string folder = behind(" && mv CURRENT generation-000000000001 ", offered(mixture));
  for (int number = 2; number < 4; ++number) {
    mixture[folder + "/file"] = Bytes(1);
    const std::string next = behind(" && mv CURRENT generation-000000000001 ", offered(mixture));
    CHECK(next == folder.substr(0, sizeof "not-of-0123456789abcdef" - 1) + "-" + std::to_string(number));
    folder = next;
  }
}

TEST_CASE("a directory keeps its identity, and each start has a run of its own") {
  Files files = directory_of("home", 1);
  const auto identity = [&](std::uint64_t drawn) {
    const auto disk = disk_of(files);
    const auto data = DataDirectory::open(*disk, "data", drawn, std::nullopt);
    REQUIRE(data);
    return (*data)->lineage();
  };
  const Lineage first = identity(1);
  CHECK(first.identity != 0);
  for (std::uint64_t drawn = 2; drawn < 6; ++drawn) {
    files = gone_on(files, drawn, "item " + std::to_string(drawn), drawn % 2 == 0);
    CHECK(identity(drawn).identity == first.identity);
    CHECK(identity(drawn).run != first.run);
  }
  const auto disk = disk_of(files);
  SmallServer server(*disk, "data", 9);
  REQUIRE(server.error().empty());
  for (std::uint64_t drawn = 2; drawn < 6; ++drawn) {
    CHECK(server.has("key", "item " + std::to_string(drawn)));
    CHECK(server.has("key", "item " + std::to_string(drawn) + " too"));
  }
}

TEST_CASE("the files of a copy that went on by itself are refused") {
  const Files common = directory_of("home", 1);
  const Files one = gone_on(common, 2, "one", true);
  const Files two = gone_on(common, 3, "two", true);
  for (const auto& chosen : {of_generation, of_journal, is_segment})
    require_refused(with_files_of(two, one, chosen), "a copy of this data directory that went on by itself");
  // Neither has saved since: the generation is the same, and the newest segment is the other's.
  const Files three = gone_on(common, 2, "three", false);
  const Files four = gone_on(gone_on(common, 3, "four", false), 4, "four later", false);
  std::string newest;
  for (const auto& [name, contents] : four)
    if (is_segment(name)) newest = name;
  Files mixture = three;
  mixture[newest] = four.at(newest);
  mixture.erase("SYNCED");
  require_refused(mixture, "a copy of this data directory that went on by itself");
}

TEST_CASE("segments of two copies that begin at the same position are refused") {
  const Files common = directory_of("home", 1);
  // With a save before, both begin at the cut.
  const bool saved = GENERATE(false, true);
  const auto base = saved ? saved_and_stopped(common) : common;
  Files mixture = gone_on(base, 3, "one", false);
  const std::string name = "journal-000000000099";
  for (const auto& [other, contents] : gone_on(base, 4, "two", false))
    if (is_segment(other) && contents.at(0) != std::byte{0}) mixture[name] = contents;
  test::reseal_segment(name, mixture.at(name));
  require_refused(mixture, "a copy of this data directory that went on by itself");
}

TEST_CASE("salvage of copies that went on apart keeps the generation and tells what is lost") {
  const Files common = directory_of("home", 1);
  const auto disk =
      disk_of(with_files_of(gone_on(common, 3, "two", true), gone_on(common, 2, "one", true), of_generation));
  const auto salvaged = salvage_directory(*disk, "data", "saved", 7, {});
  REQUIRE(salvaged);
  CHECK(count_of(salvaged->values, value::Kind::bloom) == 1);
  CHECK(salvaged->operations == 0);
  REQUIRE_FALSE(salvaged->lost.empty());
  CHECK(salvaged->lost[0].find("the journal from position") != std::string::npos);
}

TEST_CASE("what salvage writes has the seed of the directory, and an identity of its own") {
  const Files home = directory_of("home", 1);
  const auto disk = disk_of(home);
  REQUIRE(salvage_directory(*disk, "data", "saved", 7, {}));
  const auto data = DataDirectory::open(*disk, "data", 8, std::nullopt);
  const auto saved = DataDirectory::open(*disk, "saved", 9, std::nullopt);
  REQUIRE(data);
  REQUIRE(saved);
  CHECK((*data)->seed() == (*saved)->seed());
  CHECK((*data)->lineage().identity != (*saved)->lineage().identity);
  require_mixture_refused(with_files_of(home, files_of(*disk, "saved"), is_segment));
}

TEST_CASE("a backup has the identity of its directory, and what follows a restore is a run of its own") {
  const Files home = directory_of("home", 1);
  const auto disk = disk_of(home);
  REQUIRE(copy_data(*disk, {.from = "data", .into = "copy", .until = std::nullopt}, {}));
  const Files restored = gone_on(files_of(*disk, "copy"), 5, "restored", true);
  const Files later = gone_on(home, 6, "later", true);
  require_refused(with_files_of(restored, later, of_generation),
                  "a copy of this data directory that went on by itself");
}

TEST_CASE("starts with the journal off, without changes, and killed at any time follow each other") {
  Files files = directory_of("home", 1);
  std::vector<std::string> items;
  for (std::uint64_t drawn = 10; drawn < 74; ++drawn) {
    const auto disk = disk_of(files);
    SmallServer server(*disk, "data", drawn, drawn % 3 == 0 ? JournalPolicy::off : JournalPolicy::everysec);
    INFO(drawn << ": " << server.error());
    REQUIRE(server.error().empty());
    for (const std::string& item : items) REQUIRE(server.has("key", item));
    const bool adds = drawn % 3 != 0 && drawn % 4 != 0;
    if (adds) server.add("key", items.emplace_back("item " + std::to_string(drawn)));
    if (drawn % 5 == 0) REQUIRE(server.save());
    if (adds && drawn % 7 != 0) server.add("key", items.emplace_back("more " + std::to_string(drawn)));
    // With or without an orderly stop.
    files = files_of(*disk->crashed_copy(test::Survival::all, drawn), "data");
  }
}

namespace {

// What stands in a journal behind its end.
enum class LeftOut : std::uint8_t { group_without_end, whole_group, resumed };

// A journal of an earlier run with one item, and behind it frames with two more.
test::JournalFiles journal_with(LeftOut left_out) {
  const bloom::FilterOptions options{.error_rate = 0.01, .capacity = 100, .seed = 7};
  test::JournalFiles journal(0, 1 << 16, 0, {.identity = 5, .run = 3});
  const auto add = [&](const std::string& item) {
    const Fingerprint fingerprint = fingerprint_of(item, options.seed);
    journal.added({.database = 0, .key = "key"}, {&fingerprint, 1});
  };
  journal.created({.database = 0, .key = "key"}, options,
                  (*bloom::Filter::create(options, test::roomy))->newest_layer().plan());
  journal.end_frame();
  add("kept");
  journal.end_frame();
  if (left_out == LeftOut::resumed) {
    journal.resumed();
    journal.end_frame();
  }
  add("left out");
  if (left_out == LeftOut::resumed) {
    journal.end_frame();
  } else {
    journal.continue_group();
  }
  add("left out too");
  if (left_out == LeftOut::group_without_end) {
    journal.continue_group();
  } else {
    journal.end_frame();
  }
  return journal;
}

// A run that found the journal's end before what is left out, changed nothing and saved. The process was
// killed before it removed the segment.
Files saved_before(LeftOut left_out) {
  test::JournalFiles journal = journal_with(left_out);
  SimulatedDisk disk;
  journal.put(disk, "data");
  SmallServer server(disk, "data", 8);
  INFO(server.error());
  REQUIRE(server.error().empty());
  REQUIRE(server.save());
  Files files = files_of(disk, "data");
  CHECK_FALSE(files.contains("journal-000000000001"));
  files["journal-000000000001"] = journal.files().at("journal-000000000001");
  return files;
}

}  // namespace

TEST_CASE("frames that each start leaves out may be of any run") {
  const auto left_out = GENERATE(LeftOut::group_without_end, LeftOut::resumed);
  // The segment that the run had prepared may be there or not.
  const bool stopped = GENERATE(false, true);
  Files files = saved_before(left_out);
  if (stopped) std::erase_if(files, [](const auto& file) { return file.first == "journal-000000000002"; });
  const auto untouched = disk_of(files);
  const auto findings = verify_directory(*untouched, "data", {});
  REQUIRE(findings);
  for (const Finding& finding : *findings) {
    INFO(finding.text);
    CHECK_FALSE(finding.stops_start());
  }
  for (std::uint64_t drawn = 9; drawn < 12; ++drawn)
    files = gone_on(files, drawn, std::to_string(drawn), drawn == 10);
  const auto disk = disk_of(files);
  SmallServer server(*disk, "data", 12);
  INFO(server.error());
  REQUIRE(server.error().empty());
  CHECK(server.has("key", "kept"));
  CHECK_FALSE(server.has("key", "left out"));
  CHECK_FALSE(server.has("key", "left out too"));
  for (int drawn = 9; drawn < 12; ++drawn) CHECK(server.has("key", std::to_string(drawn) + " too"));
}

TEST_CASE("a group of another run that is whole is refused") {
  Files files = saved_before(LeftOut::group_without_end);
  files["journal-000000000001"] = journal_with(LeftOut::whole_group).files().at("journal-000000000001");
  require_refused(files, "a copy of this data directory that went on by itself");
}

TEST_CASE("files without an identity, of an earlier version, fit each directory") {
  SimulatedDisk disk;
  test::JournalFiles journal;
  journal.created({.database = 0, .key = "key"}, {.error_rate = 0.01, .capacity = 100, .seed = 7},
                  (*bloom::Filter::create({.error_rate = 0.01, .capacity = 100, .seed = 7}, test::roomy))
                      ->newest_layer()
                      .plan());
  journal.end_frame();
  journal.put(disk, "data");
  Files files = files_of(disk, "data");
  for (std::uint64_t drawn = 1; drawn < 4; ++drawn)
    files = gone_on(files, drawn, std::to_string(drawn), drawn == 2);
  const auto last = disk_of(files);
  SmallServer server(*last, "data", 9);
  REQUIRE(server.error().empty());
  for (int drawn = 1; drawn < 4; ++drawn) CHECK(server.has("key", std::to_string(drawn)));
}

}  // namespace identity_test
