// Names in a data directory that are not what they should be: folders, pipes, links to nothing, huge numbers.
// What verify calls fine, a start loads and a save replaces. Salvage does without each of them.
#include <sepal/storage/examine/backup.hpp>
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/generation/restore.hpp>

#include <sys/stat.h>

#include "support/catch.hpp"
#include "support/small_server.hpp"
#include "support/storage_fixture.hpp"

namespace odd_names_test {

using namespace sepal;
using namespace sepal::storage;
using test::SmallServer;

namespace {

enum class Kind { folder, full_folder, pipe, dangling_link, bytes, empty };

void make(const Path& path, Kind kind) {
  std::filesystem::remove_all(path);
  switch (kind) {
    case Kind::folder: std::filesystem::create_directory(path); return;
    case Kind::full_folder:
      std::filesystem::create_directory(path);
      std::ofstream(path / "file") << "text";
      return;
    case Kind::pipe: REQUIRE(::mkfifo(path.c_str(), 0600) == 0); return;
    case Kind::dangling_link: std::filesystem::create_symlink("nowhere", path); return;
    case Kind::bytes: std::ofstream(path) << std::string(5000, 'x'); return;
    case Kind::empty: std::ofstream{path}; return;
  }
}

// A directory with a generation, a journal behind it, and SYNCED.
void make_data(Disk& disk, const Path& directory) {
  SmallServer server(disk, directory, 1);
  REQUIRE(server.error().empty());
  server.add("saved", "item");
  REQUIRE(server.save());
  server.add("recorded", "item");
}

// clang-format off
const char* const names[] = {
    "CURRENT", "CURRENT.tmp", "FIRST", "FIRST.tmp", "SEED", "SEED.tmp", "SYNCED", "SYNCED.tmp", "LOCK",
    "reserve-1", "reserve-9", "journal-000000000001", "journal-000000000099", "journal-999999999999",
    "adopted-000000000001", "adopted-999999999999", "adopted-000000000001.tmp",
    ".sepal-0123456789abcdef.tmp", "generation-000000000000", "generation-000000000002",
    "generation-999999999999", "generation-000000000001/MANIFEST", "generation-000000000001/pack-0",
    "generation-000000000001/pack-1", "restore.partial", "restore.old", "restore.new", "replaced-1",
    "notes.txt"};
// clang-format on

bool starts_well(Disk& disk, const Path& directory, std::string& error) {
  SmallServer server(disk, directory, 2);
  error = server.error();
  if (!error.empty()) return false;
  server.add("later", "item");
  for (int save = 0; save < 2; ++save) {
    const auto saved = server.save();
    if (!saved) error = saved.error().detail;
    if (!saved) return false;
  }
  const auto file = server.adopted().write(*bloom::Filter::create({.seed = 9}, test::roomy), {});
  if (!file) error = file.error().detail;
  return file.ok() && server.has("saved", "item") && server.has("recorded", "item");
}

}  // namespace

TEST_CASE("a start and a save do what verify promises, whatever stands under a name") {
  const auto disk = make_posix_disk();
  for (const std::string name : names) {
    for (const Kind kind :
         {Kind::folder, Kind::full_folder, Kind::pipe, Kind::dangling_link, Kind::bytes, Kind::empty}) {
      const bool is_folder = kind == Kind::folder || kind == Kind::full_folder;
      // Only folders mean a restore that was cut off.
      if (name.starts_with("restore.") && !is_folder) continue;
      INFO(name << ", kind " << static_cast<int>(kind));
      const test::TemporaryFolder folder;
      const Path data = folder.path() / "data";
      make_data(*disk, data);
      make(data / name, kind);

      const auto findings = verify_directory(*disk, data, {});
      std::string found = findings ? "" : findings.error().detail;
      bool fine = findings.ok();
      if (findings)
        for (const Finding& finding : *findings) {
          found += finding.text + "\n";
          fine = fine && !finding.stops_start();
        }
      INFO(found);

      const auto salvaged = salvage_directory(*disk, data, folder.path() / "saved", 3, {});
      const bool cut_off = name.starts_with("restore.") && name != restore_folder;
      INFO((salvaged ? "" : salvaged.error().detail));
      CHECK(salvaged.ok() == !cut_off);
      if (salvaged && fine) CHECK(salvaged->lost.empty());
      // Where a start would lose nothing, salvage does not either.
      if (salvaged && fine) CHECK(count_of(salvaged->values, value::Kind::bloom) == 2);

      const auto copied =
          copy_data(*disk, {.from = data, .into = folder.path() / "copy", .until = std::nullopt}, {});
      const bool backed_up = copied && require_whole(*disk, folder.path() / "copy", {});
      INFO((copied ? "" : copied.error().detail));
      // A backup does not look into the journal: it does not know that the file is needed no more.
      const bool named = !copied && copied.error().detail.find(name) != std::string::npos;
      if (fine) CHECK((backed_up || (named && name.starts_with("adopted-"))));
      if (backed_up) {
        std::string error;
        CHECK(starts_well(*disk, folder.path() / "copy", error));
      }

      std::string error;
      const bool well = starts_well(*disk, data, error);
      INFO(error);
      // Through a link to nothing a start makes LOCK.
      if (fine || name != "LOCK") CHECK(well == fine);

      // A restore puts all of it aside.
      std::filesystem::remove_all(data / restore_folder);
      make_data(*disk, data / restore_folder);
      for (const char* const not_copied : {"LOCK", "reserve-1", "reserve-2", "reserve-3", "reserve-4"})
        std::filesystem::remove(data / restore_folder / not_copied);
      const auto restored = put_in_place(*disk, data);
      INFO((restored ? "" : restored.error().detail));
      CHECK(restored.ok());
    }
  }
}

TEST_CASE("a save, SYNCED and a copy go on beside what appears while the server runs") {
  const auto disk = make_posix_disk();
  const test::TemporaryFolder folder;
  const Path data = folder.path() / "data";
  make_data(*disk, data);
  SmallServer server(*disk, data, 2);
  REQUIRE(server.error().empty());
  const auto filter = *bloom::Filter::create({.seed = 9}, test::roomy);
  for (const char* const name : {"CURRENT.tmp", "SYNCED.tmp", "adopted-999999999999", "adopted-000000000001",
                                 "generation-999999999999", "generation-000000000007"}) {
    INFO(name);
    make(data / name, Kind::full_folder);
    server.add("key", name);
    CHECK(server.save());
    // At most one number is taken by something else.
    CHECK((server.adopted().write(filter, {}) || server.adopted().write(filter, {})));
  }
}

}  // namespace odd_names_test
