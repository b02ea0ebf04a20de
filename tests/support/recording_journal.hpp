// A journal in memory for tests: the records of several workers' logs, in one order.
#pragma once

#include <sepal/base/endian.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/bloom/kind/kind.hpp>
#include <sepal/keyspace/mutation_log.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
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
    flushed_all,
    written,
    cuckoo_created,
    cuckoo_changed,
    redis_cuckoo_created,
    redis_cuckoo_changed,
    remade
  };
  Kind kind = Kind::added;
  std::uint32_t database = 0;
  std::string key{};
  std::string target{};
  std::uint32_t other = 0;  // the other database
  bloom::FilterOptions options{};
  bloom::LayerPlan layer{};
  keyspace::Deadline deadline = keyspace::no_deadline;
  keyspace::Mirror mirror{};
  std::vector<Fingerprint> fingerprints{};
  std::vector<std::byte> parts{};  // of which a filter was made
  // The bytes of an adopted filter, the head of one that was made of others or of a filter that deletes, what
  // was written, or what has changed in a filter of RedisBloom.
  std::vector<std::byte> image{};
  std::uint8_t what = 0;     // what has changed, in a filter that deletes
  std::uint64_t offset = 0;  // of what was written
  keyspace::ImageFile file{};

  [[nodiscard]] static Recorded of(const keyspace::Mutation& change) {
    Recorded recorded;
    std::visit([&](const auto& made) { recorded.take(made); }, change);
    return recorded;
  }
  // As WorkerLog::admit counts them.
  [[nodiscard]] std::uint64_t bytes() const {
    return keyspace::record_bytes_max + key.size() + target.size() +
           fingerprints.size() * sizeof(Fingerprint) + image.size();
  }

  void name(Kind named, keyspace::DatabaseKey of_key) {
    kind = named;
    database = of_key.database;
    key = of_key.key;
  }
  void take(const keyspace::Made& made) {
    if (made.kind == value::Kind::cuckoo || made.kind == value::Kind::redis_cuckoo) {
      name(made.kind == value::Kind::cuckoo ? Kind::cuckoo_created : Kind::redis_cuckoo_created, made.key);
      image.assign(made.head.begin(), made.head.end());
      return;
    }
    name(Kind::created, made.key);
    FieldReader reader(made.head);
    options.seed = reader.integer<std::uint64_t>();
    options.error_rate = reader.real();
    options.capacity = reader.integer<std::uint64_t>();
    options.expansion = reader.integer<std::uint32_t>();
    layer = layer_in(made.head.last(bloom::grown_bytes));
  }
  void take(const keyspace::Changed& changed) {
    if (changed.kind == value::Kind::bloom) {
      name(Kind::grown, changed.key);
      layer = layer_in(changed.head);
      return;
    }
    if (changed.kind == value::Kind::cuckoo) {
      name(Kind::cuckoo_changed, changed.key);
      what = changed.what;
      return;
    }
    if (changed.kind == value::Kind::redis_cuckoo) {
      name(Kind::redis_cuckoo_changed, changed.key);
      what = changed.what;
      image.assign(changed.head.begin(), changed.head.end());
      image.insert(image.end(), changed.bytes.begin(), changed.bytes.end());
      return;
    }
    name(Kind::written, changed.key);
    offset = load_little_endian<std::uint64_t>(changed.head.data());
    image.assign(changed.bytes.begin(), changed.bytes.end());
  }
  static bloom::LayerPlan layer_in(std::span<const std::byte> record) {
    FieldReader reader(record);
    bloom::LayerPlan plan;
    plan.capacity = reader.integer<std::uint64_t>();
    plan.error_rate = reader.real();
    plan.block_count = reader.integer<std::uint64_t>();
    plan.block_bits = reader.integer<std::uint32_t>();
    plan.probe_count = reader.integer<std::uint32_t>();
    return plan;
  }
  void take(const keyspace::Removed& removed) { name(Kind::removed, removed.key); }
  void take(const keyspace::Expires& expires) {
    name(Kind::expires, expires.key);
    deadline = expires.deadline;
  }
  void take(const keyspace::Renamed& renamed) {
    name(Kind::renamed, renamed.key);
    target = renamed.target;
  }
  void take(const keyspace::Adopted& adopted) {
    name(Kind::adopted, adopted.key);
    image.assign(adopted.value.image.begin(), adopted.value.image.end());
    file = adopted.value.file;
    deadline = adopted.value.deadline;
  }
  void take(const keyspace::Remade& remade) {
    name(Kind::remade, remade.key);
    image.assign(remade.head.begin(), remade.head.end());
    parts.assign(remade.parts.begin(), remade.parts.end());
  }
  void take(const keyspace::Moved& moved) {
    name(Kind::moved, moved.key);
    other = moved.to_database;
  }
  void take(const keyspace::Swapped& swapped) {
    name(Kind::swapped, {.database = swapped.database, .key = {}});
    other = swapped.other;
  }
  void take(const keyspace::Mirrored& mirrored) {
    name(Kind::mirrored, mirrored.key);
    target = mirrored.target;
    mirror = {.database = database,
              .source = key,
              .target = target,
              .state = mirrored.state,
              .items_before = mirrored.items_before};
  }
  void take(const keyspace::Flushed& flushed) {
    name(Kind::flushed, {.database = flushed.database, .key = {}});
  }
  void take(const keyspace::FlushedAll& /*flushed*/) { name(Kind::flushed_all, {}); }
};

// Synchronised. A test sets the fields before other threads use them.
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
  // The recorded operations so far, without those that wait for a commit.
  [[nodiscard]] std::vector<Recorded> operations() {
    const MutexLock lock(mutex_);
    return operations_;
  }
  [[nodiscard]] std::uint64_t admitted_bytes() const { return admitted_bytes_; }

  std::atomic<bool> recording{true};
  std::atomic<keyspace::Admission> admission{keyspace::Admission::granted};
  std::atomic<bool> takes_freeing{false};                // grants removals whatever `admission` says
  std::atomic<std::int64_t> grants_left{1'000'000'000};  // after so many grants admit() answers `later`
  std::atomic<std::uint64_t> awaited{0};                 // what seal_record() returns
  std::atomic<int> sealed{0};                            // calls of seal_record(false)
  std::atomic<int> sealed_known{0};                      // calls of seal_record(true)
  std::atomic<int> commits{0};
  std::atomic<int> groups{0};
  std::atomic<bool> misused{false};  // added() was called without begin_add()

 private:
  class Log final : public keyspace::WorkerLog {
   public:
    explicit Log(RecordingJournal& journal) : journal_(journal) {}
    using WorkerLog::admit;

    [[nodiscard]] bool recording() const override { return journal_.recording; }
    void begin_add() override { adding_ = true; }
    void added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override {
      added_some(key, fingerprints);
      adding_ = false;
    }
    void added_some(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override {
      if (!adding_) journal_.misused = true;
      if (fingerprints.empty()) return;
      Recorded recorded;
      recorded.name(Recorded::Kind::added, key);
      recorded.fingerprints.assign(fingerprints.begin(), fingerprints.end());
      // If other operations wait for the commit, this one goes behind them.
      if (!waiting_.empty()) return waiting_.push_back(std::move(recorded));
      const MutexLock lock(journal_.mutex_);
      journal_.operations_.push_back(std::move(recorded));
    }
    // No test of this journal has adds of several workers that must be waited for.
    void wait_for_adds() override {}
    void gather(const keyspace::Mutation& change) override { record(change); }
    void gathered_all(const value::Value&) override {}
    void append() override { append_waiting(); }
    void append_others() override {}
    void gather_added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override {
      begin_add();
      added(key, fingerprints);
    }
    void record(const keyspace::Mutation& change) override {
      waiting_.push_back(Recorded::of(change));
      const auto* const made = std::get_if<keyspace::Made>(&change);
      if (made != nullptr && made->deadline != keyspace::no_deadline)
        record(keyspace::Expires{.key = made->key, .deadline = made->deadline});
    }

    [[nodiscard]] keyspace::Admission admit(std::uint64_t bytes_max, keyspace::Change change) override {
      if (change == keyspace::Change::frees && journal_.takes_freeing) return keyspace::Admission::granted;
      if (journal_.admission != keyspace::Admission::granted) return journal_.admission;
      if (journal_.grants_left.fetch_sub(1) <= 0) return keyspace::Admission::later;
      journal_.admitted_bytes_ += bytes_max;
      return keyspace::Admission::granted;
    }
    void begin_group() override {
      commit();
      ++journal_.groups;
    }
    void end_group() override { commit(); }
    void commit() override {
      ++journal_.commits;
      append_waiting();
    }
    void append_waiting() {
      const MutexLock lock(journal_.mutex_);
      for (Recorded& recorded : waiting_) journal_.operations_.push_back(std::move(recorded));
      waiting_.clear();
    }
    [[nodiscard]] std::uint64_t seal_record(bool answered_known) override {
      ++(answered_known ? journal_.sealed_known : journal_.sealed);
      return journal_.awaited;
    }

   private:
    RecordingJournal& journal_;
    std::vector<Recorded> waiting_;
    bool adding_ = false;
  };

  Mutex mutex_;  // Lock order: the last.
  std::vector<Recorded> operations_ SEPAL_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> admitted_bytes_{0};
  std::vector<std::unique_ptr<Log>> logs_;
};

}  // namespace sepal::test
