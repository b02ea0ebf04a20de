// What commands need from the parts above them (`command` declares; `server`, `settings` and `app`
// implement; tests use fakes), and everything that the handlers of all workers share. A member whose body is
// here does nothing, so that a fake overrides what its test looks at.
#pragma once

#include <sepal/base/choice.hpp>
#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/bloom/commands/missing_filter.hpp>
#include <sepal/command/observe/monitors.hpp>
#include <sepal/command/run/client_state.hpp>
#include <sepal/command/run/pause.hpp>
#include <sepal/command/run/worker_stats.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/resp/request_parser.hpp>
#include <sepal/script/engine.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::keyspace {
class Keyspace;
}
namespace sepal::writers {
class Uploads;
}

namespace sepal::command {

class Adoptions;
class Transfers;

// The least that is logged.
enum class LogLevel : std::uint8_t { trace, debug, info, warning, error };

// A setting that is on or off, in the words of redis.conf.
enum class Switch : std::uint8_t { no, yes };

// "save" as a client set it: "3600 1 300 100", or empty for no saves on a timer.
struct SavePoints {
  std::string text;
  std::chrono::seconds interval{-1};  // what Sepal makes of them; -1: never set
};

// Most settings that CONFIG SET may change; the others are in KeyspaceOptions and tls::Options. Guarded by
// the gate: changed with the gate closed, read inside it.
struct RuntimeOptions {
  std::string password;  // of the user `default` (requirepass); empty: none is asked for
  // While `default` has no password, only clients on this machine may connect.
  Switch protected_mode = Switch::yes;
  std::uint32_t acl_log_max = 128;  // entries of ACL LOG
  std::uint32_t clients_max = 10'000;
  std::chrono::seconds idle_timeout{0};     // 0: none
  std::chrono::seconds tcp_keepalive{300};  // 0: off; for new connections
  resp::ParserLimits parser;
  // After so many bytes of replies of one connection, the others get their turn.
  std::uint64_t output_bytes_max = 1ull << 20;
  std::chrono::seconds login_timeout{60};  // a client that must log in and has not is closed; 0: never
  // What ClientBuffers counts. Above it, the client with most is closed. One request of the largest size
  // fits.
  std::uint64_t clients_memory_max = 1280ull << 20;  // 0: no bound
  std::chrono::seconds save_interval{3600};          // 0: only on command and at stop
  SavePoints save_points;                            // shown while save_interval is theirs
  std::uint64_t save_bandwidth_bytes = 0;            // a second, except in the save at stop; 0: no limit
  LogLevel log_level = LogLevel::info;
  keyspace::JournalPolicy journal = keyspace::JournalPolicy::everysec;  // changed by set_journal
  keyspace::JournalPolicy journal_when_on =
      keyspace::JournalPolicy::everysec;  // of "appendonly yes"; never off
  // A save begins when the journal since the last save is longer than journal_save_min_bytes, and longer than
  // this percentage of the memory that keys and filters take.
  std::uint64_t journal_save_percent = 100;  // 0: never for that reason
  std::uint64_t journal_save_min_bytes = 64ull << 20;
  // The journal, with the files that it names, takes at most these bytes of the disk, or this percentage of
  // the data if that is more.
  std::uint64_t journal_bytes_max = 512ull << 20;  // 0: as much as there is
  std::uint64_t journal_bytes_max_percent = 300;
  // While a script has run for longer than this, other clients are told that it runs.
  std::chrono::milliseconds busy_reply_threshold{5000};
  std::uint64_t script_memory_max = 256ull << 20;  // of the scripts of one worker; texts: script_text_max()
  bloom::MissingFilter missing_filter = bloom::MissingFilter::absent;
  std::uint32_t uploads_max = 64;            // filters that are uploaded at a time
  std::chrono::seconds upload_timeout{300};  // an upload without a new piece for so long is dropped
  // A request that took so long is put into the slow log; negative: none is.
  std::int64_t slow_log_microseconds = 10'000;
  std::uint64_t slow_log_entries = 128;
  std::int64_t latency_event_milliseconds = 0;  // what takes so long is an event of LATENCY; 0: nothing is
  bool latency_tracking = true;                 // the times of all requests are counted, by command
  std::vector<double> latency_percentiles{50, 99, 99.9};  // that INFO shows
  // Redis parameters that Sepal accepts without any effect, by lower-case name: CONFIG GET gives them back.
  // Only those that a client set; docs/protocol.md lists all.
  std::map<std::string, std::string, std::less<>> without_effect;

  void set_journal(keyspace::JournalPolicy policy) {
    journal = policy;
    if (policy != keyspace::JournalPolicy::off) journal_when_on = policy;
  }
};

// What clients make the server keep in memory: replies that wait to be read, or for the journal, and requests
// that have not come whole, that run in parts, or that wait for a job or for EXEC, with the names of watched
// keys. The memory counts, and not only what is used of it. Any thread.
class ClientBuffers {
 public:
  // Replies that waited in `before` bytes take `after` bytes now.
  void change_replies(std::uint64_t before, std::uint64_t after) {
    if (after != before) replies_.fetch_add(after - before, std::memory_order_relaxed);  // may wrap, as below
  }
  // A client's requests take `after` bytes in place of `before`.
  void change_requests(std::uint64_t before, std::uint64_t after) {
    requests_.fetch_add(after - before, std::memory_order_relaxed);  // may wrap, and wraps back
  }
  // The same for clients that have not logged in and must. Their requests count as requests, too.
  void change_strangers(std::uint64_t before, std::uint64_t after) {
    strangers_.fetch_add(after - before, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t replies() const { return replies_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t strangers() const { return strangers_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t total() const { return replies() + requests(); }

  void client_closed() { closed_count_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t closed_count() const { return closed_count_.load(std::memory_order_relaxed); }
  void reset_closed_count() { closed_count_.store(0, std::memory_order_relaxed); }

  // Clients that were closed because they did not log in: in time, or before they sent much.
  void slow_stranger_closed() { slow_strangers_.fetch_add(1, std::memory_order_relaxed); }
  void large_stranger_closed() { large_strangers_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t slow_strangers() const {
    return slow_strangers_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t large_strangers() const {
    return large_strangers_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> replies_{0};
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> strangers_{0};
  std::atomic<std::uint64_t> closed_count_{0};
  std::atomic<std::uint64_t> slow_strangers_{0};
  std::atomic<std::uint64_t> large_strangers_{0};
};

// The requests of all clients that have not logged in and must, together.
inline constexpr std::uint64_t strangers_bytes_max = std::uint64_t{8} << 20;

// Connections whose TLS handshake is under way, and those whose handshake did not succeed.
struct HandshakeCounts {
  std::uint64_t under_way = 0;
  // Since start or the last reset.
  std::uint64_t certificate_refused = 0;  // the client showed no certificate, or one that is not valid
  std::uint64_t refused_by_client = 0;    // the client may not trust the server's certificate
  std::uint64_t not_tls = 0;              // other bytes, or no common version and cipher
  std::uint64_t closed = 0;               // the client has gone
  std::uint64_t too_slow = 0;
  std::uint64_t displaced = 0;  // by newer connections
};

// The connections of all workers.
class ClientDirectory {
 public:
  virtual ~ClientDirectory() = default;
  // Called with the gate closed. In order of id.
  virtual void for_each(const std::function<void(ClientState&)>& /*visit*/) {}
  // Any thread. The connection ends soon, without further replies. Unknown ids are ignored. Set the client's
  // `to_be_closed` before, with the gate closed, unless it is a monitor.
  virtual void kill(std::uint64_t /*id*/) {}
  // Any thread, also inside the gate. Gives bytes to a client of a worker: they go behind the replies that it
  // has. If the client is gone, or is no monitor any more, nothing happens.
  virtual void push(std::size_t /*worker*/, std::uint64_t /*id*/,
                    std::shared_ptr<const std::string> /*bytes*/) {}
  // Any thread. A pause ended before its time: the requests that wait for its end are run soon.
  virtual void pause_ended() {}
  [[nodiscard]] virtual std::uint64_t count() const { return 0; }           // connected now
  [[nodiscard]] virtual std::uint64_t accepted_count() const { return 0; }  // since start or the last reset
  [[nodiscard]] virtual std::uint64_t rejected_count() const { return 0; }  // over clients_max
  [[nodiscard]] virtual std::uint64_t denied_count() const { return 0; }    // by protected mode
  [[nodiscard]] virtual HandshakeCounts handshake_counts() const { return {}; }
  virtual void reset_counts() {}
};

struct SaveStatus {
  bool running = false;
  double progress = 0;               // the running save's, 0..1
  WallTime last_success{};           // the start of the process when none yet
  SteadyTime last_success_steady{};  // the same moment
  bool last_ok = true;
  std::string last_error;  // a sentence; empty when last_ok
  std::chrono::milliseconds last_duration{0};
  std::chrono::milliseconds running_for{0};  // the running save
  std::uint64_t last_bytes = 0;
  std::uint64_t journal_position = 0;  // the last good save, or the load, holds all before it
  std::uint64_t changes_since = 0;     // adds and structural changes that no finished save holds
  std::uint64_t saves_done = 0;
  std::uint64_t saves_failed = 0;

  // `now` may have been read before the save ended.
  [[nodiscard]] SteadyTime::duration age(SteadyTime now) const {
    return std::max(now - last_success_steady, SteadyTime::duration::zero());
  }
};

// How far the data that was there at the start has been loaded.
struct LoadStatus {
  bool running = false;
  WallTime started{};
  std::chrono::milliseconds duration{0};  // so far
  std::uint64_t keys = 0;                 // so far
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
};

// How the data directory stands: what may grow in it, and what is kept for a full disk.
struct DiskStatus {
  std::uint64_t adopted_bytes = 0;      // the files that the journal names
  std::uint64_t journal_bytes_max = 0;  // the bound of these files and the journal; 0: no bound
  std::uint64_t reserve_bytes = 0;      // what is there of the reserve
};

class Persistence {
 public:
  virtual ~Persistence() = default;
  // Inside or outside the gate; never waits for the disk. Starts a save. Errors: in_use when one is running
  // already.
  virtual Result<void> start_save() { return {}; }
  // As start_save. When that save has ended, the client `id` is answered: +OK, or the reason why it failed.
  virtual Result<void> start_save_for(std::uint64_t /*id*/) { return {}; }
  [[nodiscard]] virtual SaveStatus status() const { return {}; }
  // Any thread.
  [[nodiscard]] virtual DiskStatus disk_status() const { return {}; }
};

struct JournalStatus {
  bool accepting = true;  // false: commands that change something are refused, and `refusal` says why
  std::string refusal;    // a sentence
  std::uint64_t position = 0;
  std::uint64_t synced_position = 0;
  std::uint64_t bytes = 0;  // on disk
  std::uint64_t syncs = 0;
  std::uint64_t failed_syncs = 0;
  bool waits_for_save = false;  // it may not grow until a save has ended
  bool resumes = false;  // it was switched on, and its position does not tell yet that changes are missing
};

// The journal as commands and sessions see it. Any thread; no member waits for a disk.
class Journal {
 public:
  virtual ~Journal() = default;
  // Everything that was recorded below this position survives the failure of the machine.
  [[nodiscard]] virtual std::uint64_t durable_position() const = 0;
  [[nodiscard]] virtual JournalStatus status() const = 0;
};

enum class StopMode : std::uint8_t { save, no_save };

// Facts about the process that do not stand in its settings, for INFO, CONFIG GET and HELLO.
struct ServerFacts {
  std::string version;                     // Sepal's
  std::string commit;                      // the first digits of the git commit; empty: unknown
  std::string run_id;                      // 40 hex digits, new at each start
  std::string operating_system = "Linux";  // with release and machine, where they are known
  std::string executable;
  std::string config_file;       // empty: none
  std::string data_directory;    // absolute
  std::string import_directory;  // empty: none
  std::uint16_t port = 0;        // 0: no plain TCP
  std::uint16_t tls_port = 0;    // 0: no TLS
  std::uint64_t process_id = 0;
  std::uint32_t worker_count = 1;
  std::uint64_t journal_segment_bytes = 0;
  SteadyTime started_at{};
  WallTime started_wall{};
};

// What the allocator has taken from the system, and what of it is in use, in bytes. Big filters are mappings
// of their own, and are not in it. All zero: it keeps no figures.
struct AllocatorUsage {
  std::string name = "libc";
  std::uint64_t allocated_bytes = 0;  // what the process has asked for
  std::uint64_t active_bytes = 0;     // the pages that have some of it
  std::uint64_t resident_bytes = 0;   // and the free ones
};

struct ProcessUsage {
  double cpu_user_seconds = 0;
  double cpu_system_seconds = 0;
  // The part of the thread that starts and stops the server. It serves no client.
  double main_thread_user_seconds = 0;
  double main_thread_system_seconds = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t resident_peak_bytes = 0;
  AllocatorUsage allocator;
};

// What the background threads have done for clients.
struct BackgroundStatus {
  // Deleted filters, and flushed databases, whose memory goes back to the system in the background.
  std::uint64_t disposals_waiting = 0;
  std::uint64_t disposals_done = 0;
  std::chrono::microseconds expiry_worked{0};  // how long the removal of keys at their deadlines has taken
};

// How the last reload ended: at SIGHUP the log is opened anew, and users, password and certificates are read.
struct ReloadStatus {
  bool last_ok = true;     // also before the first one
  std::string last_error;  // a sentence for each file that was not read or opened; empty when last_ok
};

// The settings that are parameters of CONFIG. Called inside the gate.
class Configuration {
 public:
  struct Parameter {
    std::string_view name;  // lower case; lives as long as the configuration
    bool live = false;      // CONFIG SET may change it
  };
  // A copy of the settings, which CONFIG SET changes.
  class Draft {
   public:
    virtual ~Draft() = default;
    virtual RuntimeOptions& options() = 0;
    // `name` is that of a live parameter. Returns the error in the value; empty if there is none.
    virtual std::string set(std::string_view name, std::string_view value) = 0;
    // Called with the gate closed, before apply(): reads the files that the new values name, if clients may
    // change such values. Returns the error; empty if there is none.
    virtual std::string prepare() { return {}; }
    // Called with the gate closed. The changes take effect together.
    virtual void apply() = 0;
  };

  virtual ~Configuration() = default;
  [[nodiscard]] virtual std::vector<Parameter> parameters() const { return {}; }
  // `name` is that of a parameter.
  [[nodiscard]] virtual std::string get(std::string_view /*name*/) const { return {}; }
  [[nodiscard]] virtual std::unique_ptr<Draft> draft() { return nullptr; }
};

class ServerControl {
 public:
  virtual ~ServerControl() = default;
  [[nodiscard]] virtual const ServerFacts& facts() const {
    static const ServerFacts none;
    return none;
  }
  [[nodiscard]] virtual ProcessUsage usage() const { return {}; }
  [[nodiscard]] virtual BackgroundStatus background() const { return {}; }
  // Any thread.
  [[nodiscard]] virtual ReloadStatus reload_status() const { return {}; }
  // Inside the gate. Writes a line of a script to the log. Some are left out when there are many.
  virtual void log_from_script(script::LogLevel /*level*/, std::string_view /*text*/) {}
  // Inside the gate. A script of this client has run for longer than busy_reply_threshold, so other clients
  // are answered BUSY; and it has ended. Some lines are left out when there are many.
  virtual void log_busy_script(const ClientState& /*client*/, std::string_view /*command*/,
                               std::chrono::nanoseconds /*duration*/) {}
  virtual void log_busy_script_ended(const ClientState& /*client*/, std::chrono::nanoseconds /*duration*/) {}
  // Inside the gate. A script was refused because the texts of loaded scripts take `bytes_max` bytes.
  virtual void log_scripts_full(std::uint64_t /*bytes_max*/) {}
  // Inside the gate. Writes to the log who has tried to log in as `user` and failed, or who has administered
  // the server. Some lines are left out when there are many.
  virtual void log_failed_login(const ClientState& /*client*/, std::string_view /*user*/) {}
  virtual void log_administration(const ClientState& /*client*/, const Administration& /*administration*/) {}
  // Inside the gate. Logs the address of a client that sent HTTP. Some lines are left out when there are
  // many.
  virtual void log_http_request(const ClientState& /*client*/) {}
  // Any thread. Has a background job give all free memory of the heap back to the system; returns at once.
  virtual void give_memory_back() {}
  // Begins an orderly stop; returns at once.
  virtual void request_stop(StopMode /*mode*/) {}
  // Called with the gate closed. The number of clients that the system's limit of descriptors allows, when
  // that limit is raised as far as it may be.
  virtual std::uint64_t clients_possible() { return std::numeric_limits<std::uint64_t>::max(); }
  // Called with the gate closed. Has a background job write the settings of this moment into the
  // configuration file; then the client `id` is answered: +OK, or why they could not be written. Errors:
  // not_found when there is no file.
  virtual Result<void> rewrite_config_for(std::uint64_t /*id*/) { return {}; }
  // Called inside the gate. Has a background job write `users`, the text of an ACL file, into the ACL file;
  // then the client `id` is answered: +OK, or why it could not be written. Errors: not_found when the server
  // was started without an ACL file.
  virtual Result<void> save_users_for(std::uint64_t /*id*/, std::string /*users*/) { return {}; }
  // Called inside the gate. Has a background job read the ACL file, and make its users the users; then the
  // client `id` is answered: +OK, or what is wrong in the file. Errors: as above.
  virtual Result<void> load_users_for(std::uint64_t /*id*/) { return {}; }
};

class AclLog;
class LatencyEvents;
class LoginDelay;
class RateSampler;
struct Scripts;
class SlowLog;
class Users;

// The parts that the services own are declared only: a source that uses one includes its header. services.cpp
// makes and ends them.
template <class Part>
struct EndPart {
  void operator()(Part* part) const;
};
template <class Part>
using Owned = std::unique_ptr<Part, EndPart<Part>>;
template <class Part, class... Arguments>
[[nodiscard]] Owned<Part> own(Arguments&&... arguments);

// Everything that handlers share. Owned by app; outlives all sessions.
struct Services {
  keyspace::Keyspace& keyspace;
  RuntimeOptions& options;
  ClientDirectory& clients;
  Persistence& persistence;
  ServerControl& control;
  Configuration& configuration;
  std::vector<WorkerStats>& workers;
  Journal& journal;
  Adoptions& adoptions;
  Transfers& transfers;
  // Guarded by the gate. While a load runs, commands without Flag::loading are refused.
  LoadStatus load{};
  // Guarded by the gate. A script runs for so long that it is suspended now: commands without
  // Flag::allow_busy are refused.
  bool busy = false;
  // What records each worker's changes; null while nothing does. Guarded by the gate.
  std::vector<keyspace::WorkerLog*> logs = std::vector<keyspace::WorkerLog*>(workers.size());
  ClientBuffers buffers{};
  Owned<LoginDelay> login_delay = own<LoginDelay>();
  Monitors monitors{};
  Pause pause{};
  Owned<SlowLog> slow_log = own<SlowLog>();
  Owned<LatencyEvents> latency_events = own<LatencyEvents>();
  Owned<RateSampler> rates = own<RateSampler>();
  Owned<Scripts> scripts = own<Scripts>(workers.size());
  Owned<writers::Uploads> uploads = own<writers::Uploads>(keyspace);
  Owned<Users> users = own<Users>(options.password);
  Owned<AclLog> acl_log = own<AclLog>();
};

}  // namespace sepal::command

template <>
inline constexpr std::array<std::string_view, 2> sepal::choice_names<sepal::command::Switch>{"no", "yes"};
template <>
inline constexpr std::array<std::string_view, 5> sepal::choice_names<sepal::command::LogLevel>{
    "trace", "debug", "info", "warning", "error"};
