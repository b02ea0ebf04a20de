// Saves and loads of so many values that several threads have work: the same bytes, values and errors as with
// one thread.
#include <sepal/storage/format/snapshot_format.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "storage/disk/ordered_work.hpp"
#include "support/catch.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"

namespace many_values_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

constexpr std::size_t thread_counts[] = {1, 2, 5};
const std::string pack = "data/generation-000000000001/pack-0";

DataDirectoryOptions with(std::size_t thread_count) {
  return {.own_file_bytes_min = std::uint64_t{2} << 20, .thread_count = thread_count};
}

// A filter whose bits take about so many bytes.
bloom::FilterOptions of_bytes(std::uint64_t bytes) {
  return {.error_rate = 0.01, .capacity = bytes * 8 / 10, .seed = 3};
}

// Short records, and among them some that no slice of a load takes, that no run of a save holds, and that
// have files of their own.
void fill(Filters& filters) {
  for (int i = 0; i < 12'000; ++i) filters.add(i % 3, "key-" + std::to_string(i), i % 4);
  for (int i = 0; i < 8; ++i) {
    const std::string name = std::to_string(i);
    filters.add(0, "a tenth/" + name, 5, of_bytes(100'000));
    filters.add(1, "long for a run/" + name, 5, of_bytes(300'000));
    filters.add(2, "long for a slice/" + name, 5, of_bytes(700'000));
    filters.add(3, std::string(keyspace::key_bytes_max - 1, 'k') + name, 5);
  }
  filters.add(4, "two chunks", 5, of_bytes(1'500'000));
  filters.add(4, "own file", 5, of_bytes(3'000'000));
}

std::unique_ptr<DataDirectory> opened(Disk& disk, std::size_t thread_count) {
  auto directory = DataDirectory::open(disk, "data", 1, 5, with(thread_count));
  REQUIRE(directory);
  return std::move(*directory);
}

// What a load says with each number of threads, which is the same.
std::string error_of_load(SimulatedDisk& disk) {
  std::vector<std::string> errors;
  for (const std::size_t threads : thread_counts) {
    const auto loaded = test::load(*opened(disk, threads));
    errors.push_back(loaded.error ? loaded.error->detail : "");
  }
  CHECK(errors[1] == errors[0]);
  CHECK(errors[2] == errors[0]);
  return errors[0];
}

}  // namespace

TEST_CASE("a save and a load of many values give the same with any number of threads") {
  Filters filters;
  fill(filters);
  std::map<std::string, std::vector<std::byte>> files;
  for (const std::size_t threads : thread_counts) {
    INFO(threads << " threads");
    SimulatedDisk disk;
    const auto directory = opened(disk, threads);
    Progress last;
    const auto report = directory->save(filters.snapshot(), [&](const Progress& progress) {
      CHECK(progress.bytes_done >= last.bytes_done);
      last = progress;
      return true;
    });
    REQUIRE(report);
    CHECK(last.bytes_done <= last.bytes_total);
    CHECK(last.bytes_done + 2 * format::chunk_bytes > last.bytes_total);
    CHECK(report->value_count == filters.keyspace.total_size());
    auto written = disk.files();
    std::erase_if(written, [](const auto& file) {
      return file.first.find("/filter-") == std::string::npos &&
             file.first.find("/pack-") == std::string::npos;
    });
    REQUIRE(written.size() == 2);
    if (files.empty()) files = written;
    CHECK(written == files);
    const auto loaded = test::load(*directory);
    REQUIRE_FALSE(loaded.error);
    CHECK(test::same(filters.keyspace.cut(), loaded.filters));
    CHECK(loaded.report.bytes == report->bytes);
  }
}

TEST_CASE("many values with damage are refused with the first place of it, with any number of threads") {
  SimulatedDisk disk;
  Filters filters;
  fill(filters);
  REQUIRE(opened(disk, 3)->save(filters.snapshot(), {}));
  const auto contents = disk.files()[pack];
  REQUIRE(contents.size() > 12 * format::chunk_bytes);
  const auto changed = [&](std::initializer_list<std::size_t> places) {
    auto copy = contents;
    for (const std::size_t place : places) copy[place] ^= std::byte{0x40};
    disk.put(pack, copy);
  };
  for (std::size_t place = 40; place < contents.size(); place += contents.size() / 20) {
    INFO("byte " << place);
    changed({place});
    CHECK(error_of_load(disk).find(pack + " is damaged") != std::string::npos);
  }
  changed({contents.size() / 2});
  const std::string alone = error_of_load(disk);
  changed({contents.size() / 2, contents.size() - 100});
  CHECK(error_of_load(disk) == alone);
  for (const std::size_t length : {contents.size() / 3, contents.size() - 1}) {
    auto cut = contents;
    cut.resize(length);
    disk.put(pack, cut);
    CHECK(error_of_load(disk).find("bytes and should have") != std::string::npos);
  }
  disk.put(pack, contents);
  CHECK(error_of_load(disk).empty());
}

TEST_CASE("a load of many values ends at the value that is refused, and when it is given up") {
  SimulatedDisk disk;
  Filters filters;
  fill(filters);
  REQUIRE(opened(disk, 3)->save(filters.snapshot(), {}));
  std::string first_error;
  for (const std::size_t threads : thread_counts) {
    INFO(threads << " threads");
    std::size_t left = 9000;
    const auto refuse = [&](std::span<LoadedValue> batch) {
      for (LoadedValue& loaded : batch) {
        if (left == 0) return Result<void>(fail(Errc::key_limit));
        loaded.value = nullptr;
        --left;
      }
      return Result<void>();
    };
    const auto refused = opened(disk, threads)->load(test::roomy, refuse, {});
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::key_limit);
    if (first_error.empty()) first_error = refused.error().detail;
    CHECK(refused.error().detail == first_error);

    const auto take = [](std::span<LoadedValue>) { return Result<void>(); };
    const auto given_up = opened(disk, threads)->load(test::roomy, take, [](const Progress& progress) {
      return progress.bytes_done < progress.bytes_total / 2;
    });
    REQUIRE(!given_up);
    CHECK(given_up.error().code == Errc::io);
  }
}

TEST_CASE("a save of many values ends at an error of the disk, and when it is given up") {
  Filters filters;
  fill(filters);
  for (const std::size_t threads : thread_counts) {
    INFO(threads << " threads");
    SimulatedDisk disk;
    const auto directory = opened(disk, threads);
    disk.set_capacity(std::uint64_t{6} << 20);
    const auto full = directory->save(filters.snapshot(), {});
    REQUIRE(!full);
    CHECK(full.error().code == Errc::disk_full);
    disk.set_capacity(std::uint64_t{1} << 40);
    const auto given_up = directory->save(filters.snapshot(), [](const Progress& progress) {
      return progress.bytes_done < progress.bytes_total / 2;
    });
    REQUIRE(!given_up);
    CHECK(given_up.error().code == Errc::io);
    REQUIRE(directory->save(filters.snapshot(), {}));
    CHECK(test::same(filters.keyspace.cut(), test::load(*directory).filters));
  }
}

TEST_CASE("a save of many values by several threads has all items from before it, while clients add") {
  SimulatedDisk disk;
  Filters filters;
  std::vector<bloom::Filter*> added_to;
  for (int i = 0; i < 6000; ++i) added_to.push_back(&filters.add(0, "key-" + std::to_string(i), 2));
  const auto directory = opened(disk, 3);
  // Taken while no client adds, as with the gate closed.
  const auto snapshot = filters.snapshot();
  std::atomic<bool> ended{false};
  std::atomic<int> rounds{0};
  std::thread client([&] {
    for (; !ended; ++rounds) {
      const std::string item = "beside the save/" + std::to_string(rounds % 8);
      const std::string_view view = item;
      bool is_new = false;
      for (bloom::Filter* const filter : added_to)
        static_cast<void>(filter->try_add({&view, 1}, {&is_new, 1}));
    }
  });
  while (rounds == 0) std::this_thread::yield();
  const auto saved = directory->save(snapshot, {});
  ended = true;
  client.join();
  REQUIRE(saved);
  const auto loaded = test::load(*directory);
  REQUIRE_FALSE(loaded.error);
  REQUIRE(loaded.filters.size() == added_to.size());
  std::size_t missing = 0;
  for (const auto& [key, filter] : loaded.filters)
    for (const char* const item : {"/0", "/1"}) missing += test::contains(*filter, key.second + item) ? 0 : 1;
  CHECK(missing == 0);
}

TEST_CASE("ordered work takes the pieces in their order, each worked on once, whichever thread is first") {
  for (const std::size_t threads : thread_counts) {
    OrderedWork work(threads, Helping::beside);
    std::vector<int> slots(work.slot_count(), -1);
    // Twice, with the same threads.
    for (const int count : {0, 1, 2, 1000}) {
      int prepared = 0;
      int taken = 0;
      const auto done = work.run({.prepare = [&](std::size_t slot) -> Result<bool> {
                                    if (prepared == count) return false;
                                    slots[slot] = prepared++;
                                    return true;
                                  },
                                  .work = [&](std::size_t slot) { slots[slot] += 10'000; },
                                  .take =
                                      [&](std::size_t slot) {
                                        CHECK(slots[slot] == 10'000 + taken);
                                        ++taken;
                                        return Result<void>();
                                      }});
      CHECK(done);
      CHECK(taken == count);
    }
  }
}

// The second piece waits until the first is worked on, which a thread alone could not do.
TEST_CASE("ordered work works on two pieces at once") {
  OrderedWork work(2, Helping::behind);
  std::vector<int> slots(work.slot_count());
  std::atomic<int> begun{0};
  int prepared = 0;
  CHECK(work.run({.prepare = [&](std::size_t slot) -> Result<bool> {
                    slots[slot] = prepared;
                    return prepared++ < 2;
                  },
                  .work =
                      [&](std::size_t) {
                        ++begun;
                        while (begun < 2) std::this_thread::yield();
                      },
                  .take = [](std::size_t) { return Result<void>(); }}));
}

TEST_CASE("ordered work ends with the first error, and no thread uses a slot afterwards") {
  for (const std::size_t threads : thread_counts) {
    INFO(threads << " threads");
    OrderedWork work(threads, Helping::beside);
    std::vector<int> slots(work.slot_count());
    const auto run = [&](int prepare_fails_at, int take_fails_at) {
      int prepared = 0;
      int taken = 0;
      std::atomic<int> working{0};
      const auto done = work.run({.prepare = [&](std::size_t slot) -> Result<bool> {
                                    if (prepared == prepare_fails_at) return fail(Errc::io, "prepare");
                                    slots[slot] = prepared++;
                                    return true;
                                  },
                                  .work =
                                      [&](std::size_t) {
                                        ++working;
                                        std::this_thread::yield();
                                        --working;
                                      },
                                  .take =
                                      [&](std::size_t slot) {
                                        CHECK(slots[slot] == taken);
                                        if (taken == take_fails_at)
                                          return Result<void>(fail(Errc::io, "take"));
                                        ++taken;
                                        return Result<void>();
                                      }});
      CHECK(working == 0);
      REQUIRE(!done);
      return done.error().detail + " " + std::to_string(taken);
    };
    CHECK(run(50, 1000) == "prepare 50");
    CHECK(run(50, 49) == "take 49");
    CHECK(run(1000, 0) == "take 0");
    CHECK(run(0, 0) == "prepare 0");
  }
}

}  // namespace many_values_test
