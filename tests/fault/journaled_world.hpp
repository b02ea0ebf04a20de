// A small server without threads, on a disk that a test may stop at any operation: keyspace, journal, saves
// and recovery as the daemon puts them together, and a model of what it holds after each change.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/storage/generation/adopted_files.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/journal/journal.hpp>
#include <sepal/storage/replay/replay.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "journaled_cuckoo.hpp"
#include "journaled_window.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/simulated_disk.hpp"

namespace sepal::test {

// A value and its key as clients know them from the replies: a Bloom filter, if nothing below says otherwise.
struct ModelFilter {
  std::uint64_t item_count = 0;
  std::set<std::uint32_t> items{};  // numbers of the items whose add was answered
  keyspace::Deadline deadline = keyspace::no_deadline;
  std::optional<std::string> string{};  // the bytes of a string
  std::optional<CuckooModel> cuckoo{};
  std::optional<WindowModel> window{};
};
struct Model : std::map<std::pair<std::uint32_t, std::string>, ModelFilter> {
  bool by_transaction = false;  // the change that led here is there whole or not at all
  std::vector<keyspace::Mirror> mirrors;
};

// Whether strings get longer than one record of the journal, and sparse. Segments are larger then.
enum class Strings : std::uint8_t { shorter, longer };

class JournaledWorld {
 public:
  // Takes the disk, and recovers the keyspace on it.
  JournaledWorld(std::unique_ptr<SimulatedDisk> disk, storage::JournalPolicy policy,
                 Strings strings = Strings::shorter);
  ~JournaledWorld();

  // Why it could not recover; empty when it could.
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] SimulatedDisk& disk() { return *disk_; }
  [[nodiscard]] storage::Journal& journal() { return *journal_; }

  // Makes one random change, or a few adds, or a transaction of both. Under `always` the change is durable
  // when this returns. Does nothing while changes are refused.
  void change(std::mt19937_64& random);
  // From now on, change() switches the journal off and on now and then. Changes made while it is off are in a
  // generation or lost, so the models promise nothing any more.
  void switch_policies() { switching_ = true; }
  // Saves. If `random` says so, changes are made between its steps and while it writes.
  Result<void> save(std::mt19937_64& random);
  // Called while a save writes, before an operation of the disk: makes some changes.
  void interfere() {
    if (interfere_) interfere_();
  }
  [[nodiscard]] bool needs_save() const { return needs_save_; }

  // The models after each change. The first one is the recovered keyspace.
  [[nodiscard]] const std::vector<Model>& models() const { return models_; }
  // The index of the newest model that no power cut may lose.
  [[nodiscard]] std::size_t durable_model() const { return model_at(journal_->durable_position()); }
  // The index of the newest model whose changes all stand before this position of the journal.
  [[nodiscard]] std::size_t model_at(std::uint64_t position) const;

  // The positions of the journal between which the last change stands; equal if it recorded nothing.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> last_change() const;

  // Whether the keyspace holds exactly the keys, counts, strings and copies of the model, and all of its
  // items. It may also have some items of `next`, or a part of a chunk, because a request is answered only
  // when it is complete; but it has nothing of a transaction that is not complete.
  [[nodiscard]] bool holds(const Model& model, const Model& next) const;
  // Continues from the recovered keyspace, which holds `model`.
  void begin_from(Model model);
  // The keys, counts, copies and deadlines of the keyspace, without the items of Bloom filters.
  [[nodiscard]] Model outline() const;
  // Removes all keys, and checks that the account of memory is empty then. The world is of no use afterwards.
  void check_account();
  // The bytes that saves linked instead of writing them.
  [[nodiscard]] std::uint64_t linked_bytes() const { return linked_bytes_; }

 private:
  Result<void> try_save(std::mt19937_64& random, storage::Linking linking);
  void recover();
  Result<void> try_recover();
  [[nodiscard]] bool admitted(std::size_t item_count, std::size_t changes);
  [[nodiscard]] storage::JournalOptions journal_options() const;
  // With the gate closed, without a commit:
  struct Kind {
    bool first = false;  // it is an add
    bool in_transaction = false;
    bool mirrors = true;  // it may begin and end mirrors
  };
  void change_filters(std::mt19937_64& random, Model& model, const Kind& kind);
  void transact(std::mt19937_64& random, Model& model, std::uint32_t changes);
  [[nodiscard]] bloom::Filter* create(std::mt19937_64& random, keyspace::DatabaseKey key,
                                      std::uint64_t capacity, std::span<const std::string_view> items,
                                      bool inside, std::vector<bloom::Filter::AddOutcome>& outcomes);
  void add(std::mt19937_64& random, Model& model, bool in_transaction);
  void change_key(std::mt19937_64& random, Model& model);
  struct StringChange {
    keyspace::DatabaseKey key{};
    std::string before;  // empty where there is none
    bool in_transaction = false;
  };
  void change_string(std::mt19937_64& random, Model& model, bool in_transaction);
  void set_bit(std::mt19937_64& random, Model& model, const StringChange& change);
  void write_bytes(std::mt19937_64& random, Model& model, const StringChange& change);
  void put_bytes(std::mt19937_64& random, Model& model, const StringChange& change);
  void write(Model& model, const StringChange& change, std::uint64_t offset, const std::string& bytes);
  [[nodiscard]] std::string any_bytes(std::mt19937_64& random, const StringChange& change) const;
  void change_window(std::mt19937_64& random, Model& model);
  static void note_adds(const std::vector<std::uint32_t>& numbers,
                        const std::vector<bloom::Filter::AddOutcome>& outcomes, WindowModel& its,
                        const bloom::WindowFilter& filter);
  void change_cuckoo(std::mt19937_64& random, Model& model, bool in_transaction);
  void create_cuckoo(std::mt19937_64& random, keyspace::Mutator& mutator, keyspace::DatabaseKey key,
                     CuckooModel& model);
  void change_own_cuckoo(std::mt19937_64& random, keyspace::Mutator& mutator, keyspace::DatabaseKey key,
                         cuckoo::Filter& filter, CuckooModel& model);
  void create_redis_cuckoo(std::mt19937_64& random, keyspace::Mutator& mutator, keyspace::DatabaseKey key,
                           CuckooModel& model);
  void change_redis_cuckoo(std::mt19937_64& random, keyspace::Mutator& mutator, keyspace::DatabaseKey key,
                           cuckoo::RedisFilter& filter, CuckooModel& model, bool in_transaction);
  void write_chunk(std::mt19937_64& random, keyspace::Mutator& mutator, keyspace::DatabaseKey key,
                   cuckoo::RedisFilter& filter, bool in_transaction);
  [[nodiscard]] value::ValuePtr copy_of_cuckoo(std::mt19937_64& random, const Model& model,
                                               ModelFilter& known);
  [[nodiscard]] value::ValuePtr new_bloom(std::mt19937_64& random, ModelFilter& known) const;
  void adopt(std::mt19937_64& random, Model& model);
  [[nodiscard]] bool holds_key(keyspace::DatabaseKey key, const ModelFilter& known,
                               const ModelFilter* next) const;
  void change_mirror(std::mt19937_64& random, Model& model);
  // Makes a filter of the bits of others, or a smaller one of its own (journaled_remade.cpp).
  void remake(std::mt19937_64& random, Model& model);
  void unite_windows(std::mt19937_64& random, Model& model);
  void reserve_large(Model& model, keyspace::DatabaseKey key);
  void switch_policy(std::mt19937_64& random);
  [[nodiscard]] storage::Snapshot take_snapshot(const std::function<void()>& interfere);

  std::unique_ptr<SimulatedDisk> disk_;
  FreeingHousekeeper housekeeper_;
  keyspace::Keyspace keyspace_;
  Gate gate_{1};
  std::unique_ptr<storage::DataDirectory> directory_;
  std::unique_ptr<storage::AdoptedFiles> files_;
  std::unique_ptr<storage::Journal> journal_;
  storage::JournalPolicy policy_;
  Strings strings_;
  bool needs_save_ = false;
  bool saving_ = false;
  bool switching_ = false;
  std::uint64_t linked_bytes_ = 0;
  std::function<void()> interfere_;  // called while a generation is written
  std::string error_;
  std::vector<Model> models_{Model{}};
  std::vector<std::uint64_t> ends_{0};  // the journal position after each model
};

}  // namespace sepal::test
