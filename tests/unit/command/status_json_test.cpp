#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/window/plan.hpp>
#include <sepal/command/server/status_json.hpp>

#include "support/catch.hpp"
#include "world.hpp"

namespace status_json_test {

namespace {

using namespace sepal;
using namespace sepal::command;
using sepal::command::testing::World;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the status has what clients did and what was rejected") {
  World world;
  world.send({"BF.MADD", "k", "a", "b"});
  world.send({"BF.INFO", "other"});
  const std::string text = server_json(world.services, {.now = world.now, .steady_now = world.steady_now},
                                       {.filters_max = 7, .pattern = "a\"*"}, Recent(world.steady_now));
  for (const char* part :
       {R"("items_added":2)", R"("keys":1,)", R"("errors":{"ERR":1})", R"("maxclients":2)",
        R"("protected_mode":0,)", R"("acl_tls_certificate":0},)",
        R"("tls_handshakes_failed":{"client_certificate":0,)", R"("displaced":0},)", R"("accepting":true)",
        R"("http_metrics_filters":7,"http_metrics_pattern":"a\"*")"}) {
    CAPTURE(part, text);
    CHECK(has(text, part));
  }
}

TEST_CASE("the status has what the server's clock shows") {
  World world;
  world.now = WallTime(std::chrono::milliseconds(1'800'000'000'250));
  const std::string text = server_json(world.services, {.now = world.now, .steady_now = world.steady_now}, {},
                                       Recent(world.steady_now));
  CHECK(has(text, R"("time_seconds":1800000000.25,)"));
}

TEST_CASE("the status has a pause of clients while it runs") {
  World world;
  const auto pause = [&](std::chrono::seconds later) {
    const std::string text =
        server_json(world.services, {.now = world.now + later, .steady_now = world.steady_now + later}, {},
                    Recent(world.steady_now));
    const std::size_t begin = text.find("\"pause\":");
    return text.substr(begin, text.find("\"busy_script\"") - begin);
  };
  using std::chrono::seconds;
  CHECK(pause(seconds(0)) == R"("pause":null,)");
  world.send({"CLIENT", "PAUSE", "25000", "WRITE"});
  CHECK(pause(seconds(5)) == R"("pause":{"actions":"write","left_seconds":20},)");
  CHECK(pause(seconds(25)) == R"("pause":null,)");
  world.send({"CLIENT", "UNPAUSE"});
  CHECK(pause(seconds(0)) == R"("pause":null,)");
  world.send({"CLIENT", "PAUSE", "2000"});
  CHECK(pause(seconds(1)) == R"("pause":{"actions":"all","left_seconds":1},)");
}

TEST_CASE("a filter is a row under the names of its columns") {
  const SeenFilter filter{
      .database = 3,
      .key = "\\xff",
      .key_bytes = "\xff",
      .capacity = 100,
      .item_count = 50,
      .byte_count = 512,
      .layer_count = 1,
      .expansion = 4,
      .growth_limit = GrowthLimit::memory,
      .fill = 0.5,
      .false_positive_rate = 0.125,
      .rate_asked = 0.25,
      .item_estimate = 51.4,
      .deadline = 1'800'000'000'123,
      .mirror =
          SeenMirror{.is_source = true, .other = "t\xfe", .state = keyspace::MirrorState::full, .items = 7}};
  const std::string columns =
      R"({"columns":["database","key","key_encoded","kind","capacity","capacity_max","items",)"
      R"("items_estimated","items_removed","fill","false_positive_rate_now","false_positive_rate_asked","expansion",)"
      R"("growth_limit","layer_count","memory_bytes","seconds_until_full","state","deadline_time_seconds",)"
      R"("mirror"],)";
  const std::string mirror = R"({"role":"source","other":"t\\xfe","other_encoded":"%74%FE","state":"broken",)"
                             R"("reason":"the target does not scale and is full","items_mirrored":7})";
  CHECK(
      filters_json({.filters = {filter}})
          .starts_with(
              columns +
              R"("rows":[[3,"\\xff","%FF","bloom",100,null,50,51,null,0.5,0.125,0.25,4,"memory",1,512,null,)" +
              R"("mirror_broken",1800000000.123,)" + mirror + "]],"));
  CHECK(has(filter_json({.seen = filter, .layers = {}, .history = {}}),
            R"("state":"mirror_broken","deadline_time_seconds":1800000000.123,"mirror":)" + mirror));
}

TEST_CASE("beside the filters that are shown stands how many there are in each state") {
  CHECK(filters_json({}).ends_with(
      R"("rows":[],"shown":0,"troubled_shown":0,"total":0,"troubled":0,"states":{"full":0,"overfilled":0,)"
      R"("mirror_broken":0,"filling":0,"grown":0,"fine":0},)"
      R"("kinds":{"bloom":0,"cuckoo":0,"redisbloom_cuckoo":0,"window":0}})"));
  FiltersSeen seen{.filters = {SeenFilter{.refuses = true}, SeenFilter{}}};
  seen.counts.count(value::Kind::bloom, FilterState::full);
  seen.counts.count(value::Kind::bloom, FilterState::full);
  seen.counts.count(value::Kind::window, FilterState::fine);
  CHECK(has(filters_json(seen),
            R"("shown":2,"troubled_shown":1,"total":3,"troubled":2,"states":{"full":2,"overfilled":0,)"));
}

TEST_CASE("the status has the mirrors, the deadlines, and how many filters are in which state") {
  World world;
  world.send({"BF.RESERVE", "full", "0.01", "10", "NONSCALING"});
  world.send({"BF.RESERVE", "t", "0.01", "10", "NONSCALING"});
  world.send({"BF.ADD", "other", "a"});
  world.send({"EXPIRE", "other", "100"});
  world.send({"BF.MIRROR", "other", "t"});
  for (int i = 0; i < 30; ++i) world.send({"BF.ADD", "other", std::to_string(i)});
  FilterCounts counts;
  counts.count(value::Kind::bloom, FilterState::mirror_broken);
  world.options.save_interval = std::chrono::seconds(77);
  // The wall clock was set back since that save.
  world.persistence.state.last_success = world.now + std::chrono::hours(1);
  world.persistence.state.last_success_steady = world.steady_now - std::chrono::seconds(90);
  const std::string text =
      server_json(world.services, {.now = world.now, .steady_now = world.steady_now},
                  {.counts = counts, .judged_at = world.steady_now - std::chrono::milliseconds(2500)},
                  Recent(world.steady_now));
  for (
      const char* part :
      {R"("certificate":null)", R"("keys_with_deadline":1)", R"("age_seconds":90)",
       R"("interval_seconds":77)", R"("kernel":")",
       R"("mirrors":[{"database":0,"source":"other","source_encoded":null,"target":"t","target_encoded":null,)"
       R"("state":"broken","reason":"the target does not scale and is full","items_mirrored":30}])",
       R"("filters":{"total":1,"troubled":1,"states":{"full":0,"overfilled":0,"mirror_broken":1,)",
       R"("judged_age_seconds":2.5})"}) {
    CAPTURE(part, text);
    CHECK(has(text, part));
  }
  const std::string other =
      server_json(world.services,
                  {.now = world.now,
                   .steady_now = world.steady_now,
                   .certificate = CertificateTimes{.start = 1'700'000'000, .end = 1'800'000'000}},
                  {}, Recent(world.steady_now));
  CHECK(has(other, R"("judged_age_seconds":null})"));
  CHECK(has(other, R"("certificate":{"start_time_seconds":1700000000,"end_time_seconds":1800000000})"));
}

TEST_CASE("a filter that deletes is a row with null for what it does not have") {
  const SeenFilter filter{.key = "k",
                          .key_bytes = "k",
                          .kind = value::Kind::redis_cuckoo,
                          .capacity = 8,
                          .item_count = 4,
                          .byte_count = 64,
                          .layer_count = 1,
                          .expansion = 1,
                          .fill = 0.5,
                          .false_positive_rate = 0.125,
                          .removed_count = 2};
  CHECK(has(
      filters_json({.filters = {filter}}),
      R"([[0,"k",null,"redisbloom_cuckoo",8,null,4,null,2,0.5,0.125,null,1,null,1,64,null,"fine",null,null]])"));
  const std::string detail =
      filter_json({.seen = filter,
                   .layers = std::vector<SeenRedisLayer>{{.buckets = 4, .slots = 8, .fill = 0.5}},
                   .history = {}});
  CHECK(has(detail, R"("kind":"redisbloom_cuckoo")"));
  CHECK(has(
      detail,
      R"("layers":[{"buckets":4,"slots":8,"fill":0.5}],"window":null,"load":null,"curve":null,"history":[])"));
  const std::string own = filter_json(
      {.seen = {.key = "k", .key_bytes = "k", .kind = value::Kind::cuckoo},
       .layers =
           std::vector<cuckoo::Filter::LayerFigures>{{.items = 3, .cells = 1, .slots = 8, .slots_used = 2}},
       .history = {}});
  CHECK(has(
      own,
      R"("layers":[{"items":3,"cells":1,"slots":8,"slots_used":2,"memory_bytes":0,"false_positive_rate_now":0}])"));
}

TEST_CASE("a plan is that of a filter which is created so") {
  for (const std::uint32_t expansion : {0U, 2U}) {
    const bloom::FilterOptions options{.error_rate = 0.001, .capacity = 1'000'000, .expansion = expansion};
    const auto planned = bloom::Filter::plan(options, {.bytes_max = 1 << 30});
    const auto text = plan_json(options);
    REQUIRE(planned);
    REQUIRE(text);
    CHECK(has(*text, "\"sepal\":{\"bitmap_bytes\":" + std::to_string(planned->first_layer.byte_count()) +
                         ",\"probes\":" + std::to_string(planned->first_layer.probe_count)));
  }
  // The first layer of RedisBloom: BF.INFO answers 240 for this, of which 96 are headers.
  CHECK(has(*plan_json({.error_rate = 0.01, .capacity = 100}),
            R"("redisbloom":{"bitmap_bytes":144,"probes":8,)"));
  CHECK(plan_json({.error_rate = 0.01, .capacity = 0}).error().code == Errc::out_of_range);
  CHECK(plan_json({.error_rate = 1, .capacity = 1}).error().code == Errc::out_of_range);
  CHECK(plan_json({.error_rate = 1e-9, .capacity = std::uint64_t{1} << 60}).error().code == Errc::too_large);
}

TEST_CASE("the plan of a filter that forgets is the one that a client's filter is made of") {
  bloom::WindowOptions options{.error_rate = 0.001, .capacity = 72'000'000, .milliseconds = 3'600'000};
  const auto planned = bloom::plan_window(options, std::uint64_t{1} << 50);
  const auto text = window_plan_json(options);
  REQUIRE(planned);
  REQUIRE(text);
  CAPTURE(*text);
  CHECK(has(*text,
            "\"sepal\":{\"bitmap_bytes\":" + std::to_string(planned->byte_count(options.lanes())) + ","));
  CHECK(has(*text, R"("generation_capacity":18000000,"generation_seconds":900})"));
  options.milliseconds = 0;
  CHECK(has(*window_plan_json(options), R"("generation_capacity":18000000,"generation_seconds":null})"));
  options.capacity = 3;
  CHECK(window_plan_json(options).error().code == Errc::out_of_range);
  options.capacity = std::uint64_t{1} << 60;
  CHECK(window_plan_json(options).error().code == Errc::too_large);
}

}  // namespace status_json_test
