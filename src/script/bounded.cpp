// Basic functions of Lua, and those of coroutine and string, whose time or memory has no bound of its own.

#include <limits>

#include "script/state.hpp"

namespace sepal::script {
namespace {

// A coroutine counts its instructions from its own beginning, so many short ones would never ask.
constexpr std::uint64_t resume_cost = State::cost_per_question / 16;

// unpack. Lua's own calculates the number of values as an int, which overflows: it would write beyond the
// stack (CVE-2025-46817).
int unpack_values(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  const auto first = static_cast<std::int64_t>(luaL_optinteger(lua, 2, 1));
  const std::int64_t last = lua_isnoneornil(lua, 3) ? static_cast<std::int64_t>(lua_objlen(lua, 1))
                                                    : static_cast<std::int64_t>(luaL_checkinteger(lua, 3));
  constexpr std::int64_t index_max = std::numeric_limits<int>::max();
  luaL_argcheck(lua, first >= -index_max && first <= index_max, 2, "out of range");
  luaL_argcheck(lua, last >= -index_max && last <= index_max, 3, "out of range");
  if (first > last) return 0;
  const std::int64_t count = last - first + 1;
  if (count > index_max || lua_checkstack(lua, static_cast<int>(count)) == 0)
    return luaL_error(lua, "too many results to unpack");
  for (std::int64_t at = first; at <= last; ++at) lua_rawgeti(lua, 1, static_cast<int>(at));
  return static_cast<int>(count);
}

// string.rep. Lua's own counts all copies of a text that has no bytes.
int repeat_text(lua_State* lua) {
  std::size_t size = 0;
  luaL_checklstring(lua, 1, &size);
  if (size == 0 && luaL_checknumber(lua, 2) > 0) {
    lua_pushliteral(lua, "");
    return 1;
  }
  return call_original(lua);
}

// Scripts may look at the collector and help it. They may not stop it: it serves the next script too.
int collect_garbage(lua_State* lua) {
  const std::string_view what = luaL_optstring(lua, 1, "collect");
  if (what == "count") {
    lua_pushnumber(lua, lua_gc(lua, LUA_GCCOUNT, 0) + lua_gc(lua, LUA_GCCOUNTB, 0) / 1024.0);
    return 1;
  }
  State::of(lua).ask(lua);
  if (what == "step") {
    lua_pushboolean(lua, lua_gc(lua, LUA_GCSTEP, static_cast<int>(luaL_optinteger(lua, 2, 0))));
  } else {
    lua_pushinteger(lua, what == "collect" ? lua_gc(lua, LUA_GCCOLLECT, 0) : 0);
  }
  return 1;
}

// coroutine.resume, which catches errors
int resume_coroutine(lua_State* lua) {
  State& state = State::of(lua);
  lua_State* const coroutine = lua_tothread(lua, 1);
  luaL_argcheck(lua, coroutine != nullptr, 1, "coroutine expected");
  state.spend(lua, resume_cost);
  int count = 0;
  {
    const State::Inside inside(state, coroutine);
    count = call_original(lua);
  }
  go_on_ending(lua);
  return count;
}

// What coroutine.wrap answers: its upvalues are the function above, and the coroutine.
int resume_wrapped(lua_State* lua) {
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_pushvalue(lua, lua_upvalueindex(2));
  lua_insert(lua, 2);
  lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
  const bool has_succeeded = lua_toboolean(lua, 1) != 0;
  lua_remove(lua, 1);
  if (has_succeeded) return lua_gettop(lua);
  if (lua_isstring(lua, -1) != 0) {
    luaL_where(lua, 1);
    lua_insert(lua, -2);
    lua_concat(lua, 2);
  }
  return lua_error(lua);
}

// coroutine.wrap. Lua's own resumes the coroutine past the function above. Upvalues: Lua's coroutine.create,
// and that function.
int wrap_coroutine(lua_State* lua) {
  lua_settop(lua, 1);
  lua_pushvalue(lua, lua_upvalueindex(2));
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_pushvalue(lua, 1);
  lua_call(lua, 1, 1);
  lua_pushcclosure(lua, resume_wrapped, 2);
  return 1;
}

// Compiles the text on top of the stack. As Lua's: the function, or nil and the text of the error.
int load_on_top(lua_State* lua, const char* name) {
  std::size_t size = 0;
  const char* const text = lua_tolstring(lua, -1, &size);
  const int status = State::of(lua).load(lua, {text, size}, name);
  if (status == 0) return 1;
  go_on_ending(lua);
  lua_pushnil(lua);
  lua_insert(lua, -2);
  return 2;
}

// load: the pieces that the function returns, joined before they are compiled. Lua's own would call the
// function within its parser.
int load_pieces(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TFUNCTION);
  const char* const name = luaL_optstring(lua, 2, "=(load)");
  lua_settop(lua, 2);
  lua_newtable(lua);
  int count = 0;
  std::uint64_t bytes = 0;
  for (;; ++count) {
    lua_pushvalue(lua, 1);
    lua_call(lua, 0, 1);
    if (lua_isnil(lua, -1)) break;
    if (lua_isstring(lua, -1) == 0) return luaL_error(lua, "reader function must return a string");
    const std::size_t size = lua_objlen(lua, -1);
    if (size == 0) break;
    bytes += size;
    if (bytes > State::of(lua).memory_left()) return luaL_error(lua, "not enough memory");
    lua_rawseti(lua, 3, count + 1);
  }
  luaL_Buffer text;
  luaL_buffinit(lua, &text);
  for (int at = 1; at <= count; ++at) {
    lua_rawgeti(lua, 3, at);
    luaL_addvalue(&text);
  }
  luaL_pushresult(&text);
  return load_on_top(lua, name);
}

// loadstring
int load_text(lua_State* lua) {
  std::size_t size = 0;
  const char* const text = luaL_checklstring(lua, 1, &size);
  const char* const name = luaL_optstring(lua, 2, text);
  lua_pushvalue(lua, 1);
  return load_on_top(lua, name);
}

}  // namespace

void bound_basic_functions(lua_State* lua) {
  lua_getglobal(lua, LUA_STRLIBNAME);
  wrap(lua, "rep", repeat_text);
  lua_pop(lua, 1);
  lua_getglobal(lua, LUA_COLIBNAME);
  wrap(lua, "resume", resume_coroutine);
  lua_getfield(lua, -1, "create");
  lua_getfield(lua, -2, "resume");
  lua_pushcclosure(lua, wrap_coroutine, 2);
  lua_setfield(lua, -2, "wrap");
  lua_pop(lua, 1);
  lua_pushvalue(lua, LUA_GLOBALSINDEX);
  replace(lua, "unpack", unpack_values);
  replace(lua, "load", load_pieces);
  replace(lua, "loadstring", load_text);
  replace(lua, "collectgarbage", collect_garbage);
  lua_pop(lua, 1);
}

}  // namespace sepal::script
