// The whole server, put together: builds the parts, hands them to each other, runs, stops in order.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/dispatcher.hpp>
#include <sepal/command/services.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/server/server.hpp>
#include <sepal/settings/settings.hpp>
#include <sepal/storage/data_directory.hpp>
#include <sepal/storage/journal.hpp>
#include <sepal/storage/saver.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "adopter.hpp"
#include "background.hpp"
#include "import_folder.hpp"
#include "journal_view.hpp"
#include "loader.hpp"
#include "stop_signal.hpp"

namespace sepal::app {

// Belongs to the main thread.
class Daemon final : private command::Persistence, private command::ServerControl {
 public:
  Daemon(settings::Settings settings, StopSignal& stop_signal);
  ~Daemon() override;

  // Opens the data directory, listens, loads, serves until a stop is asked for, saves. An error means that it
  // could not start, or that the last save failed; it has been logged.
  Result<void> run();

 private:
  // The services name the server as the directory of clients, and the server uses the services: made
  // together.
  struct Serving {
    explicit Serving(Daemon& daemon);
    command::Services services;
    server::Server server;
  };

  Result<void> open_data();
  void make_room_for_clients() const;
  Result<void> listen();
  Result<void> load();
  // Where the journal goes on.
  Result<std::uint64_t> replay(Loader& loader, const storage::GenerationReport& loaded);
  // From now on clients may ask for everything. The journal begins at `position`.
  Result<void> begin_service(const storage::Saver::Loaded& loaded, std::uint64_t position);
  [[nodiscard]] storage::SaverCallbacks saver_callbacks();
  Result<void> stop(command::StopMode mode);
  [[nodiscard]] std::uint64_t changes() const;
  [[nodiscard]] storage::SaverStatus saver_status() const;
  // Answers a client that waits for `outcome` of something done elsewhere.
  void answer(std::uint64_t id, const Result<void>& outcome);

  // command::Persistence
  Result<void> start_save() override;
  Result<void> start_save_for(std::uint64_t id) override;
  [[nodiscard]] command::SaveStatus status() const override;

  // command::ServerControl
  [[nodiscard]] const command::ServerFacts& facts() const override { return facts_; }
  [[nodiscard]] command::ProcessUsage usage() const override;
  void request_stop(command::StopMode mode) override { stop_signal_.request(mode); }
  void options_changed(const command::RuntimeOptions& options) override;
  Result<void> rewrite_config_for(std::uint64_t id) override;

  // In the order in which they are made; the reverse of it takes them apart.
  settings::Settings settings_;
  StopSignal& stop_signal_;
  command::ServerFacts facts_;
  std::unique_ptr<storage::Disk> disk_;
  std::unique_ptr<storage::DataDirectory> data_;
  Background background_;
  Gate gate_;
  std::unique_ptr<keyspace::Keyspace> keyspace_;
  std::vector<command::WorkerStats> worker_stats_;
  std::atomic<std::uint64_t> items_replayed_{0};  // Written once.
  JournalView journal_view_;
  std::unique_ptr<storage::AdoptedFiles> adopted_files_;
  ImportFolder import_folder_;
  Adopter adopter_;
  std::unique_ptr<storage::Saver> saver_;  // null until all is loaded; guarded by the gate then
  std::unique_ptr<Serving> serving_;
  std::unique_ptr<storage::Journal> journal_;  // as saver_
};

}  // namespace sepal::app
