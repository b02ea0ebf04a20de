// The parameters of the reference that have one value in Sepal, in groups with the reason. CONFIG GET answers
// the value that is true here, or the reference's default where nothing is there that the value could be
// about. CONFIG SET of another value is refused, with the reason: a value that did nothing would mislead.
#pragma once

#include <algorithm>
#include <string_view>

namespace sepal::command {

struct FixedGroup {
  std::string_view why;         // "Sepal has no replicas"
  std::string_view parameters;  // "NAME=VALUE, NAME=VALUE"
};

inline constexpr FixedGroup fixed_groups[] = {
    {"Sepal has no replicas",
     "masterauth=, masteruser=, min-replicas-max-lag=10, min-replicas-to-write=0, min-slaves-max-lag=10, "
     "min-slaves-to-write=0, propagation-error-behavior=ignore, rdb-del-sync-files=no, "
     "repl-backlog-size=1048576, repl-backlog-ttl=3600, repl-disable-tcp-nodelay=no, "
     "repl-diskless-load=disabled, repl-diskless-sync=yes, repl-diskless-sync-delay=5, "
     "repl-diskless-sync-max-replicas=0, repl-ping-replica-period=10, repl-ping-slave-period=10, "
     "repl-timeout=60, replica-announce-ip=, replica-announce-port=0, replica-announced=yes, "
     "replica-ignore-disk-write-errors=no, replica-ignore-maxmemory=yes, replica-lazy-flush=no, "
     "replica-priority=100, replica-read-only=yes, replica-serve-stale-data=yes, replicaof=, "
     "slave-announce-ip=, slave-announce-port=0, slave-ignore-maxmemory=yes, slave-lazy-flush=no, "
     "slave-priority=100, slave-read-only=yes, slave-serve-stale-data=yes, slaveof="},
    {"Sepal has no cluster mode",
     "cluster-allow-pubsubshard-when-down=yes, cluster-allow-reads-when-down=no, "
     "cluster-allow-replica-migration=yes, cluster-announce-bus-port=0, cluster-announce-hostname=, "
     "cluster-announce-human-nodename=, cluster-announce-ip=, cluster-announce-port=0, "
     "cluster-announce-tls-port=0, cluster-config-file=nodes.conf, cluster-enabled=no, "
     "cluster-link-sendbuf-limit=0, cluster-migration-barrier=1, cluster-node-timeout=15000, "
     "cluster-port=0, cluster-preferred-endpoint-type=ip, cluster-replica-no-failover=no, "
     "cluster-replica-validity-factor=10, cluster-require-full-coverage=yes, cluster-slave-no-failover=no, "
     "cluster-slave-validity-factor=10"},
    {"Sepal leaves this of TLS to OpenSSL, or has no use for it",
     "max-new-tls-connections-per-cycle=1, tls-ca-cert-dir=, tls-ciphers=, tls-ciphersuites=, "
     "tls-client-cert-file=, tls-client-key-file=, tls-client-key-file-pass=, tls-cluster=no, "
     "tls-dh-params-file=, tls-key-file-pass=, tls-prefer-server-ciphers=no, tls-replication=no, "
     "tls-session-cache-size=0, tls-session-cache-timeout=0, tls-session-caching=no"},
    {"keys hold filters and strings only",
     "hash-max-listpack-entries=512, hash-max-listpack-value=64, hash-max-ziplist-entries=512, "
     "hash-max-ziplist-value=64, hll-sparse-max-bytes=3000, list-compress-depth=0, "
     "list-max-listpack-size=-2, list-max-ziplist-size=-2, set-max-intset-entries=512, "
     "set-max-listpack-entries=128, set-max-listpack-value=64, stream-node-max-bytes=4096, "
     "stream-node-max-entries=100, zset-max-listpack-entries=128, zset-max-listpack-value=64, "
     "zset-max-ziplist-entries=128, zset-max-ziplist-value=64"},
    {"Sepal has no channels, sends no events and tracks no keys",
     "acl-pubsub-default=resetchannels, notify-keyspace-events=, tracking-table-max-keys=1000000"},
    {"Sepal evicts nothing",
     "lfu-decay-time=1, lfu-log-factor=10, maxmemory-eviction-tenacity=10, maxmemory-samples=5"},
    {"memory always goes back to the system in the background",
     "lazyfree-lazy-eviction=yes, lazyfree-lazy-expire=yes, lazyfree-lazy-server-del=yes, "
     "lazyfree-lazy-user-del=yes, lazyfree-lazy-user-flush=yes"},
    {"Sepal places its filters itself, and needs no defragmentation",
     "active-defrag-cycle-max=25, active-defrag-cycle-min=1, active-defrag-ignore-bytes=104857600, "
     "active-defrag-max-scan-fields=1000, active-defrag-threshold-lower=10, "
     "active-defrag-threshold-upper=100, activedefrag=no, activerehashing=no, disable-thp=no, "
     "jemalloc-bg-thread=no"},
    {"Sepal has its own journal and saves",
     "aof-load-truncated=yes, aof-rewrite-incremental-fsync=yes, aof-timestamp-enabled=no, "
     "aof-use-rdb-preamble=yes, appenddirname=, appendfilename=, no-appendfsync-on-rewrite=no, "
     "rdb-save-incremental-fsync=yes, rdbchecksum=yes, rdbcompression=yes, sanitize-dump-payload=yes"},
    {"Sepal refuses writes when the journal cannot record them, and not because a save has failed",
     "stop-writes-on-bgsave-error=no"},
    {"maxmemory-clients bounds the unread replies of all clients together",
     "client-output-buffer-limit=normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"},
    {"set bind instead", "bind-source-addr=, max-new-connections-per-cycle=10, socket-mark-id=0"},
    {"sepald leaves this to the system that starts it",
     "always-show-logo=no, aof-rewrite-cpulist=, aof_rewrite_cpulist=, bgsave-cpulist=, bgsave_cpulist=, "
     "bio-cpulist=, bio_cpulist=, daemonize=no, ignore-warnings=, locale-collate=, oom-score-adj=no, "
     "oom-score-adj-values=0 200 800, pidfile=, proc-title-template=, server-cpulist=, server_cpulist=, "
     "set-proc-title=no, supervised=no, syslog-enabled=no, syslog-facility=local0, syslog-ident="},
    {"this is how sepald works",
     "active-expire-effort=1, crash-log-enabled=no, crash-memcheck-enabled=no, dynamic-hz=no, "
     "hide-user-data-from-log=yes, io-threads-do-reads=yes, shutdown-on-sigint=save, "
     "shutdown-on-sigterm=save"},
};

// Calls `take` with the name and the value of each parameter of the group.
template <class Take>
void for_each_parameter(const FixedGroup& group, const Take& take) {
  constexpr std::string_view comma = ", ";
  for (std::string_view rest = group.parameters; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(comma));
    const std::size_t equals = one.find('=');
    take(one.substr(0, equals), one.substr(equals + 1));
    rest.remove_prefix(std::min(one.size() + comma.size(), rest.size()));
  }
}

}  // namespace sepal::command
