#include <sepal/command/server/metrics_text.hpp>

#include <set>
#include <string>

#include "support/catch.hpp"
#include "world.hpp"

namespace metrics_text_test {

namespace {

using namespace sepal;
using namespace sepal::command;
using sepal::command::testing::World;
using namespace std::chrono_literals;

std::string metrics_of(World& world) {
  metrics::Exposition exposition(metrics::Format::prometheus);
  append_server_metrics(
      world.services, {.now = world.now, .steady_now = world.steady_now, .gate_waits = 3, .gate_closings = 4},
      exposition);
  return std::move(exposition).finish();
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("the metrics tell what clients asked and how it went") {
  World world;
  world.send({"BF.ADD", "k", "a"});
  // The session counts calls, with their time.
  world.dispatcher.count_calls(*world.outcome.spec, 1, 5us);
  world.send({"BF.MEXISTS", "k", "a", "b"});
  world.send({"BF.EXISTS", "other", "a"});
  world.send({"BF.INFO", "other"});
  world.send({"BF.ADD"});
  const std::string text = metrics_of(world);
  CHECK(has_line(text, "sepal_command_calls_total{command=\"bf.add\"} 1"));
  CHECK(has_line(text, "sepal_command_rejected_total{command=\"bf.add\"} 1"));
  CHECK(has_line(text, "sepal_command_failed_total{command=\"bf.info\"} 1"));
  CHECK(has_line(text, "sepal_errors_total{error=\"ERR\"} 2"));
  CHECK(has_line(text, "sepal_items_added_total 1"));
  CHECK(has_line(text, "sepal_items_looked_up_total 3"));
  CHECK(has_line(text, "sepal_items_found_total 1"));
  CHECK(has_line(text, "sepal_key_misses_total 2"));
  CHECK(has_line(text, "sepal_keys{database=\"0\"} 1"));
  CHECK(has_line(text, "sepal_gate_waits_total 3"));
  CHECK(has_line(text, "sepal_gate_closings_total 4"));
  CHECK(text.find("command=\"bf.card\"") == std::string::npos);
}

TEST_CASE("the metrics have limits beside what they limit") {
  World world;
  world.options.clients_max = 77;
  world.clients.rejected = 5;
  const std::string text = metrics_of(world);
  CHECK(has_line(text, "sepal_connections_max 77"));
  CHECK(has_line(text, "sepal_rejections_total{reason=\"maxclients\"} 5"));
  CHECK(has_line(text, "sepal_memory_max_bytes{purpose=\"clients\"} 1342177280"));
}

TEST_CASE("the purposes of memory are parts of one sum, and what holds them or lies in one is apart") {
  World world;
  const std::string text = metrics_of(world);
  std::set<std::string> purposes;
  const std::string before = "\nsepal_memory_bytes{purpose=\"";
  for (std::size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1))
    purposes.insert(text.substr(at + before.size(), text.find('"', at + before.size()) - at - before.size()));
  CHECK(purposes == std::set<std::string>{"filters", "replies", "requests", "scripts"});
  CHECK(has_line(text, "sepal_upload_bytes 0"));
  CHECK(text.find("\nsepal_process_resident_memory_bytes ") != std::string::npos);
}

TEST_CASE("the metrics tell how long clients are still paused") {
  World world;
  CHECK(has_line(metrics_of(world), "sepal_pause_left_seconds 0"));
  world.send({"CLIENT", "PAUSE", "5000"});
  CHECK(has_line(metrics_of(world), "sepal_pause_left_seconds 5"));
  world.send({"CLIENT", "UNPAUSE"});
}

TEST_CASE("the metrics tell how saves and the journal are") {
  World world;
  world.journal.state.syncs = 5;
  world.journal.state.failed_syncs = 2;
  world.persistence.state.saves_done = 2;
  world.persistence.state.saves_failed = 1;
  world.persistence.state.last_ok = false;
  // The wall clock was set back since that save.
  world.persistence.state.last_success = world.now + 1h;
  world.persistence.state.last_success_steady = world.steady_now - 90s;
  world.persistence.state.last_duration = 1500ms;
  const std::string text = metrics_of(world);
  CHECK(has_line(text, "sepal_saves_total 3"));
  CHECK(has_line(text, "sepal_saves_failed_total 1"));
  CHECK(has_line(text, "sepal_save_ok 0"));
  CHECK(has_line(text, "sepal_save_age_seconds 90"));
  CHECK(has_line(text, "sepal_save_duration_seconds 1.5"));
  CHECK(has_line(text, "sepal_journal_accepting 1"));
  CHECK(has_line(text, "sepal_journal_syncs_total 7"));
  CHECK(has_line(text, "sepal_journal_syncs_failed_total 2"));
  // The save ended after the moment of the metrics was read.
  world.persistence.state.last_success_steady = world.steady_now + 1ms;
  CHECK(has_line(metrics_of(world), "sepal_save_age_seconds 0"));
}

TEST_CASE("the durations of a command are a histogram whose last bucket has all calls") {
  World world;
  world.send({"PING"});
  const auto& row = *world.outcome.spec;
  world.dispatcher.count_calls(row, 2, 4us);
  world.dispatcher.count_calls(row, 1, 100s);
  const std::string text = metrics_of(world);
  const std::string name = "sepal_command_duration_seconds";
  CHECK(has_line(text, name + "_bucket{command=\"ping\",le=\"1.024e-06\"} 0"));
  CHECK(has_line(text, name + "_bucket{command=\"ping\",le=\"4.096e-06\"} 2"));
  CHECK(has_line(text, name + "_bucket{command=\"ping\",le=\"17.179869184\"} 2"));
  CHECK(has_line(text, name + "_bucket{command=\"ping\",le=\"+Inf\"} 3"));
  CHECK(has_line(text, name + "_count{command=\"ping\"} 3"));
}

TEST_CASE("a call that ran while latency-tracking was off counts in no part of the histogram") {
  World world;
  world.send({"PING"});
  const auto& row = *world.outcome.spec;
  world.dispatcher.count_calls(row, 2, 1500ms);
  world.options.latency_tracking = false;
  world.dispatcher.count_calls(row, 1, 100s);
  const std::string text = metrics_of(world);
  const std::string name = "sepal_command_duration_seconds";
  CHECK(has_line(text, name + "_count{command=\"ping\"} 2"));
  CHECK(has_line(text, name + "_sum{command=\"ping\"} 1.5"));
  CHECK(has_line(text, "sepal_command_calls_total{command=\"ping\"} 3"));
}

TEST_CASE("the metrics of filters leave out counts that a filter does not have") {
  FiltersSeen seen;
  std::vector<SeenFilter>& filters = seen.filters;
  filters.resize(2);
  SeenFilter& big = filters[0];
  big.database = 3;
  big.key = "big";
  big.capacity = 100;
  big.item_count = 60;
  big.usage.emplace().asked = 7;
  big.false_positive_rate = 0.25;
  big.rate_asked = 0.125;
  filters[1].key = "small";
  filters[1].kind = value::Kind::redis_cuckoo;
  filters[1].removed_count = 5;
  metrics::Exposition exposition(metrics::Format::prometheus);
  append_filter_metrics(seen, exposition);
  const std::string text = std::move(exposition).finish();
  CHECK(has_line(text, "sepal_filter_items{database=\"3\",key=\"big\"} 60"));
  CHECK(has_line(text, "sepal_filter_capacity_items{database=\"3\",key=\"big\"} 100"));
  CHECK(has_line(text, "sepal_filter_false_positive_ratio{database=\"3\",key=\"big\"} 0.25"));
  CHECK(has_line(text, "sepal_filter_lookups_total{database=\"3\",key=\"big\"} 7"));
  CHECK(has_line(text, "sepal_filter_layers{database=\"0\",key=\"small\"} 0"));
  CHECK(text.find("sepal_filter_lookups_total{database=\"0\"") == std::string::npos);
  CHECK(has_line(text, "sepal_filter_info{database=\"3\",key=\"big\",kind=\"bloom\"} 1"));
  CHECK(has_line(text, "sepal_filter_info{database=\"0\",key=\"small\",kind=\"redisbloom_cuckoo\"} 1"));
  CHECK(has_line(text, "sepal_filter_false_positive_asked_ratio{database=\"3\",key=\"big\"} 0.125"));
  CHECK(text.find("sepal_filter_false_positive_asked_ratio{database=\"0\"") == std::string::npos);
  CHECK(has_line(text, "sepal_filter_items_removed{database=\"0\",key=\"small\"} 5"));
  CHECK(text.find("sepal_filter_items_removed{database=\"3\"") == std::string::npos);
}

TEST_CASE("the metrics have what alert rules compare with") {
  World world;
  world.options.save_interval = 1234s;
  metrics::Exposition exposition(metrics::Format::prometheus);
  append_server_metrics(world.services,
                        {.now = world.now,
                         .steady_now = world.steady_now,
                         .unsaved_for = 90s,
                         .certificate = CertificateTimes{.start = 1'700'000'123, .end = 1'800'000'123}},
                        exposition);
  const std::string text = std::move(exposition).finish();
  CHECK(has_line(text, "sepal_save_interval_seconds 1234"));
  CHECK(has_line(text, "sepal_unsaved_seconds 90"));
  CHECK(has_line(text, "sepal_certificate_start_time_seconds 1700000123"));
  CHECK(has_line(text, "sepal_certificate_end_time_seconds 1800000123"));
  CHECK(metrics_of(world).find("sepal_certificate_") == std::string::npos);
}

TEST_CASE("the metrics count refused items by reason") {
  World world;
  world.send({"BF.RESERVE", "b", "0.01", "1", "NONSCALING"});
  world.send({"BF.ADD", "b", "1"});
  world.send({"BF.ADD", "b", "2"});
  const std::string text = metrics_of(world);
  CHECK(has_line(text, "sepal_adds_refused_total{reason=\"full\"} 1"));
  for (const char* reason : {"mirrored", "layers", "memory", "keys", "journal"})
    CHECK(has_line(text, std::string("sepal_adds_refused_total{reason=\"") + reason + "\"} 0"));
}

TEST_CASE("the metrics count all filters by state") {
  FiltersSeen seen;
  seen.counts.count(value::Kind::bloom, FilterState::full);
  seen.counts.count(value::Kind::window, FilterState::full);
  seen.counts.count(value::Kind::cuckoo, FilterState::fine);
  metrics::Exposition exposition(metrics::Format::prometheus);
  append_filter_metrics(seen, exposition);
  // Before the first look at all filters has ended, zeros would say that all is well.
  CHECK(std::move(exposition).finish().find("sepal_filters{") == std::string::npos);
  exposition = metrics::Exposition(metrics::Format::prometheus);
  seen.judged_at = SteadyTime();
  append_filter_metrics(seen, exposition);
  const std::string text = std::move(exposition).finish();
  for (const char* line : {"sepal_filters{state=\"full\"} 2", "sepal_filters{state=\"overfilled\"} 0",
                           "sepal_filters{state=\"mirror_broken\"} 0", "sepal_filters{state=\"filling\"} 0",
                           "sepal_filters{state=\"grown\"} 0", "sepal_filters{state=\"fine\"} 1"}) {
    CAPTURE(line);
    CHECK(has_line(text, line));
  }
}

}  // namespace metrics_text_test
