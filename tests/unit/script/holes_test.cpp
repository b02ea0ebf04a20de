// Published holes of Lua 5.1, of its libraries and of scripts in the reference, each with a script that shows
// it, and what else ends or holds up the process by its kind. Behind each script the engine works as before.

#include "support/catch.hpp"
#include "unit/script/world.hpp"

namespace sepal::test::script_holes {

using script_engine::has;
using script_engine::World;

constexpr std::string_view killed = "Script killed by user";
constexpr std::string_view no_memory = "not enough memory";

struct Hole {
  const char* name;
  const char* text;
  std::string_view answer{};  // a part of the reply; empty: any reply
};

const std::vector<resp::Version> both_versions{resp::Version::resp2, resp::Version::resp3};
const std::vector<resp::Version> one_version{resp::Version::resp2};

// Runs the script, and looks whether the next one finds everything as it was.
void try_hole(const Hole& hole, int questions_max, std::vector<resp::Version> versions = both_versions) {
  World world;
  world.server.questions_max = questions_max;
  CAPTURE(hole.name, hole.text);
  for (const resp::Version version : versions) {
    world.version = version;
    const std::string reply = world.run(hole.text);
    CAPTURE(reply.substr(0, 200));
    CHECK(!reply.empty());
    CHECK(!reply.starts_with("-\r"));
    CHECK(has(reply, hole.answer));
  }
  world.version = resp::Version::resp2;
  world.server.questions_max = 1'000'000;
  CHECK(world.run("return {('ab'):rep(2), cjson.encode({1, {a = 0.1}}), #cjson.decode('[[[1]]]'), 7}") ==
        "*4\r\n$4\r\nabab\r\n$13\r\n[1,{\"a\":0.1}]\r\n:1\r\n:7\r\n");
  CHECK(world.engine.held_bytes() < (16u << 20));
}

constexpr Hole crashes[] = {
    {"an error without a text", "return {err=''}", "-ERR"},
    {"the same within a table", "return {{err=''}, {map={a={err=''}}}}", "-ERR"},
    {"the same, raised", "error({err=''})", "-ERR"},
    {"an error of one sign",
     "return {redis.error_reply('-'), redis.error_reply(''), redis.error_reply('\\r\\n')}"},
    {"a status without a text", "return {ok=''}", "+\r\n"},
    {"CVE-2025-46817", "return {pcall(unpack,{},0,2147483647)}", "too many results"},
    {"CVE-2025-46817, from -1", "return {pcall(unpack,{},-1,2147483647)}", "too many results"},
    {"CVE-2025-46817, all", "return {pcall(unpack,{},-2147483648,2147483647)}", "range"},
    {"CVE-2025-46817, to 0", "return {pcall(unpack,{},-2147483648,0)}", "range"},
    {"CVE-2025-46817, one", "return {pcall(unpack,{},-2147483647,-2147483647)}"},
    {"CVE-2025-46817, the last", "return {pcall(unpack,{1},2147483647,2147483647)}"},
    {"CVE-2025-46817, no number",
     "for _,a in ipairs({0/0,1/0,-1/0,2^31,2^53,-1e300}) do for _,b in "
     "ipairs({0/0,1/0,-1/0,2^31,2^53,-1e300}) do "
     "pcall(unpack,{},a,b) pcall(unpack,{},1,b) pcall(unpack,{},a) end end return 1",
     ":1"},
    {"CVE-2025-46817, as many as there is room for", "return select('#', unpack({}, 1, 7000))", ":7000"},
    {"the same in Lua's tables",
     "local t={1,2,3} return {rawget(t,-2147483648)==nil and t[-2147483648]==nil}", ":1"},
    {"CVE-2025-49844",
     "for i=1,100 do load(function() collectgarbage() for j=1,50 do local s=('x'):rep(j)..i end return nil "
     "end, 'n'..i) "
     "loadstring('return 1 +', ('n'):rep(50)..i) end return 1",
     ":1"},
    {"load calls its function again behind its end",
     "local n=0 load(function() n=n+1 if n==1 then return nil end return 'x=' end) return n", ":1"},
    {"CVE-2025-46819",
     "for _,t in ipairs({'return [==','[=[','--[=','return "
     "[='..('='):rep(70000)..'[x]'..('='):rep(70001)..']','[=[\\0]='}) "
     "do loadstring(t) end return 1",
     ":1"},
    {"CVE-2014-5461",
     "local p={} for i=1,199 do p[i]='a'..i end local f=loadstring('local function "
     "f('..table.concat(p,',',1,180).."
     "',...) local x,y,z=... return x end return f')() local function g(n) if n==0 then return f() end "
     "return g(n-1) "
     "end coroutine.wrap(f)() pcall(g,10) return 1",
     ":1"},
    {"CVE-2021-43519", "local function f() return coroutine.wrap(f)() end return {pcall(f)}", "overflow"},
    {"CVE-2021-43519, by resume",
     "local function f(n) return coroutine.resume(coroutine.create(f),n+1) end f(0) return 1", ":1"},
    {"CVE-2021-32626", "local a={} local b=a for i=1,100000 do b[1]={} b=b[1] end return a", "stack limit"},
    {"CVE-2021-32626, in maps",
     "local a={} local b=a for i=1,600 do b.map={x={}} b=b.map.x end redis.setresp(3) return a",
     "stack limit"},
    {"CVE-2022-24735", "getmetatable(_G).__index=function() return 1 end", "-ERR"},
    {"CVE-2022-24735, by rawset", "rawset(redis,'call',1)", "readonly"},
    {"CVE-2022-24736", "return 1 end function foo()", "expected"},
    {"CVE-2025-46818", "getmetatable('').__index=function() return 1 end", "-ERR"},
    {"CVE-2025-46818, by setmetatable",
     "for _,v in ipairs({'',1,true,print==nil,pcall,coroutine.create(pcall),cjson.null}) do "
     "assert(not pcall(setmetatable,v,{})) end return 1"},
    {"CVE-2022-0543", "return {pcall(function() return package.loadlib end)}", "nonexistent"},
    {"CVE-2022-0543, by environments",
     "return rawget(getfenv(0),'package')==nil and rawget(getfenv(pcall),'package')==nil and "
     "coroutine.wrap(function() return rawget(getfenv(0),'package')==nil end)()",
     ":1"},
    {"CVE-2015-4335",
     "return {loadstring(string.dump(function() end)), loadstring('\\27Lua'), "
     "load(coroutine.wrap(function() coroutine.yield('\\27') coroutine.yield('Lua') end))}",
     "*0"},
    {"CVE-2024-31449", "return {bit.tohex(65535,-2147483648), bit.tohex(1,2^31), bit.tohex(1,-1e308)}",
     "0000FFFF"},
    {"CVE-2022-24834", "return {pcall(cjson.encode,('x'):rep(5e6))}", no_memory},
    {"CVE-2018-11218, CVE-2018-11219, CVE-2015-8080, CVE-2020-14147",
     "return {pcall(function() return struct.pack('>I2147483648',1) end), pcall(function() return "
     "cmsgpack.unpack('\\221') end)}"},
    {"cjson, depth", "cjson.encode_max_depth(2147483647) local t={} t[1]=t return {pcall(cjson.encode,t)}",
     "nesting"},
    {"cjson, depth of a text",
     "cjson.decode_max_depth(2147483647) return {pcall(cjson.decode,('['):rep(1e5))}"},
    {"cjson, sparse", "cjson.encode_sparse_array(false,0) return {pcall(cjson.encode,{[1e9]=1})}", no_memory},
    {"cjson, settings of all kinds",
     "cjson.encode_max_depth(1) cjson.encode_keep_buffer(false) cjson.encode_invalid_numbers(true) "
     "cjson.decode_invalid_numbers(false) cjson.encode_number_precision(1) "
     "cjson.encode_sparse_array(true,1,1) "
     "cjson.decode_max_depth(1) cjson.encode_keep_buffer(true) return 1",
     ":1"},
    {"cjson.new",
     "local own=cjson.new() own.encode_max_depth(1) assert(not pcall(own.encode,{{1}})) return "
     "cjson.encode({{1}})",
     "[[1]]"},
    {"cjson.new without memory", "local t={} for i=1,1e6 do t[i]=cjson.new() end", no_memory},
    {"a chunk's name with a line end", "loadstring('error()', '@a\\r\\n+OK')()", "-ERR"},
    {"CVE-2025-67733",
     "return {{err='x\\r\\n+OK'},{ok='a\\nb'},{big_number='1\\r\\n:2'},"
     "{verbatim_string={format='a\\r\\n',string='x'}},{verbatim_string={format='',string=''}}}"},
    {"numbers of all kinds",
     "for _,n in ipairs({-2^31,2^31-1,2^31,2^32,-2^63,2^63,2^53+1,0/0,1/0,-1/0,0,1,-1}) do "
     "for _,f in ipairs({function() return ('x'):sub(n,n) end,function() return ('x'):byte(n,n) end,"
     "function() return ('x'):find('x',n) end,function() return ('x'):match('x',n) end,function() return "
     "string.char(n) end,function() return select(n,1) end,function() return table.concat({1},'',n,n) end,"
     "function() table.remove({1},n) end,function() math.random(n) end,function() math.randomseed(n) end,"
     "function() tonumber('1',n) end,function() string.format('%c%d%i%u%x',n,n,n,n,n) end,function() "
     "error('x',n) "
     "end,function() getfenv(n) end,function() setfenv(n,{}) end,function() bit.tobit(n) end,function() "
     "bit.rol(n,n) "
     "end,function() collectgarbage('step',n) end,function() ('x'):gsub('x','y',n) end}) do pcall(f) end end "
     "return 1",
     ":1"},
};

TEST_CASE("script: published holes, and scripts that ended the process") {
  for (const Hole& hole : crashes) try_hole(hole, 1'000'000);
}

constexpr Hole endless[] = {
    {"coroutines within coroutines",
     "local function f(n) while true do coroutine.wrap(function() if n>0 then f(n-1) end for i=1,900 do end "
     "end)() end "
     "end f(3)"},
    {"one coroutine behind the other",
     "while true do coroutine.resume(coroutine.create(function() for i=1,900 do end end)) end"},
    {"string.rep", "while true do local s=('x'):rep(1e5) end"},
    {"string.rep of nothing", "while true do (''):rep(2147483647) end"},
    {"concatenation", "local a=('x'):rep(1e5) while true do local s=a..'x' end"},
    {"string.upper", "local a=('x'):rep(1e5) while true do a:upper() end"},
    {"table.concat", "local t={} for i=1,1e4 do t[i]='x' end while true do table.concat(t) end"},
    {"table.sort", "local t={} for i=1,1e4 do t[i]=i end while true do table.sort(t) end"},
    {"table.sort by a function in C",
     "local t={} for i=1,1e4 do t[i]=i end while true do pcall(table.sort,t,rawequal) end"},
    {"table.sort by a function in Lua",
     "local t={} for i=1,1e4 do t[i]=i end while true do table.sort(t,function(a,b) return a<b end) end"},
    {"table.insert far in front", "table.insert({},-2147483647,1)"},
    {"table.insert with holes",
     "local t={1,1,nil,1} for i=0,27 do t[5*2^i]=1 end assert(#t>6e8) table.insert(t,1,1)"},
    {"table.remove with holes",
     "local t={1,1,nil,1} for i=0,27 do t[5*2^i]=1 end assert(#t>6e8) table.remove(t,1)"},
    {"table.foreachi with holes",
     "local t={1,1,nil,1} for i=0,27 do t[5*2^i]=1 end assert(#t>6e8) table.foreachi(t,math.randomseed)"},
    {"patterns: powers", "return ('a'):rep(50):match(('a?'):rep(50)..('a'):rep(50)..'b')"},
    {"patterns: repetitions", "return ('x'):rep(1e5):find('.-.-.-.-b')"},
    {"patterns: balance", "return ('('):rep(1e5):gsub('%b()','')"},
    {"patterns: sets", "return ('x'):rep(1e5):find('['..('y'):rep(4000)..']*['..('z'):rep(90)..']')"},
    {"patterns: gmatch", "for _ in ('x'):rep(1e5):gmatch('.-.-.-b') do end"},
    {"a search for a text", "local s=('x'):rep(1e5) while true do s:find('y',1,true) end"},
    {"collectgarbage", "while true do collectgarbage() end"},
    {"a function that load calls", "load(function() while true do end end)"},
    {"a function that gsub calls", "('x'):gsub('x',function() while true do end end)"},
    {"xpcall's handler", "xpcall(error,function() while true do end end)"},
    {"a metamethod of an error", "pcall(error,setmetatable({},{__index=function() while true do end end}))"},
    {"redis.sha1hex", "local s=('x'):rep(1e5) while true do redis.sha1hex(s) end"},
    {"redis.call", "while true do redis.call('A',('x'):rep(1e5)) end"},
    {"cjson.encode", "local t={} for i=1,1e4 do t[i]=1 end while true do cjson.encode(t) end"},
    {"the reply: tables that look empty",
     "local e={} for i=1,1e4 do e['k'..i]=1 end for i=1,1e4 do e['k'..i]=nil end local t={} for i=1,1e5 do "
     "t[i]={map=e} end "
     "return t"},
    {"a text that compiles for long: and", "return loadstring('return '..('a and '):rep(80000)..'a')"},
    {"a text that compiles for long: elseif",
     "return loadstring('if a then '..('elseif a then '):rep(20000)..'end')"},
    {"a text that compiles for long: break",
     "return loadstring('while 1 do '..('if a then break end '):rep(20000)..'end')"},
};

TEST_CASE("script: whatever takes long, the script is asked for and ends") {
  for (const Hole& hole : endless) try_hole({hole.name, hole.text, killed}, 40, one_version);
}

constexpr Hole greedy[] = {
    {"cjson.encode of one text many times",
     "local s=('x'):rep(1e6) local t={} for i=1,108 do t[i]=s end return #cjson.encode(t)", no_memory},
    {"redis.log",
     "local s=('x'):rep(1e6) local t={} for i=1,1000 do t[i]=s end redis.log(0,unpack(t)) return 1", ":1"},
    {"the reply", "local s=('x'):rep(1e6) local t={} for i=1,500 do t[i]=s end return t",
     "the reply of the script is too long"},
    {"the reply, in errors", "local s=('x'):rep(1e6) local t={} for i=1,500 do t[i]={err=s} end return t",
     "the reply of the script is too long"},
    {"the reply, in texts with a format",
     "local s=('x'):rep(1e6) local t={} for i=1,500 do t[i]={verbatim_string={format='txt',string=s}} end "
     "return t",
     "the reply of the script is too long"},
    {"a text in pieces", "load(function() return ('x'):rep(1e5) end)", no_memory},
    {"a long text", "local t=('x=1 '):rep(1e6) return {loadstring(t..t..t)}"},
    {"cjson.decode, again and again",
     "local j='['..('\"'..('x'):rep(1000)..'\",'):rep(3000)..'1]' for i=1,20 do pcall(cjson.decode,j) end "
     "return 1",
     ":1"},
    {"the text of an error", "error({err=('x'):rep(1e6)})", "-xxx"},
    {"table.concat", "local s=('x'):rep(1e6) local t={} for i=1,500 do t[i]=s end return #table.concat(t)",
     no_memory},
    {"gsub", "return #(('x'):rep(1e5):gsub('x',('y'):rep(1e4)))", no_memory},
};

TEST_CASE("script: memory that a library takes is in the script's limit") {
  for (const Hole& hole : greedy) try_hole(hole, 1'000'000, one_version);
}

TEST_CASE("script: a long text of one script bounds no other script") {
  World world;
  world.limits.memory_bytes_max = 256u << 20;
  const std::string encode = "return cjson.encode({{{}}})";
  const std::string encoded = world.run(encode);
  CHECK(world.run("return #string.rep('x', 70e6)") == ":70000000\r\n");
  CHECK(world.run(encode) == encoded);
  CHECK(world.run("local s = string.rep('x', 70e6) return cjson.encode({s})").starts_with("-"));
}

}  // namespace sepal::test::script_holes
