// The dispatcher, a keyspace and the settings, with fakes for the other modules above.
#pragma once

#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/resp/reply.hpp>
#include <sepal/settings/configuration.hpp>
#include <sepal/settings/settings.hpp>

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/fake_adoptions.hpp"
#include "support/fake_journal.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/recording_journal.hpp"

namespace sepal::command::testing {

class FakeClients final : public ClientDirectory {
 public:
  void for_each(const std::function<void(ClientState&)>& visit) override {
    for (const auto& [id, client] : clients) visit(*client);
  }
  void kill(std::uint64_t id) override { killed.push_back(id); }
  void push(std::size_t worker, std::uint64_t id, std::shared_ptr<const std::string> bytes) override {
    pushed += std::to_string(worker) + "/" + std::to_string(id) + " " + *bytes;
  }
  void pause_ended() override { ++pauses_ended; }
  [[nodiscard]] std::uint64_t count() const override { return clients.size(); }
  [[nodiscard]] std::uint64_t accepted_count() const override { return accepted; }
  [[nodiscard]] std::uint64_t rejected_count() const override { return rejected; }
  void reset_counts() override { accepted = rejected = 0; }

  std::map<std::uint64_t, ClientState*> clients;
  std::vector<std::uint64_t> killed;
  int pauses_ended = 0;
  std::string pushed;  // worker, client and bytes of each call
  std::uint64_t accepted = 7;
  std::uint64_t rejected = 2;
};

class FakePersistence final : public Persistence {
 public:
  Result<void> start_save() override { return start(); }
  Result<void> start_save_for(std::uint64_t id) override {
    waiting.push_back(id);
    return start();
  }
  [[nodiscard]] SaveStatus status() const override {
    return first_look ? *std::exchange(first_look, std::nullopt) : state;
  }
  [[nodiscard]] DiskStatus disk_status() const override { return disk; }

  SaveStatus state;
  mutable std::optional<SaveStatus> first_look;  // what the first look sees instead of `state`
  DiskStatus disk;
  std::vector<std::uint64_t> waiting;
  int started = 0;
  Error broken{.code = Errc::io, .detail = {}};  // the error of start(), if it has a text

 private:
  Result<void> start() {
    if (state.running) return fail(Errc::in_use);
    if (!broken.detail.empty()) return broken;
    ++started;
    return {};
  }
};

class FakeControl final : public ServerControl {
 public:
  [[nodiscard]] const ServerFacts& facts() const override { return about; }
  [[nodiscard]] ProcessUsage usage() const override { return used; }
  [[nodiscard]] BackgroundStatus background() const override { return in_background; }
  void give_memory_back() override { ++purges; }
  void request_stop(StopMode mode) override { stops.push_back(mode); }
  std::uint64_t clients_possible() override { return most_clients; }
  Result<void> rewrite_config_for(std::uint64_t id) override {
    if (has_config_file) rewriting_for.push_back(id);
    return has_config_file ? Result<void>() : fail(Errc::not_found);
  }
  void log_from_script(script::LogLevel, std::string_view text) override { script_lines.emplace_back(text); }
  void log_scripts_full(std::uint64_t) override { ++scripts_full; }
  void log_http_request(const ClientState&) override { ++http_requests; }
  void log_failed_login(const ClientState& client, std::string_view user) override {
    failed_logins.push_back(client.address + " " + std::string(user));
  }
  void log_administration(const ClientState&, const Administration& done) override {
    administration.push_back(done.user + ": " + done.words);
  }

  Result<void> save_users_for(std::uint64_t id, std::string users) override {
    if (!has_acl_file) return fail(Errc::not_found);
    saving_for.push_back(id);
    saved_users = std::move(users);
    return {};
  }
  Result<void> load_users_for(std::uint64_t id) override {
    if (!has_acl_file) return fail(Errc::not_found);
    loading_for.push_back(id);
    return {};
  }

  ServerFacts about;
  ProcessUsage used;
  BackgroundStatus in_background;
  std::size_t purges = 0;
  std::vector<StopMode> stops;
  bool has_config_file = false;
  std::uint64_t most_clients = 1'000'000;
  std::vector<std::uint64_t> rewriting_for;
  std::vector<std::string> script_lines;
  int scripts_full = 0;
  std::vector<std::string> failed_logins;
  int http_requests = 0;
  std::vector<std::string> administration;
  bool has_acl_file = false;
  std::vector<std::uint64_t> saving_for;
  std::vector<std::uint64_t> loading_for;
  std::string saved_users;
};

// A reply as a line of text: "+OK", ":1", "-ERR ...", "$bytes", "$null", "*[:1, :0]", "%{+Size=:64}",
// "~[+write]", "#t", "_", "=txt:...". Blanks separate several replies.
[[nodiscard]] std::string readable(std::string_view encoded);

class World {
 public:
  explicit World(const keyspace::KeyspaceOptions& options = {});

  struct Connection {
    ClientState client;
    resp::Reply reply;
    std::unique_ptr<PartialRun> partial;
  };
  // Creates the connection on its first use. The ids begin with 1, as in a server.
  Connection& connection(std::string_view name);

  // Runs one request as a session does: inside the gate, again with it closed when the handler asks for that,
  // and part after part when it is long.
  std::string send(std::initializer_list<std::string_view> words) { return send_from("a", words); }
  std::string send_from(std::string_view connection, std::initializer_list<std::string_view> words);
  std::string send_words(std::string_view connection, const std::vector<std::string_view>& words);

  // Carries the only waiting job out, as the adopter does. Returns its reply. Throws if not one job waits.
  std::string adopt_first();
  // What clients do while that job runs, once it has made a filter of others.
  std::vector<std::function<void()>> meanwhile;
  // Runs the suspended script until it ends. Returns its reply.
  std::string finish_script();

  sepal::test::FreeingHousekeeper housekeeper;
  settings::Settings settings;
  RuntimeOptions& options = settings.runtime;
  keyspace::Keyspace keyspace;
  std::vector<RuntimeOptions> announced;  // by CONFIG SET
  settings::Configuration configuration{settings, {.changed = [this] { settings_changed(); }}};
  FakeClients clients;
  FakePersistence persistence;
  FakeControl control;
  std::vector<WorkerStats> workers{2};
  sepal::test::FakeJournal journal;
  sepal::test::FakeAdoptions adoptions;
  sepal::test::FakeTransfers transfers;
  sepal::test::RecordingJournal recording{2};  // used only if services.logs names its logs
  Services services;
  Dispatcher dispatcher;

  WallTime now{std::chrono::microseconds(1'700'000'000'123'456)};
  SteadyTime steady_now{std::chrono::hours(1)};
  Dispatcher::Outcome outcome;               // of the last request
  std::size_t reply_bytes = 0;               // of the last reply, encoded
  std::uint64_t bytes_later = 0;             // of the last reply, that were to be filled in
  int alone_runs = 0;                        // requests, or parts of requests, that closed the gate
  int parts_before_the_last = 0;             // of the last request
  std::function<void(int)> between_parts{};  // called with the number of parts that have run

 private:
  void settings_changed();
  Result<void> succeed(const Succession& succession, const value::ValuePtr& made);

  std::map<std::string, std::unique_ptr<Connection>, std::less<>> connections_;
};

}  // namespace sepal::command::testing
