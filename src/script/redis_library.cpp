// The table `redis` that scripts see.

#include <sepal/base/assert.hpp>
#include <sepal/base/digest.hpp>

#include "script/state.hpp"

namespace sepal::script {
namespace {

// The version of the reference whose commands and scripts Sepal follows.
constexpr const char* followed_version = "7.4.0";
constexpr int followed_version_number = 0x00070400;

// A line of the log has no more of the texts that a script gives it: as in the reference.
constexpr std::size_t log_bytes_max = 1024;

// Does not return: lua_error() throws. So callers write `return raise(...)` only to end the function for
// the compiler.
int raise(lua_State* lua, std::string_view text) {
  push_error(lua, text, false);
  return lua_error(lua);
}

// Runs the command whose words are the arguments. Leaves its reply, or an error, on the stack; true: it is an
// error.
bool run_command(lua_State* lua) {
  State& state = State::of(lua);
  if (lua_gettop(lua) == 0) {
    push_error(lua, "ERR Please specify at least one argument for this redis lib call", false);
    return true;
  }
  // Views of the strings on Lua's stack, so the stack stays as it is until the command has run.
  const std::span<const std::string_view> words = state.words(lua);
  if (words.empty()) {
    push_error(lua, "ERR Lua redis lib command arguments must be strings or integers", false);
    return true;
  }
  resp::Reply& reply = state.command_reply();
  // Throws, past the rest of this function and past all of the script.
  if (!state.server().call(words, reply)) state.end(lua, "ERR the script ends");
  std::string_view encoded = reply.bytes();
  // Read before push_reply(), which takes the bytes away.
  const bool failed = encoded.starts_with('-');
  lua_settop(lua, 0);
  push_reply(lua, encoded);
  if (reply.size() > State::long_reply_bytes) state.forget_command_reply(lua);
  SEPAL_ASSERT(lua_gettop(lua) == 1, "a reply becomes one value of Lua");
  return failed;
}

int redis_call(lua_State* lua) {
  return run_command(lua) ? lua_error(lua) : 1;
}

int redis_protected_call(lua_State* lua) {
  run_command(lua);
  return 1;
}

// redis.status_reply: a table with one field.
int redis_status_reply(lua_State* lua) {
  if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
    push_error(lua, "ERR wrong number or type of arguments", false);
    return 1;
  }
  lua_createtable(lua, 0, 1);
  lua_pushvalue(lua, 1);
  lua_setfield(lua, -2, "ok");
  return 1;
}

// As in the reference: it returns an error, and raises none. A wrong call also returns one.
int redis_error_reply(lua_State* lua) {
  if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
    push_error(lua, "ERR wrong number or type of arguments", false);
    return 1;
  }
  std::size_t size = 0;
  const char* const bytes = lua_tolstring(lua, 1, &size);
  std::string_view text(bytes, size);
  if (text.starts_with('-')) text.remove_prefix(1);
  // The first word of an error is its code. A text of one word is no code, and gets the general one.
  const bool has_code = text.find(' ') != std::string_view::npos;
  push_error(lua, has_code ? std::string(text) : "ERR " + std::string(text), false);
  return 1;
}

int redis_sha1hex(lua_State* lua) {
  if (lua_gettop(lua) != 1) return raise(lua, "ERR wrong number of arguments");
  std::size_t size = 0;
  const char* const bytes = lua_tolstring(lua, 1, &size);
  State::of(lua).spend(lua, size);
  const std::string digest = sha1_hex(bytes == nullptr ? std::string_view() : std::string_view(bytes, size));
  lua_pushlstring(lua, digest.data(), digest.size());
  return 1;
}

int redis_log(lua_State* lua) {
  const int count = lua_gettop(lua);
  if (count < 2) return raise(lua, "ERR redis.log() requires two arguments or more.");
  if (lua_isnumber(lua, 1) == 0) return raise(lua, "ERR First argument must be a number (log level).");
  const lua_Integer level = lua_tointeger(lua, 1);
  if (level < static_cast<int>(LogLevel::debug) || level > static_cast<int>(LogLevel::warning))
    return raise(lua, "ERR Invalid log level.");
  std::string text;
  for (int at = 2; at <= count; ++at) {
    std::size_t size = 0;
    const char* const bytes = lua_tolstring(lua, at, &size);
    // As in the reference: what is no text is left out.
    if (bytes == nullptr) continue;
    if (text.size() >= log_bytes_max) break;
    if (!text.empty()) text.push_back(' ');
    text.append(bytes, std::min(size, log_bytes_max - text.size()));
  }
  State::of(lua).server().log(static_cast<LogLevel>(level), text);
  return 0;
}

int redis_setresp(lua_State* lua) {
  if (lua_gettop(lua) != 1) return raise(lua, "ERR redis.setresp() requires one argument.");
  // What is no number becomes 0, and is refused below.
  const lua_Integer version = lua_tointeger(lua, 1);
  if (version != 2 && version != 3) return raise(lua, "ERR RESP version must be 2 or 3.");
  State::of(lua).set_version(static_cast<resp::Version>(version));
  return 0;
}

// Effects are recorded in Sepal's own way, whatever a script asks for.
int redis_set_repl(lua_State* lua) {
  constexpr lua_Integer all = 3;
  if (lua_gettop(lua) != 1) return raise(lua, "ERR redis.set_repl() requires one argument.");
  const lua_Integer flags = lua_tointeger(lua, 1);
  if (flags < 0 || flags > all)
    return raise(lua, "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.");
  return 0;
}

int redis_replicate_commands(lua_State* lua) {
  lua_pushboolean(lua, 1);
  return 1;
}

int redis_acl_check_cmd(lua_State* lua) {
  State& state = State::of(lua);
  if (lua_gettop(lua) == 0)
    return raise(lua, "ERR Please specify at least one argument for this redis lib call");
  const std::span<const std::string_view> words = state.words(lua);
  if (words.empty()) return raise(lua, "ERR Lua redis lib command arguments must be strings or integers");
  const Server::Permission permission = state.server().permits(words);
  if (permission == Server::Permission::unknown_command)
    return raise(lua, "ERR Invalid command passed to redis.acl_check_cmd()");
  lua_pushboolean(lua, static_cast<int>(permission == Server::Permission::granted));
  return 1;
}

constexpr luaL_Reg functions[] = {{"acl_check_cmd", redis_acl_check_cmd},
                                  {"call", redis_call},
                                  {"error_reply", redis_error_reply},
                                  {"log", redis_log},
                                  {"pcall", redis_protected_call},
                                  {"replicate_commands", redis_replicate_commands},
                                  {"set_repl", redis_set_repl},
                                  {"setresp", redis_setresp},
                                  {"sha1hex", redis_sha1hex},
                                  {"status_reply", redis_status_reply}};

struct Constant {
  const char* name;
  int value;
};
constexpr Constant constants[] = {{"LOG_DEBUG", 0},  {"LOG_VERBOSE", 1},
                                  {"LOG_NOTICE", 2}, {"LOG_WARNING", 3},
                                  {"REPL_NONE", 0},  {"REPL_AOF", 1},
                                  {"REPL_SLAVE", 2}, {"REPL_REPLICA", 2},
                                  {"REPL_ALL", 3},   {"REDIS_VERSION_NUM", followed_version_number}};

}  // namespace

void push_redis_library(lua_State* lua) {
  lua_newtable(lua);
  for (const luaL_Reg& each : functions) {
    lua_pushcfunction(lua, each.func);
    lua_setfield(lua, -2, each.name);
  }
  for (const Constant& each : constants) {
    lua_pushinteger(lua, each.value);
    lua_setfield(lua, -2, each.name);
  }
  lua_pushstring(lua, followed_version);
  lua_setfield(lua, -2, "REDIS_VERSION");
}

void push_error(lua_State* lua, std::string_view text, bool from_command) {
  lua_createtable(lua, 0, 2);
  lua_pushlstring(lua, text.data(), text.size());
  lua_setfield(lua, -2, "err");
  if (!from_command) return;
  lua_pushboolean(lua, 1);
  lua_setfield(lua, -2, "ignore_error_stats_update");
}

}  // namespace sepal::script
