// A journal in memory: what the logs of some workers were told, in one order, for tests.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/keyspace/mutation_log.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sepal::test {

struct Recorded {
  enum class Kind : std::uint8_t {
    added,
    created,
    grown,
    removed,
    expires,
    renamed,
    adopted,
    moved,
    swapped,
    mirrored,
    flushed,
    flushed_all
  };
  Kind kind = Kind::added;
  std::uint32_t database = 0;
  std::string key{};
  std::string target{};
  std::uint32_t other = 0;  // database
  filter::FilterOptions options{};
  filter::LayerPlan layer{};
  keyspace::Deadline deadline = keyspace::no_deadline;
  keyspace::Mirror mirror{};
  std::vector<Fingerprint> fingerprints{};
  std::vector<std::byte> image{};  // adopted: or
  keyspace::ImageFile file{};

  // As WorkerLog::admit counts them.
  [[nodiscard]] std::uint64_t bytes() const {
    return keyspace::record_bytes_max + key.size() + target.size() +
           fingerprints.size() * sizeof(Fingerprint) + image.size();
  }
};

// Synchronised; the fields that a test sets, before it matters.
class RecordingJournal {
 public:
  explicit RecordingJournal(std::size_t worker_count) {
    for (std::size_t i = 0; i < worker_count; ++i) logs_.push_back(std::make_unique<Log>(*this));
  }

  [[nodiscard]] keyspace::WorkerLog& log(std::size_t worker) { return *logs_[worker]; }
  [[nodiscard]] std::vector<keyspace::WorkerLog*> all_logs() const {
    std::vector<keyspace::WorkerLog*> all;
    for (const auto& log : logs_) all.push_back(log.get());
    return all;
  }
  // What is in the record so far: not what waits for a commit.
  [[nodiscard]] std::vector<Recorded> operations() {
    const MutexLock lock(mutex_);
    return operations_;
  }
  [[nodiscard]] std::uint64_t admitted_bytes() const { return admitted_bytes_; }

  std::atomic<bool> recording{true};
  std::atomic<keyspace::Admission> admission{keyspace::Admission::granted};
  std::atomic<std::int64_t> grants_left{1'000'000'000};  // then `later`
  std::atomic<std::uint64_t> awaited{0};                 // what settle() gives
  std::atomic<int> settled{0};                           // calls of settle(false)
  std::atomic<int> settled_known{0};                     // calls of settle(true)
  std::atomic<int> commits{0};
  std::atomic<bool> misused{false};  // added() came without begin_add()

 private:
  class Log final : public keyspace::WorkerLog {
   public:
    explicit Log(RecordingJournal& journal) : journal_(journal) {}

    [[nodiscard]] bool recording() const override { return journal_.recording; }
    void begin_add() override { adding_ = true; }
    void added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override {
      if (!std::exchange(adding_, false)) journal_.misused = true;
      if (fingerprints.empty()) return;
      Recorded recorded = named(Recorded::Kind::added, key);
      recorded.fingerprints.assign(fingerprints.begin(), fingerprints.end());
      // In the order of what else waits, where something does.
      if (!waiting_.empty()) return waiting_.push_back(std::move(recorded));
      const MutexLock lock(journal_.mutex_);
      journal_.operations_.push_back(std::move(recorded));
    }
    void created(keyspace::DatabaseKey key, const filter::FilterOptions& options,
                 const filter::LayerPlan& first_layer) override {
      Recorded recorded = named(Recorded::Kind::created, key);
      recorded.options = options;
      recorded.layer = first_layer;
      waiting_.push_back(std::move(recorded));
    }
    void grown(keyspace::DatabaseKey key, const filter::LayerPlan& layer) override {
      Recorded recorded = named(Recorded::Kind::grown, key);
      recorded.layer = layer;
      waiting_.push_back(std::move(recorded));
    }
    void removed(keyspace::DatabaseKey key) override {
      waiting_.push_back(named(Recorded::Kind::removed, key));
    }
    void expires(keyspace::DatabaseKey key, keyspace::Deadline deadline) override {
      Recorded recorded = named(Recorded::Kind::expires, key);
      recorded.deadline = deadline;
      waiting_.push_back(std::move(recorded));
    }
    void renamed(std::uint32_t database, std::string_view from, std::string_view to) override {
      Recorded recorded = named(Recorded::Kind::renamed, {.database = database, .key = from});
      recorded.target = to;
      waiting_.push_back(std::move(recorded));
    }
    void adopted(keyspace::DatabaseKey key, const keyspace::AdoptedFilter& filter) override {
      Recorded recorded = named(Recorded::Kind::adopted, key);
      recorded.image.assign(filter.image.begin(), filter.image.end());
      recorded.file = filter.file;
      recorded.deadline = filter.deadline;
      waiting_.push_back(std::move(recorded));
    }
    void moved(keyspace::DatabaseKey from, std::uint32_t to_database) override {
      Recorded recorded = named(Recorded::Kind::moved, from);
      recorded.other = to_database;
      waiting_.push_back(std::move(recorded));
    }
    void swapped(std::uint32_t database, std::uint32_t other) override {
      Recorded recorded = named(Recorded::Kind::swapped, {.database = database, .key = {}});
      recorded.other = other;
      waiting_.push_back(std::move(recorded));
    }
    void mirrored(const keyspace::Mirror& mirror) override {
      Recorded recorded =
          named(Recorded::Kind::mirrored, {.database = mirror.database, .key = mirror.source});
      recorded.target = mirror.target;
      recorded.mirror = mirror;
      waiting_.push_back(std::move(recorded));
    }
    void flushed(std::uint32_t database) override {
      waiting_.push_back(named(Recorded::Kind::flushed, {.database = database, .key = {}}));
    }
    void flushed_all() override { waiting_.push_back(named(Recorded::Kind::flushed_all, {})); }

    [[nodiscard]] keyspace::Admission admit(std::uint64_t bytes_max) override {
      if (journal_.admission != keyspace::Admission::granted) return journal_.admission;
      if (journal_.grants_left.fetch_sub(1) <= 0) return keyspace::Admission::later;
      journal_.admitted_bytes_ += bytes_max;
      return keyspace::Admission::granted;
    }
    void commit() override {
      ++journal_.commits;
      const MutexLock lock(journal_.mutex_);
      for (Recorded& recorded : waiting_) journal_.operations_.push_back(std::move(recorded));
      waiting_.clear();
    }
    [[nodiscard]] std::uint64_t settle(bool answered_known) override {
      ++(answered_known ? journal_.settled_known : journal_.settled);
      return journal_.awaited;
    }

   private:
    static Recorded named(Recorded::Kind kind, keyspace::DatabaseKey key) {
      return {.kind = kind, .database = key.database, .key = std::string(key.key)};
    }

    RecordingJournal& journal_;
    std::vector<Recorded> waiting_;
    bool adding_ = false;
  };

  Mutex mutex_;  // The innermost.
  std::vector<Recorded> operations_ SEPAL_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> admitted_bytes_{0};
  std::vector<std::unique_ptr<Log>> logs_;
};

}  // namespace sepal::test
