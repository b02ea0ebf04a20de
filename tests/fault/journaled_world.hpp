// A small server without threads, on a disk that a test may stop at any operation: keyspace, journal, saves
// and recovery as the daemon puts them together, and a model of what it holds after each change.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/storage/adopted_files.hpp>
#include <sepal/storage/data_directory.hpp>
#include <sepal/storage/journal.hpp>
#include <sepal/storage/replay.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/freeing_housekeeper.hpp"
#include "support/simulated_disk.hpp"

namespace sepal::test {

// What clients know of a filter and its key: what they were told about them.
struct ModelFilter {
  std::uint64_t item_count = 0;
  std::set<std::uint32_t> items;  // whose add was answered, by number
  keyspace::Deadline deadline = keyspace::no_deadline;
};
struct Model : std::map<std::pair<std::uint32_t, std::string>, ModelFilter> {
  std::vector<keyspace::Mirror> mirrors;
};

class JournaledWorld {
 public:
  // Recovers what is on the disk, which the world takes.
  JournaledWorld(std::unique_ptr<SimulatedDisk> disk, storage::JournalPolicy policy);
  ~JournaledWorld();

  // Why it could not recover; empty when it could.
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] SimulatedDisk& disk() { return *disk_; }
  [[nodiscard]] storage::Journal& journal() { return *journal_; }

  // Makes one random change, or a few adds; under `always` it is durable when this returns. Nothing happens
  // while changes are refused.
  void change(std::mt19937_64& random);
  // Switches the journal off and on, now and then, with the changes from now on. What was changed while it
  // was off is in a generation or lost, so the models promise nothing any more.
  void switch_policies() { switching_ = true; }
  // Saves, with changes between its steps and during its writing, if `random` says so.
  Result<void> save(std::mt19937_64& random);
  // Called within a save's writing, before an operation of the disk: makes some changes.
  void interfere() {
    if (interfere_) interfere_();
  }
  [[nodiscard]] bool needs_save() const { return needs_save_; }

  // The models after each change, the first being what was recovered.
  [[nodiscard]] const std::vector<Model>& models() const { return models_; }
  // Of them, the last that no power cut may lose.
  [[nodiscard]] std::size_t durable_model() const;

  // Whether the keyspace holds exactly the keys and counts of the model, and all of its items; it may have
  // some of the items already by which `next` differs, for only whole requests are answered.
  [[nodiscard]] bool holds(const Model& model, const Model& next) const;
  // Goes on from what was recovered, which holds this.
  void begin_from(Model model);
  // The keys, counts and deadlines that are there, without items.
  [[nodiscard]] Model outline() const;
  // That some save did not have to write.
  [[nodiscard]] std::uint64_t linked_bytes() const { return linked_bytes_; }

 private:
  Result<void> try_save(std::mt19937_64& random, storage::Linking linking);
  void recover();
  Result<void> try_recover();
  [[nodiscard]] bool admitted(std::size_t item_count);
  void add(std::mt19937_64& random, Model& model);
  void change_key(std::mt19937_64& random, Model& model);
  void adopt(std::mt19937_64& random, Model& model);
  void change_mirror(std::mt19937_64& random, Model& model);
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
  bool needs_save_ = false;
  bool saving_ = false;
  bool switching_ = false;
  std::uint64_t linked_bytes_ = 0;
  std::function<void()> interfere_;  // while a generation is written
  std::string error_;
  std::vector<Model> models_{Model{}};
  std::vector<std::uint64_t> ends_{0};  // of each model, in the journal
};

}  // namespace sepal::test
