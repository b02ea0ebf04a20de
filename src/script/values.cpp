// Replies as values of Lua, and values of Lua as replies: the reference's rules.

#include <sepal/base/assert.hpp>
#include <sepal/base/whole_number.hpp>

#include <limits>

#include "script/state.hpp"

namespace sepal::script {
namespace {

// A value within a value takes so many places of Lua's stack.
constexpr int places = 6;

// The most values within each other in a reply: each takes a part of the thread's stack.
constexpr int levels_max = 512;

// The line at the beginning of `encoded`, without its type and its end; removes it.
std::string_view take_line(std::string_view& encoded) {
  const std::size_t end = encoded.find("\r\n");
  SEPAL_ASSERT(end != std::string_view::npos && end > 0, "a reply of our own is not RESP");
  const std::string_view line = encoded.substr(1, end - 1);
  encoded.remove_prefix(end + 2);
  return line;
}

// The bytes of a bulk of that length; removes them.
std::string_view take_bytes(std::string_view& encoded, std::size_t size) {
  SEPAL_ASSERT(encoded.size() >= size + 2, "a bulk of our own is shorter than it says");
  const std::string_view bytes = encoded.substr(0, size);
  encoded.remove_prefix(size + 2);
  return bytes;
}

// A table with one field, which is on top of the stack.
void in_table(lua_State* lua, const char* name) {
  lua_createtable(lua, 0, 1);
  lua_insert(lua, -2);
  lua_setfield(lua, -2, name);
}

void push_bytes(lua_State* lua, std::string_view bytes) {
  lua_pushlstring(lua, bytes.data(), bytes.size());
}

void push_command_error(lua_State* lua, std::string_view text) {
  const bool has_code = text.find(' ') != std::string_view::npos;
  push_error(lua, has_code ? std::string(text) : "ERR " + std::string(text), true);
}

void push_array(lua_State* lua, std::string_view& encoded, std::int64_t length) {
  if (length < 0) return lua_pushboolean(lua, 0);
  lua_createtable(lua, static_cast<int>(length), 0);
  for (int at = 1; at <= length; ++at) {
    push_reply(lua, encoded);
    lua_rawseti(lua, -2, at);
  }
}

void push_map(lua_State* lua, std::string_view& encoded, std::int64_t pairs) {
  lua_createtable(lua, 0, static_cast<int>(pairs));
  for (std::int64_t at = 0; at < pairs; ++at) {
    push_reply(lua, encoded);
    push_reply(lua, encoded);
    lua_rawset(lua, -3);
  }
  in_table(lua, "map");
}

void push_set(lua_State* lua, std::string_view& encoded, std::int64_t length) {
  lua_createtable(lua, 0, static_cast<int>(length));
  for (std::int64_t at = 0; at < length; ++at) {
    push_reply(lua, encoded);
    lua_pushboolean(lua, 1);
    lua_rawset(lua, -3);
  }
  in_table(lua, "set");
}

// "txt:" and the text.
void push_verbatim(lua_State* lua, std::string_view bytes) {
  constexpr std::size_t format_size = 3;
  SEPAL_ASSERT(bytes.size() > format_size && bytes[format_size] == ':', "a text of our own has no format");
  lua_createtable(lua, 0, 2);
  push_bytes(lua, bytes.substr(format_size + 1));
  lua_setfield(lua, -2, "string");
  push_bytes(lua, bytes.substr(0, format_size));
  lua_setfield(lua, -2, "format");
  in_table(lua, "verbatim_string");
}

// Appends one value, with all that is in it, to a reply. Tables are read raw: a metatable's function would
// run code of the script, and the table could change between the count of its values and the values.
class Appender {
 public:
  Appender(lua_State* lua, resp::Version version, std::size_t bytes_max, resp::Reply& reply)
      : lua_(lua), version_(version), size_max_(reply.size() + bytes_max), reply_(reply) {}

  // Pops the value.
  void append() {
    // What is in it may be many values, and few bytes of the reply.
    State::of(lua_).spend(lua_, State::value_cost);
    // The place of the value gets the error, so the reply around it stays well formed.
    if (level_ == levels_max || lua_checkstack(lua_, places) == 0) {
      reply_.error("ERR reached lua stack limit");
    } else {
      ++level_;
      append_top();
      --level_;
    }
    lua_pop(lua_, 1);
  }
  [[nodiscard]] bool too_long() const { return too_long_ || reply_.size() > size_max_; }

 private:
  void append_top() {
    switch (lua_type(lua_, -1)) {
      case LUA_TSTRING: return append_bytes(text());
      case LUA_TBOOLEAN: return append_boolean(lua_toboolean(lua_, -1) != 0);
      case LUA_TNUMBER: return reply_.integer(whole(lua_tonumber(lua_, -1)));
      case LUA_TTABLE: return append_table();
      default: return reply_.null();
    }
  }

  void append_boolean(bool value) {
    if (version_ == resp::Version::resp3) return reply_.boolean(value);
    if (value) return reply_.integer(1);
    reply_.null();
  }

  // Towards zero. What no integer can be becomes the least one, as in the reference on x86.
  static std::int64_t whole(double value) {
    constexpr double bound = 9223372036854775808.0;
    if (!(value >= -bound && value < bound)) return std::numeric_limits<std::int64_t>::min();
    return static_cast<std::int64_t>(value);
  }

  void append_table() {
    if (field("err", LUA_TSTRING)) return append_text([&](std::string_view it) { append_error(it); });
    if (field("ok", LUA_TSTRING)) return append_text([&](std::string_view it) { reply_.simple(it); });
    if (field("double", LUA_TNUMBER)) {
      reply_.real(lua_tonumber(lua_, -1));
      return lua_pop(lua_, 1);
    }
    if (field("big_number", LUA_TSTRING))
      return append_text([&](std::string_view it) { append_big_number(it); });
    if (field("verbatim_string", LUA_TTABLE)) {
      const bool appended = append_verbatim();
      lua_pop(lua_, 1);
      if (appended) return;
    }
    if (field("map", LUA_TTABLE)) return append_map();
    if (field("set", LUA_TTABLE)) return append_set();
    append_array();
  }

  // Pushes the table's field if it has that type.
  bool field(const char* name, int type) {
    lua_pushstring(lua_, name);
    lua_rawget(lua_, -2);
    if (lua_type(lua_, -1) == type) return true;
    lua_pop(lua_, 1);
    return false;
  }

  template <class Append>
  void append_text(const Append& append) {
    if (const std::string_view it = text(); fits(it.size())) append(it);
    lua_pop(lua_, 1);
  }

  // Before the bytes are copied. False: the reply is cut here, append_value() says so, and the caller drops
  // it.
  bool fits(std::size_t bytes) {
    too_long_ = too_long_ || reply_.size() + bytes > size_max_;
    return !too_long_;
  }

  void append_bytes(std::string_view bytes) {
    if (fits(bytes.size())) reply_.bulk(bytes);
  }

  void append_error(std::string_view error) { reply_.error(error.empty() ? "ERR unknown error" : error); }

  // RESP2 has no type for it.
  void append_big_number(std::string_view digits) {
    // The script chose these bytes: a line end among them would make another reply of the rest.
    std::string line(digits);
    for (char& letter : line)
      if (letter == '\r' || letter == '\n') letter = ' ';
    if (reply_.version() == resp::Version::resp2) return reply_.bulk(line);
    reply_.raw("(" + line + "\r\n");
  }

  // False, with nothing appended: the table lacks its text or its format.
  bool append_verbatim() {
    if (!field("format", LUA_TSTRING)) return false;
    // A format has exactly three letters in RESP.
    constexpr std::size_t format_size = 3;
    const std::string format(text().substr(0, format_size));
    lua_pop(lua_, 1);
    if (!field("string", LUA_TSTRING)) return false;
    const std::string_view bytes = text();
    if (reply_.version() == resp::Version::resp2) {
      append_bytes(bytes);
    } else if (fits(bytes.size())) {
      const std::string name = (format + "   ").substr(0, format_size);
      reply_.raw("=" + std::to_string(bytes.size() + format_size + 1) + "\r\n" + name + ":");
      reply_.raw(bytes);
      reply_.raw("\r\n");
    }
    lua_pop(lua_, 1);
    return true;
  }

  void append_map() {
    // RESP wants the count before the values, and Lua knows it only by a walk.
    reply_.map(count_pairs());
    lua_pushnil(lua_);
    while (lua_next(lua_, -2) != 0) {
      // The reply is cut in the middle here: append_value() says so, and the caller drops it. On the stack
      // are the map, a key and its value.
      if (too_long()) return lua_pop(lua_, 3);
      // lua_next() needs the key once more, and as it is: a copy is appended, and then the value.
      lua_pushvalue(lua_, -2);
      append();
      append();
    }
    lua_pop(lua_, 1);
  }

  void append_set() {
    reply_.set(count_pairs());
    lua_pushnil(lua_);
    while (lua_next(lua_, -2) != 0) {
      lua_pop(lua_, 1);
      if (too_long()) return lua_pop(lua_, 2);
      lua_pushvalue(lua_, -1);
      append();
    }
    lua_pop(lua_, 1);
  }

  std::size_t count_pairs() {
    std::size_t count = 0;
    lua_pushnil(lua_);
    while (lua_next(lua_, -2) != 0) {
      lua_pop(lua_, 1);
      ++count;
    }
    return count;
  }

  // An array ends before the first nil.
  void append_array() {
    int length = 0;
    for (;; ++length) {
      lua_rawgeti(lua_, -1, length + 1);
      const bool ends = lua_isnil(lua_, -1);
      lua_pop(lua_, 1);
      if (ends) break;
    }
    reply_.array(static_cast<std::size_t>(length));
    for (int at = 1; at <= length && !too_long(); ++at) {
      lua_rawgeti(lua_, -1, at);
      append();
    }
  }

  [[nodiscard]] std::string_view text() const {
    std::size_t size = 0;
    const char* const bytes = lua_tolstring(lua_, -1, &size);
    return {bytes, size};
  }

  lua_State* lua_;
  resp::Version version_;
  std::size_t size_max_;
  bool too_long_ = false;
  int level_ = 0;
  resp::Reply& reply_;
};

}  // namespace

void push_reply(lua_State* lua, std::string_view& encoded) {
  SEPAL_ASSERT(!encoded.empty(), "a reply of our own ends too early");
  luaL_checkstack(lua, places, "the reply of a command is nested too deeply");
  const char type = encoded.front();
  const std::string_view line = take_line(encoded);
  // For types whose line is no number this is 0, and not used.
  const auto count = parse_whole<std::int64_t>(line).value_or(0);
  switch (type) {
    case '+': push_bytes(lua, line); return in_table(lua, "ok");
    case '-': return push_command_error(lua, line);
    case ':': return lua_pushnumber(lua, static_cast<lua_Number>(count));
    case '$':
      if (count < 0) return lua_pushboolean(lua, 0);
      return push_bytes(lua, take_bytes(encoded, static_cast<std::size_t>(count)));
    case '*': return push_array(lua, encoded, count);
    case '%': return push_map(lua, encoded, count);
    case '~': return push_set(lua, encoded, count);
    case '_': return lua_pushnil(lua);
    case '#': return lua_pushboolean(lua, static_cast<int>(line == "t"));
    case ',': lua_pushnumber(lua, parse_whole<double>(line).value_or(0)); return in_table(lua, "double");
    case '=': return push_verbatim(lua, take_bytes(encoded, static_cast<std::size_t>(count)));
    default: SEPAL_ASSERT(false, "a reply of our own has a type that scripts do not know");
  }
}

bool append_value(lua_State* lua, resp::Version version, std::size_t reply_bytes_max, resp::Reply& reply) {
  const int height = lua_gettop(lua);
  Appender appender(lua, version, reply_bytes_max, reply);
  appender.append();
  SEPAL_ASSERT(lua_gettop(lua) == height - 1, "a value that was appended is still on the stack of Lua");
  return !appender.too_long();
}

}  // namespace sepal::script
