#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/foreign/rdb.hpp>

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/rdb_dump.hpp"
#include "support/redisbloom_filter.hpp"
#include "world.hpp"

namespace whole_commands_test {

using namespace sepal;
using command::Adoption;
using command::Next;
using command::testing::World;
using keyspace::DatabaseKey;
using test::Recorded;

namespace {

const std::string big_capacity = "1000000";

// Does what the thread of adoptions would do with the only waiting job. Returns the reply.
std::string work_off(World& world) {
  REQUIRE(world.adoptions.waiting.size() == 1);
  auto waiting = std::move(world.adoptions.waiting.front());
  world.adoptions.waiting.clear();
  const command::JobContext job{.limits = world.keyspace.filter_limits(),
                                .hold = [](std::uint64_t) { return Result<void>(); },
                                .go_on = {}};
  resp::Reply reply;
  if (waiting.errand.run) {
    waiting.errand.run(job)(reply);
  } else {
    const Adoption& adoption = waiting.adoption;
    const DatabaseKey key{.database = adoption.database, .key = adoption.key};
    auto made = adoption.make(job);
    Result<void> outcome = made ? Result<void>() : made.error();
    if (made && adoption.still_wanted && !adoption.still_wanted()) outcome = fail(Errc::no_such_key);
    if (outcome && !adoption.replace && world.keyspace.find(key) != nullptr) outcome = fail(Errc::key_exists);
    if (outcome) outcome = world.keyspace.put(key, *made, adoption.deadline);
    adoption.answer(reply, outcome);
  }
  std::string encoded;
  reply.fill(std::numeric_limits<std::size_t>::max());
  reply.swap_out(encoded);
  return command::testing::readable(encoded);
}

// The bytes of the reply "$bytes".
std::string bulk(const std::string& reply) {
  REQUIRE(reply.substr(0, 1) == "$");
  return reply.substr(1);
}

void record(World& world) {
  world.services.logs = world.recording.all_logs();
}

}  // namespace

TEST_CASE("COPY of a small filter is done at once, with its deadline, and recorded as an image",
          "[command][whole]") {
  World world;
  record(world);
  world.send({"BF.MADD", "a", "x", "y"});
  world.send({"PEXPIREAT", "a", "33177117420000"});
  CHECK(world.send({"COPY", "a", "b"}) == ":1");
  CHECK(world.send({"BF.MEXISTS", "b", "x", "y", "z"}) == "*[:1, :1, :0]");
  CHECK(world.send({"PEXPIRETIME", "b"}) == ":33177117420000");
  world.send({"BF.ADD", "b", "z"});
  CHECK(world.send({"BF.EXISTS", "a", "z"}) == ":0");
  CHECK(world.adoptions.waiting.empty());
  world.dispatcher.commit();
  const auto told = world.recording.operations();
  std::size_t adopted = 0;
  for (const Recorded& recorded : told) {
    if (recorded.kind != Recorded::Kind::adopted) continue;
    ++adopted;
    CHECK(recorded.key == "b");
    CHECK(recorded.deadline == 33177117420000);
    CHECK_FALSE(recorded.image.empty());
  }
  CHECK(adopted == 1);
  CHECK(world.recording.admitted_bytes() >= keyspace::recorded_image_bytes_max);
}

TEST_CASE("COPY needs a free target, or REPLACE", "[command][whole]") {
  World world;
  world.send({"BF.ADD", "a", "x"});
  world.send({"BF.ADD", "b", "y"});
  CHECK(world.send({"COPY", "none", "c"}) == ":0");
  CHECK(world.send({"COPY", "a", "b"}) == ":0");
  CHECK(world.send({"BF.EXISTS", "b", "y"}) == ":1");
  CHECK(world.send({"COPY", "a", "b", "REPLACE"}) == ":1");
  CHECK(world.send({"BF.MEXISTS", "b", "x", "y"}) == "*[:1, :0]");
  CHECK(world.send({"COPY", "a", "a"}) == "-ERR source and destination objects are the same");
  CHECK(world.send({"COPY", "a", "a", "DB", "5"}) == ":1");
  CHECK(world.keyspace.find({.database = 5, .key = "a"}) != nullptr);
  // A key past its deadline counts as free.
  REQUIRE(world.keyspace.set_deadline({.database = 5, .key = "a"}, 1));
  CHECK(world.send({"COPY", "a", "a", "DB", "5"}) == ":1");
  CHECK(world.keyspace.deadline({.database = 5, .key = "a"}) == keyspace::no_deadline);
}

TEST_CASE("a background thread copies a big filter, as it was when COPY was sent", "[command][whole]") {
  World world;
  record(world);
  world.send({"BF.RESERVE", "a", "0.01", big_capacity});
  world.send({"BF.MADD", "a", "x", "y"});
  CHECK(world.send({"COPY", "a", "b"}) == "");
  CHECK(world.outcome.next == Next::wait);
  CHECK(world.connection("a").client.lifeline.tied());
  CHECK(world.adoptions.waiting[0].adoption.what == "copy");
  CHECK(world.keyspace.find({.database = 0, .key = "b"}) == nullptr);
  world.send_from("other", {"DEL", "a"});
  CHECK(work_off(world) == ":1");
  CHECK(world.send({"BF.CARD", "b"}) == ":2");
  world.send({"BF.RESERVE", "a", "0.01", big_capacity});
  world.send({"COPY", "b", "c"});
  world.send_from("other", {"BF.ADD", "c", "mine"});
  CHECK(work_off(world) == ":0");
  SECTION("its source was there") {
    world.send({"COPY", "b", "d", "DB", "3"});
    world.send_from("other", {"FLUSHDB"});
  }
  SECTION("its database was empty") {
    world.send({"COPY", "b", "d", "DB", "3"});
    world.send_from("other", {"DEL", "a", "b", "c"});
    world.send_from("other", {"FLUSHALL"});
  }
  SECTION("its database has another number") {
    world.send({"COPY", "b", "d", "DB", "3"});
    world.send_from("other", {"SWAPDB", "0", "1"});
    world.send_from("other", {"SELECT", "1"});
    world.send_from("other", {"FLUSHDB"});
  }
  CHECK(work_off(world) == ":0");
  CHECK(world.keyspace.total_size() == 0);
}

TEST_CASE("a background job learns that its client has gone, or has its answer", "[command][whole]") {
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

TEST_CASE("a payload restores the filter, small or big", "[command][whole]") {
  const std::string capacity = GENERATE(std::string("100"), big_capacity);
  const bool big = capacity == big_capacity;
  World world;
  world.send({"BF.RESERVE", "a", "0.01", capacity});
  world.send({"BF.MADD", "a", "x", "y"});
  std::string payload = world.send({"DUMP", "a"});
  CHECK((world.outcome.next == Next::wait) == big);
  if (big) payload = work_off(world);
  payload = bulk(payload);
  CHECK(world.send({"DUMP", "none"}) == "$null");
  std::string restored = world.send({"RESTORE", "b", "0", payload});
  if (big) restored = work_off(world);
  CHECK(restored == "+OK");
  CHECK(bloom::whole_image(*world.keyspace.find({.database = 0, .key = "a"})) ==
        bloom::whole_image(*world.keyspace.find({.database = 0, .key = "b"})));
}

TEST_CASE("a payload with any byte changed, cut off or added is refused, and changes nothing",
          "[command][whole]") {
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
    if (world.outcome.next == Next::wait) answer = work_off(world);
    REQUIRE(answer == wrong);
    REQUIRE(world.send({"RESTORE", "b", "0", std::string_view(payload).substr(0, at)}) == wrong);
  }
  CHECK(world.send({"RESTORE", "b", "0", payload + "x"}) == wrong);
  CHECK(world.send({"RESTORE", "a", "0", "rubbish", "REPLACE"}) == wrong);
  CHECK(world.send({"RESTORE", "a", "0", "rubbish"}) == "-BUSYKEY Target key name already exists.");
  CHECK(world.send({"DBSIZE"}) == ":1");
  CHECK(world.send({"BF.CARD", "a"}) == ":1");
}

TEST_CASE("RESTORE takes the payload that DUMP answered before", "[command][whole]") {
  World world;
  world.send({"BF.RESERVE", "a", "0.01", "100"});
  world.send({"BF.MADD", "a", "x", "y"});
  const auto image = bloom::whole_image(*world.keyspace.find({.database = 0, .key = "a"}));
  std::string payload(reinterpret_cast<const char*>(image.data()), image.size());
  payload += std::string("\x01\0", 2);
  std::string sum(8, '\0');
  store_little_endian(std::as_writable_bytes(std::span(sum)).data(),
                      Checksum::of(std::as_bytes(std::span(payload))));
  CHECK(world.send({"RESTORE", "b", "0", payload + sum}) == "+OK");
  CHECK(bloom::whole_image(*world.keyspace.find({.database = 0, .key = "b"})) == image);
  sum[0] = static_cast<char>(sum[0] ^ 1);
  CHECK(world.send({"RESTORE", "c", "0", payload + sum}) ==
        "-ERR DUMP payload version or checksum are wrong");
}

TEST_CASE("RESTORE takes Redis's dump of a RedisBloom filter, and the filter can grow", "[command][whole]") {
  const auto& dump = test::recorded_rdb_dumps()[GENERATE(0u, 1u, 2u)];
  World world;
  record(world);
  CHECK(world.send({"RESTORE", "a", "0", dump.bytes}) == "+OK");
  CHECK(world.send({"BF.MEXISTS", "a", "a", "b", "c", "zz"}) == "*[:1, :1, :1, :0]");
  CHECK(world.send({"BF.CARD", "a"}) == ":" + std::to_string(dump.item_count));
  // From here on, the test uses Sepal's own payload.
  const std::string payload = bulk(world.send({"DUMP", "a"}));
  CHECK(world.send({"RESTORE", "b", "0", payload}) == "+OK");
  CHECK(world.send({"BF.MEXISTS", "b", "a", "b", "c", "zz"}) == "*[:1, :1, :1, :0]");
}

TEST_CASE("RESTORE has different errors for a damaged dump and for a dump of another type",
          "[command][whole]") {
  World world;
  std::string changed = test::recorded_rdb_dumps()[0].bytes;
  changed[20] = static_cast<char>(changed[20] ^ 1);
  CHECK(world.send({"RESTORE", "a", "0", changed}) == "-ERR DUMP payload version or checksum are wrong");
  test::RdbText text;
  text.bytes = changed.substr(0, changed.size() - 8);
  CHECK(world.send({"RESTORE", "a", "0", text.sealed()}) == "-ERR Bad data format");
  CHECK(world.send({"DBSIZE"}) == ":0");
}

TEST_CASE("a background thread unpacks a dump of Redis that may hold a large filter", "[command][whole]") {
  World world;
  const auto filter = test::empty_redisbloom({.error_rate = 0.01, .capacity = 60000, .expansion = 2});
  const std::string dump = test::rdb_dump(filter, {std::string(filter.layers[0].byte_count, '\0')},
                                          {.write_bits = test::write_packed});
  CHECK(dump.size() < keyspace::recorded_image_bytes_max);
  CHECK(filter.layers[0].byte_count > keyspace::recorded_image_bytes_max);
  CHECK(world.send({"RESTORE", "a", "0", dump}) == "");
  CHECK(world.outcome.next == Next::wait);
  CHECK(work_off(world) == "+OK");
  CHECK(world.send({"BF.INFO", "a", "CAPACITY"}) == "*[:60000]");
  CHECK(world.send({"BF.DEBUG", "a"}) ==
        "*[$size:0, $bytes:71888 bits:575104 hashes:7 hashwidth:64 capacity:60000 size:0 ratio:0.01]");
}

TEST_CASE("RESTORE sets the deadline that it is given", "[command][whole]") {
  World world;
  world.send({"BF.ADD", "a", "x"});
  const std::string payload = bulk(world.send({"DUMP", "a"}));
  CHECK(world.send({"RESTORE", "b", "1000", payload}) == "+OK");
  CHECK(world.send({"PTTL", "b"}) == ":1000");
  CHECK(world.send({"RESTORE", "b", "0", payload, "REPLACE"}) == "+OK");
  CHECK(world.send({"PTTL", "b"}) == ":-1");
  CHECK(world.send({"RESTORE", "b", "33177117420000", payload, "replace", "absttl"}) == "+OK");
  CHECK(world.send({"PEXPIRETIME", "b"}) == ":33177117420000");
  // A deadline in the past: the key is free afterwards, and the replaced filter is gone as well.
  CHECK(world.send({"RESTORE", "b", "5", payload, "REPLACE", "ABSTTL"}) == "+OK");
  CHECK(world.send({"EXISTS", "b"}) == ":0");
  // The longest possible time to live, and one millisecond more.
  const std::int64_t now =
      std::chrono::floor<std::chrono::milliseconds>(world.now.time_since_epoch()).count();
  const std::int64_t longest = std::numeric_limits<std::int64_t>::max() - now;
  const char* const too_long = "-ERR invalid expire time in 'restore' command";
  CHECK(world.send({"RESTORE", "b", "9223372036854775807", payload}) == too_long);
  CHECK(world.send({"RESTORE", "b", std::to_string(longest + 1), payload}) == too_long);
  CHECK(world.send({"EXISTS", "b"}) == ":0");
  CHECK(world.send({"RESTORE", "b", std::to_string(longest), payload}) == "+OK");
  CHECK(world.send({"PEXPIRETIME", "b"}) == ":9223372036854775807");
  CHECK(world.send({"RESTORE", "b", "9223372036854775807", payload, "REPLACE", "ABSTTL"}) == "+OK");
  CHECK(world.send({"PEXPIRETIME", "b"}) == ":9223372036854775807");
  CHECK(world.send({"RESTORE", "c", "-9223372036854775808", payload, "ABSTTL"}) ==
        "-ERR Invalid TTL value, must be >= 0");
  CHECK(world.send({"RESTORE", "c", "-1", payload}) == "-ERR Invalid TTL value, must be >= 0");
  CHECK(world.send({"RESTORE", "c", "x", payload}) == "-ERR value is not an integer or out of range");
  CHECK(world.send({"RESTORE", "c", "0", payload, "IDLETIME", "5", "FREQ", "5"}) == "-ERR syntax error");
  CHECK(world.send({"RESTORE", "c", "0", payload, "FREQ", "255"}) == "+OK");
}

TEST_CASE("a payload that needs too much memory is refused with an error that says so", "[command][whole]") {
  World world;
  world.send({"BF.RESERVE", "a", "0.01", "1000"});
  const std::string payload = bulk(world.send({"DUMP", "a"}));
  world.keyspace.set_memory_max(world.keyspace.memory_used() + 1000);
  CHECK(world.send({"RESTORE", "b", "0", payload}) == "-ERR Insufficient memory to create filter");
  CHECK(world.send({"COPY", "a", "b"}) == "-ERR Insufficient memory to create filter");
}

TEST_CASE("a filter too large for one argument is not dumped", "[command][whole]") {
  World world;
  world.send({"BF.RESERVE", "a", "0.01", "1000"});
  world.options.parser.bulk_bytes_max = 1000;
  CHECK(world.send({"DUMP", "a"}) ==
        "-ERR the filter is larger than one argument may be: use BF.EXPORT or BF.SCANDUMP");
}

TEST_CASE("a background thread imports and exports files of the folder", "[command][whole]") {
  World world;
  world.send({"BF.MADD", "a", "x", "y"});
  CHECK(world.send({"BF.EXPORT", "a", "file"}) == "");
  CHECK(world.outcome.next == Next::wait);
  CHECK(work_off(world) == "+OK");
  CHECK(world.send({"BF.IMPORT", "a", "file"}) == "-ERR item exists");
  CHECK(world.send({"BF.IMPORT", "b", "file"}) == "");
  CHECK(world.adoptions.waiting[0].adoption.what == "import");
  CHECK(work_off(world) == "+OK");
  CHECK(world.send({"BF.CARD", "b"}) == ":2");
  world.send({"BF.IMPORT", "c", "none"});
  CHECK(work_off(world) == "-ERR cannot open none");
  CHECK(world.send({"BF.IMPORT", "c", "file", "FOO"}) == "-ERR syntax error");
  CHECK(world.send({"BF.EXPORT", "none", "file"}) == "-ERR not found");
  world.transfers.there = false;
  CHECK(world.send({"BF.IMPORT", "c", "file"}) ==
        "-ERR the server runs without import_dir; start it with --import-dir");
  CHECK(world.send({"BF.EXPORT", "a", "file"}) ==
        "-ERR the server runs without import_dir; start it with --import-dir");
}

TEST_CASE("the error for a file's name tells the rule that it breaks", "[command][whole]") {
  World world;
  world.send({"BF.ADD", "a", "x"});
  const std::pair<std::string, std::string> refused[] = {
      {"", "the name of the file is empty"},
      {std::string(256, 'x'), "the name of the file is longer than 255 bytes"},
      {"a/b", "the file must be a name in import_dir, without '/'"},
      {".a", "the name of the file must not begin with '.'"},
      {"a\nb", "the name of the file has control characters"},
      {"a\x1b[2J", "the name of the file has control characters"},
      {"a\x7f", "the name of the file has control characters"}};
  for (const auto& [name, text] : refused) {
    CHECK(world.send({"BF.EXPORT", "a", name}) == "-ERR " + text);
    CHECK(world.send({"BF.IMPORT", "b", name}) == "-ERR " + text);
  }
  CHECK(command::wrong_with_name("\xc3\xbc").empty());
  CHECK(command::wrong_with_name(std::string(251, 'x')).empty());
}

TEST_CASE("a plain name cannot lead to another folder", "[command][whole]") {
  using command::is_plain_name;
  for (const std::string_view name : {"a", "users-2024.sepal", "a..b", "a b"}) CHECK(is_plain_name(name));
  for (const std::string_view name : {"", ".", "..", "...", ".a", "a/b", "/a", "a/"})
    CHECK_FALSE(is_plain_name(name));
  CHECK_FALSE(is_plain_name(std::string_view("a\0b", 3)));
  CHECK(is_plain_name(std::string(command::plain_name_bytes_max, 'x')));
  CHECK_FALSE(is_plain_name(std::string(command::plain_name_bytes_max + 1, 'x')));
}

TEST_CASE("INFO shows the transfer under way", "[command][whole]") {
  World world;
  world.adoptions.state = {.waiting = 2, .what = "import", .bytes_done = 5, .bytes_total = 9};
  const std::string info = world.send({"INFO", "sepal"});
  for (const char* const line : {"transfer_running:import\r\n", "transfers_waiting:2\r\n",
                                 "transfer_bytes:5\r\n", "transfer_bytes_total:9\r\n"})
    CHECK(info.find(line) != std::string::npos);
}

}  // namespace whole_commands_test
