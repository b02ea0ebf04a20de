// Sections of INFO that report facts. Fields have the reference's names if monitoring tools ask for them. A
// field that Sepal cannot know is left out.

#include "command/server/info_text.hpp"

#include <sepal/base/word_list.hpp>
#include <sepal/bloom/kernel/choice.hpp>
#include <sepal/command/observe/slow_log.hpp>
#include <sepal/command/run/adoptions.hpp>
#include <sepal/command/run/scripts.hpp>
#include <sepal/writers/uploads.hpp>

#include <algorithm>
#include <chrono>

#include "command/run/worker_sums.hpp"
#include "command/server/config_table.hpp"
#include "command/server/rejections.hpp"
#include "command/table/compatibility.hpp"

namespace sepal::command {
namespace {

using std::chrono::duration_cast;
using std::chrono::seconds;

std::int64_t unix_seconds(WallTime time) {
  return duration_cast<seconds>(time.time_since_epoch()).count();
}

// The reference shows the commit in eight digits, and a number for the build.
void append_build(const ServerFacts& facts, InfoLines& lines) {
  constexpr std::size_t commit_digits = 8;
  constexpr std::string_view unknown = "00000000";
  const std::string_view commit = facts.commit.empty() ? unknown : std::string_view(facts.commit);
  lines.line("redis_git_sha1", commit.substr(0, commit_digits)).line("redis_build_id", commit);
}

// "12.2.0": of the compiler, by the name that it has in the reference.
std::string compiler_version() {
#ifdef __clang__
  constexpr int numbers[] = {__clang_major__, __clang_minor__, __clang_patchlevel__};
#else
  constexpr int numbers[] = {__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__};
#endif
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ".") + std::to_string(number);
  return text;
}

// Sepal has no loop that runs `hz` times a second, so both fields show what CONFIG does. The LRU clock is the
// time in seconds, in 24 bits.
void append_clocks(const Context& context, InfoLines& lines) {
  constexpr std::int64_t lru_clock_max = (1 << 24) - 1;
  const auto& kept = context.services.options.without_effect;
  const auto hz = kept.find("hz");
  const std::string_view shown = hz == kept.end() ? default_hz : std::string_view(hz->second);
  lines.line("hz", shown).line("configured_hz", shown);
  lines.number("lru_clock", unix_seconds(context.now) & lru_clock_max);
}

// "listener0:name=tcp,bind=127.0.0.1,bind=-::1,port=6379". Nothing where the port is 0.
void append_listener(std::string_view field, std::string_view kind, std::uint16_t port,
                     const Context& context, InfoLines& lines) {
  if (port == 0) return;
  std::string text = "name=" + std::string(kind);
  const std::string addresses = context.services.configuration.get("bind");
  for_each_word(addresses, [&](std::string_view address) { text.append(",bind=").append(address); });
  lines.line(field, text + ",port=" + std::to_string(port));
}

// The reference numbers its kinds of listeners: TCP, UNIX socket, TLS.
void append_listeners(const Context& context, InfoLines& lines) {
  const ServerFacts& facts = context.services.control.facts();
  append_listener("listener0", "tcp", facts.port, context, lines);
  if (const std::string path = context.services.configuration.get("unixsocket"); !path.empty())
    lines.line("listener1", "name=unix,bind=" + path);
  append_listener("listener2", "tls", facts.tls_port, context, lines);
}

void append_server(const Context& context, const Durability&, InfoLines& lines) {
  const ServerFacts& facts = context.services.control.facts();
  const auto uptime = duration_cast<seconds>(context.steady_now - facts.started_at);
  const auto microseconds = duration_cast<std::chrono::microseconds>(context.now.time_since_epoch());
  constexpr std::int64_t seconds_a_day = 24 * 60 * 60;
  lines.line("redis_version", redis_version).line("sepal_version", facts.version);
  append_build(facts, lines);
  lines.line("redis_mode", "standalone").line("os", facts.operating_system);
  lines.line("filter_kernel", bloom::kernel_name());
  lines.count("arch_bits", 8 * sizeof(void*)).line("monotonic_clock", "POSIX clock_gettime");
  lines.line("multiplexing_api", "epoll").line("atomicvar_api", "c++-std");
  lines.line("gcc_version", compiler_version()).count("process_id", facts.process_id);
  lines.line("process_supervised", "no").line("run_id", facts.run_id);
  lines.count("tcp_port", facts.port != 0 ? facts.port : facts.tls_port);
  lines.number("server_time_usec", microseconds.count());
  lines.number("uptime_in_seconds", uptime.count()).number("uptime_in_days", uptime.count() / seconds_a_day);
  append_clocks(context, lines);
  lines.line("executable", facts.executable).line("config_file", facts.config_file);
  lines.count("io_threads_active", facts.worker_count > 1 ? 1 : 0)
      .count("worker_threads", facts.worker_count);
  append_listeners(context, lines);
}

void append_clients(const Context& context, const Durability&, InfoLines& lines) {
  lines.count("connected_clients", context.services.clients.count());
  lines.zeros({"cluster_connections"});
  lines.count("maxclients", context.services.options.clients_max);
  lines.count("client_recent_max_input_buffer", greatest_of(context.services, &WorkerStats::unparsed_peak));
  lines.count("client_recent_max_output_buffer", greatest_of(context.services, &WorkerStats::unsent_peak));
  const keyspace::Watches& watches = context.services.keyspace.watches();
  lines.zeros({"blocked_clients", "tracking_clients", "pubsub_clients"});
  lines.count("watching_clients", watches.client_count()).zeros({"clients_in_timeout_table"});
  lines.count("total_watched_keys", watches.key_count());
  lines.zeros({"total_blocking_keys", "total_blocking_keys_on_nokey"});
  const Pause& pause = context.services.pause;
  const bool is_paused = pause.runs(context.steady_now);
  const auto left = is_paused ? pause.until() - context.steady_now : SteadyTime::duration{0};
  lines.line("paused_reason", is_paused ? "client_pause" : "none");
  lines.line("paused_actions", !is_paused ? "none" : pause.of_all() ? "all" : "write");
  lines.number("paused_timeout_milliseconds", duration_cast<std::chrono::milliseconds>(left).count());
}

void append_sizes(InfoLines& lines, std::string_view field, std::uint64_t bytes) {
  lines.count(field, bytes).line(std::string(field) + "_human", human_bytes(bytes));
}

void append_allocator(const AllocatorUsage& heap, InfoLines& lines) {
  lines.count("allocator_allocated", heap.allocated_bytes).count("allocator_active", heap.active_bytes);
  lines.count("allocator_resident", heap.resident_bytes).zeros({"allocator_muzzy"});
}
void append_excess(std::string_view name, std::uint64_t taken, std::uint64_t used, InfoLines& lines) {
  lines.real(std::string(name) + "_ratio", ratio(taken, used), 2);
  lines.count(std::string(name) + "_bytes", taken - std::min(taken, used));
}
// What an operator can act on is the heap: big filters and the journal are mappings, and have no holes.
void append_allocator_ratios(const ProcessUsage& usage, InfoLines& lines) {
  const AllocatorUsage& heap = usage.allocator;
  append_excess("allocator_frag", heap.active_bytes, heap.allocated_bytes, lines);
  append_excess("allocator_rss", heap.resident_bytes, heap.active_bytes, lines);
  append_excess("rss_overhead", usage.resident_bytes, heap.resident_bytes, lines);
  append_excess("mem_fragmentation", heap.resident_bytes, heap.allocated_bytes, lines);
}

// Functions are libraries of scripts; Sepal keeps none. "lua" is the older name of "vm_eval".
void append_scripts(const Context& context, InfoLines& lines) {
  const Scripts& scripts = *context.services.scripts;
  std::uint64_t lua_bytes = 0;
  for (const auto& bytes : scripts.memory_bytes) lua_bytes += bytes;
  const std::uint64_t text_bytes = scripts.library.byte_count();
  append_sizes(lines, "used_memory_lua", lua_bytes);
  lines.count("used_memory_vm_eval", lua_bytes).count("used_memory_scripts_eval", text_bytes);
  lines.count("number_of_cached_scripts", scripts.library.size());
  lines.zeros({"number_of_functions", "number_of_libraries", "used_memory_vm_functions"});
  append_sizes(lines, "used_memory_vm_total", lua_bytes);
  lines.zeros({"used_memory_functions"});
  append_sizes(lines, "used_memory_scripts", text_bytes);
}

void append_memory(const Context& context, const Durability&, InfoLines& lines) {
  const keyspace::Keyspace& keyspace = context.services.keyspace;
  const ProcessUsage usage = context.services.control.usage();
  const std::uint64_t used = keyspace.memory_used();
  const std::uint64_t peak = keyspace.memory_peak();
  append_sizes(lines, "used_memory", used);
  append_sizes(lines, "used_memory_rss", usage.resident_bytes);
  append_sizes(lines, "used_memory_peak", peak);
  lines.line("used_memory_peak_perc", fixed_point(100 * ratio(used, peak), 2) + "%");
  lines.zeros({"used_memory_overhead", "used_memory_startup"}).count("used_memory_dataset", used);
  lines.line("used_memory_dataset_perc", "100.00%");
  append_allocator(usage.allocator, lines);
  lines.count("resident_peak", usage.resident_peak_bytes);
  append_sizes(lines, "total_system_memory", keyspace.options().machine_bytes);
  append_scripts(context, lines);
  append_sizes(lines, "maxmemory", keyspace.options().memory_max);
  lines.line("maxmemory_policy", "noeviction");
  append_allocator_ratios(usage, lines);
  lines.zeros({"mem_not_counted_for_evict", "mem_replication_backlog", "mem_total_replication_buffers",
               "mem_clients_slaves"});
  lines.count("mem_clients_normal",
              context.services.buffers.total() + context.services.monitors.bytes_on_their_way());
  lines.zeros({"mem_cluster_links", "mem_aof_buffer"});
  lines.line("mem_allocator", usage.allocator.name);
  lines.zeros({"mem_overhead_db_hashtable_rehashing", "active_defrag_running"});
  const BackgroundStatus background = context.services.control.background();
  lines.count("lazyfree_pending_objects", background.disposals_waiting);
  lines.count("lazyfreed_objects", background.disposals_done);
}

// Only while a load runs. Clients that wait for its end ask again after loading_eta_seconds.
void append_load(const Context& context, InfoLines& lines) {
  const LoadStatus& load = context.services.load;
  const auto elapsed = duration_cast<seconds>(context.now - load.started).count();
  const double bytes_left = static_cast<double>(load.bytes_total) - static_cast<double>(load.bytes_done);
  const double eta = static_cast<double>(elapsed) * bytes_left / (static_cast<double>(load.bytes_done) + 1);
  lines.number("loading_start_time", unix_seconds(load.started));
  lines.count("loading_total_bytes", load.bytes_total).count("loading_loaded_bytes", load.bytes_done);
  lines.real("loading_loaded_perc", 100 * ratio(load.bytes_done, load.bytes_total), 2);
  // In the first second there is no estimate yet.
  lines.number("loading_eta_seconds", elapsed <= 0 ? 1 : static_cast<std::int64_t>(eta));
}

// The reference's fields for its append-only log. Its base file is Sepal's last save.
void append_journal(const JournalStatus& journal, const SaveStatus& save, InfoLines& lines) {
  lines.count("aof_current_size", save.last_bytes + journal.position - save.journal_position);
  lines.count("aof_base_size", save.last_bytes);
  lines.zeros({"aof_pending_rewrite", "aof_buffer_length"});
  lines.count("aof_pending_bio_fsync", journal.synced_position < journal.position ? 1 : 0);
  lines.zeros({"aof_delayed_fsync"});
}

void append_persistence(const Context& context, const Durability& durability, InfoLines& lines) {
  const auto& [save, journal] = durability;
  const LoadStatus& load = context.services.load;
  const auto last_seconds = duration_cast<seconds>(save.last_duration).count();
  lines.count("loading", load.running ? 1 : 0).zeros({"async_loading"});
  lines.zeros({"current_cow_peak", "current_cow_size", "current_cow_size_age"});
  lines.real("current_fork_perc", save.running ? 100 * save.progress : 0, 2);
  lines.count("rdb_changes_since_last_save", save.changes_since);
  lines.count("rdb_bgsave_in_progress", save.running ? 1 : 0);
  lines.number("rdb_last_save_time", unix_seconds(save.last_success));
  lines.line("rdb_last_bgsave_status", save.last_ok ? "ok" : "err");
  lines.number("rdb_last_bgsave_time_sec", save.saves_done == 0 ? -1 : last_seconds);
  lines.number("rdb_current_bgsave_time_sec",
               save.running ? duration_cast<seconds>(save.running_for).count() : -1);
  lines.count("rdb_saves", save.saves_done).zeros({"rdb_last_cow_size", "rdb_last_load_keys_expired"});
  lines.count("rdb_last_load_keys_loaded", load.keys);
  const bool journal_on = context.services.options.journal != keyspace::JournalPolicy::off;
  lines.count("aof_enabled", journal_on ? 1 : 0);
  lines.zeros({"aof_rewrite_in_progress", "aof_rewrite_scheduled"});
  lines.line("aof_last_rewrite_time_sec", "-1").line("aof_current_rewrite_time_sec", "-1");
  lines.line("aof_last_bgrewrite_status", "ok").zeros({"aof_rewrites", "aof_rewrites_consecutive_failures"});
  lines.line("aof_last_write_status", journal.accepting ? "ok" : "err").zeros({"aof_last_cow_size"});
  lines.zeros({"module_fork_in_progress", "module_fork_last_cow_size"});
  if (journal_on) append_journal(journal, save, lines);
  if (load.running) append_load(context, lines);
}

void append_replication(const Context& context, const Durability&, InfoLines& lines) {
  lines.line("role", "master").zeros({"connected_slaves"}).line("master_failover_state", "no-failover");
  lines.line("master_replid", context.services.control.facts().run_id);
  lines.line("master_replid2", std::string(40, '0'));
  lines.zeros({"master_repl_offset"}).line("second_repl_offset", "-1");
  lines.zeros(
      {"repl_backlog_active", "repl_backlog_size", "repl_backlog_first_byte_offset", "repl_backlog_histlen"});
}

void append_cpu(const Context& context, const Durability&, InfoLines& lines) {
  constexpr int microsecond_digits = 6;
  const ProcessUsage usage = context.services.control.usage();
  lines.real("used_cpu_sys", usage.cpu_system_seconds, microsecond_digits);
  lines.real("used_cpu_user", usage.cpu_user_seconds, microsecond_digits);
  lines.real("used_cpu_sys_children", 0, microsecond_digits);
  lines.real("used_cpu_user_children", 0, microsecond_digits);
  lines.real("used_cpu_sys_main_thread", usage.main_thread_system_seconds, microsecond_digits);
  lines.real("used_cpu_user_main_thread", usage.main_thread_user_seconds, microsecond_digits);
}

void append_module_section(const Context&, const Durability&, InfoLines& lines) {
  lines.line("module", "name=" + std::string(bloom_module_name) +
                           ",ver=" + std::to_string(bloom_module_version) +
                           ",api=1,filters=0,usedby=[],using=[],"
                           "options=[]");
}

void append_cluster(const Context&, const Durability&, InfoLines& lines) {
  lines.zeros({"cluster_enabled"});
}

// The average time, in milliseconds, until the keys with a deadline expire.
std::int64_t average_time_left(const keyspace::DeadlineSummary& deadlines, WallTime now) {
  if (deadlines.count == 0) return 0;
  const auto average = static_cast<keyspace::Deadline>(deadlines.sum / deadlines.count);
  return std::max<std::int64_t>(average - keyspace::deadline_at(now), 0);
}

void append_keyspace(const Context& context, const Durability&, InfoLines& lines) {
  for (std::uint32_t database = 0; database < keyspace::database_count; ++database) {
    const std::uint64_t size = context.services.keyspace.size(database);
    if (size == 0) continue;
    const keyspace::DeadlineSummary deadlines = context.services.keyspace.deadlines(database);
    lines.line("db" + std::to_string(database),
               "keys=" + std::to_string(size) + ",expires=" + std::to_string(deadlines.count) +
                   ",avg_ttl=" + std::to_string(average_time_left(deadlines, context.now)) + ",subexpiry=0");
  }
}

// Fields that only Sepal has.
void append_sepal(const Context& context, const Durability& durability, InfoLines& lines) {
  const Services& services = context.services;
  const auto& [save, journal] = durability;
  const ServerFacts& facts = services.control.facts();
  lines.count("keys", services.keyspace.total_size());
  lines.count("filter_bytes", services.keyspace.memory_used())
      .count("filter_bytes_max", services.keyspace.memory_limit());
  const writers::Uploads::Summary uploads = services.uploads->summary();
  lines.count("uploads", uploads.count).count("upload_bytes", uploads.byte_count);
  lines.count("upload_bytes_loaded", uploads.bytes_loaded);
  lines.count("uploads_completed", uploads.completed_count)
      .count("uploads_abandoned", uploads.abandoned_count);
  lines.count("items_added", sum_of(context.services, &WorkerStats::items_added))
      .count("items_removed", sum_of(context.services, &WorkerStats::items_removed));
  std::uint64_t refused = 0;
  for (const Rejection& one : refused_adds(services)) refused += one.count;
  lines.count("adds_refused", refused);
  lines.count("batches", sum_of(context.services, &WorkerStats::batches));
  lines.count("workers", facts.worker_count).line("data_directory", facts.data_directory);
  lines.count("mirrors", services.keyspace.mirrors().size());
  lines.count("mirrors_broken", services.keyspace.mirrors().broken_count());
  lines.count("structure_changes", services.keyspace.structure_changes());
  lines.line("journal_policy", name_of(services.options.journal)).count("journal_position", journal.position);
  lines.count("journal_since_save", journal.position - save.journal_position);
  lines.count("journal_synced_position", journal.synced_position).count("journal_bytes", journal.bytes);
  lines.count("journal_syncs", journal.syncs + journal.failed_syncs)
      .count("journal_syncs_failed", journal.failed_syncs);
  lines.count("journal_accepting", journal.accepting ? 1 : 0).line("journal_refusal", journal.refusal);
  const DiskStatus disk = services.persistence.disk_status();
  lines.count("journal_waits_for_save", journal.waits_for_save ? 1 : 0);
  lines.count("journal_bytes_max", disk.journal_bytes_max).count("adopted_bytes", disk.adopted_bytes);
  lines.count("disk_reserve_bytes", disk.reserve_bytes);
  lines.count("changes_unsaved", save.changes_since).count("save_running", save.running ? 1 : 0);
  lines.real("save_progress", save.progress, 3).count("save_last_bytes", save.last_bytes);
  lines.number("save_last_milliseconds", save.last_duration.count()).line("save_last_error", save.last_error);
  const AdoptionStatus adoptions = services.adoptions.status();
  lines.line("transfer_running", adoptions.what).count("transfers_waiting", adoptions.waiting);
  lines.count("transfer_bytes", adoptions.bytes_done).count("transfer_size_bytes", adoptions.bytes_total);
  lines.line("adoption_refusal", adoptions.refusal);
  lines.count("load_keys", services.load.keys).count("load_bytes", services.load.bytes_done);
  lines.number("load_milliseconds", services.load.duration.count());
  lines.count("monitors", services.monitors.count());
  lines.count("slowlog_entries", services.slow_log->size());
}

}  // namespace

const InfoSection info_sections[] = {
    {"server", "Server", append_server},
    {"clients", "Clients", append_clients},
    {"memory", "Memory", append_memory},
    {"persistence", "Persistence", append_persistence},
    {"stats", "Stats", append_stats},
    {"replication", "Replication", append_replication},
    {"cpu", "CPU", append_cpu},
    {"modules", "Modules", append_module_section},
    {"commandstats", "Commandstats", append_command_stats, false},
    {"errorstats", "Errorstats", append_error_stats},
    {"latencystats", "Latencystats", append_latency_stats, false},
    {"cluster", "Cluster", append_cluster},
    {"keyspace", "Keyspace", append_keyspace},
    {"sepal", "Sepal", append_sepal},
};
const std::size_t info_section_count = std::size(info_sections);

InfoLines& InfoLines::real(std::string_view field, double value, int digits) {
  return line(field, fixed_point(value, digits));
}

}  // namespace sepal::command
