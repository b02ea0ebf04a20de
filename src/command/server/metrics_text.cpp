// Names and labels are a promise to operators: docs/operations/watch.md, docs/prometheus-alerts.yml and
// docs/grafana.json use them.
#include <sepal/bloom/kernel/choice.hpp>
#include <sepal/command/observe/slow_log.hpp>
#include <sepal/command/run/scripts.hpp>
#include <sepal/command/server/metrics_text.hpp>
#include <sepal/writers/uploads.hpp>

#include <algorithm>
#include <chrono>
#include <optional>

#include "command/run/worker_sums.hpp"
#include "command/server/rejections.hpp"
#include "command/table/command_index.hpp"

namespace sepal::command {
namespace {

using metrics::Exposition;
using metrics::Histogram;

double seconds_of(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

double seconds_since_1970(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

constexpr double nanoseconds_a_second = 1e9;

void export_process(const Services& services, const MetricsMoment& moment, Exposition& to) {
  const ServerFacts& facts = services.control.facts();
  const ProcessUsage usage = services.control.usage();
  to.gauge("sepal_build_info", "Version and commit of the server, and the kernel of its filters; always 1")
      .sample({{"version", facts.version}, {"commit", facts.commit}, {"kernel", bloom::kernel_name()}}, 1);
  to.gauge("sepal_start_time_seconds", "When the server was started, in seconds since 1970",
           seconds_since_1970(facts.started_wall));
  to.gauge("sepal_workers", "Threads that serve requests", facts.worker_count);
  to.counter("sepal_cpu_seconds", "Time that the process has used cores")
      .sample({{"mode", "user"}}, usage.cpu_user_seconds)
      .sample({{"mode", "system"}}, usage.cpu_system_seconds);
  to.gauge("sepal_loading", "1 while the data is loaded at the start", services.load.running);
  if (!moment.certificate) return;
  to.gauge("sepal_certificate_start_time_seconds",
           "When the certificate becomes valid, in seconds since 1970", moment.certificate->start);
  to.gauge("sepal_certificate_end_time_seconds", "Until when the certificate is valid, in seconds since 1970",
           moment.certificate->end);
}

// From a microsecond to 17 seconds, each bound four times the one before. A bound is a power of two in
// nanoseconds. A bucket of the histogram ends there, so no bucket is split between two bounds.
std::vector<Exposition::Bucket> call_buckets(const CallCounts& counts) {
  constexpr int first_exponent = 10;  // 2^10 nanoseconds
  constexpr int last_exponent = 34;
  constexpr int step = 2;
  std::vector<Exposition::Bucket> buckets;
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  for (int exponent = first_exponent; exponent <= last_exponent; exponent += step) {
    const std::uint64_t bound = std::uint64_t{1} << exponent;
    while (bucket < counts.buckets.size() && Histogram::upper_bound(bucket) < bound)
      seen += counts.buckets[bucket++];
    buckets.push_back({.bound = static_cast<double>(bound) / nanoseconds_a_second, .count = seen});
  }
  return buckets;
}

void export_commands(const Services& services, Exposition& to) {
  struct Called {
    const CommandSpec* row;
    RowSums sums;
  };
  // The samples of a family must stand together, so each family goes through the rows anew. The counters are
  // read once, so that the families agree. Commands without a call are left out, to keep the text short.
  std::vector<Called> rows;
  for_each_row([&](const CommandSpec& row) {
    const RowSums sums = sums_of(services, row);
    if (sums.any()) rows.push_back({.row = &row, .sums = sums});
  });
  to.counter("sepal_command_calls", "Requests that ran, by command");
  for (const auto& [row, sums] : rows) to.sample({{"command", row->name}}, sums.calls);
  to.counter("sepal_command_rejected", "Requests that were refused before they ran, by command");
  for (const auto& [row, sums] : rows) to.sample({{"command", row->name}}, sums.rejected);
  to.counter("sepal_command_failed", "Requests that ran and were answered with an error, by command");
  for (const auto& [row, sums] : rows) to.sample({{"command", row->name}}, sums.failed);
  to.histogram("sepal_command_duration_seconds", "How long requests took, by command");
  // Calls that ran while latency-tracking was off have no times, so a called command may lack a histogram.
  for (const auto& [row, sums] : rows) {
    const CallCounts counts = call_counts(services, *row);
    const double sum = static_cast<double>(counts.nanoseconds) / nanoseconds_a_second;
    if (counts.total > 0) to.series({{"command", row->name}}, call_buckets(counts), sum, counts.total);
  }
}

void export_traffic(const Services& services, Exposition& to) {
  const auto sum = [&](auto counter) { return sum_of(services, counter); };
  to.counter("sepal_requests", "Requests that were answered", sum(&WorkerStats::requests));
  to.counter("sepal_batches", "Requests that ran without a pause, as one batch each",
             sum(&WorkerStats::batches));
  to.counter("sepal_received_bytes", "Bytes of requests", sum(&WorkerStats::bytes_in));
  to.counter("sepal_sent_bytes", "Bytes of replies", sum(&WorkerStats::bytes_out));
  to.counter("sepal_errors", "Error replies, by their first word");
  // A script may begin an error with a word of its own, which need not be UTF-8.
  for (const auto& [word, count] : error_counts(services))
    to.sample({{"error", metrics::printable(word)}}, count);
  to.counter("sepal_items_looked_up", "Items that clients have looked up", sum(&WorkerStats::items_asked));
  to.counter("sepal_items_found", "Items that were looked up and present", sum(&WorkerStats::items_found));
  to.counter("sepal_items_added", "Items that were added and new", sum(&WorkerStats::items_added));
  to.counter("sepal_items_removed", "Items that were removed from filters that delete",
             sum(&WorkerStats::items_removed));
  to.counter("sepal_adds_refused",
             "Items that were not added, by reason; mirrored: a mirror's target has them");
  for (const Rejection& one : refused_adds(services)) to.sample({{"reason", one.reason}}, one.count);
  to.counter("sepal_key_hits", "Look-ups of keys that were there", sum(&WorkerStats::key_hits));
  to.counter("sepal_key_misses", "Look-ups of keys that were not there", sum(&WorkerStats::key_misses));
}

void export_clients(const Services& services, const MetricsMoment& moment, Exposition& to) {
  to.gauge("sepal_connections", "Clients that are connected", services.clients.count());
  to.gauge("sepal_connections_max", "Clients that may be connected", services.options.clients_max);
  to.counter("sepal_connections_accepted", "Connections that were accepted",
             services.clients.accepted_count());
  to.counter("sepal_rejections", "Connections and requests that were turned away, by reason");
  for (const Rejection& one : rejections(services)) to.sample({{"reason", one.reason}}, one.count);
  to.gauge("sepal_tls_handshakes", "Connections whose TLS handshake is under way",
           services.clients.handshake_counts().under_way);
  to.counter("sepal_tls_handshakes_failed", "TLS handshakes that did not succeed, by reason");
  for (const Rejection& one : failed_handshakes(services)) to.sample({{"reason", one.reason}}, one.count);
  to.gauge("sepal_monitors", "Clients that watch all requests", services.monitors.count());
  // A pause that has ended keeps its time, and that lies in the past.
  const SteadyTime pause_end = std::max(services.pause.until(), moment.steady_now);
  to.gauge("sepal_pause_left_seconds", "How long a CLIENT PAUSE still runs; 0: none runs",
           seconds_of(pause_end - moment.steady_now));
  to.gauge("sepal_busy_script_seconds",
           "How long the script has run that holds up all other clients; 0: there is none",
           services.busy ? seconds_of(services.scripts->busy_for(moment.steady_now)) : 0.0);
  to.gauge("sepal_slow_requests", "Entries of the slow log", services.slow_log->size());
}

void export_keys(const Services& services, const MetricsMoment& moment, Exposition& to) {
  const keyspace::Keyspace& keyspace = services.keyspace;
  // Only databases with keys have a sample, but database 0 always has one: the family is never empty.
  to.gauge("sepal_keys", "Keys, by database");
  for (std::uint32_t database = 0; database < keyspace::database_count; ++database)
    if (const std::uint64_t size = keyspace.size(database); size > 0 || database == 0)
      to.sample({{"database", std::to_string(database)}}, size);
  to.gauge("sepal_keys_with_deadline", "Keys that will expire, by database");
  for (std::uint32_t database = 0; database < keyspace::database_count; ++database)
    if (const std::uint64_t count = keyspace.deadlines(database).count; count > 0 || database == 0)
      to.sample({{"database", std::to_string(database)}}, count);
  to.gauge("sepal_keys_max", "Keys that there may be in all databases together", keyspace.options().keys_max);
  to.counter("sepal_keys_expired", "Keys that were removed at their deadline", keyspace.expired_count());
  // Writes into strings count as well (Keyspace::change).
  to.counter("sepal_structure_changes", "Keys created, removed or renamed, and filters that grew",
             keyspace.structure_changes());
  to.gauge("sepal_mirrors", "Mirrors between two filters", keyspace.mirrors().size());
  to.gauge("sepal_mirrors_broken", "Mirrors whose target could not take an item",
           keyspace.mirrors().broken_count());
  to.counter("sepal_gate_waits", "How often a thread found the gate closed when it entered",
             moment.gate_waits);
  to.counter("sepal_gate_closings", "How often a thread closed the gate to run alone", moment.gate_closings);
}

void export_memory(const Services& services, Exposition& to) {
  const keyspace::Keyspace& keyspace = services.keyspace;
  std::uint64_t script_bytes = services.scripts->library.byte_count();
  for (const auto& bytes : services.scripts->memory_bytes) script_bytes += bytes;
  const writers::Uploads::Summary uploads = services.uploads->summary();
  to.gauge("sepal_memory_bytes", "Memory in use, by purpose; no byte is counted twice")
      .sample({{"purpose", "filters"}}, keyspace.memory_used())
      .sample({{"purpose", "replies"}}, services.buffers.replies())
      .sample({{"purpose", "requests"}}, services.buffers.requests())
      .sample({{"purpose", "scripts"}}, script_bytes);
  to.gauge("sepal_memory_max_bytes",
           "Limits of the memory, by purpose; clients: replies and requests together; 0: no limit")
      .sample({{"purpose", "filters"}}, keyspace.memory_limit())
      .sample({{"purpose", "clients"}}, services.options.clients_memory_max)
      .sample({{"purpose", "scripts"}}, services.options.script_memory_max * services.workers.size());
  to.gauge("sepal_process_resident_memory_bytes", "Memory that the whole process takes",
           services.control.usage().resident_bytes);
  to.gauge("sepal_machine_memory_bytes", "Memory that the machine or the container has; 0: not known",
           keyspace.options().machine_bytes);
  to.gauge("sepal_memory_peak_bytes", "The most memory that filters and keys have taken",
           keyspace.memory_peak());
  to.gauge("sepal_uploads", "Filters that clients are uploading", uploads.count);
  to.gauge("sepal_upload_bytes", "Memory that uploads take; it is part of that of filters",
           uploads.byte_count);
  to.gauge("sepal_uploads_max", "Filters that clients may upload at a time", services.options.uploads_max);
}

void export_journal(const Services& services, Exposition& to) {
  const JournalStatus journal = services.journal.status();
  const DiskStatus disk = services.persistence.disk_status();
  to.gauge("sepal_journal_on", "1 if changes are recorded",
           services.options.journal != keyspace::JournalPolicy::off);
  to.gauge("sepal_journal_accepting", "0 while changes are refused because they cannot be recorded",
           journal.accepting);
  to.gauge("sepal_journal_waits_for_save", "1 while the journal may not grow until a save has ended",
           journal.waits_for_save);
  to.gauge("sepal_journal_bytes", "The journal on the disk", journal.bytes);
  to.gauge("sepal_journal_max_bytes", "The bound of the journal and the files that it names; 0: no bound",
           disk.journal_bytes_max);
  to.gauge("sepal_journal_unsynced_bytes", "What was recorded and is not known to be on the disk",
           journal.position - std::min(journal.position, journal.synced_position));
  to.counter("sepal_journal_recorded_bytes", "Bytes that were recorded, in the history of the data directory",
             journal.position);
  to.counter("sepal_journal_syncs", "Syncs of the journal, those that failed as well",
             journal.syncs + journal.failed_syncs);
  to.counter("sepal_journal_syncs_failed", "Syncs of the journal that failed", journal.failed_syncs);
  to.gauge("sepal_adopted_bytes", "Files that the journal names", disk.adopted_bytes);
  to.gauge("sepal_disk_reserve_bytes", "Room that is kept for a full disk", disk.reserve_bytes);
}

void export_saves(const Services& services, const MetricsMoment& moment, Exposition& to) {
  const SaveStatus save = services.persistence.status();
  to.counter("sepal_saves", "Saves that ended, those that failed as well",
             save.saves_done + save.saves_failed);
  to.counter("sepal_saves_failed", "Saves that failed", save.saves_failed);
  to.gauge("sepal_save_ok", "1 if the last save ended well, or none has ended yet", save.last_ok);
  to.gauge("sepal_save_running", "1 while a save runs", save.running);
  to.gauge("sepal_save_progress_ratio", "How much of the running save is done", save.progress);
  to.gauge("sepal_save_duration_seconds", "How long the last save took", seconds_of(save.last_duration));
  to.gauge("sepal_save_bytes", "What the last save wrote", save.last_bytes);
  to.gauge("sepal_save_age_seconds", "Since the last save that ended well, or since the start",
           seconds_of(save.age(moment.steady_now)));
  to.gauge("sepal_changes_unsaved", "Changes that no finished save holds", save.changes_since);
  to.gauge("sepal_unsaved_seconds", "Since the first such change, or since the last save if that is later",
           seconds_of(moment.unsaved_for));
  to.gauge("sepal_reload_ok", "1 if the last reload, by SIGHUP, read all files, or there was none yet",
           services.control.reload_status().last_ok);
  to.gauge("sepal_save_interval_seconds", "Time between saves on a timer; 0: there are none",
           seconds_of(services.options.save_interval));
}

// What is told about each filter. A value is nothing where it is not known.
struct FilterFamily {
  std::string_view name;
  std::string_view help;
  std::optional<double> (*value)(const SeenFilter&);
  bool counts = false;
};
using Seen = const SeenFilter&;
using Known = std::optional<double>;

Known of_usage(Seen seen, std::uint64_t bloom::Usage::Sums::*count) {
  if (!seen.usage) return std::nullopt;
  return static_cast<double>((*seen.usage).*count);
}

constexpr FilterFamily filter_families[] = {
    {"sepal_filter_capacity_items", "Items for which a filter has room, over all layers",
     [](Seen filter) -> Known { return static_cast<double>(filter.capacity); }},
    {"sepal_filter_items",
     "Items that a filter counts: those that were added and new; one that deletes counts copies",
     [](Seen filter) -> Known { return static_cast<double>(filter.item_count); }},
    {"sepal_filter_items_estimated", "Different items that a filter was given, estimated from its bits",
     [](Seen filter) -> Known { return filter.item_estimate; }},
    {"sepal_filter_items_removed", "Items that were removed from a filter since it was made or compacted",
     [](Seen filter) -> Known {
       if (!filter.removed_count) return std::nullopt;
       return static_cast<double>(*filter.removed_count);
     }},
    {"sepal_filter_fill_ratio", "The share of a filter's bits that are set, or of its slots that are taken",
     [](Seen filter) -> Known { return filter.fill; }},
    {"sepal_filter_false_positive_ratio", "How often a filter says maybe for an absent item, now",
     [](Seen filter) -> Known { return filter.false_positive_rate; }},
    {"sepal_filter_false_positive_asked_ratio", "The rate that a filter was created with",
     [](Seen filter) -> Known { return filter.rate_asked; }},
    {"sepal_filter_scales", "1 if a full filter grows, 0 if it then refuses items",
     [](Seen filter) -> Known { return filter.expansion != 0 ? 1 : 0; }},
    {"sepal_filter_layers", "Layers of a filter",
     [](Seen filter) -> Known { return static_cast<double>(filter.layer_count); }},
    {"sepal_filter_memory_bytes", "Memory that a filter takes",
     [](Seen filter) -> Known { return static_cast<double>(filter.byte_count); }},
    {"sepal_filter_full_in_seconds", "Until the newest layer is full, at the rate of the last minute",
     [](Seen filter) -> Known { return filter.seconds_until_full; }},
    {"sepal_filter_lookups", "Items that were looked up in a filter",
     [](Seen seen) { return of_usage(seen, &bloom::Usage::Sums::asked); }, true},
    {"sepal_filter_hits", "Items that were looked up in a filter and present",
     [](Seen seen) { return of_usage(seen, &bloom::Usage::Sums::found); }, true},
    {"sepal_filter_adds", "Items that clients added to a filter and were new, since the start",
     [](Seen seen) { return of_usage(seen, &bloom::Usage::Sums::added); }, true},
};

}  // namespace

void append_server_metrics(const Services& services, const MetricsMoment& moment, Exposition& to) {
  export_process(services, moment, to);
  export_commands(services, to);
  export_traffic(services, to);
  export_clients(services, moment, to);
  export_keys(services, moment, to);
  export_memory(services, to);
  export_journal(services, to);
  export_saves(services, moment, to);
}

std::uint64_t value_changes(const Services& services) {
  std::uint64_t changes = sum_of(services, &WorkerStats::items_added) +
                          sum_of(services, &WorkerStats::items_removed) +
                          sum_of(services, &WorkerStats::other_changes);
  for (const Rejection& one : refused_adds(services)) changes += one.count;
  return changes;
}

void append_filter_metrics(const FiltersSeen& seen, Exposition& to) {
  to.gauge("sepal_filters", "All filters, by state: each has the worst one that holds for it");
  // None before the first look at all has ended: zeros would say that all is well.
  for (std::size_t at = 0; seen.judged_at && at < filter_state_count; ++at)
    to.sample({{"state", name_of_state(static_cast<FilterState>(at))}}, seen.counts.by_state[at]);
  const std::vector<SeenFilter>& filters = seen.filters;
  to.gauge("sepal_filter_info", "What kind of filter it is; always 1");
  for (const SeenFilter& filter : filters)
    to.sample({{"database", std::to_string(filter.database)},
               {"key", filter.key},
               {"kind", name_of_filter(filter.kind)}},
              1);
  // The samples of a family must stand together, so the filters are the inner loop.
  for (const FilterFamily& family : filter_families) {
    if (family.counts) {
      to.counter(family.name, family.help);
    } else {
      to.gauge(family.name, family.help);
    }
    for (const SeenFilter& filter : filters)
      if (const std::optional<double> known = family.value(filter))
        to.sample({{"database", std::to_string(filter.database)}, {"key", filter.key}}, *known);
  }
}

}  // namespace sepal::command
