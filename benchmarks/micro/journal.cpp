// The cost of an add's record for a worker: the frame's bytes, their hash, the lock, the copy into the mapped
// segment. The journal's thread does the syncs, which are not measured.
#include <sepal/storage/journal/journal.hpp>

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace sepal;
using namespace sepal::storage;

constexpr keyspace::DatabaseKey key{.database = 0, .key = "a key of 16 byte"};
constexpr std::uint64_t record_bytes = keyspace::record_bytes_max + key.key.size();
constexpr std::uint64_t saved_every_bytes = std::uint64_t{64} << 20;

// A journal in memory, if there is a folder in memory, so that the disk is not measured.
class JournalFolder {
 public:
  JournalFolder() {
    std::filesystem::create_directories(path_);
    auto opened = Journal::open(*disk_, path_, 0, 1, {}, {});
    if (!opened) std::abort();
    journal_ = std::move(*opened);
  }
  ~JournalFolder() {
    journal_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  JournalFolder(const JournalFolder&) = delete;
  JournalFolder& operator=(const JournalFolder&) = delete;

  [[nodiscard]] keyspace::WorkerLog& log() const { return journal_->log(0); }

  // Now and then tells the journal that everything was saved, so that it removes segments.
  void make_room(std::uint64_t bytes) {
    if (journal_->position() - saved_ >= saved_every_bytes) {
      saved_ = journal_->position();
      journal_->generation_saved(saved_);
    }
    while (log().admit(bytes) != keyspace::Admission::granted) std::this_thread::yield();
  }

 private:
  static std::filesystem::path folder() {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code ignored;
    const bool there = std::filesystem::is_directory(memory, ignored);
    return (there ? memory : std::filesystem::temp_directory_path()) /
           ("sepal-micro-" + std::to_string(::getpid()));
  }

  std::filesystem::path path_ = folder();
  std::unique_ptr<Disk> disk_ = make_posix_disk();
  std::unique_ptr<Journal> journal_;
  std::uint64_t saved_ = 0;
};

// The argument: new items of one add.
void journal_append(benchmark::State& state) {
  JournalFolder folder;
  keyspace::WorkerLog& log = folder.log();
  const std::vector<Fingerprint> fingerprints(static_cast<std::size_t>(state.range(0)),
                                              Fingerprint{.low = 1, .high = 2});
  const std::uint64_t bytes = record_bytes + fingerprints.size() * sizeof(Fingerprint);
  folder.make_room(bytes);
  for (auto _ : state) {
    if (log.admit(bytes) != keyspace::Admission::granted) {
      state.PauseTiming();
      folder.make_room(bytes);
      state.ResumeTiming();
    }
    log.begin_add();
    log.added(key, fingerprints);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bytes));
}
BENCHMARK(journal_append)->ArgName("items")->Arg(1)->Arg(64);

}  // namespace
