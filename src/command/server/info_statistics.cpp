// Sections of INFO that add up the workers' counters.

#include <sepal/command/observe/rate_sampler.hpp>
#include <sepal/command/run/scripts.hpp>
#include <sepal/command/users/acl_log.hpp>
#include <sepal/metrics/counters.hpp>

#include <chrono>

#include "command/run/worker_sums.hpp"
#include "command/server/info_text.hpp"
#include "command/table/command_index.hpp"

namespace sepal::command {
namespace {

constexpr double bytes_per_kilobyte = 1024;

TrafficRate traffic_rate(const Context& context) {
  const TrafficCount count{.requests = sum_of(context.services, &WorkerStats::requests),
                           .bytes_in = sum_of(context.services, &WorkerStats::bytes_in),
                           .bytes_out = sum_of(context.services, &WorkerStats::bytes_out)};
  return context.services.rates->sample(context.steady_now, count,
                                        context.services.control.facts().started_at);
}

constexpr double nanoseconds_per_microsecond = 1000;

// The shortest time, in microseconds, within which at least this share of the calls ended.
double percentile(const Context& context, const CommandSpec& row, double share) {
  const CallCounts counts = call_counts(context.services, row);
  return static_cast<double>(percentile_of(counts.buckets, share)) / nanoseconds_per_microsecond;
}

void append_traffic(const Context& context, InfoLines& lines) {
  const TrafficRate rate = traffic_rate(context);
  lines.count("total_connections_received", context.services.clients.accepted_count());
  lines.count("total_commands_processed", sum_of(context.services, &WorkerStats::requests));
  lines.count("instantaneous_ops_per_sec", static_cast<std::uint64_t>(rate.requests));
  lines.count("total_net_input_bytes", sum_of(context.services, &WorkerStats::bytes_in));
  lines.count("total_net_output_bytes", sum_of(context.services, &WorkerStats::bytes_out));
  lines.zeros({"total_net_repl_input_bytes", "total_net_repl_output_bytes"});
  lines.real("instantaneous_input_kbps", rate.bytes_in / bytes_per_kilobyte, 2);
  lines.real("instantaneous_output_kbps", rate.bytes_out / bytes_per_kilobyte, 2);
  lines.line("instantaneous_input_repl_kbps", "0.00").line("instantaneous_output_repl_kbps", "0.00");
  lines.count("rejected_connections", context.services.clients.rejected_count());
  lines.zeros({"sync_full", "sync_partial_ok", "sync_partial_err"});
}

void append_keys(const Context& context, InfoLines& lines) {
  using std::chrono::milliseconds;
  const BackgroundStatus background = context.services.control.background();
  lines.zeros({"expired_subkeys"}).count("expired_keys", context.services.keyspace.expired_count());
  lines.line("expired_stale_perc", "0.00").zeros({"expired_time_cap_reached_count"});
  lines.number("expire_cycle_cpu_milliseconds",
               std::chrono::duration_cast<milliseconds>(background.expiry_worked).count());
  lines.zeros({"evicted_keys"}).count("evicted_clients", context.services.buffers.closed_count());
  lines.count("evicted_scripts", context.services.scripts->library.evicted_count());
  lines.zeros({"total_eviction_exceeded_time", "current_eviction_exceeded_time"});
  lines.count("keyspace_hits", sum_of(context.services, &WorkerStats::key_hits));
  lines.count("keyspace_misses", sum_of(context.services, &WorkerStats::key_misses));
}

}  // namespace

void append_stats(const Context& context, const Durability&, InfoLines& lines) {
  append_traffic(context, lines);
  append_keys(context, lines);
  lines.zeros({"pubsub_channels", "pubsub_patterns", "pubsubshard_channels", "latest_fork_usec",
               "total_forks", "migrate_cached_sockets", "slave_expires_tracked_keys", "active_defrag_hits",
               "active_defrag_misses", "active_defrag_key_hits", "active_defrag_key_misses",
               "total_active_defrag_time", "current_active_defrag_time", "tracking_total_keys",
               "tracking_total_items", "tracking_total_prefixes", "unexpected_error_replies"});
  lines.count("total_error_replies", sum_of(context.services, &WorkerStats::error_replies));
  // One read feeds a batch, and one write answers it. All of them are done by the workers.
  const std::uint64_t batches = sum_of(context.services, &WorkerStats::batches);
  for (const char* field : {"total_reads_processed", "total_writes_processed", "io_threaded_reads_processed",
                            "io_threaded_writes_processed"})
    lines.count(field, batches);
  lines.count("client_query_buffer_limit_disconnections",
              sum_of(context.services, &WorkerStats::too_long_requests));
  lines.zeros({"client_output_buffer_limit_disconnections"});
  const AclLog& denials = *context.services.acl_log;
  lines.count("acl_access_denied_auth", denials.count_of(AclReason::authentication));
  lines.count("acl_access_denied_cmd", denials.count_of(AclReason::command));
  lines.count("acl_access_denied_key", denials.count_of(AclReason::key));
  lines.count("acl_access_denied_channel", denials.count_of(AclReason::channel));
  lines.count("acl_access_denied_tls_cert", denials.count_of(AclReason::certificate));
}

void append_command_stats(const Context& context, const Durability&, InfoLines& lines) {
  for_each_row([&](const CommandSpec& row) {
    const RowSums sums = sums_of(context.services, row);
    if (!sums.any()) return;
    const double microseconds = static_cast<double>(sums.nanoseconds) / nanoseconds_per_microsecond;
    std::string value = "calls=" + std::to_string(sums.calls);
    value += ",usec=" + fixed_point(microseconds, 0);
    value += ",usec_per_call=" +
             fixed_point(sums.calls == 0 ? 0 : microseconds / static_cast<double>(sums.calls), 2);
    value += ",rejected_calls=" + std::to_string(sums.rejected);
    value += ",failed_calls=" + std::to_string(sums.failed);
    lines.line("cmdstat_" + std::string(row.name), value);
  });
}

void append_error_stats(const Context& context, const Durability&, InfoLines& lines) {
  for (const auto& [word, count] : error_counts(context.services))
    lines.line("errorstat_" + word, "count=" + std::to_string(count));
}

void append_latency_stats(const Context& context, const Durability&, InfoLines& lines) {
  const RuntimeOptions& options = context.services.options;
  if (!options.latency_tracking) return;
  for_each_row([&](const CommandSpec& row) {
    if (sums_of(context.services, row).calls == 0) return;
    std::string value;
    for (const double percent : options.latency_percentiles) {
      if (!value.empty()) value.push_back(',');
      value += "p" + shortest_text(percent) + "=" + fixed_point(percentile(context, row, percent / 100), 3);
    }
    lines.line("latency_percentiles_usec_" + std::string(row.name), value);
  });
}

}  // namespace sepal::command
