#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "support/catch.hpp"
#include "world.hpp"

namespace info_test {

using sepal::command::testing::World;

namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// The names between backticks in the first columns of the tables that are headed "in `INFO sepal`".
std::set<std::string> documented_fields() {
  std::ifstream file(SEPAL_SOURCE_FOLDER "/docs/operations.md");
  REQUIRE(file);
  std::set<std::string> names;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| in `INFO sepal` |")) {
      in_table = true;
      continue;
    }
    in_table = in_table && line.starts_with("|");
    if (!in_table) continue;
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

TEST_CASE("docs/operations.md lists exactly the fields of INFO sepal", "[command]") {
  World world;
  std::istringstream lines(world.send({"INFO", "sepal"}));
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);)
    if (line.find(':') != std::string::npos) names.insert(line.substr(0, line.find(':')));
  CHECK(names.size() > 10);
  CHECK(documented_fields() == names);
}

TEST_CASE("INFO shows the sections that are asked for", "[command]") {
  World world;
  const std::string usual = world.send({"INFO"});
  for (const char* title : {"# Server", "# Clients", "# Memory", "# Persistence", "# Stats", "# Replication",
                            "# CPU", "# Modules", "# Errorstats", "# Cluster", "# Keyspace", "# Sepal"})
    CHECK(has(usual, title));
  CHECK_FALSE(has(usual, "# Commandstats"));
  CHECK(has(world.send({"INFO", "everything"}), "# Commandstats"));
  CHECK(world.send({"INFO", "CLUSTER"}) == "$# Cluster\r\ncluster_enabled:0\r\n");
  CHECK(world.send({"INFO", "cluster", "nosuch", "keyspace"}) ==
        "$# Cluster\r\ncluster_enabled:0\r\n\r\n# Keyspace\r\n");
  CHECK(world.send({"INFO", "nosuch"}) == "$");
  world.send({"HELLO", "3"});
  CHECK(world.send({"INFO", "nosuch"}) == "=txt:");
}

TEST_CASE("INFO shows the facts of the server", "[command]") {
  World world;
  world.control.about.process_id = 42;
  world.control.about.port = 6379;
  world.control.used = {.cpu_user_seconds = 1.5,
                        .cpu_system_seconds = 0.25,
                        .resident_bytes = 3 << 20,
                        .resident_peak_bytes = 4 << 20};
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

TEST_CASE("INFO keyspace lists the databases that hold keys", "[command]") {
  World world;
  world.send({"BF.ADD", "a", "x"});
  world.send({"SELECT", "5"});
  world.send({"BF.ADD", "b", "x"});
  CHECK(world.send({"INFO", "keyspace"}) ==
        "$# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0,subexpiry=0\r\n"
        "db5:keys=1,expires=0,avg_ttl=0,subexpiry=0\r\n");
}

TEST_CASE("INFO persistence shows the results of saves", "[command]") {
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

TEST_CASE("INFO shows the state of the journal", "[command]") {
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
  CHECK(has(sepal, "journal_syncs:3\r\njournal_failed_syncs:1\r\njournal_refusing:0\r\n"));

  world.journal.state.accepting = false;
  world.journal.state.refusal = "no space left";
  CHECK(has(world.send({"INFO", "persistence"}), "aof_last_write_status:err\r\n"));
  CHECK(has(world.send({"INFO", "sepal"}), "journal_refusing:1\r\njournal_refusal:no space left\r\n"));
  world.options.journal = sepal::keyspace::JournalPolicy::off;
  const std::string off = world.send({"INFO", "persistence"});
  CHECK(has(off, "aof_enabled:0\r\n"));
  CHECK_FALSE(has(off, "aof_current_size"));
}

TEST_CASE("INFO persistence shows the progress and the expected time of the load", "[command]") {
  World world;
  auto& load = world.services.load;
  CHECK(has(world.send({"INFO", "persistence"}), "loading:0\r\nasync_loading:0\r\n"));
  CHECK_FALSE(has(world.send({"INFO", "persistence"}), "loading_"));
  load = {.running = true, .started = world.now, .filters = 3};
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

TEST_CASE("errors are counted by their first word over all workers", "[command]") {
  World world;
  world.send({"NOSUCH"});
  world.send({"BF.INSERT", "k", "FOO", "ITEMS", "a"});
  world.send({"HELLO", "9"});
  sepal::command::Dispatcher other(world.services, 1);
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

TEST_CASE("statistics of commands sum over the workers", "[command]") {
  World world;
  const auto& add = *sepal::command::find_command("bf.add");
  sepal::command::Dispatcher other(world.services, 1);
  world.dispatcher.record(add, 1, std::chrono::microseconds(3));
  other.record(add, 3, std::chrono::microseconds(9));
  world.send({"BF.ADD", "k"});
  CHECK(world.send({"INFO", "commandstats"}) ==
        "$# "
        "Commandstats\r\ncmdstat_bf.add:calls=4,usec=12,usec_per_call=3.00,rejected_calls=1,failed_calls="
        "0\r\n");
  CHECK(world.send({"INFO", "latencystats"})
            .starts_with("$# Latencystats\r\nlatency_percentiles_usec_bf.add:p50=3."));
}

TEST_CASE("the rate of operations is that of the last seconds", "[command]") {
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

}  // namespace info_test
