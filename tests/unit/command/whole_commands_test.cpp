#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/value/image.hpp>

#include "support/catch.hpp"
#include "support/rdb_dump.hpp"
#include "support/redisbloom_filter.hpp"
#include "support/values.hpp"
#include "world.hpp"

namespace whole_commands_test {

using namespace sepal;
using command::Next;
using command::testing::World;

namespace {

// The bytes of the reply "$bytes".
std::string bulk(const std::string& reply) {
  REQUIRE(reply.substr(0, 1) == "$");
  return reply.substr(1);
}

}  // namespace

TEST_CASE("a background job learns that its client has gone, or has its answer") {
  command::ClientState client;
  const auto gone = client.lifeline.tie();
  client.lifeline.untie();
  std::shared_ptr<const std::atomic<bool>> cut;
  {
    command::ClientState other;
    cut = other.lifeline.tie();
    CHECK_FALSE(*cut);
  }
  CHECK(*cut);
  CHECK_FALSE(*gone);
}

TEST_CASE("a payload with any byte changed, cut off or added is refused, and changes nothing") {
  World world;
  world.send({"BF.RESERVE", "a", "0.1", "10"});
  world.send({"BF.ADD", "a", "x"});
  const std::string payload = bulk(world.send({"DUMP", "a"}));
  const std::string wrong = "-ERR DUMP payload version or checksum are wrong";
  for (std::size_t at = 0; at < payload.size(); ++at) {
    std::string changed = payload;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    std::string answer = world.send({"RESTORE", "b", "0", changed});
    // A changed header can name a large filter.
    if (world.outcome.next == Next::wait) answer = world.adopt_first();
    REQUIRE(answer == wrong);
    REQUIRE(world.send({"RESTORE", "b", "0", std::string_view(payload).substr(0, at)}) == wrong);
  }
  CHECK(world.send({"RESTORE", "b", "0", payload + "x"}) == wrong);
  CHECK(world.send({"RESTORE", "a", "0", "rubbish", "REPLACE"}) == wrong);
  CHECK(world.send({"RESTORE", "a", "0", "rubbish"}) == "-BUSYKEY Target key name already exists.");
  CHECK(world.send({"DBSIZE"}) == ":1");
  CHECK(world.send({"BF.CARD", "a"}) == ":1");
}

TEST_CASE("RESTORE takes the payload that DUMP answered before") {
  World world;
  world.send({"BF.RESERVE", "a", "0.01", "100"});
  world.send({"BF.MADD", "a", "x", "y"});
  const auto image = value::image_of(*sepal::test::filter_at(world.keyspace, {.database = 0, .key = "a"}));
  std::string payload(reinterpret_cast<const char*>(image.data()), image.size());
  payload += std::string("\x01\0", 2);
  std::string sum(8, '\0');
  store_little_endian(std::as_writable_bytes(std::span(sum)).data(),
                      Checksum::of(std::as_bytes(std::span(payload))));
  CHECK(world.send({"RESTORE", "b", "0", payload + sum}) == "+OK");
  CHECK(value::image_of(*sepal::test::filter_at(world.keyspace, {.database = 0, .key = "b"})) == image);
  sum[0] = static_cast<char>(sum[0] ^ 1);
  CHECK(world.send({"RESTORE", "c", "0", payload + sum}) ==
        "-ERR DUMP payload version or checksum are wrong");
}

TEST_CASE("RESTORE takes Redis's dump of a RedisBloom filter, and the filter can grow") {
  const auto& dump = test::recorded_rdb_dumps()[GENERATE(0u, 1u, 2u)];
  World world;
  world.services.logs = world.recording.all_logs();
  CHECK(world.send({"RESTORE", "a", "0", dump.bytes}) == "+OK");
  CHECK(world.send({"BF.MEXISTS", "a", "a", "b", "c", "zz"}) == "*[:1, :1, :1, :0]");
  CHECK(world.send({"BF.CARD", "a"}) == ":" + std::to_string(dump.item_count));
  // From here on, the test uses Sepal's own payload.
  const std::string payload = bulk(world.send({"DUMP", "a"}));
  CHECK(world.send({"RESTORE", "b", "0", payload}) == "+OK");
  CHECK(world.send({"BF.MEXISTS", "b", "a", "b", "c", "zz"}) == "*[:1, :1, :1, :0]");
}

TEST_CASE("RESTORE has different errors for a damaged dump and for a dump of another type") {
  World world;
  std::string changed = test::recorded_rdb_dumps()[0].bytes;
  changed[20] = static_cast<char>(changed[20] ^ 1);
  CHECK(world.send({"RESTORE", "a", "0", changed}) == "-ERR DUMP payload version or checksum are wrong");
  test::RdbText text;
  text.bytes = changed.substr(0, changed.size() - 8);
  CHECK(world.send({"RESTORE", "a", "0", text.sealed()}) == "-ERR Bad data format");
  CHECK(world.send({"DBSIZE"}) == ":0");
}

TEST_CASE("a background thread unpacks a dump of Redis that may hold a large filter") {
  World world;
  const auto filter = test::empty_redisbloom({.error_rate = 0.01, .capacity = 60000, .expansion = 2});
  const std::string dump = test::rdb_dump(filter, {std::string(filter.layers[0].byte_count, '\0')},
                                          {.write_bits = test::write_packed});
  CHECK(dump.size() < keyspace::recorded_image_bytes_max);
  CHECK(filter.layers[0].byte_count > keyspace::recorded_image_bytes_max);
  CHECK(world.send({"RESTORE", "a", "0", dump}) == "");
  CHECK(world.outcome.next == Next::wait);
  CHECK(world.adopt_first() == "+OK");
  CHECK(world.send({"BF.INFO", "a", "CAPACITY"}) == "*[:60000]");
  CHECK(world.send({"BF.DEBUG", "a"}) ==
        "*[$size:0, $bytes:71888 bits:575104 hashes:7 hashwidth:64 capacity:60000 size:0 ratio:0.01]");
}

TEST_CASE("a plain name cannot lead to another folder") {
  using command::is_plain_name;
  for (const std::string_view name : {"a", "users-2024.sepal", "a..b", "a b"}) CHECK(is_plain_name(name));
  for (const std::string_view name : {"", ".", "..", "...", ".a", "a/b", "/a", "a/"})
    CHECK_FALSE(is_plain_name(name));
  CHECK_FALSE(is_plain_name(std::string_view("a\0b", 3)));
  CHECK(is_plain_name(std::string(command::plain_name_bytes_max, 'x')));
  CHECK_FALSE(is_plain_name(std::string(command::plain_name_bytes_max + 1, 'x')));
}

}  // namespace whole_commands_test
