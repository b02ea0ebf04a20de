#include <sepal/resp/request_parser.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "command/server/config_fixed.hpp"
#include "support/catch.hpp"
#include "world.hpp"

namespace config_commands_test {

using sepal::Errc;
using sepal::fail;
using sepal::command::testing::World;

namespace {

std::string refused(std::string_view name, std::string_view why) {
  return "-ERR CONFIG SET failed (possibly related to argument '" + std::string(name) + "') - " +
         std::string(why);
}

constexpr const char* protocol_path = SEPAL_SOURCE_FOLDER "/docs/protocol.md";
constexpr std::string_view live_row = "| CONFIG SET changes them |";
constexpr std::string_view fact_row = "| read only |";

std::vector<std::string> protocol_lines() {
  std::ifstream file(protocol_path);
  REQUIRE(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The words between backticks in the table under "### Parameters of CONFIG" of docs/protocol.md: names, and
// patterns of names.
std::vector<std::string> documented_parameters() {
  std::vector<std::string> patterns;
  bool in_section = false;
  for (const std::string& line : protocol_lines()) {
    if (line.starts_with("#")) in_section = line == "### Parameters of CONFIG";
    if (!in_section || !line.starts_with("| ")) continue;
    for (std::size_t at = line.find('`'); at != std::string::npos; at = line.find('`', at)) {
      const std::size_t end = line.find('`', at + 1);
      patterns.push_back(line.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  return patterns;
}

// Adds a setting to its row of that table.
void document(const sepal::command::Configuration::Parameter& parameter) {
  std::vector<std::string> lines = protocol_lines();
  std::ofstream file(protocol_path);
  for (std::string& line : lines) {
    if (line.starts_with(parameter.live ? live_row : fact_row))
      line.replace(line.size() - 1, 1, "`" + std::string(parameter.name) + "` |");
    file << line << "\n";
  }
}

// The names in a reply to CONFIG GET under RESP3: "%{$hz=$10, $save=$3600 1}".
std::set<std::string> names_in(std::string_view reply) {
  std::set<std::string> names;
  for (std::size_t at = reply.find('$'); at != std::string_view::npos;) {
    names.emplace(reply.substr(at + 1, reply.find('=', at) - at - 1));
    const std::size_t next = reply.find(", $", at);
    at = next == std::string_view::npos ? next : next + 2;
  }
  return names;
}

// The parameters of Redis 7.4.1 and their other names, without the hidden ones.
constexpr std::string_view parameters_of_reference =
    "acl-pubsub-default aclfile acllog-max-len active-defrag-cycle-max active-defrag-cycle-min "
    "active-defrag-ignore-bytes active-defrag-max-scan-fields active-defrag-threshold-lower "
    "active-defrag-threshold-upper active-expire-effort activedefrag activerehashing always-show-logo "
    "aof-load-truncated aof-rewrite-cpulist aof-rewrite-incremental-fsync aof-timestamp-enabled "
    "aof-use-rdb-preamble aof_rewrite_cpulist appenddirname appendfilename appendfsync appendonly "
    "auto-aof-rewrite-min-size auto-aof-rewrite-percentage bgsave-cpulist bgsave_cpulist bind "
    "bind-source-addr bio-cpulist bio_cpulist busy-reply-threshold client-output-buffer-limit "
    "client-query-buffer-limit cluster-allow-pubsubshard-when-down cluster-allow-reads-when-down "
    "cluster-allow-replica-migration cluster-announce-bus-port cluster-announce-hostname "
    "cluster-announce-human-nodename cluster-announce-ip cluster-announce-port "
    "cluster-announce-tls-port cluster-config-file cluster-enabled cluster-link-sendbuf-limit "
    "cluster-migration-barrier cluster-node-timeout cluster-port cluster-preferred-endpoint-type "
    "cluster-replica-no-failover cluster-replica-validity-factor cluster-require-full-coverage "
    "cluster-slave-no-failover cluster-slave-validity-factor crash-log-enabled crash-memcheck-enabled "
    "daemonize databases dbfilename dir disable-thp dynamic-hz enable-debug-command "
    "enable-module-command enable-protected-configs hash-max-listpack-entries hash-max-listpack-value "
    "hash-max-ziplist-entries hash-max-ziplist-value hide-user-data-from-log hll-sparse-max-bytes hz "
    "ignore-warnings io-threads io-threads-do-reads jemalloc-bg-thread latency-monitor-threshold "
    "latency-tracking latency-tracking-info-percentiles lazyfree-lazy-eviction lazyfree-lazy-expire "
    "lazyfree-lazy-server-del lazyfree-lazy-user-del lazyfree-lazy-user-flush lfu-decay-time "
    "lfu-log-factor list-compress-depth list-max-listpack-size list-max-ziplist-size locale-collate "
    "logfile loglevel lua-time-limit masterauth masteruser max-new-connections-per-cycle "
    "max-new-tls-connections-per-cycle maxclients maxmemory maxmemory-clients "
    "maxmemory-eviction-tenacity maxmemory-policy maxmemory-samples min-replicas-max-lag "
    "min-replicas-to-write min-slaves-max-lag min-slaves-to-write no-appendfsync-on-rewrite "
    "notify-keyspace-events oom-score-adj oom-score-adj-values pidfile port proc-title-template "
    "propagation-error-behavior proto-max-bulk-len rdb-del-sync-files "
    "rdb-save-incremental-fsync rdbchecksum rdbcompression repl-backlog-size repl-backlog-ttl "
    "repl-disable-tcp-nodelay repl-diskless-load repl-diskless-sync repl-diskless-sync-delay "
    "repl-diskless-sync-max-replicas repl-ping-replica-period repl-ping-slave-period repl-timeout "
    "replica-announce-ip replica-announce-port replica-announced replica-ignore-disk-write-errors "
    "replica-ignore-maxmemory replica-lazy-flush replica-priority replica-read-only "
    "replica-serve-stale-data replicaof requirepass sanitize-dump-payload save server-cpulist "
    "server_cpulist set-max-intset-entries set-max-listpack-entries set-max-listpack-value "
    "set-proc-title shutdown-on-sigint shutdown-on-sigterm shutdown-timeout slave-announce-ip "
    "slave-announce-port slave-ignore-maxmemory slave-lazy-flush slave-priority slave-read-only "
    "slave-serve-stale-data slaveof slowlog-log-slower-than slowlog-max-len socket-mark-id "
    "stop-writes-on-bgsave-error stream-node-max-bytes stream-node-max-entries supervised "
    "syslog-enabled syslog-facility syslog-ident tcp-backlog tcp-keepalive timeout tls-auth-clients "
    "tls-ca-cert-dir tls-ca-cert-file tls-cert-file tls-ciphers tls-ciphersuites tls-client-cert-file "
    "tls-client-key-file tls-client-key-file-pass tls-cluster tls-dh-params-file tls-key-file "
    "tls-key-file-pass tls-port tls-prefer-server-ciphers tls-protocols tls-replication "
    "tls-session-cache-size tls-session-cache-timeout tls-session-caching tracking-table-max-keys "
    "unixsocket unixsocketperm zset-max-listpack-entries zset-max-listpack-value "
    "zset-max-ziplist-entries zset-max-ziplist-value ";

}  // namespace

TEST_CASE("CONFIG GET knows every parameter of the reference", "[command]") {
  World world;
  std::istringstream names{std::string(parameters_of_reference)};
  for (std::string name; names >> name;) {
    INFO(name);
    CHECK(world.send({"CONFIG", "GET", name}).starts_with("*[$" + name + ", $"));
  }
}

TEST_CASE("a parameter with one value takes it, and refuses another with the reason", "[command]") {
  World world;
  for (const sepal::command::FixedGroup& group : sepal::command::fixed_groups) {
    for (const auto& [name, value] : group.parameters) {
      INFO(name);
      CHECK(world.send({"CONFIG", "GET", name}) ==
            "*[$" + std::string(name) + ", $" + std::string(value) + "]");
      CHECK(world.send({"CONFIG", "SET", name, value}) == "+OK");
      CHECK(world.send({"CONFIG", "SET", name, "other"}) ==
            refused(name, std::string(group.why) + ": only '" + std::string(value) + "' can be set"));
    }
  }
}

TEST_CASE("docs/protocol.md gives the reason of each parameter with one value", "[command]") {
  std::set<std::string> reasons;
  bool in_table = false;
  for (const std::string& line : protocol_lines()) {
    if (line == "| one value | why |") in_table = true;
    if (!line.starts_with("|")) in_table = false;
    if (in_table) reasons.insert(line.substr(line.find("| ", 2) + 2));
  }
  for (const sepal::command::FixedGroup& group : sepal::command::fixed_groups) {
    INFO(group.why);
    CHECK(reasons.contains(std::string(group.why) + " |"));
  }
}

TEST_CASE("CONFIG GET save shows the points as they were set, until another interval is set", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "GET", "save"}) == "*[$save, $3600 1]");
  CHECK(world.send({"CONFIG", "SET", "save", "3600 1 300 100"}) == "+OK");
  CHECK(world.send({"CONFIG", "GET", "save"}) == "*[$save, $3600 1 300 100]");
  CHECK(world.send({"CONFIG", "SET", "save-interval", "10m"}) == "+OK");
  CHECK(world.send({"CONFIG", "GET", "save"}) == "*[$save, $600 1]");
  CHECK(world.send({"CONFIG", "SET", "save", ""}) == "+OK");
  CHECK(world.send({"CONFIG", "GET", "save", "save-interval"}) == "*[$save, $, $save-interval, $0]");
}

TEST_CASE("CONFIG GET takes as many names as its limit, and refuses one more", "[command]") {
  World world;
  std::vector<std::string_view> words(2 + sepal::command::described_names_max, "hz");
  words[0] = "CONFIG";
  words[1] = "GET";
  CHECK(world.send_words("a", words) == "*[$hz, $10]");
  words.emplace_back("hz");
  CHECK(world.send_words("a", words) == "-ERR too many parameter names: the limit is 1024");
}

TEST_CASE("docs/protocol.md lists the parameters of CONFIG; with SEPAL_WRITE=1 this test adds settings",
          "[command]") {
  World world;
  world.send({"HELLO", "3"});
  const auto documented = [&] {
    std::set<std::string> names;
    for (const std::string& pattern : documented_parameters()) {
      INFO(pattern);
      const auto found = names_in(world.send({"CONFIG", "GET", pattern}));
      CHECK_FALSE(found.empty());
      names.insert(found.begin(), found.end());
    }
    return names;
  };
  if (std::getenv("SEPAL_WRITE") != nullptr) {
    const auto known = documented();
    for (const auto& parameter : world.configuration.parameters())
      if (!known.contains(std::string(parameter.name))) document(parameter);
  }
  CHECK(documented() == names_in(world.send({"CONFIG", "GET", "*"})));
}

TEST_CASE("no setting has the name of another parameter of CONFIG", "[command]") {
  World world;
  world.send({"HELLO", "3"});
  const std::string all = world.send({"CONFIG", "GET", "*"});
  const auto names = names_in(all);
  CHECK(static_cast<std::size_t>(std::ranges::count(all, '$')) == 2 * names.size());
}

TEST_CASE("CONFIG GET takes names in any case, patterns, and each parameter once", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "GET", "MaxMemory"}) == "*[$MaxMemory, $0]");
  CHECK(world.send({"CONFIG", "GET", "SLOWLOG-*"}) ==
        "*[$slowlog-log-slower-than, $10000, $slowlog-max-len, $128]");
  CHECK(world.send({"CONFIG", "GET", "timeout", "TIMEOUT", "time*"}) == "*[$timeout, $0]");
  CHECK(world.send({"CONFIG", "GET", "nosuch"}) == "*[]");
  world.send({"HELLO", "3"});
  CHECK(world.send({"CONFIG", "GET", "hz"}) == "%{$hz=$10}");
}

TEST_CASE("CONFIG SET changes the values that the server uses", "[command]") {
  World world;
  CHECK(world.send({"CONFIG",
                    "SET",
                    "maxmemory",
                    "1mb",
                    "timeout",
                    "300",
                    "tcp-keepalive",
                    "0",
                    "maxclients",
                    "50",
                    "proto-max-bulk-len",
                    "2mb",
                    "client-query-buffer-limit",
                    "3mb",
                    "requirepass",
                    "sesame",
                    "loglevel",
                    "verbose",
                    "save",
                    "900 1",
                    "bf-error-rate",
                    "0.001",
                    "bf-initial-size",
                    "1000",
                    "bf-expansion-factor",
                    "4"}) == "+OK");
  CHECK(world.keyspace.options().memory_max == 1 << 20);
  CHECK(world.options.idle_timeout == std::chrono::seconds(300));
  CHECK(world.options.tcp_keepalive == std::chrono::seconds(0));
  CHECK(world.options.clients_max == 50);
  CHECK(world.options.parser.bulk_bytes_max == 2 << 20);
  CHECK(world.options.parser.request_bytes_max == 3 << 20);
  CHECK(world.options.password == "sesame");
  CHECK(world.options.log_level == sepal::command::LogLevel::debug);
  CHECK(world.options.save_interval == std::chrono::seconds(900));
  REQUIRE(world.announced.size() == 1);
  CHECK(world.announced[0].clients_max == 50);
  world.send({"BF.ADD", "k", "a"});
  CHECK(world.send({"BF.INFO", "k", "CAPACITY"}) == "*[:1000]");
  CHECK(world.send({"BF.INFO", "k", "EXPANSION"}) == "*[:4]");
}

TEST_CASE("CONFIG GET gives back what CONFIG SET took", "[command]") {
  World world;
  const std::pair<std::string_view, std::string_view> values[] = {{"maxmemory", "104857600"},
                                                                  {"timeout", "7"},
                                                                  {"tcp-keepalive", "60"},
                                                                  {"maxclients", "1"},
                                                                  {"requirepass", "s"},
                                                                  {"loglevel", "warning"},
                                                                  {"save", "60 1"},
                                                                  {"save-interval", "30"},
                                                                  {"save-bandwidth", "1048576"},
                                                                  {"bf-error-rate", "1e-06"},
                                                                  {"bf-initial-size", "5"},
                                                                  {"bf-expansion-factor", "0"},
                                                                  {"hz", "20"},
                                                                  {"journal", "always"},
                                                                  {"auto-aof-rewrite-percentage", "50"},
                                                                  {"auto-aof-rewrite-min-size", "1048576"},
                                                                  {"slowlog-log-slower-than", "-1"},
                                                                  {"save", "3600 1 300 100"},
                                                                  {"stop-writes-on-bgsave-error", "no"},
                                                                  {"lazyfree-lazy-user-del", "yes"}};
  for (const auto& [name, value] : values) {
    CHECK(world.send({"CONFIG", "SET", name, value}) == "+OK");
    CHECK(world.send({"CONFIG", "GET", name}) ==
          "*[$" + std::string(name) + ", $" + std::string(value) + "]");
  }
  CHECK(world.send({"CONFIG", "SET", "save", ""}) == "+OK");
  CHECK(world.send({"CONFIG", "GET", "save"}) == "*[$save, $]");
}

TEST_CASE("the parameter journal and the reference's two parameters agree", "[command]") {
  World world;
  const auto set = [&](std::string_view name, std::string_view value) {
    return world.send({"CONFIG", "SET", name, value});
  };
  const auto shown = [&] {
    std::string all;
    for (const std::string_view name : {"journal", "appendonly", "appendfsync"}) {
      const std::string reply = world.send({"CONFIG", "GET", name});
      all += reply.substr(reply.rfind('$') + 1);
    }
    return all;
  };
  CHECK(shown() == "everysec]yes]everysec]");
  CHECK(set("appendfsync", "always") == "+OK");
  CHECK(shown() == "always]yes]always]");
  // appendfsync keeps its value while the journal is off.
  CHECK(set("appendonly", "no") == "+OK");
  CHECK(shown() == "off]no]always]");
  CHECK(set("appendonly", "YES") == "+OK");
  CHECK(shown() == "always]yes]always]");
  CHECK(set("journal", "OFF") == "+OK");
  CHECK(set("appendfsync", "no") == "+OK");
  CHECK(shown() == "off]no]everysec]");
  CHECK(set("journal", "everysec") == "+OK");
  CHECK(shown() == "everysec]yes]everysec]");

  CHECK(set("appendonly", "maybe") == refused("appendonly", "argument must be 'yes' or 'no'"));
  CHECK(set("appendfsync", "often") ==
        refused("appendfsync", "argument(s) must be one of the following: everysec, always, no"));
  CHECK(set("journal", "yes") ==
        refused("journal", "argument(s) must be one of the following: off, everysec, always"));
  CHECK(world.announced.size() == 6);
}

TEST_CASE("CONFIG SET changes all parameters or none", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "SET", "timeout", "10", "hz", "x"}) ==
        refused("hz", "argument couldn't be parsed into an integer"));
  CHECK(world.send({"CONFIG", "SET", "timeout", "10", "nosuch", "x"}) ==
        "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'");
  CHECK(world.send({"CONFIG", "SET", "timeout", "10", "timeout", "20"}) ==
        refused("timeout", "duplicate parameter"));
  CHECK(world.send({"CONFIG", "SET", "timeout", "10", "hz"}) == "-ERR syntax error");
  CHECK(world.send({"CONFIG", "GET", "timeout"}) == "*[$timeout, $0]");
  CHECK(world.announced.empty());
}

TEST_CASE("a value one past its limit is refused", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "SET", "timeout", "2147483647"}) == "+OK");
  CHECK(world.send({"CONFIG", "SET", "timeout", "2147483648"}) ==
        refused("timeout", "argument must be between 0 and 2147483647 inclusive"));
  // A script with an unset variable must not remove the limit.
  CHECK(world.send({"CONFIG", "SET", "maxmemory", "1gb"}) == "+OK");
  for (const char* word : {"", "b", "-1"})
    CHECK(world.send({"CONFIG", "SET", "maxmemory", word}) ==
          refused("maxmemory", "argument must be a memory value"));
  CHECK(world.send({"CONFIG", "GET", "maxmemory"}) == "*[$maxmemory, $1073741824]");
  CHECK(world.send({"CONFIG", "SET", "maxclients", "0"}) ==
        refused("maxclients", "argument must be between 1 and 1000000 inclusive"));
  CHECK(world.send({"CONFIG", "SET", "proto-max-bulk-len", "1023"}) ==
        refused("proto-max-bulk-len", "argument must be between 1024 and 1099511627776 inclusive"));
  CHECK(world.send({"CONFIG", "SET", "bf-error-rate", "1"}) ==
        refused("bf-error-rate", "argument must be between 0 and 1 exclusive"));
  CHECK(world.send({"CONFIG", "SET", "bf-expansion-factor", "32769"}) ==
        refused("bf-expansion-factor", "argument must be between 0 and 32768 inclusive"));
  const std::string longest(sepal::resp::unauthenticated_bulk_bytes_max, 'x');
  CHECK(world.send({"CONFIG", "SET", "requirepass", longest + "x"}) ==
        refused("requirepass",
                "argument must be no longer than what a client may send before it is authenticated"));
  CHECK(world.send({"CONFIG", "SET", "requirepass", longest}) == "+OK");
}

TEST_CASE("maxclients may be set up to what the system allows; a larger value changes nothing", "[command]") {
  World world;
  world.control.most_clients = 60;
  CHECK(world.send({"CONFIG", "SET", "maxclients", "61", "timeout", "10"}) ==
        refused("maxclients",
                "The operating system is not able to handle the specified number of clients, try with 60"));
  CHECK(world.send({"CONFIG", "GET", "maxclients", "timeout"}) == "*[$maxclients, $10000, $timeout, $0]");
  CHECK(world.send({"CONFIG", "SET", "maxclients", "60"}) == "+OK");
  world.control.most_clients = 50;
  CHECK(world.send({"CONFIG", "SET", "maxclients", "60", "timeout", "10"}) == "+OK");
}

TEST_CASE("CONFIG SET refuses values for features that Sepal lacks", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}) ==
        refused("maxmemory-policy", "Sepal evicts nothing: only 'noeviction' can be set"));
  CHECK(world.send({"CONFIG", "SET", "maxmemory-policy", "nosuch"}) ==
        refused("maxmemory-policy",
                "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, "
                "volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction"));
  CHECK(world.send({"CONFIG", "SET", "notify-keyspace-events", "KEA"}) ==
        refused("notify-keyspace-events",
                "Sepal has no channels, sends no events and tracks no keys: only '' can be set"));
  CHECK(world.send({"CONFIG", "SET", "databases", "16"}) ==
        refused("databases", "can't set immutable config"));
  CHECK(world.send({"CONFIG", "SET", "dir", "/tmp"}) == refused("dir", "can't set protected config"));
  CHECK(world.send({"CONFIG", "SET", "loglevel", "loud"})
            .starts_with(refused("loglevel", "argument(s) must be one of the following: debug, ")));
}

TEST_CASE("a fixed parameter may be set to its one value", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "SET", "appendonly", "no", "maxmemory-policy", "noeviction",
                    "notify-keyspace-events", ""}) == "+OK");
}

TEST_CASE("CONFIG REWRITE is refused without a file, and otherwise answered when the file is written",
          "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "REWRITE"}) == "-ERR The server is running without a config file");
  CHECK(world.control.rewriting_for.empty());
  world.control.has_config_file = true;
  CHECK(world.send({"CONFIG", "REWRITE"}).empty());
  CHECK(world.control.rewriting_for == std::vector<std::uint64_t>{world.connection("a").client.id});
}

TEST_CASE("CONFIG RESETSTAT sets every count to zero", "[command]") {
  World world;
  world.send({"NOSUCH"});
  world.send({"BF.EXISTS", "k", "a"});
  world.workers[1].requests.add(5);
  world.send({"BF.ADD", "k", "a"});
  world.services.buffers.client_closed();
  CHECK(world.send({"CONFIG", "RESETSTAT"}) == "+OK");
  CHECK(world.services.buffers.closed_count() == 0);
  CHECK(world.workers[0].key_misses.get() == 0);
  CHECK(world.workers[0].error_replies.get() == 0);
  CHECK(world.workers[1].requests.get() == 0);
  // This count stays: the saver uses it to decide about a save.
  CHECK(world.workers[0].items_added.get() == 1);
  CHECK(world.clients.accepted == 0);
  CHECK(world.send({"INFO", "errorstats"}) == "$# Errorstats\r\n");
}

}  // namespace config_commands_test
