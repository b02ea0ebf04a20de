// The whole server: builds the parts, connects them, runs them, and stops them in order.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/server/server.hpp>
#include <sepal/settings/configuration.hpp>
#include <sepal/settings/settings.hpp>
#include <sepal/settings/shares.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "app/pages/operator_pages.hpp"
#include "app/start/listeners.hpp"
#include "app/start/loader.hpp"
#include "app/start/persistence.hpp"
#include "app/start/reload.hpp"
#include "app/system/client_log.hpp"
#include "app/system/descriptors.hpp"
#include "app/system/privileges.hpp"
#include "app/system/service_manager.hpp"
#include "app/threads/adopter.hpp"
#include "app/threads/background.hpp"
#include "app/threads/import_folder.hpp"
#include "app/threads/stop_signal.hpp"
#include "app/threads/watchdog.hpp"

namespace sepal::app {

// Confined to the main thread, but for members that say otherwise and the interface of `command`.
class Daemon final : private command::ServerControl {
 public:
  Daemon(settings::Settings settings, StopSignal& stop_signal, ServiceManager& manager,
         Privileges& privileges);
  ~Daemon() override;

  // Opens the data directory, listens, loads, serves until a stop is asked for, and saves. An error means
  // that the server could not start, or that the last save failed. It has been logged.
  Result<void> run();

 private:
  // Made together, because each needs the other: the services name the server as the directory of clients,
  // and the server uses the services.
  struct Serving {
    explicit Serving(Daemon& daemon);
    command::Services services;
    server::Server server;
  };

  Result<void> read_files();
  void share_memory();
  void share_disk();
  [[nodiscard]] settings::Settings settings_to_write() const;
  void limit_memory();
  Result<void> open_data();
  Result<void> plan_descriptors();
  Result<void> listen();
  void note_listeners();
  [[nodiscard]] bool has_http() const { return settings_.http.port != 0; }
  Result<void> open_ports();
  Result<void> load();
  // Begins the full service: from now on clients may use every command. The journal begins at `position`.
  Result<void> begin_service(const storage::Saver::Loaded& loaded, std::uint64_t position);
  [[nodiscard]] command::StopMode wait_for_stop();
  Result<void> stop(command::StopMode mode);
  // Called with the gate closed: the settings that CONFIG SET may change take effect.
  void settings_changed();
  // Answers a client that waits for the outcome of work on another thread.
  void answer(std::uint64_t id, const Result<void>& outcome);
  // command::ServerControl
  [[nodiscard]] const command::ServerFacts& facts() const override { return facts_; }
  [[nodiscard]] command::ProcessUsage usage() const override;
  [[nodiscard]] command::BackgroundStatus background() const override;
  [[nodiscard]] command::ReloadStatus reload_status() const override { return reload_.status(); }
  void give_memory_back() override { background_.give_memory_back(); }
  void request_stop(command::StopMode mode) override { stop_signal_.request(mode); }
  std::uint64_t clients_possible() override;
  Result<void> rewrite_config_for(std::uint64_t id) override;
  void log_from_script(script::LogLevel level, std::string_view text) override {
    client_log_.script(level, text);
  }
  void log_busy_script(const command::ClientState& client, std::string_view command,
                       std::chrono::nanoseconds duration) override {
    client_log_.busy_script(client, command, duration);
  }
  void log_busy_script_ended(const command::ClientState& client, std::chrono::nanoseconds duration) override {
    client_log_.busy_script_ended(client, duration);
  }
  void log_scripts_full(std::uint64_t bytes_max) override;
  void log_failed_login(const command::ClientState& client, std::string_view user) override {
    client_log_.failed_login(client, user);
  }
  void log_http_request(const command::ClientState& client) override { client_log_.http_request(client); }
  void log_administration(const command::ClientState& client,
                          const command::Administration& administration) override {
    client_log_.administration(client, administration);
  }
  Result<void> save_users_for(std::uint64_t id, std::string users) override;
  Result<void> load_users_for(std::uint64_t id) override;

  // The members are made in this order and destroyed in the reverse order.
  settings::Settings
      settings_;  // `runtime`, `keyspace` and `tls` are guarded by the gate once clients are served
  settings::Configuration configuration_{
      settings_,
      {.changed = [this] { settings_changed(); },
       .read_tls = [this](const tls::Options& options) { return reload_.read_tls_for(options); }}};
  StopSignal& stop_signal_;
  ServiceManager& manager_;
  Watchdog watchdog_{manager_};
  Privileges& privileges_;
  command::ServerFacts facts_;
  std::vector<Listener> listeners_;  // after listen()
  settings::MemoryShares memory_shares_;
  settings::MemoryShares memory_asked_;  // what the settings asked for, of clients and scripts
  std::uint64_t disk_reserve_bytes_ = 0;
  std::optional<Descriptors> descriptors_;  // guarded by the gate once clients are served
  std::unique_ptr<storage::Disk> disk_;
  std::unique_ptr<storage::DataDirectory> data_;
  ClientLog client_log_;
  Background background_;
  Gate gate_;
  std::unique_ptr<keyspace::Keyspace> keyspace_;
  std::vector<command::WorkerStats> worker_stats_;
  Reload reload_;
  Persistence persistence_;
  ImportFolder import_folder_;
  Adopter adopter_;
  std::unique_ptr<Serving> serving_;
  std::unique_ptr<OperatorPages> pages_;  // null without an http_port. Last: it reads all of the above
};

}  // namespace sepal::app
