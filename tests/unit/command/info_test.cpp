#include <sepal/command/users/users.hpp>

#include "support/catch.hpp"
#include "support/reference_words.hpp"
#include "world.hpp"

namespace info_test {

using sepal::command::testing::World;

namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// The names between backticks in the first columns of the tables of a document that are headed so.
std::set<std::string> documented_names(const std::string& document, std::string_view heading) {
  std::ifstream file(SEPAL_SOURCE_FOLDER "/docs/" + document);
  REQUIRE(file);
  std::set<std::string> names;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    in_table = line.starts_with(heading) || (in_table && line.starts_with("|"));
    if (!in_table || line.starts_with(heading)) continue;
    const std::string cell = line.substr(1, line.find('|', 1) - 1);
    for (std::size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at)) {
      const std::size_t end = cell.find('`', at + 1);
      names.insert(cell.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  return names;
}

}  // namespace

TEST_CASE("every field of the reference's INFO is there, or docs/protocol.md says why it is not") {
  World world;
  world.services.load.running = true;  // INFO is then the longest
  std::istringstream lines(world.send({"INFO", "everything"}));
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    INFO(line);
    CHECK(names.insert(line.substr(0, colon)).second);
  }
  const std::set<std::string> left_out = documented_names("protocol.md", "| field | why |");
  CHECK(left_out.size() > 10);
  // The fields of INFO in Redis 7.4.1, the sections commandstats, errorstats, latencystats, modules and
  // keyspace left out: their fields have names that depend on what was done.
  const std::set<std::string> reference = sepal::test::reference_words("info-fields.txt");
  for (const std::string& field : reference) {
    INFO(field);
    CHECK(names.contains(field) != left_out.contains(field));
  }
  CHECK(std::ranges::includes(reference, left_out));
}

TEST_CASE("INFO shows the build, the listeners and the clock") {
  World world;
  world.control.about.port = 6379;
  std::string server = world.send({"INFO", "server"});
  CHECK(has(server, "redis_git_sha1:00000000\r\nredis_build_id:00000000\r\n"));
  CHECK(has(server, "hz:10\r\nconfigured_hz:10\r\nlru_clock:5501184\r\n"));
  CHECK(has(server, "listener0:name=tcp,bind=127.0.0.1,port=6379\r\n"));
  CHECK_FALSE(has(server, "listener1"));
  world.control.about.commit = "0123456789ab";
  world.control.about.port = 0;
  world.settings.server.unix_socket = "/run/sepal";
  world.send({"CONFIG", "SET", "hz", "20"});
  server = world.send({"INFO", "server"});
  CHECK(has(server, "redis_git_sha1:01234567\r\nredis_build_id:0123456789ab\r\n"));
  CHECK(has(server, "hz:20\r\nconfigured_hz:20\r\n"));
  CHECK_FALSE(has(server, "listener0"));
  CHECK(has(server, "listener1:name=unix,bind=/run/sepal\r\n"));
}

TEST_CASE("INFO shows the largest buffers, the background and the refused clients") {
  World world;
  world.workers[0].unparsed_peak.add(100);
  world.workers[1].unparsed_peak.add(300);
  world.workers[1].unsent_peak.add(7);
  world.workers[1].too_long_requests.add();
  world.control.in_background = {
      .disposals_waiting = 2, .disposals_done = 5, .expiry_worked = std::chrono::microseconds(1999)};
  world.control.used.main_thread_user_seconds = 0.5;
  world.control.used.resident_bytes = 5000;
  world.control.used.allocator = {
      .name = "jemalloc-5.3.0", .allocated_bytes = 1000, .active_bytes = 1500, .resident_bytes = 2000};
  CHECK(has(world.send({"INFO", "clients"}),
            "client_recent_max_input_buffer:300\r\nclient_recent_max_output_buffer:7\r\n"));
  const std::string memory = world.send({"INFO", "memory"});
  CHECK(has(memory, "lazyfree_pending_objects:2\r\nlazyfreed_objects:5\r\n"));
  CHECK(has(memory, "allocator_frag_ratio:1.50\r\nallocator_frag_bytes:500\r\n"));
  CHECK(has(memory, "rss_overhead_ratio:2.50\r\nrss_overhead_bytes:3000\r\n"));
  CHECK(has(memory, "mem_fragmentation_ratio:2.00\r\nmem_fragmentation_bytes:1000\r\n"));
  CHECK(has(memory, "mem_allocator:jemalloc-5.3.0\r\n"));
  CHECK(has(world.send({"INFO", "cpu"}), "used_cpu_user_main_thread:0.500000\r\n"));
  world.services.users->set_default_password("sesame");
  world.send({"AUTH", "wrong"});
  const std::string stats = world.send({"INFO", "stats"});
  CHECK(has(stats, "expire_cycle_cpu_milliseconds:1\r\n"));
  CHECK(has(stats, "client_query_buffer_limit_disconnections:1\r\n"));
  CHECK(has(stats, "acl_access_denied_auth:1\r\n"));
}

TEST_CASE("INFO tells how long the running save has taken") {
  World world;
  CHECK(has(world.send({"INFO", "persistence"}), "rdb_current_bgsave_time_sec:-1\r\n"));
  world.persistence.state.running = true;
  world.persistence.state.progress = 0.25;
  world.persistence.state.running_for = std::chrono::milliseconds(3999);
  const std::string text = world.send({"INFO", "persistence"});
  CHECK(has(text, "rdb_current_bgsave_time_sec:3\r\n"));
  CHECK(has(text, "current_fork_perc:25.00\r\n"));
}

TEST_CASE("docs/operations/watch.md lists exactly the fields of INFO sepal") {
  World world;
  std::istringstream lines(world.send({"INFO", "sepal"}));
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);)
    if (line.find(':') != std::string::npos) names.insert(line.substr(0, line.find(':')));
  CHECK(names.size() > 10);
  CHECK(documented_names("operations/watch.md", "| in `INFO sepal` |") == names);
}

TEST_CASE("INFO shows the facts of the server") {
  World world;
  world.control.about.process_id = 42;
  world.control.about.port = 6379;
  world.control.used = {.cpu_user_seconds = 1.5,
                        .cpu_system_seconds = 0.25,
                        .resident_bytes = 3 << 20,
                        .resident_peak_bytes = 4 << 20,
                        .allocator = {}};
  const std::string server = world.send({"INFO", "server"});
  CHECK(has(server, "redis_version:7.4.1\r\nsepal_version:0.0.1\r\n"));
  CHECK(has(server, "process_id:42\r\n"));
  CHECK(has(server, "tcp_port:6379\r\n"));
  CHECK(has(server, "uptime_in_seconds:60\r\nuptime_in_days:0\r\n"));
  CHECK(has(server, "server_time_usec:1700000000123456\r\n"));
  CHECK(has(world.send({"INFO", "cpu"}), "used_cpu_sys:0.250000\r\nused_cpu_user:1.500000\r\n"));
  CHECK(has(world.send({"INFO", "memory"}), "used_memory_rss:3145728\r\nused_memory_rss_human:3.00M\r\n"));
  CHECK(has(world.send({"INFO", "clients"}), "connected_clients:1\r\n"));
}

TEST_CASE("INFO persistence shows the results of saves") {
  World world;
  world.persistence.state = {.running = true,
                             .progress = 0.5,
                             .last_success = world.now,
                             .last_ok = false,
                             .last_error = "disk full",
                             .last_duration = std::chrono::milliseconds(2500),
                             .last_bytes = 1000,
                             .changes_since = 17,
                             .saves_done = 3};
  const std::string text = world.send({"INFO", "persistence"});
  CHECK(has(text, "rdb_changes_since_last_save:17\r\n"));
  CHECK(has(text, "rdb_bgsave_in_progress:1\r\n"));
  CHECK(has(text, "rdb_last_bgsave_status:err\r\n"));
  CHECK(has(text, "rdb_last_bgsave_time_sec:2\r\n"));
  CHECK(has(world.send({"INFO", "sepal"}), "save_progress:0.500\r\n"));
}

TEST_CASE("a save that ends while INFO is written has ended in all sections or in none") {
  World world;
  world.persistence.first_look.emplace().running = true;
  world.persistence.state.last_ok = false;
  const std::string info = world.send({"INFO"});
  CHECK(has(info, "rdb_bgsave_in_progress:1\r\nrdb_last_save_time:"));
  CHECK(has(info, "rdb_last_bgsave_status:ok\r\n"));
  CHECK(has(info, "save_running:1\r\n"));
}

TEST_CASE("INFO shows the state of the journal") {
  World world;
  world.persistence.state.last_bytes = 1000;
  world.persistence.state.journal_position = 400;
  world.journal.state = {.accepting = true,
                         .refusal = {},
                         .position = 500,
                         .synced_position = 450,
                         .bytes = 8192,
                         .syncs = 3,
                         .failed_syncs = 1};
  const std::string persistence = world.send({"INFO", "persistence"});
  CHECK(has(persistence, "aof_enabled:1\r\n"));
  CHECK(has(persistence, "aof_last_write_status:ok\r\n"));
  CHECK(has(persistence, "aof_current_size:1100\r\naof_base_size:1000\r\n"));
  CHECK(has(persistence, "aof_pending_bio_fsync:1\r\n"));
  const std::string sepal = world.send({"INFO", "sepal"});
  CHECK(has(sepal, "journal_policy:everysec\r\njournal_position:500\r\njournal_since_save:100\r\n"));
  CHECK(has(sepal, "journal_synced_position:450\r\njournal_bytes:8192\r\n"));
  CHECK(has(sepal, "journal_syncs:4\r\njournal_syncs_failed:1\r\njournal_accepting:1\r\n"));

  world.journal.state.accepting = false;
  world.journal.state.refusal = "no space left";
  CHECK(has(world.send({"INFO", "persistence"}), "aof_last_write_status:err\r\n"));
  CHECK(has(world.send({"INFO", "sepal"}), "journal_accepting:0\r\njournal_refusal:no space left\r\n"));
  world.options.journal = sepal::keyspace::JournalPolicy::off;
  const std::string off = world.send({"INFO", "persistence"});
  CHECK(has(off, "aof_enabled:0\r\n"));
  CHECK_FALSE(has(off, "aof_current_size"));
}

TEST_CASE("INFO persistence shows the progress and the expected time of the load") {
  World world;
  auto& load = world.services.load;
  CHECK(has(world.send({"INFO", "persistence"}), "loading:0\r\nasync_loading:0\r\n"));
  CHECK_FALSE(has(world.send({"INFO", "persistence"}), "loading_"));
  load = {.running = true, .started = world.now, .keys = 3};
  std::string text = world.send({"INFO", "persistence"});
  CHECK(has(text, "loading:1\r\nasync_loading:0\r\n"));
  CHECK(has(text, "loading_start_time:1700000000\r\n"));
  CHECK(has(text, "loading_total_bytes:0\r\nloading_loaded_bytes:0\r\nloading_loaded_perc:0.00\r\n"));
  CHECK(has(text, "loading_eta_seconds:1\r\n"));
  CHECK(has(text, "rdb_last_load_keys_loaded:3\r\n"));
  load.started = world.now - std::chrono::seconds(10);
  load.bytes_total = 1000;
  load.bytes_done = 249;
  text = world.send({"INFO", "persistence"});
  CHECK(has(text, "loading_total_bytes:1000\r\nloading_loaded_bytes:249\r\nloading_loaded_perc:24.90\r\n"));
  CHECK(has(text, "loading_eta_seconds:30\r\n"));
}

TEST_CASE("errors are counted by their first word over all workers") {
  World world;
  world.send({"NOSUCH"});
  world.send({"BF.INSERT", "k", "FOO", "ITEMS", "a"});
  world.send({"HELLO", "9"});
  sepal::command::Dispatcher other(world.services, 1, nullptr);
  auto& from = world.connection("b");
  const std::string_view words[] = {"SELECT", "99"};
  other.run({.client = from.client,
             .reply = from.reply,
             .spec = sepal::command::row_for(words),
             .words = words,
             .partial = from.partial},
            {.now = world.now, .steady_now = world.steady_now});
  CHECK(
      world.send({"INFO", "errorstats"}) ==
      "$# Errorstats\r\nerrorstat_ERR:count=2\r\nerrorstat_NOPROTO:count=1\r\nerrorstat_Unknown:count=1\r\n");
  CHECK(has(world.send({"INFO", "stats"}), "total_error_replies:4\r\n"));
}

TEST_CASE("statistics of commands sum over the workers") {
  World world;
  const auto& add = *sepal::command::find_command("bf.add");
  sepal::command::Dispatcher other(world.services, 1, nullptr);
  world.dispatcher.count_calls(add, 1, std::chrono::microseconds(3));
  other.count_calls(add, 3, std::chrono::microseconds(9));
  world.send({"BF.ADD", "k"});
  CHECK(world.send({"INFO", "commandstats"}) ==
        "$# "
        "Commandstats\r\ncmdstat_bf.add:calls=4,usec=12,usec_per_call=3.00,rejected_calls=1,failed_calls="
        "0\r\n");
  CHECK(world.send({"INFO", "latencystats"})
            .starts_with("$# Latencystats\r\nlatency_percentiles_usec_bf.add:p50=3."));
}

TEST_CASE("the rate of operations is that of the last seconds") {
  World world;
  world.control.about.started_at = world.steady_now - std::chrono::seconds(10);
  world.workers[1].requests.add(1000);
  CHECK(has(world.send({"INFO", "stats"}), "instantaneous_ops_per_sec:100\r\n"));
  world.steady_now += std::chrono::seconds(2);
  world.workers[1].requests.add(600);
  CHECK(has(world.send({"INFO", "stats"}), "instantaneous_ops_per_sec:300\r\n"));
  world.steady_now += std::chrono::seconds(100);
  CHECK(has(world.send({"INFO", "stats"}), "instantaneous_ops_per_sec:0\r\n"));
}

TEST_CASE("INFO shows the transfer under way") {
  World world;
  world.adoptions.state = {
      .waiting = 2, .what = "import", .bytes_done = 5, .bytes_total = 9, .refusal = "no space left"};
  const std::string info = world.send({"INFO", "sepal"});
  for (const char* const line :
       {"transfer_running:import\r\n", "transfers_waiting:2\r\n", "transfer_bytes:5\r\n",
        "transfer_size_bytes:9\r\n", "adoption_refusal:no space left\r\n"})
    CHECK(has(info, line));
}

}  // namespace info_test
