// Any sequence of commands, of several clients: with transactions, scripts and users. Each request gets one
// reply that is RESP, or waits; no assertion fails, and no memory is misused.
//
// A request is encoded in few bytes, so that the fuzzer meets commands and not only errors about words:
//
//   byte    connection, in its lowest two bits
//   byte    a row of the command table
//   byte    the number of further words
//   words   a byte below 0xc0: a word of the lists below, by its number; else the word has as many bytes as
//           the lowest five bits say, and they follow
#include <sepal/command/run/scripts.hpp>
#include <sepal/command/table/command_table.hpp>
#include <sepal/cuckoo/foreign/redis_header.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../unit/command/world.hpp"
#include "fuzz_target.hpp"

namespace sepal::fuzz_commands_test {
namespace {

using namespace sepal::command;
using testing::World;

constexpr std::size_t requests_max = 64;
constexpr std::size_t words_max = 12;
// The filters of one sequence, whatever it asks for.
constexpr std::uint64_t memory_bytes_max = std::uint64_t{16} << 20;
constexpr std::uint64_t script_memory_bytes = std::uint64_t{16} << 20;

constexpr std::string_view known_words[] = {
    "a", "b", "c", "", "item", "other", "0", "1", "2", "-1", "3", "7", "16", "100", "1000", "0.01", "0.25",
    "1e-6", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "2147483648", "nan", "inf",
    "*", "a*", "[a-b]", "?", "\\", "ITEMS", "NOCREATE", "NONSCALING", "EXPANSION", "CAPACITY", "ERROR", "EX",
    "REPLACE", "DB", "OFF", "COMMIT", "ABORT", "FORCE", "NX", "XX", "GT", "LT", "ABSTTL", "IDLETIME", "FREQ",
    "MATCH", "COUNT", "TYPE", "MBbloom--", "string", "ASYNC", "SYNC", "LIST", "INFO", "SETNAME", "ID", "ADDR",
    "LADDR", "USER", "SKIPME", "yes", "no", "MAXAGE", "normal", "ON", "SKIP", "WRITE", "ALL", "TIMEOUT",
    "maxmemory", "timeout", "requirepass", "slowlog-log-slower-than", "slowlog-max-len",
    "latency-monitor-threshold", "save", "appendonly", "maxclients", "secret", "default", "alice", "on",
    "off", "nopass", ">secret", "<secret", "resetpass", "allkeys", "~a*", "%R~b", "%W~c", "resetkeys",
    "allcommands", "nocommands", "+@all", "-@all", "+@bloom", "-@bloom", "+bf.add", "-bf.add", "+client|id",
    "-config|set", "(+bf.exists ~b)", "clearselectors", "reset", "&*", "error", "present", "AUTH", "PING",
    "BF.ADD", "BF.EXISTS", "BF.MADD", "DEL", "EVAL", "GET", "server", "memory", "everything", "BUCKETSIZE",
    "HELP", "RESET", "SAMPLES", "MAXLEN", "FIELDS", "MAXITERATIONS", "SIZE", "FILTERS", "+@cuckoo",
    "return 1", "return KEYS", "return redis.call('BF.ADD', KEYS[1], ARGV[1])",
    "return redis.pcall('BF.MADD', 'a', 'x', 'y')",
    "redis.call('RENAME', 'a', 'b') return redis.call('BF.CARD', 'b')", "while true do end",
    "redis.call('BF.ADD', 'a', 'x') while true do pcall(redis.call, 'DEL', 'a') end",
    "return redis.call(unpack(ARGV))", "return {redis.pcall(unpack(ARGV)), redis.pcall(unpack(KEYS))}",
    "redis.setresp(3) return redis.call('BF.INFO', 'a')",
    "#!lua flags=no-writes\nreturn redis.call('DEL', 'a')", "return cjson.decode(ARGV[1])",
    "local t = {} for i = 1, 1e6 do t[i] = {t} end return t", "error({err = 'E x'})",
    "return redis.error_reply(ARGV[1])", "redis.log(1, ARGV[1])", "return loadstring(ARGV[1])()",
    "return redis.acl_check_cmd(unpack(ARGV))", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
    "c5bd2b9fd9d95e6e2a1bc09d8e3b1c4bf0d4ae6f", "AND", "OR", "XOR", "NOT", "BIT", "BYTE", "SET", "SETBIT",
    "INCRBY", "OVERFLOW", "SAT", "FAIL", "WRAP", "u8", "OVERRIDE", "ALLOW", "#3", "KEEPTTL", "PX", "PXAT",
    "PERSIST", "32767", "2097159", "4000000", "4294967295", "536870911",
    "redis.call('SETBIT', KEYS[1], 9, 1) return redis.call('GETBIT', 'a', ARGV[1])", "+@bitmap", "-@string",
    // Payloads of DUMP for strings: "123", and thirty letters a.
    std::string_view("\x00\xc0\x7b\x0a\x00\x48\xe2\x53\xe1\x00\x7a\x67\xb9", 13),
    std::string_view(
        "\x00\xc3\x09\x1e\x01\x61\x61\xe0\x11\x00\x01\x61\x61\x0a\x00\x45\x73\x7c\xbb\x2b\x64\x7b\xbb", 23),
    "cf-initial-size", "missing-filter",
    "redis.call('CF.INSERT', KEYS[1], 'ITEMS', 'a', 'b') return redis.call('CF.DEL', 'a', ARGV[1])"};

constexpr std::uint8_t words_end = 0xc0;

// A reply of CF.SCANDUMP: [iterator, piece].
std::string piece_of(const std::string& reply) {
  const std::size_t begin = reply.find('$') + 1;
  return reply.substr(begin, reply.size() - begin - 1);
}

std::string iterator_of(const std::string& reply) {
  const std::size_t begin = reply.find(':') + 1;
  return reply.substr(begin, reply.find(',') - begin);
}

// What filters that delete are dumped as: a header and a piece of Sepal's own, a header of RedisBloom's, and
// the payload of both.
std::vector<std::string> dumped_words() {
  World world({.memory_max = memory_bytes_max, .seed = 1});
  world.send({"CF.RESERVE", "own", "8", "ERROR", "0.1"});
  world.send({"CF.INSERT", "own", "ITEMS", "item", "item", "other"});
  const auto header = sepal::cuckoo::encode_redis_header({.bucket_count = 4});
  std::string theirs(reinterpret_cast<const char*>(header.data()), header.size());
  world.send({"CF.LOADCHUNK", "theirs", "1", theirs});
  world.send({"CF.INSERT", "theirs", "ITEMS", "item", "other"});
  const std::string own = world.send({"CF.SCANDUMP", "own", "0"});
  const std::string piece = world.send({"CF.SCANDUMP", "own", iterator_of(own)});
  return {std::move(theirs), piece_of(own), piece_of(piece), world.send({"DUMP", "theirs"}).substr(1),
          world.send({"DUMP", "own"}).substr(1)};
}

const std::vector<std::string>& all_words() {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all(std::begin(known_words), std::end(known_words));
    for (std::string& dumped : dumped_words()) all.push_back(std::move(dumped));
    if (all.size() > words_end) std::abort();  // a byte numbers each of them
    return all;
  }();
  return words;
}

std::vector<const CommandSpec*> all_rows() {
  std::vector<const CommandSpec*> rows;
  for (const CommandSpec& row : command_table()) {
    if (row.run != nullptr || row.subcommands.empty()) rows.push_back(&row);
    for (const CommandSpec& subcommand : row.subcommands) rows.push_back(&subcommand);
  }
  return rows;
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::string_view word() {
    constexpr std::uint8_t length_bits = 0x1f;
    const std::uint8_t first = byte();
    if (first < words_end) return all_words()[first % all_words().size()];
    const std::string_view bytes = rest_.substr(0, first & length_bits);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

 private:
  std::string_view rest_;
};

// Ends a script that is suspended, as SCRIPT KILL or a stop would.
void end_script(World& world) {
  if (world.dispatcher.suspended_client() == 0) return;
  world.dispatcher.end_script(true);
  while (!world.dispatcher.resume_script()) {
  }
  sepal::resp::Reply reply;
  world.dispatcher.finish_script(reply);
  if (reply.size() == 0) std::abort();
  static_cast<void>(testing::readable(reply.bytes()));
}

void run(World& world, Input& input, const std::vector<const CommandSpec*>& rows) {
  constexpr std::array<std::string_view, 3> names{"a", "b", "c"};
  const std::string_view connection = names[(input.byte() & 3) % names.size()];
  const std::string_view name = rows[input.byte() % rows.size()]->name;
  const std::size_t bar = name.find('|');
  std::vector<std::string_view> words{name.substr(0, bar)};
  if (bar != std::string_view::npos) words.push_back(name.substr(bar + 1));
  for (std::size_t more = input.byte() % words_max; more > 0; --more) words.push_back(input.word());
  const std::string reply = world.send_words(connection, words);
  const Next next = world.outcome.next;
  const bool waits = next == Next::wait || next == Next::later || next == Next::paused || next == Next::close;
  if (reply.empty() && !waits) std::abort();
  end_script(world);
  world.dispatcher.commit();
  static_cast<void>(world.dispatcher.take_record());
  world.keyspace.set_memory_max(memory_bytes_max);
  world.options.busy_reply_threshold = std::chrono::milliseconds(0);
  world.options.script_memory_max = script_memory_bytes;
  world.now += std::chrono::milliseconds(10);
  world.steady_now += std::chrono::milliseconds(10);
}

}  // namespace

SEPAL_FUZZ_TARGET(fuzz_commands) {
  static const std::vector<const CommandSpec*> rows = all_rows();
  static_cast<void>(all_words());
  World world({.memory_max = memory_bytes_max, .seed = 1});
  world.services.logs = world.recording.all_logs();
  world.options.busy_reply_threshold = std::chrono::milliseconds(0);
  world.options.script_memory_max = script_memory_bytes;
  Input input(data, size);
  try {
    for (std::size_t request = 0; request < requests_max && !input.empty(); ++request)
      run(world, input, rows);
  } catch (const std::exception&) {
    std::abort();  // a reply is not RESP
  }
  if (world.recording.misused) std::abort();
  return 0;
}

}  // namespace sepal::fuzz_commands_test
