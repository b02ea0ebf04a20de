#include "app/start/daemon.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/random.hpp>
#include <sepal/base/version.hpp>
#include <sepal/bloom/memory/memory.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/log/event.hpp>
#include <sepal/settings/acl_file.hpp>
#include <sepal/settings/password.hpp>
#include <sepal/settings/shares.hpp>

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

storage::SaverOptions saver_options(const command::RuntimeOptions& options) {
  return {.interval = options.save_interval,
          .bytes_per_second_max = options.save_bandwidth_bytes,
          .journal_bytes_min = options.journal_save_min_bytes,
          .journal_share = static_cast<double>(options.journal_save_percent) / 100};
}

storage::JournalBound journal_bound(const command::RuntimeOptions& options, std::uint64_t segment_bytes) {
  return {.bytes_max = options.journal_bytes_max,
          .percent_of_data = options.journal_bytes_max_percent,
          .segment_bytes = segment_bytes};
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
        {{"protected_mode", "yes"},
         {"advice",
          "set requirepass or an aclfile, or protected_mode = \"no\" if no stranger can reach the port"}});
  } else if (port != 0 || settings.tls.auth_clients != tls::AuthClients::yes) {
    // No line if the only port demands certificates: it keeps strangers out by itself.
    log::warn("open_to_all", "every client that reaches the port may do everything",
              {{"protected_mode", "no"},
               {"advice", "set requirepass or an aclfile, unless no stranger can reach the port"}});
  }
}

// What a report of a crash says about the settings.
void prepare_crash_settings(const settings::Settings& settings) {
  std::string lines;
  for (const std::string& line : settings::differences_from_defaults(settings)) lines += "  " + line + "\n";
  set_crash_settings(lines);
}

// `error` came from opening the data directory.
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
      gate_(settings_.server.worker_count + (has_http() ? 1 : 0)),
      worker_stats_(settings_.server.worker_count),
      import_folder_(*disk_, settings_.import_directory) {}

// A start that failed has not gone through stop().
Daemon::~Daemon() {
  stop_signal_.at_hang_up({});
}

Result<void> Daemon::run() {
  log::info("starting", "starting",
            {{"version", facts_.version}, {"pid", facts_.process_id}, {"workers", facts_.worker_count}});
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
  for (const auto step :
       {&Daemon::read_users, &Daemon::read_tls, &Daemon::open_data, &Daemon::listen, &Daemon::load}) {
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
Result<void> Daemon::read_users() {
  if (settings_.acl_file.empty()) return {};
  const auto text = settings::read_acl_file(settings_.acl_file);
  if (!text) return text.error();
  auto users = command::parse_users(*text, settings_.acl_file);
  if (!users) return users.error();
  log::info("users_read", "users read", {{"file", settings_.acl_file}, {"users", users->size()}});
  users_at_start_ = std::move(*users);
  // A later SIGHUP compares the file with this text (reload_users).
  users_text_ = *text;
  return {};
}

Result<void> Daemon::read_tls() {
  if (!settings::uses_tls(settings_)) return {};
  auto context = tls::Context::load(settings_.tls);
  if (!context) return context.error();
  adopt_tls(*context);
  return {};
}

// The log speaks of it when it is in use.
void Daemon::adopt_tls(const std::shared_ptr<const tls::Context>& context) {
  tls_.set(context);
  const tls::Certificate& certificate = context->certificate();
  log::info("certificate_read", "certificate read",
            {{"subject", certificate.subject},
             {"serial", certificate.serial},
             {"not_after", certificate.not_after}});
  if (!certificate.valid_now)
    log::warn("certificate_not_valid", "the certificate is not valid today",
              {{"not_after", certificate.not_after}, {"advice", "renew tls_cert_file"}});
}

// Without a port that speaks TLS, the values are only kept.
Result<settings::Configuration::Adopt> Daemon::read_tls_for(const tls::Options& options) {
  if (!settings::uses_tls(settings_)) return settings::Configuration::Adopt([] {});
  auto context = tls::Context::load(options);
  if (!context) return context.error();
  return settings::Configuration::Adopt([this, context = std::move(*context)] { adopt_tls(context); });
}

Result<void> Daemon::open_data() {
  auto opened =
      storage::DataDirectory::open(*disk_, settings_.data_directory, random_number(), settings_.seed);
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
  return {};
}

// Before anything reads the limits of clients and scripts.
void Daemon::share_memory() {
  const std::uint64_t available = memory_bytes();
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
             {"threads", settings_.server.worker_count}});
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
// The same holds for the mappings of sparse strings.
void Daemon::limit_memory() {
  bloom::limit_string_mappings(mappings_max());
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
  if (users_at_start_) {
    // No client is there yet that could have a user.
    const auto replaced =
        serving_->services.users->adopt(*std::exchange(users_at_start_, {}), settings_.runtime.password);
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
  stop_signal_.at_hang_up([this] { return reload(); });
  listeners_ = listeners_of(settings_.server, facts_.port);
  log::info("listening", "listening", {{"address", listening_text(listeners_)}});
  note_listeners();
  warn_of_open_port(settings_, is_open, facts_.port);
  if (has_http())
    log::info(
        "listening_for_http", "listening for HTTP",
        {{"bind", settings_.http.bind}, {"port", pages_->port()}, {"tls", name_of(settings_.http.tls)}});
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
  pages_ = std::make_unique<OperatorPages>(settings_.http, tls_, gate_, settings_.server.worker_count,
                                           serving_->services);
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
  if (!report) return report.error();
  if (!report->name.empty())
    log::info("loaded", "loaded",
              {{"filters", report->filters},
               {"bytes", report->bytes},
               {"seconds", seconds_since(start), 3},
               {"generation", report->name}});
  // Between the load and the replay: no generation has what is replayed, so it counts as changed since the
  // last save.
  const std::uint64_t changes_loaded = changes();
  const auto replayed = replay(loader, *report);
  if (stop_signal_.requested()) return {};
  if (!replayed) return replayed.error();
  const storage::Saver::Loaded loaded{
      .at = facts_.started_wall, .journal_position = report->journal_position, .changes = changes_loaded};
  if (auto begun = begin_service(loaded, *replayed); !begun) return begun;
  if (pages_ != nullptr) pages_->loaded();
  const std::string address = listening_text(listeners_);
  log::info("ready", "ready", {{"address", address}});
  manager_.ready("Serves " + std::to_string(serving_->services.load.filters) + " filters at its start, on " +
                 address);
  watchdog_.begin([this](std::function<void()> done) { serving_->server.ask_workers(std::move(done)); });
  return {};
}

Result<void> Daemon::begin_service(const storage::Saver::Loaded& loaded, std::uint64_t position) {
  // The saver may ask for the journal's position before there is a journal.
  journal_view_.begins_at(position);
  storage::JournalPolicy policy{};
  {
    const GateClosed closed(gate_);
    policy = settings_.runtime.journal;
  }
  auto reserve = storage::Reserve::open(*disk_, data_->path(), disk_reserve_bytes_);
  if (!reserve) return reserve.error();
  // The journal and the saver use the reserve, so it comes before both.
  reserve_ = std::move(*reserve);
  // The saver and the journal become members when both are there, so an error leaves neither. The saver is
  // made first, because the journal's thread may call it at once.
  auto saver = std::make_unique<storage::Saver>(*data_, *keyspace_, gate_, saver_callbacks(), loaded);
  // There are two logs more than workers: one for the thread `expiry`, one for the thread `adopter`.
  const std::size_t expiry_log = settings_.server.worker_count;
  const std::size_t adopter_log = expiry_log + 1;
  auto journal = storage::Journal::open(
      *disk_, data_->path(), position, adopter_log + 1,
      {.policy = policy, .segment_bytes = facts_.journal_segment_bytes, .lineage = lineage_},
      {.on_progress =
           [this] {
             serving_->server.journal_progressed();
             adopter_.journal_progressed();
           },
       .on_save_needed = [&demanding = *saver] { demanding.demand(); },
       .on_room_needed = [&asked = *saver] { asked.make_room(); },
       .bytes_max = [this] { return journal_bytes_max(); },
       .bytes_beside = [this] { return adopted_files_->byte_count(); }},
      reserve_.get());
  if (!journal) return journal.error();
  // The workers see all that follows at once: no request finds a log without a saver.
  const GateClosed closed(gate_);
  SEPAL_ASSERT(serving_->services.logs.size() == settings_.server.worker_count && saver_ == nullptr,
               "the service begins once, and each worker has a place for its log");
  limit_memory();
  saver_ = std::move(saver);
  journal_ = std::move(*journal);
  journal_view_.show(*journal_);
  for (std::size_t worker = 0; worker < settings_.server.worker_count; ++worker)
    serving_->services.logs[worker] = &journal_->log(worker);
  background_.expiry().begin({.gate = gate_,
                              .keyspace = *keyspace_,
                              .log = journal_->log(expiry_log),
                              .uploads = *serving_->services.uploads});
  adopter_.begin({.gate = gate_,
                  .keyspace = *keyspace_,
                  .log = journal_->log(adopter_log),
                  .files = *adopted_files_,
                  .journal = journal_view_,
                  .room = [this](std::uint64_t bytes) { return room_for_adopted(bytes); },
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

storage::SaverCallbacks Daemon::saver_callbacks() {
  return {.changes = [this] { return changes(); },
          .journal_position = [this] { return journal_view_.position(); },
          .adopted_bytes = [this] { return adopted_files_->byte_count(); },
          .journal_gap = [this] { return journal_view_.gap(); },
          .sync_journal = [this](std::uint64_t at) { return journal_view_.sync_until(at); },
          .saved =
              [this](std::uint64_t at) {
                // First the journal and the files make room. Then the adopter, which may wait for that room,
                // looks again.
                journal_view_.generation_saved(at);
                adopted_files_->generation_saved(at);
                note_saved(at);
                adopter_.journal_progressed();
              },
          .failed =
              [this](const Error& error, std::uint64_t lacking_bytes) {
                journal_view_.save_failed(error.detail, lacking_bytes);
                adopter_.journal_progressed();
              },
          .lend_reserve =
              [this](std::uint64_t bytes_left, bool data_grows) {
                return reserve_->lend({.byte_count = bytes_left, .for_good = data_grows});
              },
          .reserve_returned = [this] { reserve_->returned(); }};
}

Result<std::uint64_t> Daemon::replay(Loader& loader, const storage::GenerationReport& loaded) {
  const SteadyTime start = std::chrono::steady_clock::now();
  auto report = loader.replay(*disk_, data_->path(), loaded);
  if (!report) return report.error();
  // Only now: the journal of a server that was killed before its first save has all of its data.
  if (loaded.name.empty() && report->frames == 0) {
    log::info("nothing_to_load", "nothing to load", {{"dir", facts_.data_directory}});
  } else if (loaded.name.empty()) {
    log::info("no_save_yet", "no save yet: the data is in the journal", {{"dir", facts_.data_directory}});
  }
  if (report->segments > 0)
    log::info("journal_replayed", "journal replayed",
              {{"frames", report->frames},
               {"items", report->items},
               {"bytes", report->bytes},
               {"seconds", seconds_since(start), 3},
               {"position", report->position}});
  if (report->strings_may_be_torn)
    log::warn("strings_may_be_torn", "strings may have a part of a change",
              {{"reason", "they changed while " + loaded.name +
                              " was saved, and the journal of that time is not there"},
               {"advice", "take copies with sepal backup, which have the journal"}});
  if (report->resumed || report->cut_bytes > 0)
    log::warn("journal_cut_off", "journal cut off",
              {{"bytes", report->cut_bytes},
               {"file", report->cut_path.native()},
               {"offset", report->cut_offset},
               {"reason", report->resumed ? "the journal was off before, and no save has ended since"
                                          : "what was written last had not got to the disk"}});
  // Before begin_service(), which begins a new segment where the replay has ended.
  if (const auto removed = storage::remove_beyond(*disk_, data_->path(), *report); !removed)
    return removed.error();
  auto files = storage::AdoptedFiles::open(*disk_, data_->path(), std::move(report->named));
  if (!files) return files.error();
  adopted_files_ = std::move(*files);
  items_replayed_ = report->items;
  lineage_ = data_->lineage();
  lineage_.run_before = report->run;
  return report->position;
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
               .persistence = daemon,
               .control = daemon,
               .configuration = daemon.configuration_,
               .workers = daemon.worker_stats_,
               .journal = daemon.journal_view_,
               .adoptions = daemon.adopter_,
               .transfers = daemon.import_folder_,
               .load = {.running = true, .started = std::chrono::system_clock::now()}},
      server(daemon.settings_.server, daemon.gate_, services, &daemon.tls_) {}

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
  if (saver_ == nullptr) {
    log::info("stopped_while_loading", "stopped while loading; what was saved is as it was",
              {{"seconds", seconds_since(start), 3}});
    return {};
  }
  Result<void> outcome;
  if (mode == command::StopMode::save) {
    const auto saved = saver_->save_at_stop([this] {
      manager_.saving_at_stop();
      return false;
    });
    if (!saved) outcome = saved.error();
  } else {
    // No worker runs any more, so the settings can be read outside the gate.
    const bool kept = settings_.runtime.journal != storage::JournalPolicy::off;
    log::write(kept ? log::Level::info : log::Level::warn, "stopping_without_save",
               "stopping without a save, as asked",
               {{"changes", status().changes_since}, {"in_journal", kept}});
  }
  saver_->stop();
  // The journal stops after the last save, because that save allows it to remove its segments.
  const auto stopped = journal_->stop();
  if (!stopped)
    log::error("journal_not_synced", "the journal could not be synced", {{"reason", stopped.error().detail}});
  // After a save that succeeded, nothing depends on the last sync: the generation has everything.
  if (!stopped && (mode == command::StopMode::no_save || !outcome)) outcome = stopped;
  log::info("stopped", "stopped", {{"seconds", seconds_since(start), 3}});
  return outcome;
}

// Grows with every change and never shrinks. The keyspace counts changes of structure; the workers and the
// replay count items, and bits of strings.
std::uint64_t Daemon::changes() const {
  std::uint64_t sum = keyspace_->structure_changes() + items_replayed_;
  for (const command::WorkerStats& stats : worker_stats_)
    sum += stats.items_added.get() + stats.bits_set.get();
  return sum;
}

Result<void> Daemon::start_save() {
  SEPAL_ASSERT(saver_ != nullptr, "a save is asked for while the data is loaded");
  return saver_->start({});
}

Result<void> Daemon::start_save_for(std::uint64_t id) {
  SEPAL_ASSERT(saver_ != nullptr, "a client waits for a save while the data is loaded");
  return saver_->start([this, id](const Result<storage::GenerationReport>& report) {
    answer(id, report ? Result<void>() : report.error());
  });
}

void Daemon::answer(std::uint64_t id, const Result<void>& outcome) {
  serving_->server.answer(id, [outcome](resp::Reply& reply) {
    if (outcome) return reply.ok();
    reply.error("ERR " + outcome.error().detail);
  });
}

// There is no saver while the data is loaded.
storage::SaverStatus Daemon::saver_status() const {
  if (saver_ != nullptr) return saver_->status();
  storage::SaverStatus status;
  status.last_success = facts_.started_wall;
  status.changes_saved = changes();
  return status;
}

command::SaveStatus Daemon::status() const {
  const storage::SaverStatus saver = saver_status();
  command::SaveStatus status{.running = saver.running,
                             .last_success = saver.last_success,
                             .last_ok = saver.last_ok,
                             .last_error = saver.last_error,
                             .last_duration = saver.last_duration,
                             .last_bytes = saver.last_bytes,
                             .journal_position = saver.journal_position,
                             .changes_since = changes() - saver.changes_saved,
                             .saves_done = saver.saves_done,
                             .saves_failed = saver.saves_failed};
  if (saver.running) {
    status.running_for = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - saver.started_at);
  }
  if (saver.running && saver.progress.bytes_total > 0) {
    status.progress =
        static_cast<double>(saver.progress.bytes_done) / static_cast<double>(saver.progress.bytes_total);
  }
  return status;
}

storage::JournalBound Daemon::bound_now() const {
  const MutexLock lock(bound_mutex_);
  return bound_;
}

std::uint64_t Daemon::journal_bytes_max() const {
  return bound_now().bytes_for(keyspace_->memory_used());
}

std::optional<Result<void>> Daemon::room_for_adopted(std::uint64_t byte_count) {
  SEPAL_ASSERT(saver_ != nullptr && adopted_files_ != nullptr,
               "a filter comes whole while the data is loaded");
  const storage::JournalBound bound = bound_now();
  const std::uint64_t bytes_max = bound.bytes_for(keyspace_->memory_used());
  const std::uint64_t taken = journal_view_.status().bytes + adopted_files_->byte_count();
  const storage::Room room = bound.room_for(byte_count, taken, bytes_max);
  if (room == storage::Room::now) return Result<void>();
  const std::string need = "the filter or string takes " + std::to_string(byte_count) +
                           " bytes of the disk until a save has it, and journal_size_max is " +
                           std::to_string(bytes_max);
  if (room == storage::Room::never) return fail(Errc::not_recorded, need);
  const storage::SaverStatus saver = saver_->status();
  // The save is asked for in any case. If the last one has failed, the client hears why, instead of waiting
  // for a try that may fail as well.
  saver_->make_room();
  if (!saver.running && !saver.last_ok)
    return fail(Errc::not_recorded, need + "; the last save failed: " + saver.last_error);
  return std::nullopt;
}

command::DiskStatus Daemon::disk_status() const {
  if (saver_ == nullptr) return {};
  return {.adopted_bytes = adopted_files_->byte_count(),
          .journal_bytes_max = journal_bytes_max(),
          .reserve_bytes = reserve_->byte_count()};
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
  keyspace_->set_defaults(limits.error_rate, limits.capacity, limits.expansion);
  set_log_level(options.log_level);
  prepare_crash_settings(settings_);
  // While the data is loaded, the rest has to wait: begin_service() calls this function once more.
  if (saver_ == nullptr) return;
  saver_->set_options(saver_options(options));
  {
    const MutexLock lock(bound_mutex_);
    bound_ = journal_bound(options, facts_.journal_segment_bytes);
  }
  // Changes that the running batch made before are recorded under the old policy.
  for (keyspace::WorkerLog* const log : serving_->services.logs) log->commit();
  journal_->set_policy(options.journal);
  note_policy(options.journal);
}

// A journal that was off lacks the changes of that time, until a save has them.
void Daemon::note_policy(storage::JournalPolicy policy) {
  journal_on_ = policy != storage::JournalPolicy::off;
  if (!journal_on_) stop_signal_.set_changes_are_kept(false);
}

void Daemon::note_saved(std::uint64_t position) {
  // A generation that was cut before the end of the gap lacks changes that the journal lacks, too.
  if (journal_on_ && position >= journal_view_.gap()) stop_signal_.set_changes_are_kept(true);
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
    // sepald itself has changed the file: that is no reason to read it anew at SIGHUP.
    if (written) users_text_ = text;
    answer(id, written);
  });
  return {};
}

Result<void> Daemon::load_users_for(std::uint64_t id) {
  if (settings_.acl_file.empty()) return fail(Errc::not_found);
  background_.post([this, id] { answer(id, load_users()); });
  return {};
}

// The files are read by the background thread: they may be on a slow disk. An error leaves everything as it
// was.
bool Daemon::reload() {
  const bool has_tls = settings::uses_tls(settings_);
  if (settings_.password_file.empty() && settings_.acl_file.empty() && !has_tls) return false;
  // One wrong file does not keep the remaining files from being read.
  background_.post([this, has_tls] {
    if (has_tls)
      if (const auto done = reload_tls(); !done)
        log::error("certificates_not_read", "certificates not read anew, the old ones stay in use",
                   {{"reason", done.error().detail}});
    // The password comes before the users: their file may leave the password of `default` to it.
    if (const auto done = reload_password(); !done)
      log::error("password_not_read", "password not read anew", {{"reason", done.error().detail}});
    if (const auto done = reload_users(); !done)
      log::error("users_not_read", "users not read anew", {{"reason", done.error().detail}});
    manager_.reloaded();
  });
  return true;
}

// A new certificate or log must not undo what ACL SETUSER has changed since the file was read or written.
Result<void> Daemon::reload_users() {
  if (settings_.acl_file.empty()) return {};
  const auto text = settings::read_acl_file(settings_.acl_file);
  if (!text) return text.error();
  if (*text != users_text_) return adopt_users(*text);
  log::info("users_unchanged", "users not read anew: their file has not changed",
            {{"file", settings_.acl_file}});
  return {};
}

Result<void> Daemon::reload_tls() {
  tls::Options options;
  {
    const GateClosed closed(gate_);
    // A copy: the files are read outside the gate.
    options = settings_.tls;
  }
  auto context = tls::Context::load(options);
  if (!context) return context.error();
  adopt_tls(*context);
  return {};
}

Result<void> Daemon::reload_password() {
  if (settings_.password_file.empty()) return {};
  auto password = settings::read_password_file(settings_.password_file);
  if (!password) return password.error();
  {
    const GateClosed closed(gate_);
    // The file of users may leave the password of `default` to this one, so it is read in any case.
    if (settings_.runtime.password != *password) users_text_.reset();
    settings_.runtime.password = std::move(*password);
    // With an ACL file, its reading decides whether `default` has this password.
    if (settings_.acl_file.empty())
      serving_->services.users->set_default_password(settings_.runtime.password);
  }
  log::info("password_read", "password read anew", {{"file", settings_.password_file}});
  return {};
}

Result<void> Daemon::load_users() {
  const auto text = settings::read_acl_file(settings_.acl_file);
  return text ? adopt_users(*text) : text.error();
}

Result<void> Daemon::adopt_users(const std::string& text) {
  auto users = command::parse_users(text, settings_.acl_file);
  if (!users) return fail(users.error().code, users.error().detail + "; the users are as they were");
  users_text_ = text;
  const std::size_t count = users->size();
  command::RemovedUsers removed;
  {
    const GateClosed closed(gate_);
    command::Services& services = serving_->services;
    removed = services.users->adopt(std::move(*users), settings_.runtime.password);
    keyspace_->count_others(services.users->byte_count());
    // Before the gate opens: clients have pointers to the removed users, which end with this function.
    command::dismiss(removed, services.clients, nullptr);
  }
  log::info("users_loaded", "users loaded",
            {{"file", settings_.acl_file}, {"users", count}, {"removed", removed.size()}});
  return {};
}

}  // namespace sepal::app
