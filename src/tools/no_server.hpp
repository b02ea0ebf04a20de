// What commands need from a server, for a program that is none: it has one client, and no disk, clients,
// settings or users to change. Such commands are not run; if they were, they would be refused.
#pragma once

#include <sepal/command/adoptions.hpp>
#include <sepal/command/services.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sepal::tools {

[[nodiscard]] inline Error no_server() {
  return fail(Errc::not_found, "there is no server");
}

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

class NoPersistence final : public command::Persistence {
 public:
  Result<void> start_save() override { return no_server(); }
  Result<void> start_save_for(std::uint64_t) override { return no_server(); }
  [[nodiscard]] command::SaveStatus status() const override { return {}; }
  [[nodiscard]] command::DiskStatus disk_status() const override { return {}; }
};

class NoJournal final : public command::Journal {
 public:
  [[nodiscard]] std::uint64_t durable_position() const override { return 0; }
  [[nodiscard]] command::JournalStatus status() const override { return {}; }
};

class NoControl final : public command::ServerControl {
 public:
  [[nodiscard]] const command::ServerFacts& facts() const override { return facts_; }
  [[nodiscard]] command::ProcessUsage usage() const override { return {}; }
  [[nodiscard]] command::BackgroundStatus background() const override { return {}; }
  void log_from_script(script::LogLevel, std::string_view) override {}
  void log_failed_login(const command::ClientState&, std::string_view) override {}
  void log_http_request(const command::ClientState&) override {}
  void log_administration(const command::ClientState&, const command::Administration&) override {}
  void give_memory_back() override {}
  void request_stop(command::StopMode) override {}
  std::uint64_t clients_possible() override { return 0; }
  Result<void> rewrite_config_for(std::uint64_t) override { return no_server(); }
  Result<void> save_users_for(std::uint64_t, std::string) override { return no_server(); }
  Result<void> load_users_for(std::uint64_t) override { return no_server(); }

 private:
  command::ServerFacts facts_;
};

class NoConfiguration final : public command::Configuration {
 public:
  [[nodiscard]] std::vector<Parameter> parameters() const override { return {}; }
  [[nodiscard]] std::string get(std::string_view) const override { return {}; }
  [[nodiscard]] std::unique_ptr<Draft> draft() override { return nullptr; }
};

class NoTransfers final : public command::Transfers {
 public:
  [[nodiscard]] bool enabled() const override { return false; }
  Result<keyspace::FilterPtr> read(const std::string&, const command::Making&) override {
    return no_server();
  }
  Result<void> write(const command::OutgoingFile&, const command::Making&) override { return no_server(); }
};

// Makes filters that commands would have a server make in the background: at once, behind the command.
class AdoptionsBehind final : public command::Adoptions {
 public:
  AdoptionsBehind(keyspace::Keyspace& keyspace, WallTime now) : keyspace_(keyspace), now_(now) {}

  void adopt(command::ClientState&, command::Adoption adoption) override { adoption_ = std::move(adoption); }
  void run(command::ClientState&, command::Errand errand) override { errand_ = std::move(errand); }
  [[nodiscard]] command::AdoptionStatus status() const override { return {}; }

  void work_off(resp::Reply& reply) {
    // There is no limit of memory here, and no client that could go away meanwhile.
    const command::Making making{.limits = keyspace_.filter_limits(),
                                 .hold = [](std::uint64_t) { return Result<void>(); },
                                 .go_on = [](std::uint64_t) { return true; }};
    if (const auto errand = std::exchange(errand_, std::nullopt)) errand->run(making)(reply);
    if (const auto adoption = std::exchange(adoption_, std::nullopt))
      adoption->answer(reply, make(*adoption, making));
  }

 private:
  Result<void> make(const command::Adoption& adoption, const command::Making& making) {
    auto filter = adoption.make(making);
    if (!filter) return filter.error();
    const keyspace::DatabaseKey key{.database = adoption.database, .key = adoption.key};
    if (adoption.still_wanted && !adoption.still_wanted()) return fail(Errc::no_such_key);
    // Without a log: no journal has to learn of the change.
    keyspace::Mutator changes(keyspace_, nullptr);
    // A key that is past its deadline does not count as taken, so it goes before may_adopt() looks.
    changes.expire(key, now_);
    if (auto may = command::may_adopt(keyspace_, key, adoption.replace); !may) return may;
    auto done = changes.adopt(key, std::move(*filter), adoption.deadline);
    if (done && adoption.adopted) adoption.adopted();
    return done;
  }

  keyspace::Keyspace& keyspace_;
  WallTime now_;
  std::optional<command::Adoption> adoption_;
  std::optional<command::Errand> errand_;
};

}  // namespace sepal::tools
