#include <sepal/storage/disk/disk.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/file_text.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"

namespace disk_test {

using namespace sepal;
using namespace sepal::storage;
using test::Bytes;
using test::bytes_of;
using test::mentions;
using test::text_of;

namespace {

// The name of a socket, as long as it lives.
class BoundSocket {
 public:
  explicit BoundSocket(const Path& path) : number_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.string().size() < sizeof address.sun_path);
    path.string().copy(address.sun_path, path.string().size());
    REQUIRE(::bind(number_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  ~BoundSocket() { ::close(number_); }
  BoundSocket(const BoundSocket&) = delete;
  BoundSocket& operator=(const BoundSocket&) = delete;

 private:
  int number_;
};

}  // namespace

TEST_CASE("a file holds the written bytes at their offsets, and has the right size") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  auto file = disk->create(folder.path() / "file");
  REQUIRE(file);
  REQUIRE((*file)->write_at(0, bytes_of("hello world")));
  REQUIRE((*file)->write_at(6, bytes_of("there")));
  REQUIRE((*file)->sync());
  CHECK(*(*file)->size() == 11);
  CHECK(text_of(*disk, folder.path() / "file") == "hello there");
  REQUIRE(disk->create(folder.path() / "file"));
  CHECK(text_of(*disk, folder.path() / "file").empty());
}

TEST_CASE("a disk reports where data is, and omits only zeros") {
  const test::TemporaryFolder folder;
  const auto posix = make_posix_disk();
  test::SimulatedDisk simulated;
  for (const auto& [disk, path] : {std::pair<Disk*, Path>(posix.get(), folder.path() / "file"),
                                   std::pair<Disk*, Path>(&simulated, "file")}) {
    constexpr std::uint64_t first = 1'000'000;
    constexpr std::uint64_t second = 3'000'001;
    auto file = disk->create(path);
    REQUIRE(file);
    CHECK(*(*disk->open(path))->data_ranges() == std::vector<DataRange>());
    REQUIRE((*file)->write_at(first, bytes_of("data")));
    REQUIRE((*file)->write_at(second, bytes_of("more")));
    const auto ranges = (*disk->open(path))->data_ranges();
    REQUIRE(ranges);
    const auto has = [&](std::uint64_t begin, std::uint64_t end) {
      return std::ranges::any_of(
          *ranges, [&](const DataRange& range) { return range.begin <= begin && end <= range.end; });
    };
    CHECK(has(first, first + 4));
    CHECK(has(second, second + 4));
    CHECK(ranges->back().end == second + 4);
    std::uint64_t before = 0;
    for (const DataRange& range : *ranges) {
      CHECK(range.begin >= before);
      CHECK(range.end > range.begin);
      before = range.end;
    }
    if (disk == &simulated)
      CHECK(*ranges == std::vector<DataRange>{{999'424, 1'003'520}, {2'998'272, 3'000'005}});
  }
}

TEST_CASE("a folder or a pipe in the place of a file is refused at once, and named") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  REQUIRE(disk->make_directory(folder.path() / "folder"));
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  const BoundSocket socket(folder.path() / "socket");
  const auto refused = [](const auto& outcome, const std::string& sentence) {
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == Errc::io);
    CHECK(mentions(outcome.error(), sentence));
  };
  for (const auto& [path, kind] :
       {std::pair(folder.path() / "folder", "folder"), std::pair(folder.path() / "pipe", "pipe"),
        std::pair(folder.path() / "socket", "socket"), std::pair(Path("/dev/null"), "device")}) {
    const std::string sentence = path.string() + ": it is not a regular file but a " + kind;
    refused(disk->open(path), sentence);
    refused(disk->open_plain(path), sentence);
    refused(disk->create(path), sentence);
    refused(disk->lock(path), sentence);
  }
}

TEST_CASE("a name from a client that is a symbolic link is refused") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  REQUIRE(disk->create(folder.path() / "file"));
  std::filesystem::create_symlink(folder.path() / "file", folder.path() / "link");
  std::filesystem::create_symlink(folder.path() / "none", folder.path() / "nowhere");
  CHECK(disk->open(folder.path() / "link"));
  CHECK(disk->open_plain(folder.path() / "file"));
  for (const char* name : {"link", "nowhere"}) {
    const auto opened = disk->open_plain(folder.path() / name);
    REQUIRE_FALSE(opened);
    CHECK(mentions(opened.error(), "is a symbolic link"));
  }
  CHECK(disk->open_plain(folder.path() / "none").error().code == Errc::not_found);
}

TEST_CASE("a file is not created through a symbolic link") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  auto file = disk->create(folder.path() / "file");
  REQUIRE((file && (*file)->write_at(0, bytes_of("hello"))));
  std::filesystem::create_symlink(folder.path() / "file", folder.path() / "link");
  CHECK_FALSE(disk->create(folder.path() / "link"));
  CHECK(text_of(*disk, folder.path() / "file") == "hello");
}

TEST_CASE("a file is not created over a pipe") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  const Path pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  const auto created = disk->create(pipe);
  ::close(reader);
  REQUIRE_FALSE(created);
  CHECK(mentions(created.error(), "is not a regular file"));
}

TEST_CASE("a temporary file gets an unused name in the same folder") {
  const test::TemporaryFolder folder;
  const auto posix = make_posix_disk();
  test::SimulatedDisk simulated;
  REQUIRE(simulated.make_directory("folder"));
  for (const auto& [disk, target] : {std::pair<Disk*, Path>(posix.get(), folder.path() / "target"),
                                     std::pair<Disk*, Path>(&simulated, "folder/target")}) {
    std::set<Path> names;
    for (int i = 0; i < 20; ++i) {
      auto aside = disk->create_aside(target);
      REQUIRE(aside);
      CHECK(aside->path.parent_path() == target.parent_path());
      CHECK(is_aside_name(aside->path.filename().string()));
      REQUIRE(aside->file->write_at(0, bytes_of("hello")));
      CHECK(names.insert(aside->path).second);
    }
    for (const Path& name : names) CHECK(text_of(*disk, name) == "hello");
  }
  CHECK(posix->create_aside(folder.path() / "none" / "target").error().code == Errc::not_found);
}

TEST_CASE("the name of a temporary file is recognised") {
  CHECK(aside_name(0x1f) == ".sepal-000000000000001f.tmp");
  CHECK(is_aside_name(aside_name(~std::uint64_t{0})));
  for (const char* other : {"", ".sepal-.tmp", "sepal-000000000000001f.tmp", ".sepal-000000000000001g.tmp",
                            ".sepal-000000000000001f.tmp2", "x.sepal-00000000000001f.tmp"})
    CHECK_FALSE(is_aside_name(other));
}

TEST_CASE("a linked file has a second name, and outlives the first") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  auto file = disk->create(folder.path() / "file");
  REQUIRE(file);
  REQUIRE((*file)->write_at(0, bytes_of("hello")));
  REQUIRE(disk->link(folder.path() / "file", folder.path() / "other"));
  REQUIRE(disk->remove(folder.path() / "file"));
  CHECK(text_of(*disk, folder.path() / "other") == "hello");
  const auto missing = disk->link(folder.path() / "file", folder.path() / "third");
  REQUIRE(!missing);
  CHECK(missing.error().code == Errc::not_found);
  REQUIRE(disk->create(folder.path() / "file"));
  CHECK(!disk->link(folder.path() / "file", folder.path() / "other"));
}

TEST_CASE("system errors name the operation, the path and the reason") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  const auto missing = disk->open(folder.path() / "absent");
  REQUIRE(!missing);
  CHECK(missing.error().code == Errc::not_found);
  CHECK(missing.error().detail ==
        "cannot open " + (folder.path() / "absent").string() + ": No such file or directory");

  REQUIRE(disk->create(folder.path() / "file"));
  const auto not_a_directory = disk->make_directory(folder.path() / "file");
  REQUIRE(!not_a_directory);
  CHECK(not_a_directory.error().code == Errc::io);
  CHECK(mentions(not_a_directory.error(), "it is a file, no folder"));
  CHECK(disk->list(folder.path() / "absent").error().code == Errc::not_found);
  CHECK(disk->rename(folder.path() / "absent", folder.path() / "x").error().code == Errc::not_found);
  CHECK(disk->sync_directory(folder.path() / "file").error().code == Errc::io);
}

TEST_CASE("an error of a place that may not be written is read_only") {
  const auto disk = make_posix_disk();
  if (!*disk->exists("/sys/kernel")) return;
  const auto made = disk->make_directory("/sys/kernel/sepal");  // refused to root as well
  REQUIRE(!made);
  CHECK(made.error().code == Errc::read_only);
}

TEST_CASE("to remove or create something twice is no error") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  const Path directory = folder.path() / "directory";
  REQUIRE(disk->make_directory(directory));
  REQUIRE(disk->make_directory(directory));
  REQUIRE(disk->create(directory / "b"));
  REQUIRE(disk->create(directory / "a"));
  CHECK(*disk->list(directory) == std::vector<std::string>{"a", "b"});
  REQUIRE(disk->remove(directory / "a"));
  REQUIRE(disk->remove(directory / "a"));
  REQUIRE(disk->remove_tree(directory));
  REQUIRE(disk->remove_tree(directory));
  CHECK_FALSE(*disk->exists(directory));
}

TEST_CASE("a mapped file has its size and space at once, and stored bytes can be read") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  constexpr std::uint64_t file_bytes = std::uint64_t{1} << 20;
  auto mapped = disk->create_mapped(folder.path() / "file", file_bytes);
  REQUIRE(mapped);
  const std::span<std::byte> bytes = (*mapped)->bytes();
  REQUIRE(bytes.size() == file_bytes);
  CHECK(std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; }));
  struct stat status {};
  REQUIRE(::stat((folder.path() / "file").c_str(), &status) == 0);
  CHECK(static_cast<std::uint64_t>(status.st_blocks) * 512 >= file_bytes);

  (*mapped)->prepare(5000, file_bytes - 5000);
  std::memcpy(bytes.data(), "hello", 5);
  std::memcpy(bytes.data() + 5000, "there", 5);
  CHECK(text_of(*disk, folder.path() / "file").starts_with("hello"));
  CHECK((*mapped)->sync(0, 5));
  CHECK((*mapped)->sync(5000, 5));
  CHECK((*mapped)->sync(0, file_bytes));
  mapped->reset();
  CHECK(text_of(*disk, folder.path() / "file").starts_with("hello"));
}

TEST_CASE("a mapped file does not replace a file, and leaves no file behind without space") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  REQUIRE(disk->create(folder.path() / "file"));
  const auto taken = disk->create_mapped(folder.path() / "file", 4096);
  REQUIRE(!taken);
  CHECK(taken.error().code == Errc::io);
  CHECK(mentions(taken.error(), "File exists"));

  const auto too_large = disk->create_mapped(folder.path() / "large", std::uint64_t{1} << 56);
  REQUIRE(!too_large);
  CHECK(*disk->list(folder.path()) == std::vector<std::string>{"file"});
}

TEST_CASE("the sync of a mapped file that was removed fails") {
  const test::TemporaryFolder folder;
  const auto posix = make_posix_disk();
  test::SimulatedDisk simulated;
  const auto check = [](Disk& disk, const Path& directory) {
    auto mapped = disk.create_mapped(directory / "file", 4096);
    REQUIRE(mapped);
    CHECK((*mapped)->sync(0, 4096));
    REQUIRE(disk.remove(directory / "file"));
    const auto synced = (*mapped)->sync(0, 4096);
    REQUIRE(!synced);
    CHECK(synced.error().code == Errc::not_found);
    CHECK(mentions(synced.error(), "file was removed while in use"));
  };
  check(*posix, folder.path());
  REQUIRE(simulated.make_directory("d"));
  check(simulated, "d");
}

namespace {

// The contents of a simulated mapped file of three pages after a power loss. Every page was stored into, and
// two were synced. If `failing`, the first sync of the second page failed.
Bytes pages_after_crash(test::Survival survival, std::uint64_t seed, bool failing) {
  constexpr std::size_t page = test::simulated_page_bytes;
  test::SimulatedDisk disk;
  auto mapped = *disk.create_mapped("file", 3 * page);
  REQUIRE(disk.sync_directory(""));
  std::fill(mapped->bytes().begin(), mapped->bytes().end(), std::byte{1});
  REQUIRE(mapped->sync(0, page));
  if (failing) disk.fail_at(disk.operation_count() + 1, Errc::io);
  CHECK(mapped->sync(page, page).ok() != failing);
  CHECK(mapped->sync(page, page));
  disk.crash(survival, seed);
  std::fill(mapped->bytes().begin(), mapped->bytes().end(), std::byte{2});
  return disk.files().at("file");
}

Bytes page_of(const Bytes& bytes, std::size_t number) {
  const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(number * test::simulated_page_bytes);
  return {from, from + test::simulated_page_bytes};
}

}  // namespace

TEST_CASE("the synced pages of a simulated mapping survive, and any sectors of the other pages") {
  const Bytes zeros(test::simulated_page_bytes, std::byte{0});
  const Bytes ones(test::simulated_page_bytes, std::byte{1});
  const Bytes all = pages_after_crash(test::Survival::all, 1, false);
  CHECK(page_of(all, 2) == ones);
  const Bytes synced = pages_after_crash(test::Survival::synced, 1, false);
  CHECK(page_of(synced, 0) == ones);
  CHECK(page_of(synced, 1) == ones);
  CHECK(page_of(synced, 2) == zeros);

  std::set<Bytes> third;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Bytes chance = pages_after_crash(test::Survival::chance, seed, false);
    CHECK(page_of(chance, 0) == ones);
    CHECK(page_of(chance, 1) == ones);
    third.insert(page_of(chance, 2));
  }
  CHECK(third.contains(zeros));
  CHECK(third.contains(ones));
  CHECK(third.size() > 2);
}

TEST_CASE("after a failed sync, a later sync does not make a simulated page durable") {
  const Bytes zeros(test::simulated_page_bytes, std::byte{0});
  const Bytes synced = pages_after_crash(test::Survival::synced, 1, true);
  CHECK(page_of(synced, 1) == zeros);
}

TEST_CASE("replacing a file leaves the new contents and no temporary file") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  REQUIRE(replace_file(*disk, folder.path() / "file", bytes_of("old")));
  REQUIRE(replace_file(*disk, folder.path() / "file", bytes_of("new")));
  CHECK(text_of(*disk, folder.path() / "file") == "new");
  CHECK(*disk->list(folder.path()) == std::vector<std::string>{"file"});
}

TEST_CASE(
    "replacing a file leaves the old or the new after a crash at any step, and the old after an error") {
  for (std::uint64_t step = 1;; ++step) {
    INFO("step " << step);
    test::SimulatedDisk disk;
    disk.put("d/file", {std::byte{'o'}});
    test::SimulatedDisk crashing;
    crashing.put("d/file", {std::byte{'o'}});

    disk.fail_at(step, Errc::io);
    const bool replaced = replace_file(disk, "d/file", bytes_of("n")).ok();
    disk.stop_failing();
    const bool renamed = step >= 5;  // create, write, sync, rename, then the directory's sync
    CHECK(text_of(disk, "d/file") == (replaced || renamed ? "n" : "o"));

    crashing.lose_power_after(step - 1);
    const bool finished = replace_file(crashing, "d/file", bytes_of("n")).ok();
    crashing.crash(test::Survival::chance, step);
    const std::string found = text_of(crashing, "d/file");
    CHECK((found == "n" || (!finished && found == "o")));
    if (replaced) break;
  }
}

}  // namespace disk_test
