#include <sepal/storage/disk/disk.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/file_text.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"

namespace lock_test {

using namespace sepal;
using namespace sepal::storage;
using test::bytes_of;
using test::mentions;
using test::text_of;

namespace {

// What is_locked() has for an instant. It ends with this object.
class SharedLock {
 public:
  explicit SharedLock(const Path& path) : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    held_ = ::flock(number_, LOCK_SH | LOCK_NB) == 0;
  }
  ~SharedLock() { ::close(number_); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;
  [[nodiscard]] bool held() const { return held_; }

 private:
  int number_;
  bool held_ = false;
};

// The locked directory is away, and another one is at its path, made by another process.
struct Replaced {
  Replaced() {
    REQUIRE(disk->make_directory(data));
    auto taken = disk->lock(data / "LOCK");
    REQUIRE(taken);
    held = std::move(*taken);
    REQUIRE(disk->rename(data, folder.path() / "away"));
    REQUIRE(other->make_directory(data));
  }

  test::TemporaryFolder folder;
  std::unique_ptr<Disk> disk = make_posix_disk();
  std::unique_ptr<Disk> other = make_posix_disk();
  Path data = folder.path() / "data";
  std::unique_ptr<DirectoryLock> held;
};

bool none(std::string_view) {
  return false;
}

}  // namespace

TEST_CASE("a lock is refused while it is held, naming the process that holds it") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  const Path path = folder.path() / "LOCK";
  auto held = disk->lock(path);
  REQUIRE(held);
  const auto second = disk->lock(path);
  REQUIRE(!second);
  CHECK(second.error().code == Errc::in_use);
  CHECK(mentions(second.error(), "in use by process " + std::to_string(::getpid()) + ","));
  held->reset();
  CHECK(disk->lock(path));
}

TEST_CASE("a lock still holds when its file is removed or replaced") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  const Path path = folder.path() / "LOCK";
  auto held = disk->lock(path);
  REQUIRE(held);
  REQUIRE(disk->remove(path));
  const auto second = disk->lock(path);
  REQUIRE(!second);
  CHECK(second.error().code == Errc::in_use);
  CHECK(mentions(second.error(), "in use by another process"));
  CHECK_FALSE(*disk->exists(path));
  REQUIRE(replace_file(*disk, path, bytes_of("12345\n")));
  CHECK(mentions(disk->lock(path).error(), "in use by process 12345,"));
  held->reset();
  CHECK(disk->lock(path));
}

TEST_CASE("a lock is not refused because of those who ask whether it is held") {
  constexpr int rounds = 200;
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  const Path path = folder.path() / "LOCK";
  std::atomic<bool> ended = false;
  std::thread asker([&] {
    while (!ended) static_cast<void>(disk->is_locked(path));
  });
  int refused = 0;
  for (int round = 0; round < rounds; ++round)
    if (!disk->lock(path)) ++refused;
  ended = true;
  asker.join();
  CHECK(refused == 0);
}

TEST_CASE("a lock is refused if another process shares it for long") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  const SharedLock stuck(folder.path());
  const auto taken = disk->lock(folder.path() / "LOCK");
  REQUIRE(!taken);
  CHECK(taken.error().code == Errc::in_use);
}

TEST_CASE("a disk tells whether a lock is held") {
  const test::TemporaryFolder folder;
  const auto posix = make_posix_disk();
  test::SimulatedDisk simulated;
  REQUIRE(simulated.make_directory("data"));
  for (auto& [disk, directory] : {std::pair<Disk*, Path>{posix.get(), folder.path()}, {&simulated, "data"}}) {
    const Path path = directory / "LOCK";
    CHECK_FALSE(*disk->is_locked(path));
    CHECK_FALSE(*disk->exists(path));
    auto held = disk->lock(path);
    REQUIRE(held);
    CHECK(*disk->is_locked(path));
    CHECK(*disk->is_locked(path));
    held->reset();
    CHECK_FALSE(*disk->is_locked(path));
  }
  auto held = posix->lock(folder.path() / "LOCK");
  REQUIRE(posix->remove(folder.path() / "LOCK"));
  CHECK(*posix->is_locked(folder.path() / "LOCK"));
  CHECK(posix->is_locked(folder.path() / "none" / "LOCK").error().code == Errc::not_found);
}

TEST_CASE("a path that leads away from the locked directory is refused, until it leads back") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  const Path data = folder.path() / "data";
  const Path away = folder.path() / "away";
  REQUIRE(disk->make_directory(data));
  const auto held = disk->lock(data / "LOCK");
  REQUIRE(held);
  REQUIRE(replace_file(*disk, data / "file", bytes_of("ours")));
  auto mapped = disk->create_mapped(data / "mapped", 4096);
  REQUIRE(mapped);
  REQUIRE(disk->rename(data, away));
  const auto check_refused = [&](Errc code, const std::string& text) {
    const auto refused = [&](const auto& result) {
      REQUIRE(!result);
      CHECK(result.error().code == code);
      CHECK(mentions(result.error(), text));
    };
    refused(disk->create(data / "file"));
    refused(disk->create_aside(data / "file"));
    refused(disk->create_mapped(data / "new", 4096));
    refused(disk->open(data / "file"));
    refused(disk->open_plain(data / "file"));
    refused(disk->make_directory(data / "folder"));
    refused(disk->list(data));
    refused(disk->rename(data / "file", folder.path() / "taken"));
    refused(disk->rename(away / "file", data / "file"));
    refused(disk->link(data / "file", folder.path() / "taken"));
    refused(disk->link(away / "file", data / "new"));
    refused(disk->remove(data / "file"));
    refused(disk->release(data / "file", 0));
    refused(disk->remove_tree(data));
    refused(disk->sync_directory(data));
    refused((*mapped)->sync(0, 4096));
  };
  check_refused(Errc::not_found, "data is not there: it was moved or removed");
  // Another process begins to use the path.
  const auto other = make_posix_disk();
  REQUIRE(other->make_directory(data));
  const auto other_held = other->lock(data / "LOCK");
  REQUIRE(other_held);
  REQUIRE(replace_file(*other, data / "file", bytes_of("theirs")));
  check_refused(Errc::io, "data is not the directory that this process has locked");
  CHECK(*other->list(data) == std::vector<std::string>{"LOCK", "file"});
  CHECK(text_of(*other, data / "file") == "theirs");
  // A path that only begins alike is another one.
  CHECK(disk->make_directory(folder.path() / "data-2"));

  REQUIRE(other->rename(data, folder.path() / "other"));
  REQUIRE(make_posix_disk()->rename(away, data));
  CHECK(text_of(*disk, data / "file") == "ours");
  CHECK(disk->remove(data / "file"));
  CHECK((*mapped)->sync(0, 4096));
}

TEST_CASE("an empty directory in the place of the locked one is locked in its turn, when that is asked") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  const Path data = folder.path() / "data";
  REQUIRE(disk->make_directory(data));
  auto held = disk->lock(data / "LOCK");
  REQUIRE(held);
  REQUIRE((*held)->note("a note\n"));
  REQUIRE(disk->rename(data, folder.path() / "away"));
  CHECK(disk->create(data / "file").error().code == Errc::not_found);
  CHECK((*held)->check().error().code == Errc::not_found);
  CHECK_FALSE(*(*held)->take_replacement(none));
  REQUIRE(make_posix_disk()->make_directory(data));
  CHECK(disk->create(data / "file").error().code == Errc::io);
  CHECK((*held)->check().error().code == Errc::io);
  CHECK(*(*held)->take_replacement(none));
  CHECK_FALSE(*(*held)->take_replacement(none));
  CHECK((*held)->check());
  CHECK(disk->create(data / "file"));
  CHECK(text_of(*disk, data / "LOCK") == std::to_string(::getpid()) + "\na note\n");
  CHECK(make_posix_disk()->lock(data / "LOCK").error().code == Errc::in_use);
  // The directory that was locked before has the file of its former lock, which another process may lock now.
  CHECK(make_posix_disk()->lock(folder.path() / "away" / "LOCK"));
  held->reset();
  CHECK(make_posix_disk()->lock(data / "LOCK"));
  // Without the lock, the path may lead anywhere.
  REQUIRE(disk->rename(data, folder.path() / "once"));
  REQUIRE(disk->rename(folder.path() / "away", data));
  CHECK(disk->list(data));
}

TEST_CASE("an empty directory that another process locks is left to it") {
  const Replaced world;
  const auto& [folder, disk, other, data, held] = world;
  const auto other_held = other->lock(data / "LOCK");
  REQUIRE(other_held);
  CHECK(held->take_replacement(none).error().code == Errc::in_use);
  CHECK(*other->list(data) == std::vector<std::string>{"LOCK"});
}

TEST_CASE("what this process has just made in another directory does not keep it from being taken") {
  const Replaced world;
  const auto& [folder, disk, other, data, held] = world;
  REQUIRE(replace_file(*other, data / "own-1", bytes_of("text")));
  REQUIRE(other->make_directory(data / "own-2"));
  REQUIRE(replace_file(*other, data / "own-2" / "file", bytes_of("text")));
  const auto is_own = [](std::string_view name) { return name.starts_with("own"); };
  CHECK(held->take_replacement(none).error().code == Errc::io);
  CHECK(held->take_replacement(is_own).error().code == Errc::io);
  REQUIRE(other->remove(data / "own-2" / "file"));
  CHECK(*held->take_replacement(is_own));
}

TEST_CASE("a directory whose lock file is a link, or that has another file, is not taken") {
  const Replaced world;
  const auto& [folder, disk, other, data, held] = world;
  REQUIRE(replace_file(*other, folder.path() / "precious", bytes_of("text")));
  std::filesystem::create_symlink(folder.path() / "precious", data / "LOCK");
  CHECK(held->take_replacement(none).error().code == Errc::io);
  CHECK(text_of(*other, folder.path() / "precious") == "text");
  std::filesystem::remove(data / "LOCK");
  REQUIRE(other->make_directory(data / "lost+found"));
  REQUIRE(replace_file(*other, data / "file", bytes_of("text")));
  CHECK(held->take_replacement(none).error().code == Errc::io);
  REQUIRE(other->remove(data / "file"));
  CHECK(*held->take_replacement(none));
}

}  // namespace lock_test
