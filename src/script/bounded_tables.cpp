// The functions of `table` whose time has no bound of its own: the length of a table with holes may be 2^30
// for few values, and a position may be any number.

#include <sepal/base/assert.hpp>

#include <limits>

#include "script/state.hpp"

namespace sepal::script {
namespace {

// What it costs to move one value, or to compare two.
constexpr std::uint64_t moved_cost = 64;

int length(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  return static_cast<int>(std::min<std::size_t>(lua_objlen(lua, 1), std::numeric_limits<int>::max() - 1));
}

void move_value(lua_State* lua, int from, int to) {
  State::of(lua).spend(lua, moved_cost);
  lua_rawgeti(lua, 1, from);
  lua_rawseti(lua, 1, to);
}

// table.insert
int insert_value(lua_State* lua) {
  int end = length(lua) + 1;
  if (is_guarded(lua, 1)) return refuse_change(lua);
  const int count = lua_gettop(lua);
  if (count != 2 && count != 3) return luaL_error(lua, "wrong number of arguments to 'insert'");
  lua_Integer position = end;
  if (count == 3) position = luaL_checkinteger(lua, 2);
  luaL_argcheck(lua,
                position >= std::numeric_limits<int>::min() && position < std::numeric_limits<int>::max(), 2,
                "out of range");
  for (; end > position; --end) move_value(lua, end - 1, end);
  lua_rawseti(lua, 1, static_cast<int>(position));
  return 0;
}

// table.remove
int remove_value(lua_State* lua) {
  const int end = length(lua);
  lua_Integer position = luaL_optinteger(lua, 2, end);
  if (position < 1 || position > end) return 0;
  lua_rawgeti(lua, 1, static_cast<int>(position));
  for (; position < end; ++position)
    move_value(lua, static_cast<int>(position) + 1, static_cast<int>(position));
  lua_pushnil(lua);
  lua_rawseti(lua, 1, end);
  return 1;
}

// table.foreach, and table.foreachi
int call_for_each(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_checktype(lua, 2, LUA_TFUNCTION);
  lua_settop(lua, 2);
  lua_pushnil(lua);
  while (lua_next(lua, 1) != 0) {
    State::of(lua).spend(lua, moved_cost);
    lua_pushvalue(lua, 2);
    lua_pushvalue(lua, -3);
    lua_pushvalue(lua, -3);
    lua_call(lua, 2, 1);
    if (!lua_isnil(lua, -1)) return 1;
    lua_pop(lua, 2);
  }
  return 0;
}
int call_for_each_index(lua_State* lua) {
  const int end = length(lua);
  luaL_checktype(lua, 2, LUA_TFUNCTION);
  for (int at = 1; at <= end; ++at) {
    State::of(lua).spend(lua, moved_cost);
    lua_pushvalue(lua, 2);
    lua_pushinteger(lua, at);
    lua_rawgeti(lua, 1, at);
    lua_call(lua, 2, 1);
    if (!lua_isnil(lua, -1)) return 1;
    lua_pop(lua, 1);
  }
  return 0;
}

// The order of table.sort for Lua's own: the first upvalue is a function in C, or nil for Lua's order. An
// order in Lua asks by itself.
int compare_values(lua_State* lua) {
  State::of(lua).spend(lua, moved_cost);
  lua_settop(lua, 2);
  if (lua_isnil(lua, lua_upvalueindex(1))) {
    lua_pushboolean(lua, lua_lessthan(lua, 1, 2));
    return 1;
  }
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, 2, 1);
  return 1;
}

// table.sort. Lua's own takes a time that grows with the square of the length, for some orders of the values.
int sort_values(lua_State* lua) {
  length(lua);
  if (!lua_isnoneornil(lua, 2)) luaL_checktype(lua, 2, LUA_TFUNCTION);
  lua_settop(lua, 2);
  if (lua_isnil(lua, 2) || lua_iscfunction(lua, 2) != 0) lua_pushcclosure(lua, compare_values, 1);
  return call_original(lua);
}

}  // namespace

void bound_table_functions(lua_State* lua) {
  lua_getglobal(lua, LUA_TABLIBNAME);
  SEPAL_ASSERT(lua_istable(lua, -1), "Lua has the library table");
  replace(lua, "insert", insert_value);
  replace(lua, "remove", remove_value);
  replace(lua, "foreach", call_for_each);
  replace(lua, "foreachi", call_for_each_index);
  wrap(lua, "sort", sort_values);
  lua_pop(lua, 1);
}

}  // namespace sepal::script
