// The parts of `sepal convert` and `sepal migrate` that need no server.
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include "support/catch.hpp"
#include "support/rdb_dump.hpp"
#include "support/redisbloom_filter.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"
#include "tools/redis/convert.hpp"
#include "tools/redis/moved_keys.hpp"
#include "tools/redis/rdb_filters.hpp"
#include "tools/redis/redis_address.hpp"
#include "tools/redis/redis_files.hpp"
#include "tools/redis/remote_key.hpp"
#include "tools/redis/string_mover.hpp"

namespace moving_test {

using namespace sepal;
using namespace sepal::tools;
using test::SimulatedDisk;

namespace {

Progress& silent() {
  static Progress progress(nullptr, Progress::Style::none);
  return progress;
}

// An RDB file with filters that have `bits` in each byte.
std::string rdb_of(const std::vector<std::pair<std::string, std::uint64_t>>& filters, char bits) {
  test::RdbText text;
  text.bytes = "REDIS0012\xfe\x03";
  for (const auto& [key, capacity] : filters) {
    const auto filter = test::empty_redisbloom({.error_rate = 0.01, .capacity = capacity, .expansion = 2});
    std::string value = test::rdb_dump(filter, {std::string(filter.layers[0].byte_count, bits)},
                                       {.write_bits = test::write_packed});
    value.resize(value.size() - 10);  // The version and the checksum of a dump.
    text.bytes += '\x07';
    text.length(key.size());
    text.bytes += key + value.substr(1);
  }
  text.bytes += '\xff';
  return text.sealed();
}

// The value of a filter of RedisBloom, as an RDB file has it behind the key.
std::string value_of(const bloom::RedisBloomFilter& filter) {
  std::vector<std::string> bits;
  for (const auto& layer : filter.layers) bits.emplace_back(layer.byte_count, '\1');
  std::string value = test::rdb_dump(filter, bits);
  return value.substr(1, value.size() - 11);  // without the type, the version and the checksum
}

// A filter that has grown by layers of one item each, as RedisBloom's do with EXPANSION 1.
bloom::RedisBloomFilter grown(std::size_t layer_count) {
  auto filter = test::empty_redisbloom({.error_rate = 0.5, .capacity = 1, .expansion = 1});
  filter.layers.resize(layer_count, filter.layers[0]);
  for (std::size_t i = 1; i < layer_count; ++i)
    filter.layers[i].error_rate = filter.layers[i - 1].error_rate / 2;
  for (auto& layer : filter.layers) layer.item_count = 1;
  filter.item_count = layer_count;
  return filter;
}

// An RDB file that has all this behind its head.
std::string rdb_with(const std::string& version, const std::string& items) {
  test::RdbText text;
  text.bytes = version + items + '\xff';
  return text.sealed();
}

// An RDB file with strings as Redis writes them: plain, packed, and numbers of 1, 2 and 4 bytes.
std::string rdb_of_strings(const std::vector<std::pair<std::string, std::string>>& encoded) {
  test::RdbText text;
  text.bytes = std::string("REDIS0011\xfe\x00", 11);
  for (const auto& [key, value] : encoded) {
    text.bytes += '\0';
    text.length(key.size());
    text.bytes += key + value;
  }
  text.bytes += '\xff';
  return text.sealed();
}

std::string plain(const std::string& value) {
  test::RdbText text;
  text.length(value.size());
  return text.bytes + value;
}

std::string packed(const std::string& value) {
  test::RdbText text;
  test::write_packed(text, value);
  return text.bytes.substr(1);  // without the opcode of a module's field
}

void put(SimulatedDisk& disk, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  disk.put("in/dump.rdb", {bytes.begin(), bytes.end()});
}

Result<ConvertReport> convert_to(SimulatedDisk& disk, ConvertRequest::Output output) {
  return convert(
      disk, {.input = "in/dump.rdb", .output = output, .folder = "out", .seed = 1, .now = test::some_time},
      silent());
}

}  // namespace

TEST_CASE("filters of an RDB file, small and large, are a generation with their bits") {
  SimulatedDisk disk;
  // The second has more than the bytes from which a filter gets a file of its own.
  put(disk, rdb_of({{"small", 100}, {"large", 5'000'000}, {"other", 1000}}, 'x'));
  const auto report = convert_to(disk, ConvertRequest::Output::data_directory);
  REQUIRE(report);
  CHECK(report->keys.filters == 3);
  const auto loaded = test::open_and_load(disk, "out");
  REQUIRE(!loaded.error);
  REQUIRE(loaded.filters.size() == 3);
  for (const auto& [key, filter] : loaded.filters) {
    CHECK(key.first == 3);
    const auto bits = test::bits_of(filter->layer(0));
    CHECK(std::ranges::all_of(bits, [](std::byte byte) { return byte == std::byte{'x'}; }));
  }
}

TEST_CASE("a conversion that the disk ends leaves no data, or all of it") {
  const std::string text = rdb_of({{"a", 100}, {"b", 5'000'000}}, 'y');
  std::uint64_t failed_count = 0;
  for (std::uint64_t operation = 1;; ++operation) {
    SimulatedDisk disk;
    put(disk, text);
    disk.fail_at(operation, Errc::disk_full);
    const auto report = convert_to(disk, ConvertRequest::Output::data_directory);
    disk.stop_failing();
    const auto loaded = test::open_and_load(disk, "out");
    REQUIRE(!loaded.error);
    if (report) REQUIRE(loaded.filters.size() == 2);
    REQUIRE((loaded.filters.empty() || loaded.filters.size() == 2));
    if (report) break;
    ++failed_count;
  }
  CHECK(failed_count > 10);
}

TEST_CASE("any changed byte of an RDB file is noticed before anything is written", "[exhaustive]") {
  const std::string text = rdb_of({{"key", 10}}, 'z');
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    SimulatedDisk disk;
    put(disk, changed);
    CAPTURE(at);
    CHECK(!convert_to(disk, ConvertRequest::Output::data_directory));
    CHECK(!*disk.exists("out"));
  }
  for (std::size_t length = 0; length < text.size(); ++length) {
    SimulatedDisk disk;
    put(disk, text.substr(0, length));
    CAPTURE(length);
    CHECK(!convert_to(disk, ConvertRequest::Output::nothing));
  }
}

TEST_CASE("filters that cannot be taken are left out with the reason") {
  std::string text = rdb_of({{"key", 100}}, 'z');
  text[10] = 16;  // the database
  text.resize(text.size() - 8);
  text += std::string(8, '\0');  // no checksum
  SimulatedDisk disk;
  put(disk, text);
  const auto report = convert_to(disk, ConvertRequest::Output::nothing);
  REQUIRE(report);
  CHECK(report->keys.filters == 0);
  CHECK(report->keys.refused.at("the database is above 15") == 1);
  CHECK(report->keys.refused_keys == std::vector<std::string>{"16:key"});
}

TEST_CASE("strings of an RDB file are strings with these bytes") {
  using namespace std::string_literals;
  std::string sparse(1 << 20, '\0');
  sparse[700'000] = 'x';
  const std::string eight = "12345678";
  const std::vector<std::pair<std::string, std::string>> encoded{{"empty", plain("")},
                                                                 {"eight", plain(eight)},
                                                                 {"nine", plain(eight + "9")},
                                                                 {"bytes", plain("\0\xff\0"s)},
                                                                 {"one", "\xc0\xff"s},
                                                                 {"two", "\xc1\x00\x80"s},
                                                                 {"four", "\xc2\xff\xff\xff\x7f"s},
                                                                 {"packed", packed(std::string(1001, 'p'))},
                                                                 {"sparse", packed(sparse)}};
  const std::map<std::string, std::string> expected{
      {"empty", ""},     {"eight", eight},  {"nine", eight + "9"},  {"bytes", "\0\xff\0"s},
      {"one", "-1"},     {"two", "-32768"}, {"four", "2147483647"}, {"packed", std::string(1001, 'p')},
      {"sparse", sparse}};
  SimulatedDisk disk;
  put(disk, rdb_of_strings(encoded));
  const auto report = convert_to(disk, ConvertRequest::Output::data_directory);
  REQUIRE(report);
  CHECK(report->keys.strings == expected.size());
  CHECK(report->keys.filters == 0);
  const auto loaded = test::open_and_load(disk, "out");
  REQUIRE(!loaded.error);
  REQUIRE(loaded.strings.size() == expected.size());
  for (const auto& [key, text] : loaded.strings) {
    CAPTURE(key.second);
    CHECK(text == expected.at(key.second));
  }
}

TEST_CASE("a file that has more than an RDB file is refused") {
  const std::string text = rdb_of_strings({{"a", plain("x")}});
  const std::pair<std::string, const char*> wrong[] = {
      {text + "*2\r\n$3\r\nDEL\r\n$1\r\na\r\n", "only a server can run its commands"},
      {text + "#TS:1\r\n", "only a server can run its commands"},
      {"*2\r\n$3\r\nDEL\r\n$1\r\na\r\n", "only a server can run its commands"},
      {text + "x", "something stands behind the end of the RDB file"},
      {rdb_with("REDIS0011",
                "\xfa\x08"
                "aof-base\xc0\x01"),
       "name the manifest"}};
  for (const auto& [bytes, why] : wrong) {
    SimulatedDisk disk;
    put(disk, bytes);
    const auto report = convert_to(disk, ConvertRequest::Output::data_directory);
    REQUIRE_FALSE(report);
    CAPTURE(report.error().detail);
    CHECK(report.error().detail.find(why) != std::string::npos);
    CHECK(!*disk.exists("out"));
  }
}

TEST_CASE("an append-only file is read if only its base has something") {
  SimulatedDisk disk;
  const auto put_file = [&](const std::string& name, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    disk.put("in/" + name, {bytes.begin(), bytes.end()});
  };
  const ConvertRequest request{.input = "in/a.manifest", .folder = {}, .now = test::some_time};
  put_file("a.base.rdb", rdb_with("REDIS0011", std::string("\xfa\x08"
                                                           "aof-base\xc0\x01\xfe\0\0\1k\1v",
                                                           19)));
  put_file("a.manifest", "file a.base.rdb seq 1 type b\nfile a.incr.aof seq 1 type i\n");
  put_file("a.incr.aof", "");
  const auto report = convert(disk, request, silent());
  REQUIRE(report);
  CHECK(report->keys.strings == 1);
  put_file("a.incr.aof", "*1\r\n$4\r\nPING\r\n");
  const auto refused = convert(disk, request, silent());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().detail.find("in/a.incr.aof: these are changes since the base") == 0);
}

TEST_CASE("versions of RDB files that are not read are named") {
  const std::pair<std::string, const char*> wrong[] = {
      {rdb_with("REDIS0008", ""), "in/dump.rdb: this is version 8 of the RDB format"},
      {rdb_with("REDIS0014", ""), "in/dump.rdb: this is version 14 of the RDB format"},
      {rdb_with("VALKEY080", ""), "in/dump.rdb: this is an RDB file of Valkey 9 or later"},
      {rdb_with("REDIS0013", "\x1b\1k"), "in/dump.rdb: there is something of the unknown type 27"}};
  for (const auto& [bytes, why] : wrong) {
    SimulatedDisk disk;
    put(disk, bytes);
    const auto report = convert_to(disk, ConvertRequest::Output::nothing);
    REQUIRE_FALSE(report);
    CAPTURE(report.error().detail);
    CHECK(report.error().code == Errc::unsupported_version);
    CHECK(report.error().detail.find(why) == 0);
    CHECK(report.error().detail.ends_with("copy its keys with sepal migrate"));
  }
}

TEST_CASE("what version 13 has more is skipped, and what is left behind is told") {
  using namespace std::string_literals;
  const std::string key_metadata = "\xf3\1FLX1\2\7\0"s;
  const std::string stream =
      "\x1a\1s"
      // Its length, last id, first id, highest deleted id, and a count; no nodes, and a group with a pending
      // entry and a consumer.
      "\0"
      "\1\2\3\4\5\6\7\x08"
      "\1\1g\1\2\3"
      "\1"s +
      std::string(24, 'i') + "\1\1\1c"s + std::string(16, 't') + "\1"s + std::string(16, 'i') +
      // Two settings; a producer with a message; two counts.
      "\x40\x64\x40\x64\1\1p\1\2id\5\0\1\0"s;
  const std::string function = "\xf5\5#!lua"s;
  SimulatedDisk disk;
  put(disk, rdb_with("REDIS0013", "\xfe\0"s + function + key_metadata + "\0\1a\1x"s + stream + "\0\1b\1y"s));
  const auto report = convert_to(disk, ConvertRequest::Output::nothing);
  REQUIRE(report);
  CHECK(report->keys.strings == 2);
  CHECK(report->keys.others ==
        std::map<std::string, std::uint64_t>{
            {"of type stream", 1}, {"libraries of functions", 1}, {"metadata that modules put on keys", 1}});
}

TEST_CASE("a filter has as many layers as the setting of a server allows at most") {
  const auto convert_grown = [](std::size_t layer_count) {
    SimulatedDisk disk;
    put(disk, rdb_with("REDIS0011", "\7\1k" + value_of(grown(layer_count))));
    const auto report = convert_to(disk, ConvertRequest::Output::data_directory);
    REQUIRE(report);
    return report->keys;
  };
  CHECK(report_of(convert_grown(64)).size() == 1);
  const MovedKeys most = convert_grown(bloom::filter_layers_max);
  CHECK(most.filters == 1);
  CHECK(report_of(most)[1] == "layers   up to 1024 in one filter: start sepald with layers_max = 1024");
  const MovedKeys more = convert_grown(bloom::filter_layers_max + 1);
  CHECK(more.filters == 0);
  CHECK(more.refused.at("the filter has more than 1024 layers, the limit (layers_max)") == 1);
}

TEST_CASE("filters and sketches that sepald does not have are left out, and other types are skipped") {
  MovedKeys keys;
  for (const char* type : {"CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE", "bloomfltr"}) keys.leave(type, 0, "k");
  keys.leave("hash", 0, "h");
  keys.leave("ReJSON-RL", 0, "j");
  CHECK(keys.refused.size() == 4);
  for (const char* why :
       {"sepald has no count-min sketches (CMSk-TYPE)", "sepald has no top-k lists (TopK-TYPE)",
        "sepald has no t-digests (TDIS-TYPE)", "sepald has no Bloom filters of Valkey's module (bloomfltr)"})
    CHECK(keys.refused.at(why) == 1);
  CHECK(keys.others ==
        std::map<std::string, std::uint64_t>{{"JSON documents (ReJSON-RL)", 1}, {"of type hash", 1}});
}

TEST_CASE("filter files have no deadlines, and the report says so") {
  SimulatedDisk disk;
  using namespace std::string_literals;
  put(disk,
      rdb_with("REDIS0011", "\xfc"s + std::string("\0\0\0\0\0\0\0\x7f", 8) + "\7\1k"s + value_of(grown(1))));
  const auto report = convert_to(disk, ConvertRequest::Output::filter_files);
  REQUIRE(report);
  CHECK(report->keys.filters == 1);
  CHECK(report->keys.others.at("deadlines: a filter file has none") == 1);
}

TEST_CASE("strings are in no filter file, and a string that is too long is left out") {
  SimulatedDisk disk;
  put(disk, rdb_of_strings({{"a", plain("x")}, {"b", "\xc0\x05"}}));
  const auto report = convert_to(disk, ConvertRequest::Output::filter_files);
  REQUIRE(report);
  CHECK(report->keys.strings == 0);
  CHECK(report->keys.others.at("of type string") == 2);
  CHECK(disk.list("out")->empty());

  test::RdbText head;
  head.bytes = '\xc3';
  head.length(strings::string_bytes_max / rdb::growth_max + 1);
  head.length(strings::string_bytes_max + 1);
  std::string long_one = head.bytes + std::string(strings::string_bytes_max / rdb::growth_max + 1, '\0');
  put(disk, rdb_of_strings({{"long", long_one}}));
  const auto refused = convert_to(disk, ConvertRequest::Output::nothing);
  REQUIRE(refused);
  CHECK(refused->keys.refused.at("the string is longer than 512 MB") == 1);
}

TEST_CASE("a string that has only more bits is told from one that differs") {
  const auto tell = [](std::string_view first, std::string_view second) {
    const StringDifference difference = difference_of(first, second);
    return std::pair(difference.first_has_more, difference.second_has_more);
  };
  CHECK(tell("", "") == std::pair(false, false));
  CHECK(tell("abcdefghij", "abcdefghij") == std::pair(false, false));
  CHECK(tell("3", "4") == std::pair(true, true));
  CHECK(tell("\x01", "\x03") == std::pair(false, true));
  CHECK(tell("\x03", "\x01") == std::pair(true, false));
  CHECK(tell("a", "ab") == std::pair(false, true));
  CHECK(tell("abcdefgh\x03",
             "abcdefgh\x01"
             "z") == std::pair(true, true));
}

TEST_CASE("pages of zeros are not sent") {
  const std::size_t page = string_page_bytes;
  const auto parts_of = [](const std::string& bytes) {
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    each_part_with_bits(bytes, [&](std::size_t offset, std::string_view part) {
      CHECK(part == std::string_view(bytes).substr(offset, part.size()));
      parts.emplace_back(offset, part.size());
    });
    return parts;
  };
  using Parts = std::vector<std::pair<std::size_t, std::size_t>>;
  CHECK(parts_of("").empty());
  CHECK(parts_of(std::string(3 * page + 7, '\0')).empty());
  CHECK(parts_of(std::string(2 * page + 7, 'x')) == Parts{{0, 2 * page + 7}});
  std::string bytes(6 * page + 7, '\0');
  bytes[page] = bytes[2 * page + 1] = bytes[4 * page - 1] = bytes[6 * page + 6] = 'x';
  CHECK(parts_of(bytes) == Parts{{page, 3 * page}, {6 * page, 7}});
}

TEST_CASE("names of filter files are plain, and differ") {
  CHECK(filter_file_name(0, "users") == "0-users.sepal");
  CHECK(filter_file_name(15, "a:b/c%") == "15-a%3ab%2fc%25.sepal");
  CHECK(filter_file_name(0, "") == "0-.sepal");
  const std::string name = filter_file_name(0, std::string(300, 'a'));
  CHECK(name.size() <= 255);
  CHECK(name != filter_file_name(0, std::string(301, 'a')));
}

TEST_CASE("a manifest names a base and increments, and leaves out what is old") {
  const auto manifest = parse_manifest(
      "file a.3.incr.aof seq 3 type i\r\nfile a.1.base.rdb seq 9 type b\n\n# a note\n"
      "file a.0.incr.aof seq 0 type h\nfile a.2.incr.aof seq 2 type i startoffset 7\n");
  REQUIRE(manifest);
  CHECK(manifest->base == "a.1.base.rdb");
  CHECK(manifest->increments == std::vector<std::string>{"a.3.incr.aof", "a.2.incr.aof"});
  for (const char* wrong : {"", "file a seq 1", "file a type b seq x", "file ../a seq 1 type b",
                            "seq 1 type b", "file a seq 1 type q", "file a seq 1 type b more",
                            "file a seq 1 type i", "file a seq 1 type b\nfile b seq 2 type b"}) {
    CAPTURE(wrong);
    CHECK(parse_manifest(wrong).error().code == Errc::damaged);
  }
}

TEST_CASE("databases with keys are read from INFO, whatever their number") {
  const auto found = databases_in(
      "# Keyspace\r\ndb0:keys=5,expires=1,avg_ttl=0\r\ndb10:keys=7,expires=0\r\ndb2147483647:keys=1\r\n"
      "db:keys=1\r\ndb1x:keys=1\r\ndb99999999999:keys=1\r\nother:keys=1");
  REQUIRE(found.size() == 3);
  CHECK((found[0].database == 0 && found[0].key_count == 5));
  CHECK((found[1].database == 10 && found[1].key_count == 7));
  CHECK((found[2].database == 2147483647 && found[2].key_count == 1));
}

TEST_CASE("addresses name hosts or sockets, users and databases") {
  const auto simple = parse_address("redis://redis.example");
  REQUIRE(simple);
  CHECK(
      (simple->host == "redis.example" && simple->port == 6379 && simple->user.empty() && !simple->database));
  const auto full = parse_address("redis://mover@[::1]:7000/15");
  REQUIRE(full);
  CHECK((full->host == "::1" && full->port == 7000 && full->user == "mover" && full->database == 15u));
  CHECK(full->text() == "::1:7000");
  CHECK(parse_address("redis://a:1/")->database == std::nullopt);
  const auto socket = parse_address("unix:///run/sepal.sock?db=3");
  REQUIRE(socket);
  CHECK((socket->host.empty() && socket->path == "/run/sepal.sock" && socket->database == 3u));
  const auto by_user = parse_address("unix://mover@/run/a@b.sock");
  REQUIRE(by_user);
  CHECK((by_user->path == "/run/a@b.sock" && by_user->user == "mover"));
  CHECK(parse_address("unix:///run/a@b.sock")->path == "/run/a@b.sock");
  const auto encrypted = parse_address("rediss://mover@redis.example:7000/2");
  REQUIRE(encrypted);
  CHECK((encrypted->tls && encrypted->host == "redis.example" && encrypted->port == 7000 &&
         encrypted->user == "mover" && encrypted->database == 2u));
  CHECK((!full->tls && !socket->tls));
  for (const char* wrong :
       {"", "redis", "redis://", "redis://:1", "redis://a:", "redis://a:0", "redis://a:65536", "redis://a:x",
        "redis://a/x", "redis://[::1", "redis://[::1]x", "redis://u:p@a", "rediss://", "unix://a",
        "unix://a@b", "unix://u:p@/a", "unix:///a?db=x", "http://a"}) {
    CAPTURE(wrong);
    CHECK(parse_address(wrong).error().code == Errc::out_of_range);
  }
}

TEST_CASE("a report shows keys that a person can read, and only a few of them") {
  MovedKeys keys;
  for (int i = 0; i < 12; ++i) keys.refuse("it is too large", 2, "a\n\xff" + std::to_string(i));
  const auto lines = report_of(keys);
  REQUIRE(lines.size() == 2 + MovedKeys::refused_keys_max);
  CHECK(lines[1] == "LEFT OUT 12 keys: it is too large");
  CHECK(lines[2] == "LEFT OUT 2:a\\x0a\\xff0");
  CHECK(readable_key(std::string(101, 'k')) == std::string(100, 'k') + "...");
}

}  // namespace moving_test
