#include <sepal/bloom/filter/filter.hpp>
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
                                       {.filters_max = 7, .pattern = "a\"*"});
  for (const char* part : {R"("items_added":2)", R"("keys":1,)", R"("errors":{"ERR":1})", R"("maxclients":2)",
                           R"("protected_mode":0,)", R"("acl_tls_certificate":0},)",
                           R"("failed_handshakes":{"client_certificate":0,)", R"("displaced":0},)",
                           R"("accepting":true)", R"("watched_max":7,"watched_pattern":"a\"*")"}) {
    CAPTURE(part, text);
    CHECK(has(text, part));
  }
}

TEST_CASE("a filter is a row under the names of its columns") {
  const SeenFilter filter{.database = 3,
                          .key = "\\xff",
                          .key_bytes = "\xff",
                          .facts = {.options = {.error_rate = 0.25, .expansion = 4},
                                    .capacity = 100,
                                    .item_count = 50,
                                    .byte_count = 512,
                                    .saved_bytes = 0,
                                    .layers = {},
                                    .usage = std::nullopt},
                          .layer_count = 1,
                          .measured = {.layers = {},
                                       .bits = 8,
                                       .bits_set = 4,
                                       .fill = 0.5,
                                       .item_estimate = 51.4,
                                       .false_positive_rate = 0.125}};
  CHECK(filters_json({&filter, 1}) ==
        R"({"columns":["database","key","key_encoded","capacity","items","estimate","fill","rate","asked",)"
        R"("expansion","layers","bytes","full_in"],)"
        R"("rows":[[3,"\\xff","%FF",100,50,51,0.5,0.125,0.25,4,1,512,null]]})");
  CHECK(filters_json({}).ends_with(R"("rows":[]})"));
}

TEST_CASE("a plan is that of a filter which is created so") {
  for (const std::uint32_t expansion : {0U, 2U}) {
    const bloom::FilterOptions options{.error_rate = 0.001, .capacity = 1'000'000, .expansion = expansion};
    const auto planned = bloom::Filter::plan(options, {.bytes_max = 1 << 30});
    const auto text = plan_json(options);
    REQUIRE(planned);
    REQUIRE(text);
    CHECK(has(*text, "{\"sepal\":{\"bytes\":" + std::to_string(planned->first_layer.byte_count()) +
                         ",\"probes\":" + std::to_string(planned->first_layer.probe_count)));
  }
  // The first layer of RedisBloom: BF.INFO answers 240 for this, of which 96 are headers.
  CHECK(has(*plan_json({.error_rate = 0.01, .capacity = 100}), R"("redisbloom":{"bytes":144,"probes":8,)"));
  CHECK(plan_json({.error_rate = 0.01, .capacity = 0}).error().code == Errc::out_of_range);
  CHECK(plan_json({.error_rate = 1, .capacity = 1}).error().code == Errc::out_of_range);
  CHECK(plan_json({.error_rate = 1e-9, .capacity = std::uint64_t{1} << 60}).error().code == Errc::too_large);
}

}  // namespace status_json_test
