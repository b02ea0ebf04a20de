#include <sepal/script/engine.hpp>

#include "script/state.hpp"
#include "support/catch.hpp"
#include "unit/script/world.hpp"

namespace sepal::test::script_engine {

using namespace script;

TEST_CASE("script: values become replies") {
  World world;
  CHECK(world.run("return 42") == ":42\r\n");
  CHECK(world.run("return 3.99") == ":3\r\n");
  CHECK(world.run("return -3.99") == ":-3\r\n");
  CHECK(world.run("return 1/0") == ":-9223372036854775808\r\n");
  CHECK(world.run("return 'x'") == "$1\r\nx\r\n");
  CHECK(world.run("return nil") == "$-1\r\n");
  CHECK(world.run("") == "$-1\r\n");
  CHECK(world.run("return true") == ":1\r\n");
  CHECK(world.run("return false") == "$-1\r\n");
  CHECK(world.run("return {1,'a',{2},nil,5}") == "*3\r\n:1\r\n$1\r\na\r\n*1\r\n:2\r\n");
  CHECK(world.run("return {ok='fine'}") == "+fine\r\n");
  CHECK(world.run("return {err='MY bad'}") == "-MY bad\r\n");
  CHECK(world.run("return redis.status_reply('S')") == "+S\r\n");
  CHECK(world.run("return redis.error_reply('nocode')") == "-ERR nocode\r\n");
  CHECK(world.run("return {double=1.5}") == "$3\r\n1.5\r\n");
  CHECK(world.run("return {big_number='12'}") == "$2\r\n12\r\n");
  CHECK(world.run("return {verbatim_string={string='x',format='txt'}}") == "$1\r\nx\r\n");
  CHECK(world.run("return function() end") == "$-1\r\n");
}

TEST_CASE("script: values become RESP3 replies") {
  World world;
  world.version = resp::Version::resp3;
  CHECK(world.run("return true") == ":1\r\n");
  CHECK(world.run("redis.setresp(3) return true") == "#t\r\n");
  CHECK(world.run("return nil") == "_\r\n");
  CHECK(world.run("return {double=1.5}") == ",1.5\r\n");
  CHECK(world.run("return {map={a=1}}") == "%1\r\n$1\r\na\r\n:1\r\n");
  CHECK(world.run("return {set={a=true}}") == "~1\r\n$1\r\na\r\n");
  CHECK(world.run("return {big_number='12'}") == "(12\r\n");
  CHECK(world.run("return {verbatim_string={string='x',format='mkd'}}") == "=5\r\nmkd:x\r\n");
}

TEST_CASE("script: replies become values") {
  World world;
  const auto of = [&world](std::string answer, const std::string& text) {
    world.server.answer = std::move(answer);
    return world.run("local r = redis.call('X') return " + text);
  };
  CHECK(of(":7\r\n", "r + 1") == ":8\r\n");
  CHECK(of("$3\r\na\r\n\r\n", "#r") == ":3\r\n");
  CHECK(of("$-1\r\n", "r == false") == ":1\r\n");
  CHECK(of("*-1\r\n", "r == false") == ":1\r\n");
  CHECK(of("*2\r\n:1\r\n*1\r\n$1\r\na\r\n", "r[2][1]") == "$1\r\na\r\n");
  CHECK(of("+OK\r\n", "r.ok") == "$2\r\nOK\r\n");
  CHECK(of("%1\r\n$1\r\na\r\n:1\r\n", "r.map.a") == ":1\r\n");
  CHECK(of("~1\r\n$1\r\na\r\n", "r.set.a") == ":1\r\n");
  CHECK(of("_\r\n", "r == nil") == ":1\r\n");
  CHECK(of("#t\r\n", "type(r)") == "$7\r\nboolean\r\n");
  CHECK(of(",2.5\r\n", "tostring(r.double)") == "$3\r\n2.5\r\n");
  CHECK(of("=5\r\ntxt:x\r\n", "r.verbatim_string.format .. r.verbatim_string.string") == "$4\r\ntxtx\r\n");
}

TEST_CASE("script: the words of a command") {
  World world;
  world.run("redis.call('A', 12, 1.5, 1e15, -0, 1e300, 'b\\0c')");
  REQUIRE(world.server.asked.size() == 1);
  CHECK(world.server.asked[0] == std::vector<std::string>{"A", "12", "1.5", "1000000000000000", "0", "1e+300",
                                                          std::string("b\0c", 3)});
  CHECK(has(world.run("return redis.call()"), "ERR Please specify at least one argument"));
  CHECK(has(world.run("return redis.call('A', {})"), "arguments must be strings or integers"));
  CHECK(has(world.run("return redis.call('A', nil)"), "arguments must be strings or integers"));
}

TEST_CASE("script: errors of commands") {
  World world;
  world.server.answer = "-ERR no\r\n";
  CHECK(has(world.run("return redis.call('A')"), "-ERR no script: "));
  CHECK(has(world.run("return redis.call('A')"), ", on @user_script:1.\r\n"));
  CHECK(has(world.run("\n\nreturn redis.call('A')"), ", on @user_script:3.\r\n"));
  CHECK(world.run("return redis.pcall('A')") == "-ERR no\r\n");
  CHECK(world.run("return redis.pcall('A').err") == "$6\r\nERR no\r\n");
  CHECK(world.run("local ok, e = pcall(redis.call, 'A') return e") == "$6\r\nERR no\r\n");
  CHECK(has(world.run("error('mine')"), "-ERR user_script:1: mine script: "));
  CHECK(has(world.run("error({err='MY own'})"), "-MY own script: "));
  CHECK(has(world.run("error({})"), "-ERR unknown error"));
}

TEST_CASE("script: pcall and xpcall") {
  World world;
  CHECK(world.run("return {pcall(function(a) return a, 2 end, 1)}") == "*3\r\n:1\r\n:1\r\n:2\r\n");
  CHECK(world.run("return {xpcall(function() return 1, 2 end, error)}") == "*3\r\n:1\r\n:1\r\n:2\r\n");
  CHECK(
      world.run("return select(2, xpcall(function() error('no', 0) end, function(e) return e .. '!' end))") ==
      "$3\r\nno!\r\n");
  CHECK(has(world.run("xpcall()"), "value expected"));
}

TEST_CASE("script: keys and arguments are those of the run") {
  World world;
  world.keys = {"k1", "k2"};
  world.arguments = {"a"};
  CHECK(world.run("return {#KEYS, KEYS[2], #ARGV, ARGV[1]}") == "*4\r\n:2\r\n$2\r\nk2\r\n:1\r\n$1\r\na\r\n");
  world.keys = {};
  CHECK(world.run("return #KEYS") == ":0\r\n");
}

TEST_CASE("script: nothing of a run is seen by the next") {
  World world;
  CHECK(has(world.run("x = 1"), "Attempt to modify a readonly table"));
  CHECK(has(world.run("redis = nil"), "Attempt to modify a readonly table"));
  CHECK(has(world.run("string.rep = nil"), "Attempt to modify a readonly table"));
  CHECK(has(world.run("_G.x = 1"), "Attempt to modify a readonly table"));
  CHECK(has(world.run("rawset(_G, 'x', 1)"), "Attempt to modify a readonly table"));
  CHECK(has(world.run("rawset(string, 'x', 1)"), "Attempt to modify a readonly table"));
  CHECK(has(world.run("table.insert(_G, 1)"), "Attempt to modify a readonly table"));
  CHECK(has(world.run("getfenv(1).x = 1"), "Attempt to modify a readonly table"));
  CHECK(has(world.run("setmetatable(_G, {})"), "cannot change a protected metatable"));
  CHECK(world.run("return getmetatable('') == false") == ":1\r\n");
  CHECK(world.run("setfenv(1, {}) return 1") == ":1\r\n");
  CHECK(world.run("setfenv(0, {}) return 1") == ":1\r\n");
  CHECK(world.run("redis.call('A') return 1") == ":1\r\n");
  CHECK(world.run("collectgarbage('stop') return 1") == ":1\r\n");
}

TEST_CASE("script: what the sandbox does not have") {
  World world;
  for (const std::string name :
       {"io", "debug", "package", "require", "dofile", "loadfile", "print", "module", "newproxy"}) {
    CAPTURE(name);
    CHECK(has(world.run("return " + name), "nonexistent global variable '" + name + "'"));
  }
  CHECK(world.run("return os.execute == nil and os.exit == nil and os.getenv == nil") == ":1\r\n");
  CHECK(has(world.run("return loadstring(string.dump(function() end))()"), "attempt to call a nil value"));
  CHECK(has(world.run("return select(2, loadstring(string.dump(function() end)))"), "not bytecode"));
  CHECK(has(world.run("return select(2, load(coroutine.wrap(function() "
                      "coroutine.yield(string.dump(function() end)) end)))"),
            "not bytecode"));
  CHECK(
      world.run(
          "return load(coroutine.wrap(function() coroutine.yield('return ') coroutine.yield('5') end))()") ==
      ":5\r\n");
  CHECK(world.run("\x1bLua") == "user_script: a script is text, not bytecode");
  CHECK(has(world.run("return struct.pack('>I2', 1)"), "no library 'struct'"));
  CHECK(has(world.run("return cmsgpack.pack(1)"), "no library 'cmsgpack'"));
  CHECK(world.run("return bit.band(12, 10)") == ":8\r\n");
  CHECK(world.run("return cjson.encode({1, 2})") == "$5\r\n[1,2]\r\n");
  CHECK(world.run("return cjson.decode('{\"a\":7}').a") == ":7\r\n");
}

TEST_CASE("script: a script that runs for ever ends when the server says so") {
  for (const std::string text :
       {"while true do end", "while true do pcall(function() while true do end end) end",
        "local co = coroutine.wrap(function() while true do end end) while true do pcall(co) end",
        "xpcall(function() while true do end end, function() while true do end end)"}) {
    World world;
    world.server.questions_max = 10;
    CAPTURE(text);
    CHECK(has(world.run(text), "Script killed by user with SCRIPT KILL..."));
    CHECK(world.run("return 1") == ":1\r\n");
  }
}

TEST_CASE("script: a script ends when the server does not answer a command, whatever it catches") {
  for (const std::string text : {"redis.call('A') while true do end", "while true do redis.pcall('A') end",
                                 "local co = coroutine.wrap(function() redis.call('A') redis.call('A') end) "
                                 "while true do pcall(co) end",
                                 "while true do pcall(redis.call, 'A') end"}) {
    World world;
    world.server.calls_max = 2;
    world.server.questions_max = 1000;
    CAPTURE(text);
    if (text.starts_with("redis.call")) world.server.calls_max = 1;
    CHECK(has(world.run(text), "the script ends"));
    world.server.calls_max = 1000;
    CHECK(world.run("return redis.call('A')") == "+OK\r\n");
  }
}

TEST_CASE("script: a script that catches its end in coroutines ends all the same") {
  for (const std::string text :
       {"local function f(n) while true do pcall(coroutine.wrap(function() if n > 0 then f(n - 1) else while "
        "true do end end end)) end end f(4)",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end"}) {
    World world;
    world.server.questions_max = 10;
    CAPTURE(text);
    CHECK(has(world.run(text), "Script killed by user with SCRIPT KILL..."));
    CHECK(world.server.questions < 100);
    CHECK(world.run("return 1") == ":1\r\n");
  }
}

TEST_CASE("script: bit.tohex takes any number of digits") {
  World world;
  CHECK(world.run("return bit.tohex(255)") == "$8\r\n000000ff\r\n");
  CHECK(world.run("return bit.tohex(255, 4)") == "$4\r\n00ff\r\n");
  CHECK(world.run("return bit.tohex(255, -4)") == "$4\r\n00FF\r\n");
  for (const char* const digits : {"-2147483648", "-9", "-1e300", "-1/0"})
    CHECK(world.run(std::string("return bit.tohex(255, ") + digits + ")") == "$8\r\n000000FF\r\n");
  for (const char* const digits : {"2147483648", "9", "1e300", "0/0"})
    CHECK(world.run(std::string("return bit.tohex(255, ") + digits + ")") == "$8\r\n000000ff\r\n");
}

TEST_CASE("script: an error of a library is told with the script's line") {
  World world;
  for (const std::string call :
       {"cjson.decode('x')", "cjson.encode(error)", "('x'):rep({})", "bit.tohex({})", "table.sort({}, 1)",
        "table.insert({})", "unpack()", "rawset(1)", "('x'):find()", "coroutine.resume(1)"})
    CHECK(has(world.run("\nreturn select(2, pcall(function() local x = " + call + " return x end))"),
              "user_script:2: "));
  CHECK(has(world.run("\nreturn string.find(('('):rep(100), ('('):rep(50))"), ", on @user_script:2."));
}

TEST_CASE("script: errors and results whose metatables fail do not end the process") {
  World world;
  const std::string failing = "local m = {}; m.__index = function() error(setmetatable({}, m)) end; ";
  CHECK(has(world.run(failing + "error(setmetatable({}, m))"), "-ERR unknown error"));
  CHECK(world.run(failing + "return setmetatable({}, m)") == "*0\r\n");
  const std::string endless = "local m = {__index = function() while true do end end}; ";
  CHECK(has(world.run(endless + "error(setmetatable({}, m))"), "-ERR unknown error"));
  CHECK(world.run(endless + "return setmetatable({}, m)") == "*0\r\n");
  const std::string refusing = "local m = {__newindex = function() error('no') end}; ";
  CHECK(has(world.run(refusing + "error(setmetatable({err = 'MINE x'}, m))"), "-MINE x script: "));
  CHECK(has(world.run("error(redis)"), "-ERR unknown error script: "));
  CHECK(world.run("return redis.line or redis.source or 'unchanged'") == "$9\r\nunchanged\r\n");
  CHECK(world.run("return 1") == ":1\r\n");
}

TEST_CASE(
    "script: scripts that the library has evicted are dropped, also if two workers have compiled them") {
  Library library;
  FakeServer server;
  const auto first = State::make();
  const auto second = State::make();
  for (int i = 0; i < 5000; ++i) {
    const auto source = parse_source("return " + std::to_string(i)).source;
    CHECK(library.add(source, true, bytes_max));
    CHECK(first->compile(source, server, {}).error.empty());
    CHECK(second->compile(source, server, {}).error.empty());
  }
  CHECK(first->compiled_count() <= 2 * Library::passing_max + 100);
  CHECK(second->compiled_count() <= 2 * Library::passing_max + 100);
}

TEST_CASE("script: a script that takes too much memory ends") {
  for (const std::string text : {"local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
                                 "return ('x'):rep(1e9)", "local s = 'x' while true do s = s .. s end",
                                 "while true do local t = {} for i = 1, 1e9 do t[i] = i end end",
                                 "local t = {} for i = 1, 1e9 do t[i] = {i} end"}) {
    World world;
    CAPTURE(text);
    CHECK(has(world.run(text), "not enough memory"));
    CHECK(world.run("return 1") == ":1\r\n");
    CHECK(world.engine.held_bytes() < (6u << 20));
  }
}

TEST_CASE("script: compiled scripts make room for the next ones, and for a run") {
  World world;
  world.limits.memory_bytes_max = 1u << 20;
  std::string numbers;
  for (int i = 0; i < 100; ++i) numbers += std::to_string(i) + ".5,";
  for (int i = 0; i < 400; ++i)
    CHECK(world.run("local t = {" + numbers + "} return " + std::to_string(i)) ==
          ":" + std::to_string(i) + "\r\n");
  CHECK(world.run("return #('x'):rep(2e5)") == ":200000\r\n");
  CHECK(world.engine.held_bytes() < (2u << 20));
  std::string longer;
  for (int i = 0; i < 1000; ++i) longer += numbers;
  CHECK(world.run("return {" + longer + "}") == "not enough memory");
  CHECK(world.run("return 1") == ":1\r\n");
}

TEST_CASE("script: a script that nests for ever ends") {
  World world;
  world.server.questions_max = 1000000;
  CHECK(has(world.run("local function f() return 1 + f() end return f()"), "stack overflow"));
  CHECK(has(world.run("local function f() return pcall(f) end f() local function g() g(g()) end g()"),
            "overflow"));
  CHECK(has(world.run("local t = {} for i = 1, 1e5 do t = {t} end return t"), "reached lua stack limit"));
  CHECK(has(world.run("local t = {} t[1] = t return t"), "reached lua stack limit"));
  const std::string nested = "local t = 7 for i = 1, tonumber(ARGV[1]) do t = {t} end return t";
  world.arguments = {"511"};
  CHECK(world.run(nested).ends_with("*1\r\n:7\r\n"));
  world.arguments = {"512"};
  CHECK(world.run(nested).ends_with("*1\r\n-ERR reached lua stack limit\r\n"));
  CHECK(has(world.run("return loadstring('return ' .. ('('):rep(1e5))"), "$-1"));
  CHECK(has(world.run("return ('a'):rep(1e5):find(('a?'):rep(1e5))"), "pattern too long"));
  CHECK(has(world.run("local s = ('a'):rep(4000) return s:find(('a?'):rep(2048))"), ":1"));
  CHECK(has(world.run("local f f = function() return (('x'):gsub('x', f)) end return f()"), "overflow"));
}

TEST_CASE("script: a reply that doubles and doubles ends") {
  World world;
  CHECK(has(world.run("local t = {'xxxxxxxx'} for i = 1, 60 do t = {t, t} end return t"),
            "the reply of the script is too long"));
  CHECK(has(world.run("local t = {map={a='xxxxxxxx'}} for i = 1, 60 do t = {map={a=t, b=t}} end return t"),
            "the reply of the script is too long"));
}

TEST_CASE("script: redis.log, redis.sha1hex, redis.acl_check_cmd") {
  World world;
  world.run("redis.log(redis.LOG_WARNING, 'one', 2)");
  CHECK(world.server.logged == std::vector<std::string>{"one 2"});
  CHECK(has(world.run("redis.log(9, 'x')"), "Invalid log level"));
  CHECK(has(world.run("redis.log('x')"), "requires two arguments"));
  CHECK(world.run("return redis.sha1hex('abc')") == "$40\r\na9993e364706816aba3e25717850c26c9cd0d89d\r\n");
  CHECK(world.run("return redis.acl_check_cmd('allowed')") == ":1\r\n");
  CHECK(world.run("return redis.acl_check_cmd('other')") == "$-1\r\n");
  CHECK(has(world.run("return redis.acl_check_cmd('nosuch')"), "Invalid command passed"));
  CHECK(has(world.run("redis.setresp(4)"), "RESP version must be 2 or 3"));
}

TEST_CASE("script: the first line may declare flags") {
  CHECK(parse_source("#!lua flags=no-writes\nreturn 1").source->declared.no_writes);
  CHECK(parse_source("#!lua flags=allow-oom,no-writes\nreturn 1").source->declared.allow_oom);
  CHECK(parse_source("#!lua\nreturn 1").source->declared.any);
  CHECK(!parse_source("return 1").source->declared.any);
  CHECK(parse_source("#!lua").error == "Invalid script shebang");
  CHECK(parse_source("#!js\n").error == "Unexpected engine in script shebang: #!js");
  CHECK(parse_source("#!lua flags=no\n").error == "Unexpected flag in script shebang: no");
  CHECK(parse_source("#!lua name=x\n").error == "Unknown lua shebang option: name=x");
  World world;
  CHECK(has(world.run("#!lua\nerror('x')"), "user_script:2: x"));
}

TEST_CASE("script: memory that ends at any moment while Lua begins is no more than a refusal") {
  std::uint64_t limit = 1;
  while (State::make(limit) == nullptr) limit += 32;
  CHECK(limit > 4096);
  CHECK(limit < 1 << 20);
}

TEST_CASE("script: a compile error names the line") {
  World world;
  CHECK(world.run("return (") == "user_script:1: unexpected symbol near '<eof>'");
}

TEST_CASE("script: the library keeps loaded scripts, and the last of the passing ones") {
  Library library;
  const auto loaded = parse_source("return 'loaded'").source;
  CHECK(library.add(loaded, false, bytes_max));
  const auto first = parse_source("return 0").source;
  CHECK(library.add(first, true, bytes_max));
  for (std::size_t i = 1; i < Library::passing_max; ++i)
    CHECK(library.add(parse_source("return " + std::to_string(i)).source, true, bytes_max));
  CHECK(library.use(first->sha) == first);  // now another one is the oldest
  CHECK(library.add(parse_source("return 'more'").source, true, bytes_max));
  CHECK(library.evicted_count() == 1);
  CHECK(library.use(first->sha) == first);
  CHECK(library.use(loaded->sha) == loaded);
  CHECK(library.use(parse_source("return 1").source->sha) == nullptr);
  CHECK(library.size() == Library::passing_max + 1);
  CHECK(library.add(first, false, bytes_max));  // SCRIPT LOAD of a passing one
  for (std::size_t i = 0; i < 2 * Library::passing_max; ++i)
    CHECK(library.add(parse_source("return -" + std::to_string(i)).source, true, bytes_max));
  CHECK(library.contains(first->sha));
  library.clear();
  CHECK(library.size() == 0);
  CHECK(library.byte_count() == 0);
}

TEST_CASE("script: the library keeps texts up to its limit") {
  Library library;
  const auto source = [](std::size_t bytes, char letter) {
    return parse_source(std::string(bytes - Library::entry_bytes, letter)).source;
  };
  const auto loaded = source(1000, 'a');
  CHECK(library.add(loaded, false, 3000));
  CHECK(library.add(source(1000, 'b'), true, 3000));
  CHECK(library.add(source(1000, 'c'), true, 3000));
  CHECK(library.byte_count() == 3000);
  CHECK(library.evicted_count() == 0);
  // One byte more, and the oldest of the passing ones goes.
  CHECK(library.add(source(1001, 'd'), true, 3000 + 1000));
  CHECK(library.evicted_count() == 1);
  CHECK(library.add(source(2000, 'e'), false, 3000));
  CHECK(library.size() == 2);
  const auto refused = source(600, 'f');
  CHECK(!library.add(refused, true, 3000));
  CHECK(refused->forgotten);
  CHECK(library.contains(loaded->sha));
}

}  // namespace sepal::test::script_engine
