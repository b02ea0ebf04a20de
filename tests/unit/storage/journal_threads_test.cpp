// The journal with its thread and several workers. ThreadSanitizer finds nothing in it.
#include <sepal/base/gate.hpp>

#include <condition_variable>
#include <mutex>

#include "support/eventually.hpp"
#include "support/journal_fixture.hpp"

namespace journal_threads_test {

using namespace sepal;
using namespace sepal::storage;
using keyspace::Admission;

namespace {

constexpr std::size_t worker_count = 4;
constexpr std::uint64_t requests_of_each = 1500;
constexpr std::uint64_t alone_every = 50;

std::string key_of(std::size_t worker) {
  return "worker-" + std::to_string(worker);
}

// Each worker has a key, to which it adds consecutive numbers. Now and then a worker removes its key, with
// the gate closed. The saver saves nothing, but reports a save.
class Workers {
 public:
  Workers() {
    REQUIRE(disk.make_directory("d"));
    REQUIRE(disk.sync_directory(""));
  }
  ~Workers() {
    tell(ending_);
    if (saver_.joinable()) saver_.join();
    journal.reset();
  }

  void open(JournalPolicy policy) {
    JournalOptions options = test::with_policy(policy);
    options.threaded = true;
    auto opened = Journal::open(disk, "d", 0, worker_count, options,
                                {.on_progress = [this] { tell(progress_count_); },
                                 .on_save_needed = [this] { tell(saves_wanted_); }});
    REQUIRE(opened);
    journal = std::move(*opened);
    saver_ = std::thread([this] { save_when_asked(); });
  }

  // Each worker waits until its changes are durable, if the policy says so.
  void run() {
    std::vector<std::thread> threads;
    for (std::size_t worker = 0; worker < worker_count; ++worker)
      threads.emplace_back([this, worker] { run_worker(worker); });
    for (std::thread& thread : threads) thread.join();
  }

  test::SimulatedDisk disk;
  std::unique_ptr<Journal> journal;

 private:
  void tell(std::uint64_t& count) {
    const std::lock_guard lock(mutex_);
    ++count;
    changed_.notify_all();
  }
  template <class Predicate>
  void wait_until(Predicate done) {
    std::unique_lock lock(mutex_);
    while (!done()) changed_.wait(lock);
  }

  void run_worker(std::size_t worker) {
    keyspace::WorkerLog& log = journal->log(worker);
    const std::string key = key_of(worker);
    for (std::uint64_t request = 0; request < requests_of_each;) {
      const bool alone = request % alone_every == alone_every - 1;
      const std::size_t count = 1 + request % 20;
      if (!(alone ? remove_alone(log, key) : add(log, worker, key, request * 100, count))) {
        wait_for_progress();
        continue;
      }
      const std::uint64_t position = log.seal_record(request % 3 == 0);
      wait_until([&] { return journal->durable_position() >= position; });
      ++request;
    }
  }

  bool add(keyspace::WorkerLog& log, std::size_t worker, const std::string& key, std::uint64_t first,
           std::size_t count) {
    gate_.enter(worker);
    const bool granted = log.admit(200 + count * sizeof(Fingerprint)) == Admission::granted;
    if (granted) {
      log.begin_add();
      log.added({.database = 0, .key = key}, test::fingerprints_from(first, count));
    }
    gate_.leave(worker);
    return granted;
  }

  bool remove_alone(keyspace::WorkerLog& log, const std::string& key) {
    const GateClosed closed(gate_);
    if (log.admit(200) != Admission::granted) return false;
    log.record(keyspace::Removed{.key = {.database = 0, .key = key}});
    log.commit();
    return true;
  }

  // A refused or delayed change is tried again when the journal reports progress. It is also tried again
  // after a moment, because the report may have come before.
  void wait_for_progress() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }

  void save_when_asked() {
    for (std::uint64_t done = 0;;) {
      wait_until([&] { return ending_ != 0 || saves_wanted_ > done; });
      if (ending_ != 0) return;
      std::uint64_t cut = 0;
      {
        const GateClosed closed(gate_);
        cut = journal->position();
      }
      journal->generation_saved(cut);
      ++done;
      tell(progress_count_);
    }
  }

  Gate gate_{worker_count};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t progress_count_ = 0;
  std::uint64_t saves_wanted_ = 0;
  std::uint64_t ending_ = 0;
  std::thread saver_;
};

// Checks that the operations of all workers are there, and those of each worker in order.
void check_all(const std::vector<test::JournalOperation>& operations) {
  std::map<std::string, std::uint64_t> next;
  for (const test::JournalOperation& operation : operations) {
    std::uint64_t& request = next[operation.key];
    const bool alone = request % alone_every == alone_every - 1;
    REQUIRE((operation.operation == format::Operation::removed) == alone);
    if (!alone) REQUIRE(operation.fingerprints == test::fingerprints_from(request * 100, 1 + request % 20));
    ++request;
  }
  for (std::size_t worker = 0; worker < worker_count; ++worker)
    CHECK(next[key_of(worker)] == requests_of_each);
}

}  // namespace

TEST_CASE("records of several workers are on the disk, each worker's in its order", "[stress]") {
  for (const JournalPolicy policy : {JournalPolicy::everysec, JournalPolicy::always}) {
    Workers workers;
    workers.open(policy);
    workers.run();
    REQUIRE(workers.journal->stop());
    CHECK(workers.journal->durable_position() == workers.journal->position());
    CHECK(workers.journal->status().frames == worker_count * requests_of_each);
    workers.disk.crash(test::Survival::synced, 1);
    check_all(test::operations_of(test::journal_files(workers.disk.files(), "d")));
  }
}

TEST_CASE("records after a pause are synced in time as well") {
  test::SimulatedDisk disk;
  REQUIRE(disk.make_directory("d"));
  JournalOptions options = test::small_journal;
  options.threaded = true;
  std::mutex mutex;
  std::condition_variable progress;
  auto opened = Journal::open(disk, "d", 0, 1, options,
                              {.on_progress =
                                   [&] {
                                     const std::lock_guard lock(mutex);
                                     progress.notify_all();
                                   },
                               .on_save_needed = {}});
  REQUIRE(opened);
  Journal& journal = **opened;
  for (std::uint64_t round = 0; round < 3; ++round) {
    REQUIRE(journal.log(0).admit(200) == Admission::granted);
    journal.log(0).begin_add();
    journal.log(0).added({.database = 0, .key = "key"}, test::fingerprints_from(round, 1));
    std::unique_lock lock(mutex);
    const auto synced = [&] { return journal.durable_position() == journal.position(); };
    REQUIRE(progress.wait_for(lock, test::patience, synced));
  }
  CHECK(journal.stop());
}

TEST_CASE("several workers go on after syncs that fail and disks that are full", "[stress]") {
  Workers workers;
  // Called on the journal's thread, before each operation of the disk.
  std::uint64_t operations = 0;
  workers.disk.set_observer([&](const char* operation, const storage::Path&) {
    ++operations;
    const std::uint64_t next = workers.disk.operation_count() + 1;
    if (std::string_view(operation) == "sync" && operations % 200 == 0) workers.disk.fail_at(next, Errc::io);
    if (std::string_view(operation) == "create_mapped" && operations % 50 == 0)
      workers.disk.fail_at(next, Errc::disk_full);
  });
  workers.open(JournalPolicy::always);
  workers.run();
  workers.journal->generation_saved(workers.journal->position());
  CHECK(workers.journal->stop());
  CHECK(workers.journal->status().failed_syncs > 0);
  CHECK(workers.journal->status().frames == worker_count * requests_of_each);
  workers.disk.set_observer({});
}

}  // namespace journal_threads_test
