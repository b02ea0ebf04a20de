// The table of settings. A row here gives a line of the file, a flag, a paragraph of the help, a parameter of
// CONFIG and a default.
//
// A row names its field by a path of members. From the path, the compiler makes the functions that read and
// write the field. It also derives what the row does not say: the kind, the choices, and whether CONFIG SET
// may change the field. So a setting stands in one place. The assertions below the table check each row
// before the program runs.
#include <sepal/base/assert.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/cuckoo/commands/options.hpp>
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
constexpr std::uint64_t storage_threads_max = 64;
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

// The parts of a row, behind its key and its help, in any order.
template <std::string_view Setting::*field>
struct Name {
  std::string_view text;
};
using Group = Name<&Setting::group>;
using Parameter = Name<&Setting::parameter>;
using RedisName = Name<&Setting::redis_name>;
enum class Secret : std::uint8_t { yes };
enum class OfMemory : std::uint8_t { yes };

template <class Part>
constexpr void put(Setting& row, Part part) {
  if constexpr (std::is_same_v<Part, Kind>) row.kind = part;
  if constexpr (std::is_same_v<Part, Range>) row.range = part;
  if constexpr (std::is_same_v<Part, InConfig>) row.config = part;
  if constexpr (std::is_same_v<Part, Secret>) row.secret = true;
  if constexpr (std::is_same_v<Part, OfMemory>) row.of_memory = true;
}
template <std::string_view Setting::*field>
constexpr void put(Setting& row, Name<field> part) {
  row.*field = part.text;
}

// A row for the field at the end of `path`, which gives the row what it does not say itself.
template <auto... path>
constexpr Setting row(std::string_view key, std::string_view help, auto... parts) {
  Setting setting{.key = key, .help = help};
  (put(setting, parts), ...);
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
  // Nothing but a path may have these lengths.
  setting.is_path = setting.range.max == path_length_max || setting.range.max == socket_path_length_max;
  setting.get = &get<path...>;
  setting.set = &set<path...>;
  return setting;
}

// The policy "off" must not make the server forget the policy that was there before.
constexpr Setting journal_row(std::string_view key, std::string_view help, auto... parts) {
  Setting setting = row<&Settings::runtime, &RuntimeOptions::journal>(key, help, parts...);
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
        "bind",
        "addresses to listen on, as one value (\"ADDRESS ADDRESS\"); a leading '-' forgives one that the "
        "machine does not have",
        Range{0, 16}, InConfig::shown, Group{"Network"}),
    row<&Settings::server, &ServerOptions::port>(
        "port", "TCP port; 0 lets the system pick one, or with a UNIX socket or a TLS port means none",
        Range{0, 65535}),
    row<&Settings::server, &ServerOptions::listen_backlog>(
        "backlog", "connections that may wait to be accepted", Range{1, 65535}, InConfig::shown,
        Parameter{"tcp-backlog"}),
    row<&Settings::server, &ServerOptions::unix_socket>(
        "unixsocket", "path of a Unix socket to listen on as well; empty: none",
        Range{0, socket_path_length_max}, InConfig::shown),
    row<&Settings::server, &ServerOptions::unix_socket_mode>(
        "unixsocket_mode", "permissions of that path, octal", Kind::permissions, Range{0, 0777},
        InConfig::shown, Parameter{"unixsocketperm"}),
    row<&Settings::threads>(
        "threads",
        "threads that serve requests; 0: one for each core, or fewer if the container has less CPU time",
        Range{0, threads_max}, RedisName{"io-threads"}),

    row<&Settings::server, &ServerOptions::tls_port>(
        "tls_port",
        "TCP port at the same addresses where clients speak TLS; 0: none; with port = 0, the only one",
        Range{0, 65535}, Group{"TLS"}),
    row<&Settings::tls, &tls::Options::certificate_file>(
        "tls_cert_file",
        "PEM file of the server's certificate, and behind it those between it and the root; this and the "
        "files below are read anew at SIGHUP and by CONFIG SET of one of them",
        Range{0, path_length_max}),
    row<&Settings::tls, &tls::Options::key_file>("tls_key_file",
                                                 "PEM file of the certificate's key, which has no passphrase",
                                                 Range{0, path_length_max}),
    row<&Settings::tls, &tls::Options::ca_file>(
        "tls_ca_cert_file",
        "PEM file of the CA certificates that certificates of clients are signed with; empty: none",
        Range{0, path_length_max}),
    row<&Settings::tls, &tls::Options::auth_clients>(
        "tls_auth_clients",
        "whether clients show a certificate; one that is shown must be valid in any case but 'no'"),
    row<&Settings::tls, &tls::Options::user_field>(
        "tls_auth_clients_user",
        "CN: a client is logged in as the user that the common name of its certificate names"),
    row<&Settings::tls, &tls::Options::protocols>("tls_protocols", "versions of TLS that clients may speak"),

    row<&Settings::runtime, &RuntimeOptions::clients_max>("maxclients", "connections at a time",
                                                          Range{1, 1'000'000}, Group{"Clients"}),
    row<&Settings::runtime, &RuntimeOptions::idle_timeout>(
        "timeout", "idle time after which a connection is closed; 0: never", Range{0, seconds_max}),
    row<&Settings::runtime, &RuntimeOptions::login_timeout>(
        "login_timeout", "time after which a client is closed that must log in and has not; 0: never",
        Range{0, seconds_max}),
    row<&Settings::runtime, &RuntimeOptions::tcp_keepalive>(
        "tcp_keepalive", "idle time after which a new connection is probed; 0: never", Range{0, seconds_max}),
    row<&Settings::runtime, &RuntimeOptions::password>(
        "requirepass",
        "password that clients must give by AUTH; empty: none (better in the file than as a flag, which "
        "every user of the machine can see)",
        Range{0, resp::unauthenticated_bulk_bytes_max}, Secret::yes),
    row<&Settings::password_file>(
        "requirepass_file",
        "file whose first line is that password, read at the start and at SIGHUP; empty: none",
        Range{0, path_length_max}, InConfig::shown),
    row<&Settings::runtime, &RuntimeOptions::protected_mode>(
        "protected_mode",
        "while the user 'default' needs no password, only clients on this machine may connect"),
    row<&Settings::acl_file>(
        "aclfile",
        "file of the users and what they may do, which ACL LOAD reads and ACL SAVE writes; empty: none",
        Range{0, path_length_max}, InConfig::shown),
    row<&Settings::runtime, &RuntimeOptions::acl_log_max>(
        "acllog_max_len", "entries that ACL LOG keeps: requests that were not allowed, and failed logins",
        Range{0, 10'000}),

    row<&Settings::runtime, &RuntimeOptions::uploads_max>(
        "uploads_max", "filters that clients upload (BF.LOADCHUNK) at a time; 0: none may", Range{0, 1024},
        Group{"Uploads"}),
    row<&Settings::runtime, &RuntimeOptions::upload_timeout>(
        "upload_timeout", "time without a piece after which an upload is dropped", Range{1, seconds_max}),

    row<&Settings::data_directory>("dir", "directory for the data; made when missing",
                                   Range{1, path_length_max}, Group{"Data"}),
    row<&Settings::import_directory>(
        "import_dir",
        "directory of the files that BF.IMPORT reads and BF.EXPORT writes; empty: neither is taken",
        Range{0, path_length_max}),
    row<&Settings::runtime, &RuntimeOptions::save_interval>(
        "save_interval", "time between saves; 0: only on command and at stop", Range{0, seconds_max},
        RedisName{"save"}),
    journal_row("journal",
                "what the journal promises of an answered change: always (it survives a power cut), everysec "
                "(that, after a second; the end of the process at once) or off",
                RedisName{"appendonly"}),
    row<&Settings::journal_segment_bytes>("journal_segment",
                                          "the most that a file of the journal has; some are made ahead",
                                          Kind::bytes, Range{storage::journal_segment_bytes_min, gb}),
    row<&Settings::runtime, &RuntimeOptions::journal_save_percent>(
        "journal_save_percent",
        "a save begins when the journal is longer than this percentage of the memory in use; 0: never",
        Range{0, seconds_max}, Parameter{"auto-aof-rewrite-percentage"}),
    row<&Settings::runtime, &RuntimeOptions::journal_save_min_bytes>(
        "journal_save_min", "a shorter journal leads to no save", Kind::bytes, Range{0, memory_bytes_max},
        Parameter{"auto-aof-rewrite-min-size"}),
    row<&Settings::runtime, &RuntimeOptions::journal_bytes_max>(
        "journal_size_max",
        "room on the disk for the journal and the files it names, before a save has to end; 0: no bound",
        Kind::bytes, Range{0, memory_bytes_max}),
    row<&Settings::runtime, &RuntimeOptions::journal_bytes_max_percent>(
        "journal_size_max_percent", "the same as a share of the data; the larger of the two counts",
        Range{0, seconds_max}),
    row<&Settings::disk_reserve_bytes>(
        "disk_reserve",
        "room that is kept on the disk for deletions, a save and a start when it is full; 0: none",
        Kind::bytes, Range{0, memory_bytes_max}, InConfig::shown),
    row<&Settings::runtime, &RuntimeOptions::save_bandwidth_bytes>(
        "save_bandwidth",
        "bytes that a save writes in a second, but for the one at stop; 0: as many as the disk takes",
        Kind::bytes, Range{0, bytes_max}),
    row<&Settings::storage_threads>(
        "storage_threads",
        "threads that pack small filters for a save, or read and check filters at a start; 0: one for each "
        "core, or fewer if the container has less CPU time, and 16 at most",
        Range{0, storage_threads_max}, InConfig::shown),
    row<&Settings::stop_seconds_max>("stop_seconds_max", "time an orderly stop may take, its save included",
                                     Kind::seconds, Range{1, seconds_max}, InConfig::shown,
                                     Parameter{"shutdown-timeout"}),

    row<&Settings::keyspace, &KeyspaceOptions::memory_max>(
        "maxmemory", "memory of all filters and keys; 0: a share of what the machine or container has",
        Kind::bytes, OfMemory::yes, Range{0, memory_bytes_max}, Group{"Limits"}),
    row<&Settings::keyspace, &KeyspaceOptions::keys_max>("keys_max", "keys in all databases together",
                                                         Range{1, items_max}, InConfig::shown),
    row<&Settings::keyspace, &KeyspaceOptions::layers_max>("layers_max", "layers that one filter may grow to",
                                                           Range{1, bloom::filter_layers_max},
                                                           InConfig::shown),
    row<&Settings::runtime, &RuntimeOptions::parser, &ParserLimits::bulk_bytes_max>(
        "item_bytes_max", "length of an item, a key or any other argument", Kind::bytes, Range{kb, bytes_max},
        Parameter{"proto-max-bulk-len"}),
    row<&Settings::runtime, &RuntimeOptions::parser, &ParserLimits::request_bytes_max>(
        "request_bytes_max", "length of a request", Kind::bytes, Range{kb, bytes_max},
        Parameter{"client-query-buffer-limit"}),
    row<&Settings::runtime, &RuntimeOptions::parser, &ParserLimits::argument_count_max>(
        "request_arguments_max", "arguments of a request, its name included",
        Range{resp::unauthenticated_argument_count_max, 2'147'483'647}, InConfig::shown),
    row<&Settings::runtime, &RuntimeOptions::parser, &ParserLimits::line_bytes_max>(
        "line_bytes_max", "length of a request written as a plain line", Kind::bytes, Range{kb, gb},
        InConfig::shown),
    row<&Settings::runtime, &RuntimeOptions::clients_memory_max>(
        "maxmemory_clients",
        "memory of all clients: unread replies, and requests that are unfinished or wait for EXEC; above it, "
        "the client with most of them is closed; 0: no bound",
        Kind::bytes, OfMemory::yes, Range{0, memory_bytes_max}),
    row<&Settings::runtime, &RuntimeOptions::output_bytes_max>(
        "output_bytes_max", "replies of a connection after which the others get their turn", Kind::bytes,
        Range{kb, bytes_max}, InConfig::shown, RedisName{"client-output-buffer-limit"}),

    row<&Settings::runtime, &RuntimeOptions::busy_reply_threshold>(
        "busy_reply_threshold",
        "milliseconds, as in redis.conf, that a script may run before other clients are told that it runs",
        Range{0, seconds_max}, RedisName{"lua-time-limit"}),
    row<&Settings::runtime, &RuntimeOptions::script_memory_max>(
        "script_memory_max", "memory of the scripts of one worker thread", Kind::bytes, OfMemory::yes,
        Range{16 * kb * kb, memory_bytes_max}),

    row<&Settings::runtime, &RuntimeOptions::missing_filter>(
        "missing_filter",
        "what look-ups answer for a key without a filter: absent (0, as RedisBloom), error (ERR not found) "
        "or "
        "present (1)",
        Group{"Look-ups"}),

    row<&Settings::keyspace, &KeyspaceOptions::error_rate>(
        "bf_error_rate", "share of absent items that may be answered with yes",
        Group{"Filters that an add creates"}),
    row<&Settings::keyspace, &KeyspaceOptions::capacity>("bf_capacity", "items of the first layer",
                                                         Range{1, items_max}, Parameter{"bf-initial-size"}),
    row<&Settings::keyspace, &KeyspaceOptions::expansion>(
        "bf_expansion", "a new layer holds this many times the last; 0: filters do not grow",
        Range{0, bloom::expansion_max}, Parameter{"bf-expansion-factor"}),
    row<&Settings::keyspace, &KeyspaceOptions::cuckoo_capacity>(
        "cf_capacity", "items that a cuckoo filter is made for; at least twice cf_bucket_size",
        Range{2, cuckoo::capacity_max}, Parameter{"cf-initial-size"}),
    row<&Settings::keyspace, &KeyspaceOptions::cuckoo_bucket_size>(
        "cf_bucket_size", "the bucket size that CF.INFO tells", Range{1, cuckoo::bucket_size_max}),
    row<&Settings::keyspace, &KeyspaceOptions::cuckoo_iteration_max>(
        "cf_iterations", "the iterations that CF.INFO tells", Range{1, cuckoo::iterations_max},
        Parameter{"cf-max-iterations"}),
    row<&Settings::keyspace, &KeyspaceOptions::cuckoo_expansion>(
        "cf_expansion", "0: cuckoo filters do not grow; else the expansion that CF.INFO tells",
        Range{0, cuckoo::expansion_max}, Parameter{"cf-expansion-factor"}),
    row<&Settings::keyspace, &KeyspaceOptions::cuckoo_layers_max>(
        "cf_layers_max", "layers that a cuckoo filter of RedisBloom may grow to, if layers_max allows them",
        Range{1, cuckoo::layers_setting_max}, Parameter{"cf-max-expansions"}),
    row<&Settings::seed>("seed", "seed of the hash of new filters; auto: drawn once, kept with the data"),

    row<&Settings::http, &HttpOptions::port>(
        "http_port", "TCP port of the pages for operators: /, /metrics, /healthz, /readyz; 0: none",
        Range{0, 65535}, InConfig::shown, Group{"HTTP"}),
    row<&Settings::http, &HttpOptions::bind>("http_bind", "address of these pages; they ask for no password",
                                             Kind::text, Range{1, address_length_max}, InConfig::shown),
    row<&Settings::http, &HttpOptions::tls>(
        "http_tls",
        "serves these pages over TLS, with the certificate and the rules of tls_cert_file and so on",
        InConfig::shown),
    row<&Settings::http, &HttpOptions::hosts>(
        "http_hosts", "names of this server that a Host header may have, besides localhost and its addresses",
        Range{0, 16}, InConfig::shown),
    row<&Settings::http, &HttpOptions::metrics_filters_max>(
        "http_metrics_filters",
        "how many filters / and /metrics list: so many of those in trouble, and so many of the largest",
        Range{0, 10'000}, InConfig::shown),
    row<&Settings::http, &HttpOptions::metrics_pattern>("http_metrics_pattern",
                                                        "only filters whose keys match it, as in KEYS",
                                                        Range{1, pattern_length_max}, InConfig::shown),

    row<&Settings::user>("user", "user that sepald becomes when root starts it; empty: none",
                         Range{0, user_length_max}, InConfig::shown, Group{"Process"}),

    // Hidden, because clients know it as `loglevel`, with Redis's words (command/config_table.cpp).
    row<&Settings::runtime, &RuntimeOptions::log_level>(
        "log_level", "the least that is logged", InConfig::hidden, RedisName{"loglevel"}, Group{"Log"}),
    row<&Settings::log, &LogOptions::format>("log_format", "how a line of the log looks"),
    row<&Settings::log, &LogOptions::file>("log_file", "file to log to; empty: standard error",
                                           Range{0, path_length_max}, InConfig::shown, Parameter{"logfile"}),
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
         (!row.of_memory || row.kind == Kind::bytes) && (row.kind == Kind::choice) == !row.choices.empty();
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

// Whether the first one names all addresses of the kind of the second one.
bool covers(std::string_view address, std::string_view other) {
  if (address == "*" || address == other) return true;
  return other.find(':') == std::string_view::npos ? address == "0.0.0.0"
                                                   : address == "::" || address == "::*";
}

// Two addresses may have the same port. Names are compared as texts: the start finds what is missed here.
Result<void> check_http_port(const Settings& settings) {
  const std::uint16_t port = settings.http.port;
  const bool is_port = port == settings.server.port;
  if (port == 0 || (!is_port && port != settings.server.tls_port)) return {};
  const auto meets = [&](std::string_view address) {
    if (address.starts_with('-')) address.remove_prefix(1);
    return covers(address, settings.http.bind) || covers(settings.http.bind, address);
  };
  if (std::ranges::none_of(settings.server.bind, meets)) return {};
  return fail(Errc::invalid_setting, std::string(is_port ? "port" : "tls_port") +
                                         " and http_port are the same: set one of them to another port");
}

// One thread writes what the others pack, or puts what they read under its keys: more of them would wait.
constexpr std::uint32_t default_storage_threads_max = 16;

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

Result<void> check_cuckoo(const keyspace::KeyspaceOptions& options) {
  if (options.cuckoo_capacity >= std::uint64_t{2} * options.cuckoo_bucket_size) return {};
  return fail(Errc::invalid_setting,
              "cf_capacity (cf-initial-size) is less than twice cf_bucket_size: set it to " +
                  std::to_string(2 * options.cuckoo_bucket_size) + " or more");
}

Result<void> complete(Settings& settings) {
  settings.server.worker_count = settings.threads == 0 ? default_threads() : settings.threads;
  settings.data.thread_count = settings.storage_threads == 0
                                   ? std::min(default_threads(), default_storage_threads_max)
                                   : settings.storage_threads;
  if (settings.server.bind.empty() && settings.server.unix_socket.empty()) {
    return fail(Errc::invalid_setting,
                "bind names no address and unixsocket no path: no client could connect; set one of them");
  }
  if (settings.server.tls_port != 0 && settings.server.tls_port == settings.server.port)
    return fail(Errc::invalid_setting,
                "port and tls_port are the same: set one of them to another port, or port = 0");
  if (auto apart = check_http_port(settings); !apart) return apart;
  if (auto fits = check_cuckoo(settings.keyspace); !fits) return fits;
  // Looks at the settings alone. tls::Context::load() reads the files later.
  return uses_tls(settings) ? tls::Context::check(settings.tls) : Result<void>();
}

}  // namespace sepal::settings
