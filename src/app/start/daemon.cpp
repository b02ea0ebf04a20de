#include "app/start/daemon.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/random.hpp>
#include <sepal/base/version.hpp>
#include <sepal/bloom/kernel/choice.hpp>
#include <sepal/log/event.hpp>
#include <sepal/settings/acl_file.hpp>
#include <sepal/settings/container.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/utsname.h>
#include <unistd.h>
#include <utility>

#include "app/system/crash_report.hpp"
#include "app/system/logging.hpp"
#include "app/system/machine.hpp"

namespace sepal::app {
namespace {

// How long clients may take at a stop to receive their replies.
constexpr std::chrono::seconds flush_patience{5};

// How often a line may say how many lines about clients were left out.
constexpr std::chrono::seconds left_out_period{10};

double seconds_since(SteadyTime start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The journal rounds the size of its segments up in the same way.
std::uint64_t whole_pages(std::uint64_t bytes) {
  constexpr std::uint64_t page_bytes = 4096;
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

// As the reference's.
constexpr std::size_t run_id_digits = 40;

command::ServerFacts facts_of(const settings::Settings& settings) {
  command::ServerFacts facts;
  facts.version = SEPAL_VERSION;
  facts.commit = git_commit();
  facts.run_id = random_hex(run_id_digits);
  utsname system{};
  if (uname(&system) == 0) {
    facts.operating_system = std::string(system.sysname) + " " + system.release + " " + system.machine;
  }
  std::error_code unreadable;
  facts.executable = std::filesystem::read_symlink("/proc/self/exe", unreadable).string();
  facts.config_file = settings.config_file;
  facts.data_directory = std::filesystem::absolute(settings.data_directory).string();
  if (!settings.import_directory.empty())
    facts.import_directory = std::filesystem::absolute(settings.import_directory).string();
  facts.process_id = static_cast<std::uint64_t>(getpid());
  facts.worker_count = settings.server.worker_count;
  facts.journal_segment_bytes = whole_pages(settings.journal_segment_bytes);
  facts.started_at = std::chrono::steady_clock::now();
  facts.started_wall = std::chrono::system_clock::now();
  return facts;
}

std::string listening_text(const std::vector<Listener>& listeners) {
  std::string text;
  for (const Listener& listener : listeners) text += (text.empty() ? "" : " ") + shown(listener);
  return text;
}

bool is_loopback_name(std::string_view address) {
  if (address.starts_with('-')) address.remove_prefix(1);
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

// Other machines may reach the port, and no password is needed.
void warn_of_open_port(const settings::Settings& settings, bool is_open, std::uint16_t port) {
  const bool is_local = std::ranges::all_of(settings.server.bind, is_loopback_name);
  const std::uint16_t tls_port = settings.server.tls_port;
  if (!is_open || is_local || (port == 0 && tls_port == 0)) return;
  if (settings.runtime.protected_mode == command::Switch::yes) {
    log::warn(
        "others_refused", "clients on other machines are refused",
        {{"protected_mode", true},
         {"advice",
          "set requirepass or an aclfile, or protected_mode = \"no\" if no stranger can reach the port"}});
  } else if (port != 0 || settings.tls.auth_clients != tls::AuthClients::yes) {
    // No line if the only port demands certificates: it keeps strangers out by itself.
    log::warn("open_to_all", "every client that reaches the port may do everything",
              {{"protected_mode", false},
               {"advice", "set requirepass or an aclfile, unless no stranger can reach the port"}});
  }
}

// What an operator has set for safety, and what has no effect.
void warn_of_unused_settings(const settings::Settings& settings, const command::Users& users) {
  const tls::Options& tls = settings.tls;
  if (!settings::uses_tls(settings) && !(tls.certificate_file.empty() && tls.key_file.empty()))
    log::warn("certificate_not_used", "there is a certificate, but no port speaks TLS",
              {{"advice", "set tls_port, or http_tls = \"yes\", or remove tls_cert_file and tls_key_file"}});
  const std::string& password = settings.runtime.password;
  if (!settings.acl_file.empty() && !password.empty() &&
      !(users.standard().needs_password() && users.standard().accepts(password)))
    log::warn("requirepass_not_used", "requirepass is not used: the ACL file has a line for the user default",
              {{"file", settings.acl_file}, {"advice", "remove requirepass, or that line"}});
}

// What a report of a crash says about the settings.
void prepare_crash_settings(const settings::Settings& settings) {
  std::string lines;
  for (const std::string& line : settings::differences_from_defaults(settings)) lines += "  " + line + "\n";
  set_crash_settings(lines);
}

// `error` came from opening or loading the data directory.
Error with_advice_about_directory(const Error& error) {
  std::string_view advice;
  if (error.code == Errc::in_use) advice = " with --dir";
  if (error.code == Errc::read_only)
    advice =
        "; sepald's user has to write there: give it the directory (chown -R), mount it writable, or name "
        "another one with --dir";
  return fail(error.code, error.detail + std::string(advice));
}

}  // namespace

Daemon::Daemon(settings::Settings settings, StopSignal& stop_signal, ServiceManager& manager,
               Privileges& privileges)
    : settings_(std::move(settings)),
      stop_signal_(stop_signal),
      manager_(manager),
      privileges_(privileges),
      facts_(facts_of(settings_)),
      disk_(storage::make_posix_disk()),
      // The threads `http` and `watch` share one side.
      gate_(settings_.server.worker_count + 1 + (has_http() ? 1 : 0)),
      worker_stats_(settings_.server.worker_count),
      reload_(settings_, gate_, background_, manager_),
      persistence_(
          *disk_, gate_, settings_, facts_, worker_stats_, stop_signal_,
          {.journal_progressed =
               [this] {
                 serving_->server.journal_progressed();
                 adopter_.journal_progressed();
               },
           .save_ended = [this] { adopter_.journal_progressed(); },
           .answer = [this](std::uint64_t id, const Result<void>& outcome) { answer(id, outcome); }}),
      import_folder_(*disk_, settings_.import_directory) {}

// A start that failed has not gone through stop().
Daemon::~Daemon() {
  stop_signal_.at_hang_up({});
  // The process ends, and the system takes all its memory at once. To free millions of values one by one
  // would take seconds. The pointer keeps them from being reported as leaks.
  [[maybe_unused]] static const keyspace::Keyspace* volatile left_to_the_system = nullptr;
  left_to_the_system = keyspace_.release();
}

Result<void> Daemon::run() {
  log::info("starting", "starting",
            {{"version", facts_.version},
             {"kernel", bloom::kernel_name()},
             {"pid", facts_.process_id},
             {"workers", facts_.worker_count}});
  if (!settings_.config_file.empty())
    log::info("configuration", "configuration", {{"file", settings_.config_file}});
  for (const std::string& line : settings::differences_from_defaults(settings_))
    log::info("setting", "setting: " + line);
  prepare_crash_settings(settings_);
  // The order of a start:
  //
  //   - The files of users and certificates come first: a wrong one ends the start at once.
  //   - Then comes the data directory: a second sepald that uses it ends here, before it opens a port.
  //   - The ports come before the load, so clients get an answer meanwhile.
  for (const auto step : {&Daemon::read_files, &Daemon::open_data, &Daemon::listen, &Daemon::load}) {
    Result<void> done = (this->*step)();
    if (done) continue;
    log_start_failed(done.error().detail);
    // The pages read what the server owns, so their thread ends first.
    pages_.reset();
    if (serving_ != nullptr) serving_->server.stop(flush_patience);
    return done;
  }
  return stop(wait_for_stop());
}

command::StopMode Daemon::wait_for_stop() {
  for (;;) {
    if (const auto mode = stop_signal_.wait_for(left_out_period)) return *mode;
    // Lines that were left out are told with the next line of their kind. If none comes, they are told here.
    client_log_.tell_left_out(std::chrono::steady_clock::now());
  }
}

// Before anything else: a wrong ACL file must not let clients in.
Result<void> Daemon::read_files() {
  if (auto read = reload_.read_users(); !read) return read;
  return reload_.read_tls();
}

Result<void> Daemon::open_data() {
  auto opened = storage::DataDirectory::open(*disk_, settings_.data_directory, random_number(),
                                             settings_.seed, settings_.data);
  if (!opened) return with_advice_about_directory(opened.error());
  if (!settings_.import_directory.empty()) {
    auto apart = check_import_folder(settings_.import_directory, settings_.data_directory);
    if (!apart) return apart;
    remove_import_remains(settings_.import_directory);
  }
  data_ = std::move(*opened);
  share_memory();
  share_disk();
  settings_.keyspace.seed = data_->seed();
  // Drawn at each start, and told to no client: a client that knew it could choose keys that collide.
  settings_.keyspace.key_seed = random_number();
  settings_.keyspace.worker_count = settings_.server.worker_count;
  keyspace_ = std::make_unique<keyspace::Keyspace>(settings_.keyspace, background_);
  persistence_.uses(*data_, *keyspace_);
  return {};
}

// Before anything reads the limits of clients and scripts.
void Daemon::share_memory() {
  const std::uint64_t available = settings::memory_bytes();
  command::RuntimeOptions& options = settings_.runtime;
  const settings::MemoryShares shares = settings::memory_shares(available, settings_);
  settings_.keyspace.machine_bytes = available;
  memory_asked_ = {.clients = options.clients_memory_max, .scripts = options.script_memory_max};
  memory_shares_ = shares;
  options.clients_memory_max = shares.clients;
  options.script_memory_max = shares.scripts;
  const std::uint64_t memory_max = settings_.keyspace.memory_max;
  log::info("memory_shared", "memory shared",
            {{"available_bytes", available},
             {"filter_bytes", memory_max == 0 ? shares.filters : memory_max},
             {"client_bytes", shares.clients},
             {"script_bytes_of_worker", shares.scripts},
             {"workers", settings_.server.worker_count}});
  if (memory_max > available && available != 0)
    log::warn("maxmemory_too_large", "maxmemory is more than there is",
              {{"maxmemory", memory_max},
               {"available_bytes", available},
               {"advice", "lower maxmemory, or the system may end sepald"}});
}

// What the start made of the machine must not get into a file that the start on another machine reads.
settings::Settings Daemon::settings_to_write() const {
  settings::Settings written = settings_;
  std::uint64_t& clients = written.runtime.clients_memory_max;
  std::uint64_t& scripts = written.runtime.script_memory_max;
  // A value that a client has set since then differs from the share, and is written as it is.
  if (clients == memory_shares_.clients) clients = memory_asked_.clients;
  if (scripts == memory_shares_.scripts) scripts = memory_asked_.scripts;
  return written;
}

void Daemon::share_disk() {
  disk_reserve_bytes_ = settings_.disk_reserve_bytes;
  std::error_code unknown;
  const auto space = std::filesystem::space(settings_.data_directory, unknown);
  // Without the size of the disk, the settings hold as they are.
  if (unknown) return;
  const settings::DiskShares shares = settings::disk_shares(space.capacity, settings_);
  if (shares.journal_segment == settings_.journal_segment_bytes &&
      shares.reserve == settings_.disk_reserve_bytes)
    return;
  disk_reserve_bytes_ = shares.reserve;
  facts_.journal_segment_bytes = whole_pages(shares.journal_segment);
  log::info("disk_shared", "the disk is small: the journal and the reserve take less",
            {{"disk_bytes", static_cast<std::uint64_t>(space.capacity)},
             {"free_bytes", static_cast<std::uint64_t>(space.available)},
             {"journal_segment", facts_.journal_segment_bytes},
             {"disk_reserve", shares.reserve}});
}

// Without maxmemory, saved data of any size is loaded and served, and new filters have to fit in the share.
// The same holds for the mappings that values take.
void Daemon::limit_memory() {
  const std::uint64_t mappings = mappings_max();
  for (const value::KindRow* const row : value::kinds)
    if (row->limit_mappings != nullptr) row->limit_mappings(mappings);
  keyspace_->set_memory_share(memory_shares_.filters);
  if (settings_.keyspace.memory_max == 0 && keyspace_->over_memory_limit())
    log::warn("memory_share_exceeded", "the data takes more than the share of the memory: adds are refused",
              {{"bytes", keyspace_->memory_used()},
               {"filter_bytes", memory_shares_.filters},
               {"advice", "delete filters, give the machine or container more memory, or set maxmemory"}});
}

// Listens before the data is loaded, so clients that come meanwhile get an answer and stay connected.
Result<void> Daemon::listen() {
  if (auto planned = plan_descriptors(); !planned) return planned;
  serving_ = std::make_unique<Serving>(*this);
  serving_->server.set_sockets_max(descriptors_->clients_possible() + server::newcomer_places);
  reload_.serves(serving_->services);
  if (auto users = reload_.take_users()) {
    // No client is there yet that could have a user.
    const auto replaced = serving_->services.users->adopt(std::move(*users), settings_.runtime.password);
    SEPAL_ASSERT(replaced.empty(), "only `default` is there before the ACL file is read");
    keyspace_->count_others(serving_->services.users->byte_count());
  }
  const bool is_open = serving_->services.users->open();  // before clients can change it
  {
    // The first client waits at the gate until the facts that it may ask for (the port) are known.
    const GateClosed closed(gate_);
    if (auto opened = open_ports(); !opened) return opened;
    if (auto dropped = privileges_.drop(); !dropped) return dropped;
    facts_.port = serving_->server.port();
    facts_.tls_port = settings_.server.tls_port;
  }
  // A reload changes the users, which are there since the services were made.
  stop_signal_.at_hang_up([this](const std::string& log_error) { return reload_.reload(log_error); });
  listeners_ = listeners_of(settings_.server, facts_.port);
  log::info("listening", "listening", {{"address", listening_text(listeners_)}});
  note_listeners();
  warn_of_open_port(settings_, is_open, facts_.port);
  warn_of_unused_settings(settings_, *serving_->services.users);
  if (has_http())
    log::info("listening_for_http", "listening for HTTP",
              {{"bind", settings_.http.bind},
               {"port", pages_->port()},
               {"tls", settings_.http.tls == command::Switch::yes}});
  return {};
}

// For `sepald --healthcheck`, which is not told the flags of this process. Without the notes it asks where
// the settings say, so a full disk is no reason to end.
void Daemon::note_listeners() {
  std::string notes;
  for (const Listener& listener : listeners_) notes += note_of(listener) + "\n";
  if (const auto noted = data_->note(notes); !noted)
    log::warn("addresses_not_noted", "addresses not noted for --healthcheck",
              {{"reason", noted.error().detail}});
}

// Called with the gate closed: the threads that begin here run no request before the privileges are dropped.
Result<void> Daemon::open_ports() {
  // Root until this function returns: it may open ports below 1024, and give the socket's file to the user.
  const Privileges::AsRoot root(privileges_);
  if (auto started = serving_->server.start(); !started) return started;
  const std::string& socket = settings_.server.unix_socket;
  if (!socket.empty())
    if (auto given = privileges_.give(socket); !given) return given;
  if (!has_http()) return {};
  pages_ = std::make_unique<OperatorPages>(settings_.http, reload_.tls(), gate_,
                                           settings_.server.worker_count + 1, serving_->services);
  return pages_->start();
}

// Returns early, without an error, if a stop is asked for.
Result<void> Daemon::load() {
  const SteadyTime start = std::chrono::steady_clock::now();
  Loader loader(gate_, *keyspace_, serving_->services.load, manager_,
                [this] { return stop_signal_.requested(); });
  const auto report = loader.load(*data_);
  // A stop during the load is no error: wait_for_stop() returns at once.
  if (stop_signal_.requested()) return {};
  if (!report) return with_advice_about_directory(report.error());
  if (!report->name.empty())
    log::info("loaded", "loaded",
              {{"keys", report->value_count},
               {"bytes", report->bytes},
               {"seconds", seconds_since(start), 3},
               {"generation", report->name}});
  // Between the load and the replay: no generation has what is replayed, so it counts as changed since the
  // last save.
  const std::uint64_t changes_loaded = persistence_.changes();
  const auto replayed = persistence_.replay(loader, *report);
  if (stop_signal_.requested()) return {};
  if (!replayed) return with_advice_about_directory(replayed.error());
  const storage::Saver::Loaded loaded{
      .at = facts_.started_wall, .journal_position = report->journal_position, .changes = changes_loaded};
  if (auto begun = begin_service(loaded, *replayed); !begun) return begun;
  if (pages_ != nullptr) pages_->loaded();
  const std::string address = listening_text(listeners_);
  log::info("ready", "ready", {{"address", address}});
  manager_.ready("Serves " + std::to_string(serving_->services.load.keys) + " keys at its start, on " +
                 address);
  watchdog_.begin([this](std::function<void()> done) { serving_->server.ask_workers(std::move(done)); });
  return {};
}

Result<void> Daemon::begin_service(const storage::Saver::Loaded& loaded, std::uint64_t position) {
  if (auto opened = persistence_.open(loaded, position, disk_reserve_bytes_); !opened) return opened;
  // There are two logs more than workers: one for the thread `expiry`, one for the thread `adopter`.
  const std::size_t expiry_log = settings_.server.worker_count;
  const std::size_t adopter_log = expiry_log + 1;
  // The workers see all that follows at once: no request finds a log without a saver.
  const GateClosed closed(gate_);
  SEPAL_ASSERT(serving_->services.logs.size() == settings_.server.worker_count,
               "each worker has a place for its log");
  limit_memory();
  persistence_.begin();
  for (std::size_t worker = 0; worker < settings_.server.worker_count; ++worker)
    serving_->services.logs[worker] = &persistence_.log(worker);
  background_.expiry().begin({.gate = gate_,
                              .side = settings_.server.worker_count,
                              .keyspace = *keyspace_,
                              .log = persistence_.log(expiry_log),
                              .uploads = *serving_->services.uploads});
  adopter_.begin({.gate = gate_,
                  .keyspace = *keyspace_,
                  .log = persistence_.log(adopter_log),
                  .files = persistence_.adopted_files(),
                  .journal = persistence_.journal_view(),
                  .room = [this](std::uint64_t bytes) { return persistence_.room_for_adopted(bytes); },
                  .answer =
                      [this](std::uint64_t id, std::function<void(resp::Reply&)> append) {
                        serving_->server.answer(id, std::move(append));
                      }});
  // Clients may have changed the settings since they were read.
  settings_changed();
  // Last: when the gate opens, the dispatcher admits all commands.
  serving_->services.load.running = false;
  return {};
}

// Like the reference, lowers maxclients to what the system allows.
Result<void> Daemon::plan_descriptors() {
  const auto planned = Descriptors::plan(settings_.server, has_http() ? http::descriptors_max : 0);
  if (!planned) return planned.error();
  descriptors_ = *planned;
  const std::uint64_t possible = descriptors_->clients_possible();
  std::uint32_t& clients_max = settings_.runtime.clients_max;
  if (clients_max <= possible) return {};
  log::warn("maxclients_lowered", "maxclients lowered",
            {{"requested", clients_max},
             {"descriptors_needed", descriptors_->needed_for(clients_max)},
             {"descriptors", descriptors_->limit()},
             {"maxclients", possible},
             {"advice", "raise ulimit -n"}});
  clients_max = static_cast<std::uint32_t>(possible);
  return {};
}

Daemon::Serving::Serving(Daemon& daemon)
    : services{.keyspace = *daemon.keyspace_,
               .options = daemon.settings_.runtime,
               .clients = server,
               .persistence = daemon.persistence_,
               .control = daemon,
               .configuration = daemon.configuration_,
               .workers = daemon.worker_stats_,
               .journal = daemon.persistence_.journal_view(),
               .adoptions = daemon.adopter_,
               .transfers = daemon.import_folder_,
               .load = {.running = true, .started = std::chrono::system_clock::now()}},
      server(daemon.settings_.server, daemon.gate_, services, &daemon.reload_.tls()) {}

Result<void> Daemon::stop(command::StopMode mode) {
  const SteadyTime start = std::chrono::steady_clock::now();
  if (pages_ != nullptr) pages_->stopping();
  log::info("stopping", "stopping", {{"connections", serving_->server.count()}});
  stop_signal_.at_hang_up({});
  // No further reload is posted. What the last one has posted ends in drain().
  manager_.stopping("Stops: clients get their replies, then the last save");
  // Before the workers end: the watchdog would wait for a task that a stopped worker never runs.
  watchdog_.end();
  serving_->server.stop(flush_patience);
  // The server has stopped, so no command runs. These are the other threads that change keys or finish work
  // of clients. After them nothing changes any more, and the last save is exact.
  background_.expiry().stop();
  adopter_.stop();
  background_.drain();
  client_log_.tell_left_out(SteadyTime::max());
  log::info("connections_closed", "connections closed", {{"seconds", seconds_since(start), 3}});
  // A generation would have only the part of the data that is loaded so far.
  if (!persistence_.runs()) {
    log::info("stopped_while_loading", "stopped while loading; what was saved is as it was",
              {{"seconds", seconds_since(start), 3}});
    return {};
  }
  Result<void> outcome = persistence_.stop(mode, manager_);
  log::info("stopped", "stopped", {{"seconds", seconds_since(start), 3}});
  return outcome;
}

void Daemon::answer(std::uint64_t id, const Result<void>& outcome) {
  serving_->server.answer(id, [outcome](resp::Reply& reply) {
    if (outcome) return reply.ok();
    reply.error("ERR " + outcome.error().detail);
  });
}

command::ProcessUsage Daemon::usage() const {
  return process_usage();
}

command::BackgroundStatus Daemon::background() const {
  return {.disposals_waiting = background_.disposals_waiting(),
          .disposals_done = background_.disposals_done(),
          .expiry_worked = background_.expiry().worked()};
}

// The worker calls this once until the next SCRIPT FLUSH.
void Daemon::log_scripts_full(std::uint64_t bytes_max) {
  log::warn("scripts_full",
            "scripts are refused: the texts of those that SCRIPT LOAD has loaded are at their limit",
            {{"bytes_max", bytes_max}, {"advice", "send SCRIPT FLUSH, or raise script_memory_max"}});
}

std::uint64_t Daemon::clients_possible() {
  SEPAL_ASSERT(descriptors_.has_value(), "a client asks for more clients before the server listens");
  descriptors_->look_again();
  serving_->server.set_sockets_max(descriptors_->clients_possible() + server::newcomer_places);
  return descriptors_->clients_possible();
}

void Daemon::settings_changed() {
  const command::RuntimeOptions& options = settings_.runtime;
  const keyspace::KeyspaceOptions& limits = settings_.keyspace;
  keyspace_->set_memory_max(limits.memory_max);
  keyspace_->set_defaults(limits);
  set_log_level(options.log_level);
  prepare_crash_settings(settings_);
  // While the data is loaded, the rest has to wait: begin_service() calls this function once more.
  if (persistence_.runs()) persistence_.settings_changed(serving_->services.logs);
}

Result<void> Daemon::rewrite_config_for(std::uint64_t id) {
  if (settings_.config_file.empty()) return fail(Errc::not_found);
  background_.post(
      // A copy of this moment, taken with the gate closed. The background thread writes it later.
      [this, id, current = settings_to_write()] { answer(id, settings::rewrite_config_file(current)); });
  return {};
}

Result<void> Daemon::save_users_for(std::uint64_t id, std::string users) {
  if (settings_.acl_file.empty()) return fail(Errc::not_found);
  background_.post([this, id, text = std::move(users)] {
    const auto written = settings::write_acl_file(settings_.acl_file, text);
    if (written) reload_.users_written(text);
    answer(id, written);
  });
  return {};
}

Result<void> Daemon::load_users_for(std::uint64_t id) {
  if (settings_.acl_file.empty()) return fail(Errc::not_found);
  background_.post([this, id] { answer(id, reload_.load_users()); });
  return {};
}

}  // namespace sepal::app
