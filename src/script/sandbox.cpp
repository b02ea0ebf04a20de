// The tables that a script sees as its globals. Lua has no read-only tables: a script sees an empty table in
// front of each library, which looks names up in the library and refuses to be changed.

#include <sepal/base/assert.hpp>

#include <cmath>
#include <initializer_list>

#include "script/state.hpp"

// What a script must not do, and what prevents it:
//
//     change what the next script sees      guards: empty tables in front of each library and of the globals.
//                                           Functions that write raw refuse them (rawset, table.insert)
//     reach memory by bytecode              load and loadstring take text only
//     go on after it was ended              pcall, xpcall and coroutine.resume raise the end again
//     loop where no hook is called          no newproxy; the handler of xpcall runs behind the error;
//                                           functions in C that may take long ask (State::spend):
//                                           bounded.cpp, bounded_tables.cpp, patterns.cpp, json.cpp
//     use up the stack, or write beyond     a limit for patterns, for the digits of bit.tohex, for unpack
//     take memory that Lua does not count   json.cpp
//
// The real functions stay below: a function in front of one has it as its upvalue (wrap, call_original).
extern "C" {
int luaopen_bit(lua_State* lua);
}

namespace sepal::script {

bool is_guarded(lua_State* lua, int table) {
  lua_pushvalue(lua, table);
  // The list of guards is in the registry, which no script reaches. A mark in the guard itself could be
  // taken away by a script.
  lua_pushlightuserdata(lua, &registry_keys.guarded);
  lua_rawget(lua, LUA_REGISTRYINDEX);
  lua_insert(lua, -2);
  lua_rawget(lua, -2);
  const bool guarded = lua_toboolean(lua, -1) != 0;
  lua_pop(lua, 2);
  return guarded;
}

int refuse_change(lua_State* lua) {
  return luaL_error(lua, "Attempt to modify a readonly table");
}

// Not by lua_call(): the place that an error names is that of the function's caller, and the caller is the
// script then.
int call_original(lua_State* lua) {
  return lua_tocfunction(lua, lua_upvalueindex(2))(lua);
}

void go_on_ending(lua_State* lua) {
  State& state = State::of(lua);
  if (state.is_ending()) state.end(lua, {});
}

void wrap(lua_State* lua, const char* name, lua_CFunction function) {
  lua_getfield(lua, -1, name);
  SEPAL_ASSERT(lua_iscfunction(lua, -1) != 0, "Lua has the function that another one stands in front of");
  // The functions of cjson have one upvalue, their settings, and find it in its place.
  if (lua_getupvalue(lua, -1, 1) == nullptr) lua_pushnil(lua);
  lua_insert(lua, -2);
  lua_pushcclosure(lua, function, 2);
  lua_setfield(lua, -2, name);
}

void replace(lua_State* lua, const char* name, lua_CFunction function) {
  SEPAL_ASSERT(lua_istable(lua, -1), "a function is put into no library");
  lua_pushcfunction(lua, function);
  lua_setfield(lua, -2, name);
}

namespace {

int refuse_unknown_name(lua_State* lua) {
  return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                    lua_isstring(lua, 2) != 0 ? lua_tostring(lua, 2) : luaL_typename(lua, 2));
}

// rawset
int change_table(lua_State* lua) {
  if (lua_istable(lua, 1) && is_guarded(lua, 1)) return refuse_change(lua);
  return call_original(lua);
}

// bit.tohex. The library negates the number of digits, and the least integer has no negative: it would write
// beyond its buffer (CVE-2024-31449).
int to_hex(lua_State* lua) {
  constexpr lua_Integer digits_max = 8;
  if (lua_gettop(lua) >= 2) {
    const lua_Number digits = luaL_checknumber(lua, 2);
    const bool in_range = digits >= -digits_max && digits <= digits_max;
    lua_pushinteger(lua, in_range ? static_cast<lua_Integer>(digits) : digits < 0 ? -digits_max : digits_max);
    lua_replace(lua, 2);
  }
  return call_original(lua);
}

// As Lua's, but an error of a command comes as its text, not as a table: so scripts were written before the
// reference had such tables.
int protected_call(lua_State* lua) {
  luaL_checkany(lua, 1);
  // go_on_ending() comes before anything is done with the error: the script must not see it.
  const int status = lua_pcall(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0);
  go_on_ending(lua);
  if (status != 0 && lua_istable(lua, -1)) {
    lua_getfield(lua, -1, "err");
    if (lua_isstring(lua, -1) != 0) {
      lua_replace(lua, -2);
    } else {
      lua_pop(lua, 1);
    }
  }
  lua_pushboolean(lua, static_cast<int>(status == 0));
  lua_insert(lua, 1);
  return lua_gettop(lua);
}

// As Lua's, but the handler runs when the error has ended the function. Lua would run it before, and within a
// hook no further hook is called: a handler that loops could not be ended.
int protected_call_with_handler(lua_State* lua) {
  luaL_checkany(lua, 2);
  lua_settop(lua, 2);
  lua_insert(lua, 1);  // the handler
  const int status = lua_pcall(lua, 0, LUA_MULTRET, 0);
  go_on_ending(lua);
  if (status != 0) {
    lua_pushvalue(lua, 1);
    lua_insert(lua, -2);
    lua_call(lua, 1, 1);
  }
  lua_pushboolean(lua, static_cast<int>(status == 0));
  lua_replace(lua, 1);
  return lua_gettop(lua);
}

// A number in [0, 1).
double random_fraction(lua_State* lua) {
  std::minstd_rand& random = State::of(lua).random();
  return (static_cast<double>(random()) - std::minstd_rand::min()) /
         (static_cast<double>(std::minstd_rand::max()) + 1);
}

// As Lua's, but not with the process' generator, which all workers share.
int math_random(lua_State* lua) {
  const double fraction = random_fraction(lua);
  const int count = lua_gettop(lua);
  if (count == 0) {
    lua_pushnumber(lua, fraction);
    return 1;
  }
  if (count > 2) return luaL_error(lua, "wrong number of arguments");
  const auto lowest = static_cast<lua_Number>(count == 1 ? 1 : luaL_checkinteger(lua, 1));
  const auto highest = static_cast<lua_Number>(luaL_checkinteger(lua, count));
  luaL_argcheck(lua, lowest <= highest, count, "interval is empty");
  lua_pushnumber(lua, std::floor(fraction * (highest - lowest + 1)) + lowest);
  return 1;
}

int math_seed(lua_State* lua) {
  State::of(lua).random().seed(static_cast<std::uint_fast32_t>(luaL_checkinteger(lua, 1)));
  return 0;
}

// struct and cmsgpack: Debian has no library for them.
int refuse_library(lua_State* lua) {
  return luaL_error(lua, "This server has no library '%s' for scripts (docs/protocol.md)",
                    lua_tostring(lua, lua_upvalueindex(1)));
}

void open_library(lua_State* lua, const char* name, lua_CFunction open) {
  lua_pushcfunction(lua, open);
  lua_pushstring(lua, name);
  lua_call(lua, 1, 0);
}

// Replaces the table on top of the stack by one that shows it, and that a script cannot change. The new
// table, the guard, stays empty (but for KEYS and ARGV). So each assignment reaches its metatable, which
// refuses, also for a name that the library has. The metatable is hidden, because a script could change it.
void guard(lua_State* lua) {
  lua_newtable(lua);
  lua_newtable(lua);
  lua_pushvalue(lua, -3);
  lua_setfield(lua, -2, "__index");
  lua_pushcfunction(lua, refuse_change);
  lua_setfield(lua, -2, "__newindex");
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
  lua_setmetatable(lua, -2);
  lua_pushlightuserdata(lua, &registry_keys.guarded);
  lua_rawget(lua, LUA_REGISTRYINDEX);
  lua_pushvalue(lua, -2);
  lua_pushboolean(lua, 1);
  lua_rawset(lua, -3);
  lua_pop(lua, 1);
  lua_replace(lua, -2);
}

// Leaves a table whose every name is a function that refuses.
void push_missing_library(lua_State* lua, const char* name) {
  lua_newtable(lua);
  lua_newtable(lua);
  lua_pushstring(lua, name);
  lua_pushcclosure(lua, refuse_library, 1);
  lua_setfield(lua, -2, "__index");
  lua_setmetatable(lua, -2);
}

// Neither io nor package nor debug: a script must not reach files, nor other code, nor the registry. Of os,
// only a clock is shown (push_os).
void open_libraries(lua_State* lua) {
  open_library(lua, "", luaopen_base);
  open_library(lua, LUA_TABLIBNAME, luaopen_table);
  open_library(lua, LUA_STRLIBNAME, luaopen_string);
  open_library(lua, LUA_MATHLIBNAME, luaopen_math);
  open_library(lua, LUA_OSLIBNAME, luaopen_os);
  open_library(lua, "bit", luaopen_bit);
  push_json_library(lua);
  lua_setglobal(lua, "cjson");
}

void adapt_libraries(lua_State* lua) {
  bound_basic_functions(lua);
  bound_table_functions(lua);
  bound_patterns(lua);
  lua_getglobal(lua, "bit");
  wrap(lua, "tohex", to_hex);
  lua_pop(lua, 1);
  lua_getglobal(lua, LUA_MATHLIBNAME);
  replace(lua, "random", math_random);
  replace(lua, "randomseed", math_seed);
  lua_pop(lua, 1);
  lua_pushvalue(lua, LUA_GLOBALSINDEX);
  wrap(lua, "rawset", change_table);
  replace(lua, "pcall", protected_call);
  replace(lua, "xpcall", protected_call_with_handler);
  lua_pop(lua, 1);
  // The methods of strings, as in ("a"):rep(3).
  lua_pushliteral(lua, "");
  lua_getmetatable(lua, -1);
  lua_getglobal(lua, LUA_STRLIBNAME);
  lua_setfield(lua, -2, "__index");
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
  lua_pop(lua, 2);
}

// Leaves the table `os` with the one function that scripts have.
void push_os(lua_State* lua) {
  lua_newtable(lua);
  lua_getglobal(lua, LUA_OSLIBNAME);
  lua_getfield(lua, -1, "clock");
  lua_setfield(lua, -3, "clock");
  lua_pop(lua, 1);
}

// Copies globals into the table on top of the stack.
void copy_globals(lua_State* lua, std::initializer_list<const char*> names, bool are_tables) {
  for (const char* const name : names) {
    lua_getglobal(lua, name);
    SEPAL_ASSERT(!lua_isnil(lua, -1), "Lua has all that the sandbox shows");
    if (are_tables) guard(lua);
    lua_setfield(lua, -2, name);
  }
}

}  // namespace

// The steps: open the libraries in Lua's own globals; put our functions in front of theirs; then copy what
// scripts may have into a new table, each library behind a guard, and guard that table as well. Lua's own
// globals stay out of reach.
void open_sandbox(lua_State* lua) {
  lua_pushlightuserdata(lua, &registry_keys.guarded);
  lua_newtable(lua);
  lua_rawset(lua, LUA_REGISTRYINDEX);
  open_libraries(lua);
  adapt_libraries(lua);
  lua_newtable(lua);  // what all scripts see
  // No newproxy: the collector calls a proxy's __gc without hooks, so a loop there could not be ended, and it
  // may call it while another script runs.
  copy_globals(lua, {"assert",   "collectgarbage", "error",      "gcinfo", "getfenv", "getmetatable",
                     "ipairs",   "load",           "loadstring", "next",   "pairs",   "pcall",
                     "rawequal", "rawget",         "rawset",     "select", "setfenv", "setmetatable",
                     "tonumber", "tostring",       "type",       "unpack", "xpcall",  "_VERSION"},
               false);
  copy_globals(lua, {"bit", "cjson", "coroutine", LUA_MATHLIBNAME, LUA_STRLIBNAME, LUA_TABLIBNAME}, true);
  push_os(lua);
  guard(lua);
  lua_setfield(lua, -2, LUA_OSLIBNAME);
  for (const char* const name : {"cmsgpack", "struct"}) {
    push_missing_library(lua, name);
    guard(lua);
    lua_setfield(lua, -2, name);
  }
  push_redis_library(lua);
  guard(lua);
  lua_setfield(lua, -2, "redis");
  // A name that it does not have is an error.
  lua_newtable(lua);
  lua_pushcfunction(lua, refuse_unknown_name);
  lua_setfield(lua, -2, "__index");
  lua_setmetatable(lua, -2);
  lua_pushvalue(lua, -1);
  guard(lua);  // the globals of scripts
  lua_pushvalue(lua, -1);
  // Into the table behind the guard: _G leads a script to the guard, and not past it.
  lua_setfield(lua, -3, "_G");
  lua_insert(lua, 1);
  lua_settop(lua, 1);
}

}  // namespace sepal::script
