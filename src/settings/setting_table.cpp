// The table of settings. A row here gives a line of the file, a flag, a paragraph of the help, a parameter of
// CONFIG and a default.
//
// A row names its field by a path of members. From the path, the compiler makes the functions that read and
// write the field. It also derives what the row does not say: the kind, the choices, and whether CONFIG SET
// may change the field. So a setting stands in one place. The assertions below the table check each row
// before the program runs.
#include <sepal/base/assert.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/resp/request_parser.hpp>
#include <sepal/settings/container.hpp>
#include <sepal/storage/journal/journal.hpp>
#include <sepal/tls/context.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <type_traits>
#include <utility>

#include "settings/setting.hpp"

namespace sepal::settings {
namespace {

constexpr std::uint64_t kb = 1024;
constexpr std::uint64_t gb = kb * kb * kb;
constexpr std::uint64_t bytes_max = kb * gb;              // one request, or one client's replies
constexpr std::uint64_t memory_bytes_max = kb * kb * gb;  // all filters; beyond any machine
constexpr std::uint64_t seconds_max = 2'147'483'647;      // as in the reference
constexpr std::uint64_t threads_max = 1024;
constexpr std::uint64_t path_length_max = 4095;
constexpr std::uint64_t socket_path_length_max = 107;  // sockaddr_un holds no more
constexpr std::uint64_t address_length_max = 45;       // of IPv6, with an IPv4 address at its end
constexpr std::uint64_t pattern_length_max = 256;
constexpr std::uint64_t user_length_max = 32;  // Linux has no longer names of users
constexpr std::uint64_t items_max = 1'000'000'000'000'000;

// The field at the end of a path of members: reach<&Settings::server, &ServerOptions::port>(settings).
template <auto member, auto... rest>
constexpr auto& reach(auto& object) {
  if constexpr (sizeof...(rest) == 0) {
    return object.*member;
  } else {
    return reach<rest...>(object.*member);
  }
}

template <class Field>
constexpr bool is_duration =
    std::is_same_v<Field, std::chrono::seconds> || std::is_same_v<Field, std::chrono::milliseconds>;

template <auto... path>
Value get(const Settings& settings) {
  const auto& field = reach<path...>(settings);
  using Field = std::remove_cvref_t<decltype(field)>;
  if constexpr (is_duration<Field>) {
    return static_cast<std::uint64_t>(field.count());
  } else if constexpr (std::is_integral_v<Field>) {
    return static_cast<std::uint64_t>(field);
  } else if constexpr (std::is_enum_v<Field>) {
    return std::string(name_of(field));
  } else {
    return field;
  }
}

// The row's range has been checked, so no number is truncated here, and each word names a choice.
template <auto... path>
void set(Settings& settings, const Value& value) {
  auto& field = reach<path...>(settings);
  using Field = std::remove_cvref_t<decltype(field)>;
  if constexpr (is_duration<Field>) {
    field = Field(std::get<std::uint64_t>(value));
  } else if constexpr (std::is_integral_v<Field>) {
    const auto number = std::get<std::uint64_t>(value);
    SEPAL_ASSERT(number <= static_cast<std::uint64_t>(std::numeric_limits<Field>::max()),
                 "a setting takes a number that its field has no room for");
    field = static_cast<Field>(number);
  } else if constexpr (std::is_enum_v<Field>) {
    const auto choice = choice_of<Field>(std::get<std::string>(value));
    SEPAL_ASSERT(choice.has_value(), "a setting takes a word that is none of its choices");
    field = *choice;
  } else {
    field = std::get<Field>(value);
  }
}

template <class Field>
constexpr Kind kind_of() {
  if (std::is_enum_v<Field>) return Kind::choice;
  if (std::is_same_v<Field, std::chrono::seconds>) return Kind::seconds;
  if (std::is_same_v<Field, double>) return Kind::rate;
  if (std::is_same_v<Field, std::string>) return Kind::text;
  if (std::is_same_v<Field, Seed>) return Kind::seed;
  // Milliseconds are a plain number, as in redis.conf.
  return std::is_integral_v<Field> || is_duration<Field> ? Kind::count : Kind::addresses;
}

using command::RuntimeOptions;
using keyspace::KeyspaceOptions;
using resp::ParserLimits;
using server::ServerOptions;

// A row for the field at the end of `path`, which gives the row what it does not say itself.
template <auto... path>
constexpr Setting row(Setting setting) {
  using Field = std::remove_cvref_t<decltype(reach<path...>(std::declval<Settings&>()))>;
  // Usual: CONFIG SET may change the members of these three structs. They are read inside the gate, and
  // changed with the gate closed. Threads read the other members without the gate
  // (Configuration::Draft::apply).
  constexpr bool live = (std::is_same_v<decltype(path), RuntimeOptions Settings::*> || ...) ||
                        (std::is_same_v<decltype(path), KeyspaceOptions Settings::*> || ...) ||
                        (std::is_same_v<decltype(path), tls::Options Settings::*> || ...);
  if (setting.config == InConfig::usual) setting.config = live ? InConfig::live : InConfig::hidden;
  // `count` is also what a row has that names no kind.
  if (setting.kind == Kind::count) setting.kind = kind_of<Field>();
  if constexpr (std::is_enum_v<Field>) setting.choices = choice_names<Field>;
  setting.get = &get<path...>;
  setting.set = &set<path...>;
  return setting;
}

// The policy "off" must not make the server forget the policy that was there before.
constexpr Setting journal_row(Setting setting) {
  setting = row<&Settings::runtime, &RuntimeOptions::journal>(setting);
  setting.set = [](Settings& settings, const Value& value) {
    const auto policy = choice_of<keyspace::JournalPolicy>(std::get<std::string>(value));
    SEPAL_ASSERT(policy.has_value(), "the journal takes a policy that is none of its choices");
    settings.runtime.set_journal(*policy);
  };
  return setting;
}

// A row without a group belongs to the group of the row before it.
template <std::size_t count>
constexpr std::array<Setting, count> with_groups(std::array<Setting, count> rows) {
  for (std::size_t i = 1; i < count; ++i)
    if (rows[i].group.empty()) rows[i].group = rows[i - 1].group;
  return rows;
}

// The order is that of the sample file and of the help. The settings port, tls_port, threads, dir, import_dir
// and journal_segment are hidden from CONFIG: command/config_table.cpp shows under these names what sepald
// has made of them.
constexpr auto table = with_groups(std::to_array<Setting>({
    row<&Settings::server, &ServerOptions::bind>(
        {.key = "bind",
         .group = "Network",
         .range = {0, 16},
         .help =
             "addresses to listen on, as one value (\"ADDRESS ADDRESS\"); a leading '-' forgives one that "
             "the machine does not have",
         .config = InConfig::shown}),
    row<&Settings::server, &ServerOptions::port>(
        {.key = "port",
         .range = {0, 65535},
         .help = "TCP port; 0 lets the system pick one, or with a UNIX socket or a TLS port means none"}),
    row<&Settings::server, &ServerOptions::listen_backlog>(
        {.key = "backlog",
         .range = {1, 65535},
         .help = "connections that may wait to be accepted",
         .config = InConfig::shown,
         .parameter = "tcp-backlog"}),
    row<&Settings::server, &ServerOptions::unix_socket>(
        {.key = "unixsocket",
         .range = {0, socket_path_length_max},
         .help = "path of a Unix socket to listen on as well; empty: none",
         .config = InConfig::shown}),
    row<&Settings::server, &ServerOptions::unix_socket_mode>({.key = "unixsocket_mode",
                                                              .kind = Kind::permissions,
                                                              .range = {0, 0777},
                                                              .help = "permissions of that path, octal",
                                                              .config = InConfig::shown,
                                                              .parameter = "unixsocketperm"}),
    row<&Settings::threads>(
        {.key = "threads",
         .range = {0, threads_max},
         .help = "threads that serve requests; 0: one for each core, or fewer if the container has "
                 "less CPU time",
         .redis_name = "io-threads"}),

    row<&Settings::server, &ServerOptions::tls_port>(
        {.key = "tls_port",
         .group = "TLS",
         .range = {0, 65535},
         .help =
             "TCP port at the same addresses where clients speak TLS; 0: none; with port = 0, the only one"}),
    row<&Settings::tls, &tls::Options::certificate_file>(
        {.key = "tls_cert_file",
         .range = {0, path_length_max},
         .help =
             "PEM file of the server's certificate, and behind it those between it and the root; this and "
             "the files below are read anew at SIGHUP and by CONFIG SET of one of them"}),
    row<&Settings::tls, &tls::Options::key_file>(
        {.key = "tls_key_file",
         .range = {0, path_length_max},
         .help = "PEM file of the certificate's key, which has no passphrase"}),
    row<&Settings::tls, &tls::Options::ca_file>(
        {.key = "tls_ca_cert_file",
         .range = {0, path_length_max},
         .help =
             "PEM file of the CA certificates that certificates of clients are signed with; empty: none"}),
    row<&Settings::tls, &tls::Options::auth_clients>(
        {.key = "tls_auth_clients",
         .help = "whether clients show a certificate; one that is shown must be valid in any case but 'no'"}),
    row<&Settings::tls, &tls::Options::user_field>(
        {.key = "tls_auth_clients_user",
         .help = "CN: a client is logged in as the user that the common name of its certificate names"}),
    row<&Settings::tls, &tls::Options::protocols>(
        {.key = "tls_protocols", .help = "versions of TLS that clients may speak"}),

    row<&Settings::runtime, &RuntimeOptions::clients_max>(
        {.key = "maxclients", .group = "Clients", .range = {1, 1'000'000}, .help = "connections at a time"}),
    row<&Settings::runtime, &RuntimeOptions::idle_timeout>(
        {.key = "timeout",
         .range = {0, seconds_max},
         .help = "idle time after which a connection is closed; 0: never"}),
    row<&Settings::runtime, &RuntimeOptions::login_timeout>(
        {.key = "login_timeout",
         .range = {0, seconds_max},
         .help = "time after which a client is closed that must log in and has not; 0: never"}),
    row<&Settings::runtime, &RuntimeOptions::tcp_keepalive>(
        {.key = "tcp_keepalive",
         .range = {0, seconds_max},
         .help = "idle time after which a new connection is probed; 0: never"}),
    row<&Settings::runtime, &RuntimeOptions::password>(
        {.key = "requirepass",
         .range = {0, resp::unauthenticated_bulk_bytes_max},
         .help = "password that clients must give by AUTH; empty: none (better in the file than as a flag, "
                 "which every user of the machine can see)",
         .secret = true}),
    row<&Settings::password_file>(
        {.key = "requirepass_file",
         .range = {0, path_length_max},
         .help = "file whose first line is that password, read at the start and at SIGHUP; empty: none",
         .config = InConfig::shown}),
    row<&Settings::runtime, &RuntimeOptions::protected_mode>(
        {.key = "protected_mode",
         .help = "while the user 'default' needs no password, only clients on this machine may connect"}),
    row<&Settings::acl_file>(
        {.key = "aclfile",
         .range = {0, path_length_max},
         .help =
             "file of the users and what they may do, which ACL LOAD reads and ACL SAVE writes; empty: none",
         .config = InConfig::shown}),
    row<&Settings::runtime, &RuntimeOptions::acl_log_max>(
        {.key = "acllog_max_len",
         .range = {0, 10'000},
         .help = "entries that ACL LOG keeps: requests that were not allowed, and failed logins"}),

    row<&Settings::runtime, &RuntimeOptions::uploads_max>(
        {.key = "uploads_max",
         .group = "Uploads",
         .range = {0, 1024},
         .help = "filters that clients upload (BF.LOADCHUNK) at a time; 0: none may"}),
    row<&Settings::runtime, &RuntimeOptions::upload_timeout>(
        {.key = "upload_timeout",
         .range = {1, seconds_max},
         .help = "time without a piece after which an upload is dropped"}),

    row<&Settings::data_directory>({.key = "dir",
                                    .group = "Data",
                                    .range = {1, path_length_max},
                                    .help = "directory for the data; made when missing"}),
    row<&Settings::import_directory>(
        {.key = "import_dir",
         .range = {0, path_length_max},
         .help =
             "directory of the files that BF.IMPORT reads and BF.EXPORT writes; empty: neither is taken"}),
    row<&Settings::runtime, &RuntimeOptions::save_interval>(
        {.key = "save_interval",
         .range = {0, seconds_max},
         .help = "time between saves; 0: only on command and at stop",
         .redis_name = "save"}),
    journal_row(
        {.key = "journal",
         .help =
             "what the journal promises of an answered change: always (it survives a power cut), everysec "
             "(that, after a second; the end of the process at once) or off",
         .redis_name = "appendonly"}),
    row<&Settings::journal_segment_bytes>({.key = "journal_segment",
                                           .kind = Kind::bytes,
                                           .range = {storage::journal_segment_bytes_min, gb},
                                           .help = "size of a file of the journal; some are made ahead"}),
    row<&Settings::runtime, &RuntimeOptions::journal_save_percent>(
        {.key = "journal_save_percent",
         .range = {0, seconds_max},
         .help =
             "a save begins when the journal is longer than this percentage of the memory in use; 0: never",
         .parameter = "auto-aof-rewrite-percentage"}),
    row<&Settings::runtime, &RuntimeOptions::journal_save_min_bytes>(
        {.key = "journal_save_min",
         .kind = Kind::bytes,
         .range = {0, memory_bytes_max},
         .help = "a shorter journal leads to no save",
         .parameter = "auto-aof-rewrite-min-size"}),
    row<&Settings::runtime, &RuntimeOptions::journal_bytes_max>(
        {.key = "journal_size_max",
         .kind = Kind::bytes,
         .range = {0, memory_bytes_max},
         .help = "room on the disk for the journal and the files it names, before a save has to end; 0: no "
                 "bound"}),
    row<&Settings::runtime, &RuntimeOptions::journal_bytes_max_percent>(
        {.key = "journal_size_max_percent",
         .range = {0, seconds_max},
         .help = "the same as a share of the data; the larger of the two counts"}),
    row<&Settings::disk_reserve_bytes>(
        {.key = "disk_reserve",
         .kind = Kind::bytes,
         .range = {0, memory_bytes_max},
         .help = "room that is kept on the disk for deletions, a save and a start when it is full; 0: none",
         .config = InConfig::shown}),
    row<&Settings::runtime, &RuntimeOptions::save_bandwidth_bytes>(
        {.key = "save_bandwidth",
         .kind = Kind::bytes,
         .range = {0, bytes_max},
         .help =
             "bytes that a save writes in a second, but for the one at stop; 0: as many as the disk takes"}),
    row<&Settings::stop_seconds_max>({.key = "stop_seconds_max",
                                      .kind = Kind::seconds,
                                      .range = {1, seconds_max},
                                      .help = "time an orderly stop may take, its save included",
                                      .config = InConfig::shown,
                                      .parameter = "shutdown-timeout"}),

    row<&Settings::keyspace, &KeyspaceOptions::memory_max>(
        {.key = "maxmemory",
         .group = "Limits",
         .kind = Kind::bytes,
         .range = {0, memory_bytes_max},
         .help = "memory of all filters and keys; 0: a share of what the machine or container has"}),
    row<&Settings::keyspace, &KeyspaceOptions::keys_max>({.key = "keys_max",
                                                          .range = {1, items_max},
                                                          .help = "keys in all databases together",
                                                          .config = InConfig::shown}),
    row<&Settings::keyspace, &KeyspaceOptions::layers_max>({.key = "layers_max",
                                                            .range = {1, bloom::filter_layers_max},
                                                            .help = "layers that one filter may grow to",
                                                            .config = InConfig::shown}),
    row<&Settings::runtime, &RuntimeOptions::parser, &ParserLimits::bulk_bytes_max>(
        {.key = "item_bytes_max",
         .kind = Kind::bytes,
         .range = {kb, bytes_max},
         .help = "length of an item, a key or any other argument",
         .parameter = "proto-max-bulk-len"}),
    row<&Settings::runtime, &RuntimeOptions::parser, &ParserLimits::request_bytes_max>(
        {.key = "request_bytes_max",
         .kind = Kind::bytes,
         .range = {kb, bytes_max},
         .help = "length of a request",
         .parameter = "client-query-buffer-limit"}),
    row<&Settings::runtime, &RuntimeOptions::parser, &ParserLimits::argument_count_max>(
        {.key = "request_arguments_max",
         .range = {resp::unauthenticated_argument_count_max, 2'147'483'647},
         .help = "arguments of a request, its name included",
         .config = InConfig::shown}),
    row<&Settings::runtime, &RuntimeOptions::parser, &ParserLimits::line_bytes_max>(
        {.key = "line_bytes_max",
         .kind = Kind::bytes,
         .range = {kb, gb},
         .help = "length of a request written as a plain line",
         .config = InConfig::shown}),
    row<&Settings::runtime, &RuntimeOptions::clients_memory_max>(
        {.key = "maxmemory_clients",
         .kind = Kind::bytes,
         .range = {0, memory_bytes_max},
         .help = "memory of all clients: unread replies, and requests that are unfinished or wait for EXEC; "
                 "above it, the client with most of them is closed; 0: no bound"}),
    row<&Settings::runtime, &RuntimeOptions::output_bytes_max>(
        {.key = "output_bytes_max",
         .kind = Kind::bytes,
         .range = {kb, bytes_max},
         .help = "replies of a connection after which the others get their turn",
         .config = InConfig::shown,
         .redis_name = "client-output-buffer-limit"}),

    row<&Settings::runtime, &RuntimeOptions::busy_reply_threshold>(
        {.key = "busy_reply_threshold",
         .range = {0, seconds_max},
         .help = "milliseconds a script may run before other clients are told that it runs",
         .redis_name = "lua-time-limit"}),
    row<&Settings::runtime, &RuntimeOptions::script_memory_max>(
        {.key = "script_memory_max",
         .kind = Kind::bytes,
         .range = {16 * kb * kb, memory_bytes_max},
         .help = "memory of the scripts of one worker thread"}),

    row<&Settings::keyspace, &KeyspaceOptions::error_rate>(
        {.key = "bf_error_rate",
         .group = "Filters that an add creates",
         .help = "share of absent items that may be answered with yes"}),
    row<&Settings::keyspace, &KeyspaceOptions::capacity>({.key = "bf_capacity",
                                                          .range = {1, items_max},
                                                          .help = "items of the first layer",
                                                          .parameter = "bf-initial-size"}),
    row<&Settings::keyspace, &KeyspaceOptions::expansion>(
        {.key = "bf_expansion",
         .range = {0, bloom::expansion_max},
         .help = "a new layer holds this many times the last; 0: filters do not grow",
         .parameter = "bf-expansion-factor"}),
    row<&Settings::seed>(
        {.key = "seed", .help = "seed of the hash of new filters; auto: drawn once, kept with the data"}),

    row<&Settings::http, &HttpOptions::port>(
        {.key = "http_port",
         .group = "HTTP",
         .range = {0, 65535},
         .help = "TCP port of the pages for operators: /, /metrics, /healthz, /readyz; 0: none",
         .config = InConfig::shown}),
    row<&Settings::http, &HttpOptions::bind>({.key = "http_bind",
                                              .kind = Kind::text,
                                              .range = {1, address_length_max},
                                              .help = "address of these pages; they ask for no password",
                                              .config = InConfig::shown}),
    row<&Settings::http, &HttpOptions::tls>(
        {.key = "http_tls",
         .help = "serves these pages over TLS, with the certificate and the rules of tls_cert_file and so on",
         .config = InConfig::shown}),
    row<&Settings::http, &HttpOptions::hosts>(
        {.key = "http_hosts",
         .range = {0, 16},
         .help = "names of this server that a Host header may have, besides localhost and its addresses",
         .config = InConfig::shown}),
    row<&Settings::http, &HttpOptions::metrics_filters_max>(
        {.key = "http_metrics_filters",
         .range = {0, 10'000},
         .help = "filters that / and /metrics tell about, the largest first",
         .config = InConfig::shown}),
    row<&Settings::http, &HttpOptions::metrics_pattern>(
        {.key = "http_metrics_pattern",
         .range = {1, pattern_length_max},
         .help = "only filters whose keys match it, as in KEYS",
         .config = InConfig::shown}),

    row<&Settings::user>({.key = "user",
                          .group = "Process",
                          .range = {0, user_length_max},
                          .help = "user that sepald becomes when root starts it; empty: none",
                          .config = InConfig::shown}),

    // Hidden, because clients know it as `loglevel`, with Redis's words (command/config_table.cpp).
    row<&Settings::runtime, &RuntimeOptions::log_level>({.key = "log_level",
                                                         .group = "Log",
                                                         .help = "the least that is logged",
                                                         .config = InConfig::hidden,
                                                         .redis_name = "loglevel"}),
    row<&Settings::log, &LogOptions::format>({.key = "log_format", .help = "how a line of the log looks"}),
    row<&Settings::log, &LogOptions::file>({.key = "log_file",
                                            .range = {0, path_length_max},
                                            .help = "file to log to; empty: standard error",
                                            .config = InConfig::shown,
                                            .parameter = "logfile"}),
}));

// Whether the parts of a row agree. The compiler asks it of each row.
constexpr bool is_right(const Setting& row) {
  // The bounds of these three kinds are not in the row: in_range() in value_text.cpp knows them.
  const bool has_range = row.kind != Kind::rate && row.kind != Kind::choice && row.kind != Kind::seed;
  if (row.get == nullptr || row.set == nullptr || row.help.empty() || row.group.empty()) return false;
  if (row.range.min > row.range.max || (!has_range && row.range.max != 0)) return false;
  // A key becomes a flag and a parameter, with dashes for underscores.
  const auto is_key = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !row.key.empty() && std::ranges::all_of(row.key, is_key) &&
         (row.kind == Kind::choice) == !row.choices.empty();
}
static_assert(std::ranges::all_of(table, is_right));
static_assert(std::ranges::all_of(table,
                                  [](const Setting& row) { return !row.secret || row.kind == Kind::text; }),
              "shown_text() hides texts only");
static_assert(std::ranges::all_of(table,
                                  [](const Setting& row) {
                                    return std::ranges::count(table, row.key, &Setting::key) == 1;
                                  }),
              "each setting has a key of its own");

// One for each core, but no more than the CPU time of the container lets run at once. Rounded up, so that a
// part of a CPU does not stay unused.
std::uint32_t default_threads() {
  // hardware_concurrency() is 0 if the system does not tell.
  const std::uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  const double cpus = container_limits().cpus;
  return cpus > 0 && cpus < cores ? static_cast<std::uint32_t>(std::ceil(cpus)) : cores;
}

}  // namespace

std::string Setting::flag() const {
  std::string name = "--" + std::string(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string Setting::parameter_name() const {
  return parameter.empty() ? flag().substr(2) : std::string(parameter);
}

std::span<const Setting> all_settings() {
  return table;
}

const Setting* find_setting(std::string_view key) {
  const auto* const found =
      std::find_if(table.begin(), table.end(), [key](const Setting& s) { return s.key == key; });
  return found == table.end() ? nullptr : found;
}

Result<void> complete(Settings& settings) {
  settings.server.worker_count = settings.threads == 0 ? default_threads() : settings.threads;
  if (settings.server.bind.empty() && settings.server.unix_socket.empty()) {
    return fail(Errc::invalid_setting,
                "bind names no address and unixsocket no path: no client could connect; set one of them");
  }
  if (settings.server.tls_port != 0 && settings.server.tls_port == settings.server.port)
    return fail(Errc::invalid_setting,
                "port and tls_port are the same: set one of them to another port, or port = 0");
  // Looks at the settings alone. tls::Context::load() reads the files later.
  return uses_tls(settings) ? tls::Context::check(settings.tls) : Result<void>();
}

}  // namespace sepal::settings
