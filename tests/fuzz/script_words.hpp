// The words of the scripts that ScriptGrammar prints.
#pragma once

#include <string_view>

namespace sepal::test::script_words {

// A function that scripts have, with the kinds of its arguments:
//
//   s string   n number   t table   f function   v anything   c coroutine   p pattern   m format
//   j text of JSON   x code   w words of a command   * some more of anything
struct ScriptFunction {
  std::string_view name;
  std::string_view arguments;
};

// Many words a line.
// clang-format off
// Counts, and the edges of int, long, size_t and double. Some are multiples at which a library's product of
// sizes exceeds int.
inline constexpr std::string_view numbers[] = {
    "1", "0", "2", "3", "7", "8", "9", "16", "31", "32", "33", "64", "99", "100", "199", "200", "201", "255",
    "256", "511", "512", "1000", "4096", "7999", "8000", "8001", "65535", "65536", "1e5", "1e6", "(-1)",
    "(-2)", "(-3)", "(-8)", "(-9)", "(-100)", "(-1e6)", "0.5", "(-0.5)", "1.5", "(-0)", "268435456",
    "357913941", "357913942", "536870912", "715827883", "1073741823", "1073741824", "2147483646",
    "2147483647", "2147483648", "(-2147483647)", "(-2147483648)", "(-2147483649)", "4294967295",
    "4294967296", "4294967297", "4503599627370496", "6755399441055744", "9007199254740991",
    "9007199254740992", "9007199254740993", "9223372036854774784", "9223372036854775807",
    "(-9223372036854775808)", "(-9223372036854777856)", "18446744073709549568", "18446744073709551616",
    "1e15", "1e18", "1e19", "1e100", "1e308", "(-1e308)", "1.7976931348623157e308", "5e-324",
    "2.2250738585072014e-308", "(1/0)", "(-1/0)", "(0/0)", "(-(0/0))", "0x7fffffff", "0x80000000",
    "0xffffffff", "0.1", "1e-5", "3.14159", "#s", "#t", "(#t + 1)", "(#s + 1)", "i"};

inline constexpr std::string_view strings[] = {
    "''", "'x'", "'abc'", "' '", "'-'", "'\\0'", "'a\\0b'", "'\\r\\n'", "'a\\r\\n+OK\\r\\n'", "'0x10'",
    "'1e309'", "'-1'", "'inf'", "'nan'", "'2147483648'", "'-2147483648'", "'\\255\\254\\0\\1'", "'\\27Lua'",
    "'\\27'", "('x'):rep(100)", "('x'):rep(1000)", "('ab'):rep(4000)", "('x'):rep(70000)", "'ERR x'",
    "'err'", "'ok'", "'map'", "'n'", "'__index'", "'#'", "'collect'", "'count'", "'step'", "'null'", "'on'",
    "'k'", "'v'", "KEYS[1]", "ARGV[1]", "ARGV[2]", "s", "tostring(t)", "('%d'):format(7)", "'b' .. 'c'",
    "string.char(0, 128, 255)", "'return 1'", "'return ...'", "'x ='", "'*a'", "'2'", "'3'", "'txt'"};

inline constexpr std::string_view patterns[] = {
    "a", "x", ".", "%a", "%d", "%s", "%w", "%z", "%%", "[abc]", "[^a]", "[a-z]", "[%w_]", "[]]", "[^]]",
    "[a-", "[", "]", "[%", "%", "%f[%w]", "%f", "%f[", "%b()", "%bxx", "%b", "%b(", "(", ")", "()", "(.-)",
    "(a*)", "%1", "%2", "%0", "%9", "*", "+", "-", "?", "^", "$", ".-", ".*", "a?", "a*", "x-", "\\0", "-b"};

inline constexpr std::string_view formats[] = {
    "%", "d", "i", "u", "c", "x", "X", "o", "e", "E", "f", "g", "G", "q", "s", "a", "p", "%%", "-", "+", " ",
    "#", "0", "1", "5", "9", "99", "100", ".", ".0", ".9", ".99", ".100", "\\0", "%d", "%s", "%q", "%99.99f",
    "%.99e", "%-99d", "%+#99x", "%5.2s", "%.3s", "text"};

inline constexpr std::string_view json[] = {
    "[", "]", "{", "}", ",", ":", "\"a\"", "\"\"", "\"", "1", "0", "-", "-1", "1.5", "1e5", "1e999", "0x1f",
    "01", "true", "false", "null", "nul", "NaN", "nan", "Infinity", "-inf", " ", "\\n", "\\0", "\\\\",
    "\\\\u", "\\\\u0041", "\\\\ud800", "\\\\udfff", "\\\\ud800\\\\udc00", "\\\\n", "\\\\/", "\\255", "a",
    "[1]", "{\"a\":1}", "{\"a\":[{}]}", "[[]]", "9007199254740993", "0.1"};

// What a compiler meets again and again: `before` and `behind` are repeated as often.
struct Nesting {
  std::string_view before, middle, behind;
};
inline constexpr Nesting nestings[] = {
    {"(", "1", ")"}, {"{", "", "}"}, {"{{},", "", "}"}, {"f(", "", ")"}, {"f{", "", "}"}, {"a[", "1", "]"},
    {"-", "1", ""}, {"- ", "1", ""}, {"not ", "1", ""}, {"#", "a", ""}, {"a and ", "a", ""},
    {"a or ", "a", ""}, {"a and (b or ", "a", ")"}, {"a..", "a", ""}, {"a^", "a", ""}, {"a+", "a", ""},
    {"a==", "a", ""}, {"a.", "a", ""}, {"a,", "a", ""}, {"'x',", "a", ""}, {"0.5,", "a", ""},
    {"a()", "", ""}, {"a:a", "", "()"}, {"function() return ", "1", " end"},
    {"function(...) local a=... return ", "1", " end"}, {"(function() ", "", " end)()"}, {"[=", "", "]"},
    {"[", "[", "]"}, {"--[", "[", "]"}, {"\\n", "1", ""}, {"\\r\\n", "1", ""}, {"a", "", ""}, {"1", "", ""},
    {"\\\\", "", ""}, {"\"", "", ""}};
inline constexpr Nesting statement_nestings[] = {
    {"do ", "", " end"}, {"if a then ", "", " end"}, {"if a then elseif a then ", "", " end"},
    {"while a do ", "", " end"}, {"while a do break ", "", " end"}, {"repeat ", "", " until a"},
    {"repeat local b ", "", " until b"}, {"for i=1,1 do ", "", " end"},
    {"for k in pairs{} do local x=function() return k end ", "", " end"}, {"local a ", "", ""},
    {"local a=a ", "", ""}, {"local function f() ", "", " end"}, {"a=1 ", "", ""}, {"f() ", "", ""},
    {"a,", "a=1", ""}, {"if a then return end ", "", ""}, {";", "", ""}};
inline constexpr std::string_view repeats[] = {
    "1", "2", "3", "10", "50", "59", "60", "61", "100", "150", "190", "198", "199", "200", "201", "202",
    "250", "255", "256", "257", "260", "400", "512", "600", "1000", "2000"};

inline constexpr std::string_view variables[] = {
    "a", "b", "c", "t", "s", "f", "u", "g", "n"};
inline constexpr std::string_view targets[] = {
    "a", "b", "c", "t", "s", "f", "u", "t[1]", "t.x", "u[a]", "t[s]"};
inline constexpr std::string_view tables[] = {
    "t", "u", "{}", "{1, 2, 3}", "{s, s, s}", "{x = 1}", "KEYS", "ARGV", "_G", "redis", "string", "cjson",
    "math", "table", "bit", "os", "coroutine", "getfenv(0)", "getfenv(1)", "getfenv(2)",
    "{[2147483647] = 1}", "{[2147483648] = 1}", "{[1e9] = 1}", "{[0.5] = 1}", "{[-1] = 1}",
    "{[1] = 1, x = 2, [3] = 3}", "{[1e308] = 1}", "{[1/0] = 1}", "{n = 2147483647}", "{err = ''}",
    "{ok = ''}", "{err = s}", "{ok = s}", "{double = n}", "{double = 0/0}", "{double = 1/0}",
    "{big_number = s}", "{map = t}", "{set = t}", "{map = {[t] = u}}",
    "{verbatim_string = {format = s, string = s}}", "{verbatim_string = {format = 'txt', string = 'x'}}",
    "{err = {}, source = s, line = 1}", "{err = 'x', ignore_error_stats_update = true}",
    "select(2, pcall(error, t))", "getmetatable('')"};
inline constexpr std::string_view functions[] = {
    "f", "g", "error", "print", "pcall", "tostring", "type", "next", "function() end",
    "function(...) return ... end", "function(a, b) return a end", "function(a, b) return true end",
    "function(a, b) return tostring(a) < tostring(b) end", "function() return nil end",
    "function(x) return x .. x end", "function() error(t) end", "function() collectgarbage() return s end",
    "function() t[#t + 1] = {} return #t % 2 == 0 end", "function() t[#t] = nil end",
    "coroutine.wrap(function(...) while true do coroutine.yield(...) end end)", "coroutine.yield",
    "redis.call", "redis.pcall", "cjson.encode", "cjson.decode", "string.rep", "string.gsub", "unpack",
    "table.sort", "loadstring", "setfenv", "math.random", "coroutine.wrap", "coroutine.resume",
    "setmetatable({}, {__call = f})", "function(...) return select('#', ...) end",
    "function() return pcall(f, f) end", "function() return f(f) + 1 end"};
inline constexpr std::string_view coroutines[] = {
    "coroutine.create(f)", "coroutine.create(function(...) return coroutine.yield(...) end)",
    "coroutine.create(function(...) return pcall(coroutine.yield, ...) end)", "coroutine.running()",
    "coroutine.create(error)", "coroutine.create(function() error(t) end)", "a", "u.co",
    "coroutine.create(function() while true do end end)",
    "coroutine.create(function(...) return redis.pcall(...) end)"};
inline constexpr std::string_view operators[] = {
    "+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or"};
inline constexpr std::string_view metamethods[] = {
    "__index", "__newindex", "__call", "__add", "__concat", "__eq", "__lt", "__le", "__len", "__unm",
    "__mod", "__pow", "__tostring", "__metatable", "__gc", "__mode", "__pairs", "__ipairs", "err", "n"};

inline constexpr ScriptFunction library[] = {
    {"unpack", "tnn"}, {"select", "n*"}, {"next", "tv"}, {"pairs", "t"}, {"ipairs", "t"}, {"rawget", "tv"},
    {"rawset", "tvv"}, {"rawequal", "vv"}, {"getmetatable", "v"}, {"setmetatable", "tt"}, {"getfenv", "n"},
    {"getfenv", "f"}, {"setfenv", "ft"}, {"setfenv", "nt"}, {"tonumber", "sn"}, {"tonumber", "v"},
    {"tostring", "v"}, {"type", "v"}, {"error", "vn"}, {"assert", "v*"}, {"pcall", "f*"}, {"xpcall", "ff"},
    {"load", "fs"}, {"loadstring", "xs"}, {"collectgarbage", "sn"}, {"gcinfo", ""}, {"string.byte", "snn"},
    {"string.char", "nnn*"}, {"string.dump", "f"}, {"string.find", "spn"}, {"string.find", "spnv"},
    {"string.format", "m*"}, {"string.format", "mnnn"}, {"string.format", "mss"}, {"string.gmatch", "sp"},
    {"string.gfind", "sp"}, {"string.gsub", "sps"}, {"string.gsub", "spf"}, {"string.gsub", "spt"},
    {"string.gsub", "spsn"}, {"string.len", "s"}, {"string.lower", "s"}, {"string.match", "spn"},
    {"string.rep", "sn"}, {"string.reverse", "s"}, {"string.sub", "snn"}, {"string.upper", "s"},
    {"table.concat", "tsnn"}, {"table.concat", "ts"}, {"table.foreach", "tf"}, {"table.foreachi", "tf"},
    {"table.getn", "t"}, {"table.setn", "tn"}, {"table.insert", "tv"}, {"table.insert", "tnv"},
    {"table.maxn", "t"}, {"table.remove", "tn"}, {"table.sort", "tf"}, {"table.sort", "t"},
    {"math.random", "nn"}, {"math.random", "n"}, {"math.randomseed", "n"}, {"math.fmod", "nn"},
    {"math.mod", "nn"}, {"math.pow", "nn"}, {"math.ldexp", "nn"}, {"math.frexp", "n"}, {"math.floor", "n"},
    {"math.ceil", "n"}, {"math.modf", "n"}, {"math.log", "n"}, {"math.exp", "n"}, {"math.max", "nn*"},
    {"math.min", "nn*"}, {"math.sqrt", "n"}, {"math.abs", "n"}, {"math.atan2", "nn"}, {"os.clock", ""},
    {"coroutine.create", "f"}, {"coroutine.wrap", "f"}, {"coroutine.resume", "c*"}, {"coroutine.yield", "*"},
    {"coroutine.status", "c"}, {"coroutine.running", ""}, {"bit.tobit", "n"}, {"bit.bnot", "n"},
    {"bit.band", "nn*"}, {"bit.bor", "nn*"}, {"bit.bxor", "nnn"}, {"bit.lshift", "nn"}, {"bit.rshift", "nn"},
    {"bit.arshift", "nn"}, {"bit.rol", "nn"}, {"bit.ror", "nn"}, {"bit.bswap", "n"}, {"bit.tohex", "nn"},
    {"bit.tohex", "n"}, {"cjson.encode", "v"}, {"cjson.encode", "t"}, {"cjson.decode", "j"},
    {"cjson.decode", "s"}, {"cjson.new", ""}, {"cjson.encode_max_depth", "n"},
    {"cjson.decode_max_depth", "n"}, {"cjson.encode_number_precision", "n"},
    {"cjson.encode_keep_buffer", "v"}, {"cjson.encode_sparse_array", "vnn"},
    {"cjson.encode_invalid_numbers", "v"}, {"cjson.decode_invalid_numbers", "v"},
    {"cjson.decode_array_with_array_mt", "v"}, {"cmsgpack.pack", "vv"}, {"cmsgpack.unpack", "s"},
    {"cmsgpack.unpack_one", "sn"}, {"cmsgpack.unpack_limit", "snn"}, {"struct.pack", "sn"},
    {"struct.unpack", "ssn"}, {"struct.size", "s"}, {"redis.call", "w"}, {"redis.pcall", "w"},
    {"redis.call", "w*"}, {"redis.pcall", "*"}, {"redis.error_reply", "s"}, {"redis.status_reply", "s"},
    {"redis.sha1hex", "s"}, {"redis.log", "ns"}, {"redis.log", "ns*"}, {"redis.setresp", "n"},
    {"redis.setresp", "n"}, {"redis.set_repl", "n"}, {"redis.replicate_commands", ""},
    {"redis.acl_check_cmd", "w"}, {"redis.breakpoint", ""}, {"redis.debug", "v"}, {"s.rep", "sn"},
    {"f", "*"}, {"g", "*"}, {"u.json.encode", "t"}, {"u.json.decode", "j"},
    {"u.json.encode_sparse_array", "vnn"}, {"u.json.encode_max_depth", "n"},
    {"u.json.encode_keep_buffer", "v"}};

// clang-format on

// What each script has. `i` is a number outside of loops, too.
inline constexpr std::string_view head =
    "local a, b, c, n, i, s, t, u = 1, 'x', nil, 2, 1, 'abc', {1, 2, 3}, {x = 1, json = cjson.new and "
    "cjson.new()}\n"
    "local function g(...) return ... end\n"
    "local f = g\n";

}  // namespace sepal::test::script_words
