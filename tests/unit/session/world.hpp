// Everything that a session or a server needs from other modules, in memory.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
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
  Result<void> start_save() override { return {}; }
  Result<void> start_save_for(std::uint64_t id) override {
    waiting_id = id;
    return {};
  }
  [[nodiscard]] command::SaveStatus status() const override { return {}; }
  [[nodiscard]] command::DiskStatus disk_status() const override { return {}; }

  std::atomic<std::uint64_t> waiting_id{0};
};

class NoControl final : public command::ServerControl {
 public:
  [[nodiscard]] const command::ServerFacts& facts() const override { return facts_; }
  [[nodiscard]] command::ProcessUsage usage() const override { return {}; }
  [[nodiscard]] command::BackgroundStatus background() const override { return {}; }
  void give_memory_back() override {}
  void request_stop(command::StopMode) override {}
  std::uint64_t clients_possible() override { return std::numeric_limits<std::uint64_t>::max(); }
  Result<void> rewrite_config_for(std::uint64_t) override { return {}; }
  void log_from_script(script::LogLevel, std::string_view) override {}
  void log_scripts_full(std::uint64_t) override {}
  void log_failed_login(const command::ClientState&, std::string_view) override {}
  void log_http_request(const command::ClientState&) override {}
  void log_administration(const command::ClientState&, const command::Administration& done) override {
    administration.push_back(done.user + ": " + done.words);
  }
  Result<void> save_users_for(std::uint64_t, std::string) override { return {}; }
  Result<void> load_users_for(std::uint64_t) override { return {}; }

  std::vector<std::string> administration;

 private:
  command::ServerFacts facts_;
};

// CONFIG has no settings.
class NoConfiguration final : public command::Configuration {
 public:
  [[nodiscard]] std::vector<Parameter> parameters() const override { return {}; }
  [[nodiscard]] std::string get(std::string_view) const override { return {}; }
  [[nodiscard]] std::unique_ptr<Draft> draft() override { return nullptr; }
};

class NoClients final : public command::ClientDirectory {
 public:
  void for_each(const std::function<void(command::ClientState&)>&) override {}
  void kill(std::uint64_t) override {}
  void push(std::size_t, std::uint64_t, std::shared_ptr<const std::string>) override {}
  void pause_ended() override {}
  [[nodiscard]] std::uint64_t count() const override { return 0; }
  [[nodiscard]] std::uint64_t accepted_count() const override { return 0; }
  [[nodiscard]] std::uint64_t rejected_count() const override { return 0; }
  [[nodiscard]] std::uint64_t denied_count() const override { return 0; }
  void reset_counts() override {}
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
  NoControl control;
  NoConfiguration configuration;
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
