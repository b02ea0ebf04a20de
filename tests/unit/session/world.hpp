// Everything that a session or a server needs from other modules, in memory.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/fake_adoptions.hpp"
#include "support/fake_journal.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/recording_journal.hpp"

namespace sepal::session::test {

// Starts no save; the test answers the client that waits.
class PendingSave final : public command::Persistence {
 public:
  Result<void> start_save_for(std::uint64_t id) override {
    waiting_id = id;
    return {};
  }

  std::atomic<std::uint64_t> waiting_id{0};
};

class Administered final : public command::ServerControl {
 public:
  void log_administration(const command::ClientState&, const command::Administration& done) override {
    administration.push_back(done.user + ": " + done.words);
  }

  std::vector<std::string> administration;
};

// The parts below the server.
struct Ground {
  explicit Ground(std::size_t worker_count)
      : keyspace({}, housekeeper), gate(worker_count), workers(worker_count), recording(worker_count) {}

  command::Services services(command::ClientDirectory& clients) {
    return {.keyspace = keyspace,
            .options = options,
            .clients = clients,
            .persistence = persistence,
            .control = control,
            .configuration = configuration,
            .workers = workers,
            .journal = journal,
            .adoptions = adoptions,
            .transfers = transfers};
  }

  command::RuntimeOptions options;
  sepal::test::FreeingHousekeeper housekeeper;
  PendingSave persistence;
  Administered control;
  command::Configuration configuration;  // CONFIG has no settings
  keyspace::Keyspace keyspace;
  Gate gate;
  std::vector<command::WorkerStats> workers;
  sepal::test::FakeJournal journal;
  sepal::test::FakeAdoptions adoptions;
  sepal::test::FakeTransfers transfers;
  sepal::test::RecordingJournal recording;  // used only if services.logs names its logs
};

inline std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

inline std::string request(const std::vector<std::string>& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return bytes;
}

}  // namespace sepal::session::test
