// Runs scripts, one after the other, in one engine. Each gets one reply that is RESP; a script that the
// server ends runs no further command; behind them, a fixed script sees what it sees in a new engine. No
// assertion fails, and no memory is misused.
//
//   byte 0    bit 0: the client speaks RESP3; bits 1 and 2: the limit of memory; bit 3: short replies
//   byte 1    how often scripts may go on when they ask the server
//   scripts   as ScriptGrammar reads them (script_grammar.hpp), up to scripts_max
//
// With SEPAL_SHOW in the environment, the target prints the scripts. Debian's Lua and its libraries are
// compiled without sanitizers: AddressSanitizer knows their blocks, but does not check each access. CMake's
// variables LUA_ARCHIVE, LUA_CJSON_ARCHIVE and LUA_BITOP_ARCHIVE may name archives that are compiled with it.
#include <sepal/script/engine.hpp>
#include <sepal/script/fiber.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "fuzz_target.hpp"
#include "script_grammar.hpp"

namespace sepal::fuzz_script_test {
namespace {

constexpr int scripts_max = 6;
constexpr std::size_t calls_max = 300;

void require(bool claim, const char* what) {
  if (claim) return;
  std::fprintf(stderr, "fuzz_script: %s\n", what);
  std::abort();
}

// Removes one reply of that version from the beginning. False: there is none.
bool take_reply(std::string_view& bytes, resp::Version version) {
  constexpr std::string_view resp3_types = "%~_#,=(";
  const std::size_t end = bytes.find("\r\n");
  if (end == std::string_view::npos || end == 0) return false;
  const char type = bytes.front();
  const std::string_view line = bytes.substr(1, end - 1);
  bytes.remove_prefix(end + 2);
  if (type == '-' && line.empty()) return false;
  if (version == resp::Version::resp2 && resp3_types.find(type) != std::string_view::npos) return false;
  if (line.find_first_of("\r\n") != std::string_view::npos) return false;
  if (std::string_view("+-#,(_").find(type) != std::string_view::npos) return true;
  std::int64_t count = 0;
  const auto read = std::from_chars(line.data(), line.data() + line.size(), count);
  if (read.ec != std::errc() || read.ptr != line.data() + line.size()) return false;
  if (type == ':') return true;
  if (count == -1) return version == resp::Version::resp2 && (type == '$' || type == '*');
  if (count < 0) return false;
  if (type == '$' || type == '=') {
    const auto size = static_cast<std::size_t>(count);
    if (bytes.size() < size + 2 || bytes.substr(size, 2) != "\r\n") return false;
    bytes.remove_prefix(size + 2);
    return true;
  }
  if (std::string_view("*%~").find(type) == std::string_view::npos) return false;
  for (std::int64_t left = type == '%' ? 2 * count : count; left > 0; --left)
    if (!take_reply(bytes, version)) return false;
  return true;
}

// Arrays within arrays.
void append_nested(resp::Reply& reply, int levels) {
  for (; levels > 0; --levels) {
    reply.array(2);
    reply.integer(levels);
  }
  reply.null();
}

void append_map(resp::Reply& reply) {
  reply.map(3);
  reply.bulk("key");
  reply.set(2);
  reply.integer(1);
  reply.bulk("");
  reply.integer(2);
  reply.map(0);
  reply.boolean(true);
  reply.null_array();
}

void append_array_of_all(resp::Reply& reply) {
  reply.array(6);
  reply.real(0.5);
  reply.boolean(false);
  reply.null();
  reply.error("ERR within");
  reply.simple("status");
  reply.verbatim("text\r\n");
}

void append_wide(resp::Reply& reply) {
  constexpr int width = 3000;
  reply.array(width);
  for (int at = 0; at < width; ++at) reply.integer(at);
}

using Append = void (*)(resp::Reply&);
// What the commands "0", "1", ... reply.
constexpr std::array commands{
    Append{[](resp::Reply& reply) { reply.ok(); }},
    Append{[](resp::Reply& reply) { reply.error("ERR no such thing"); }},
    Append{[](resp::Reply& reply) { reply.error("CODE"); }},
    Append{[](resp::Reply& reply) { reply.error(std::string(5000, 'e')); }},
    Append{[](resp::Reply& reply) { reply.integer(1); }},
    Append{[](resp::Reply& reply) { reply.integer(std::numeric_limits<std::int64_t>::min()); }},
    Append{[](resp::Reply& reply) { reply.integer(std::numeric_limits<std::int64_t>::max()); }},
    Append{[](resp::Reply& reply) { reply.bulk(""); }},
    Append{[](resp::Reply& reply) { reply.bulk(std::string_view("a\0\r\n+OK\r\n", 9)); }},
    Append{[](resp::Reply& reply) { reply.bulk(std::string(100'000, 'b')); }},
    Append{[](resp::Reply& reply) { reply.null(); }},
    Append{[](resp::Reply& reply) { reply.null_array(); }},
    Append{[](resp::Reply& reply) { reply.array(0); }},
    Append{append_map},
    Append{append_array_of_all},
    Append{append_wide},
    Append{[](resp::Reply& reply) { append_nested(reply, 5); }},
    Append{[](resp::Reply& reply) { append_nested(reply, 3000); }},
    Append{[](resp::Reply& reply) { reply.real(0.0 / 0.0); }},
    Append{[](resp::Reply& reply) { reply.real(-1.0 / 0.0); }},
    Append{[](resp::Reply& reply) { reply.real(1e308); }},
    Append{[](resp::Reply& reply) { reply.boolean(true); }},
    Append{[](resp::Reply& reply) { reply.verbatim(""); }},
    Append{[](resp::Reply& reply) { reply.set(0); }},
    Append{[](resp::Reply& reply) { reply.simple(""); }}};

class FakeServer final : public script::Server {
 public:
  FakeServer(script::Fiber& fiber, int questions_max) : fiber_(fiber), questions_left_(questions_max) {}

  bool call(std::span<const std::string_view> words, resp::Reply& reply) override {
    require(!has_ended_, "a script that was ended runs a command");
    require(!words.empty(), "a command has no words");
    std::size_t number = 0;
    std::from_chars(words[0].data(), words[0].data() + words[0].size(), number);
    // Some words behind the last command end the script.
    has_ended_ = ++calls_ >= calls_max || number == commands.size();
    if (!has_ended_) commands[number % commands.size()](reply);
    return !has_ended_;
  }
  Permission permits(std::span<const std::string_view> words) override {
    require(!words.empty(), "a command has no words");
    return static_cast<Permission>(words[0].size() % 3);
  }
  void log(script::LogLevel level, std::string_view) override {
    require(level <= script::LogLevel::warning, "a level that does not exist");
  }
  Pace goes_on() override {
    --questions_left_;
    if (questions_left_ % 8 == 0 && fiber_.inside()) fiber_.suspend();
    has_ended_ = has_ended_ || questions_left_ <= 0;
    if (has_ended_) return Pace::ends;
    return questions_left_ % 3 == 0 ? Pace::slow : Pace::brisk;
  }
  [[nodiscard]] bool has_ended() const { return has_ended_; }

 private:
  script::Fiber& fiber_;
  int questions_left_;
  std::size_t calls_ = 0;
  bool has_ended_ = false;
};

// Scripts run where they run in a server: on a stack of that size.
script::Fiber& the_fiber() {
  static script::Fiber fiber(script::stack_bytes_needed);
  require(fiber.prepare(), "there is no memory for a stack");
  return fiber;
}

struct World {
  script::Engine engine;
  script::Limits limits;
  resp::Version version = resp::Version::resp2;
  int questions_max = 0;

  // The reply. Empty: the text cannot be compiled, and the engine says so.
  std::string run(const std::string& text) {
    const script::ParsedSource parsed = script::parse_source(text);
    if (parsed.source == nullptr) {
      require(!parsed.error.empty(), "a script is refused without a reason");
      return {};
    }
    std::string reply;
    script::Fiber& fiber = the_fiber();
    bool done = fiber.run([&] {
      FakeServer server(fiber, questions_max);
      if (engine.compile(parsed.source, server, limits).empty()) reply = run_compiled(*parsed.source);
    });
    while (!done) done = fiber.resume();
    return reply;
  }

 private:
  std::string run_compiled(const script::Source& source) {
    const std::array<std::string_view, 2> keys{"key", ""};
    const std::array<std::string_view, 2> arguments{"10", std::string_view("a\0b", 3)};
    FakeServer server(the_fiber(), questions_max);
    resp::Reply reply;
    reply.set_version(version);
    reply.simple("before");
    const std::size_t begin = reply.size();
    engine.run({.source = source,
                .keys = keys,
                .arguments = arguments,
                .server = server,
                .reply = reply,
                .limits = limits});
    require(reply.bytes().starts_with("+before\r\n"), "a script changes the reply of another command");
    std::string_view rest = reply.bytes().substr(begin);
    require(!server.has_ended() || rest.starts_with('-'), "a script that was ended has a reply");
    const bool is_resp = take_reply(rest, version) && rest.empty();
    require(is_resp, std::string(reply.bytes()).c_str());
    return std::string(reply.bytes().substr(begin));
  }
};

// Tells what other scripts could have changed.
constexpr const char* probe = R"(
local told = {}
local function tell(...)
  for at = 1, select('#', ...) do told[#told + 1] = tostring((select(at, ...))) end
end
for _, setting in ipairs({'encode_max_depth', 'decode_max_depth', 'encode_number_precision',
                          'encode_keep_buffer', 'encode_sparse_array', 'encode_invalid_numbers',
                          'decode_invalid_numbers'}) do
  if cjson[setting] then tell(select(2, pcall(cjson[setting]))) end
end
for _, library in ipairs({'string', 'table', 'math', 'bit', 'cjson', 'coroutine', 'redis', 'os'}) do
  local names = _G[library]
  tell(library, type(names), next(names), getmetatable(names), pcall(rawset, names, 'x', 1))
  for _, name in ipairs({'rep', 'gsub', 'sort', 'concat', 'floor', 'band', 'encode', 'decode', 'wrap', 'call',
                         'clock', 'x', 'a', 'b', 's', 'n'}) do tell(type(names[name])) end
end
for _, name in ipairs({'a', 'b', 'c', 's', 't', 'f', 'x', 'package', 'io', 'debug', 'newproxy', 'require'}) do
  tell(pcall(function() return _G[name] end))
end
tell(('ab'):rep(2), ('abc'):find('b', 1, true), table.concat({1, 2}, '-'), math.floor(2.5), bit.band(7, 3))
tell(cjson.encode({1, {a = 0.1}}), cjson.decode('[[1]]')[1][1], cjson.encode(cjson.decode('{"a":[]}')))
tell(pcall(error, 'x'), select('#', unpack({1, 2, 3})), tostring(nil), tonumber('10', 16), type(_G))
tell(getmetatable(''), pcall(setmetatable, '', {}), getmetatable(_G), #KEYS, #ARGV, KEYS[1], ARGV[2])
tell(redis.call('4'), redis.pcall('1').err, #redis.call('13'))
tell(coroutine.wrap(function(x) return x end)(5), coroutine.resume(coroutine.create(function() error('x') end)))
return table.concat(told, ' ')
)";

std::string tell(World& world) {
  world.version = resp::Version::resp2;
  world.limits = {.memory_bytes_max = std::uint64_t{4} << 20, .reply_bytes_max = std::uint64_t{1} << 20};
  world.questions_max = std::numeric_limits<int>::max();
  std::string told = world.run(probe);
  require(told.starts_with('$'), told.c_str());
  return told;
}

}  // namespace

SEPAL_FUZZ_TARGET(fuzz_script) {
  static const std::string told = [] {
    World world;
    return tell(world);
  }();
  constexpr std::array memory_choices{std::uint64_t{2} << 20, std::uint64_t{1} << 20, std::uint64_t{8} << 20,
                                      std::uint64_t{300} << 10};
  constexpr std::array question_choices{100, 1, 20, 500};
  sepal::test::FuzzBytes bytes({data, size});
  const std::uint8_t choices = bytes.byte();
  World world;
  world.version = (choices & 1) != 0 ? resp::Version::resp3 : resp::Version::resp2;
  world.limits.memory_bytes_max = memory_choices[choices >> 1 & 3];
  world.limits.reply_bytes_max = (choices & 8) != 0 ? 1000 : 1'000'000;
  world.questions_max = question_choices[bytes.byte() % question_choices.size()];
  sepal::test::ScriptGrammar grammar(bytes);
  for (int scripts = 0; scripts < scripts_max && !bytes.empty(); ++scripts) {
    const std::string text = grammar.script();
    if (std::getenv("SEPAL_SHOW") != nullptr) std::fprintf(stderr, "--- script\n%s\n---\n", text.c_str());
    world.run(text);
  }
  const std::string tells = tell(world);
  if (tells != told) std::fprintf(stderr, "a new engine tells:\n%s\n", told.c_str());
  require(tells == told, ("a script has changed what the next one sees:\n" + tells).c_str());
  return 0;
}

}  // namespace sepal::fuzz_script_test
