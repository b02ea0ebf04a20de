// string.find, string.match, string.gmatch and string.gsub, as section 5.4.1 of the manual of Lua 5.1 defines
// them, and with the errors of its own library. The functions of that library cannot be interrupted: the time
// that a pattern takes may grow with any power of the text's length.
//
//     find, match, gmatch, gsub    try each place of the text
//       Matcher::match()           the items of a pattern in turn; calls itself for what may match in
//                                  several ways
//         step()                   counts the work, and asks (State::ask)

#include <sepal/base/assert.hpp>

#include <array>
#include <cctype>
#include <cstring>
#include <utility>

#include "script/state.hpp"

namespace sepal::script {
namespace {

// match() calls itself for parts of the pattern: a longer pattern could use up the stack.
constexpr std::size_t pattern_bytes_max = 4096;

// So many steps lie between two questions.
constexpr std::size_t steps_per_question = 2000;

constexpr std::size_t captures_max = 32;
constexpr std::ptrdiff_t unfinished = -1;
constexpr std::ptrdiff_t position_only = -2;
constexpr char escape = '%';

int byte_of(char letter) {
  return static_cast<unsigned char>(letter);
}

int is_zero(int byte) {
  return byte == 0 ? 1 : 0;
}

struct Class {
  char letter;
  int (*has)(int byte);
};
constexpr Class classes[] = {
    {'a', std::isalpha}, {'c', std::iscntrl}, {'d', std::isdigit}, {'l', std::islower},  {'p', std::ispunct},
    {'s', std::isspace}, {'u', std::isupper}, {'w', std::isalnum}, {'x', std::isxdigit}, {'z', is_zero}};

// A pattern ends at its first byte 0, as in Lua 5.1.
class Matcher {
 public:
  Matcher(lua_State* lua, std::string_view text)
      : lua_(lua), begin_(text.data()), end_(text.data() + text.size()) {}

  [[nodiscard]] const char* begin() const { return begin_; }
  [[nodiscard]] const char* end() const { return end_; }
  // The end of the match that begins at `s`; null: there is none.
  const char* match_at(const char* s, const char* p) {
    count_ = 0;
    return match(s, p);
  }
  // The captures, or what lies between `s` and `e` if the pattern has none. `s` null: only captures.
  int push_captures(const char* s, const char* e) {
    const std::size_t count = count_ == 0 && s != nullptr ? 1 : count_;
    luaL_checkstack(lua_, static_cast<int>(count), "too many captures");
    for (std::size_t at = 0; at < count; ++at) push_capture(at, s, e);
    return static_cast<int>(count);
  }
  void push_capture(std::size_t at, const char* s, const char* e) {
    if (at >= count_) {
      if (at != 0) luaL_error(lua_, "invalid capture index");
      lua_pushlstring(lua_, s, static_cast<std::size_t>(e - s));
      return;
    }
    const Capture& capture = captures_[at];
    if (capture.size == unfinished) luaL_error(lua_, "unfinished capture");
    if (capture.size == position_only) return lua_pushinteger(lua_, capture.begin - begin_ + 1);
    lua_pushlstring(lua_, capture.begin, static_cast<std::size_t>(capture.size));
  }

 private:
  struct Capture {
    const char* begin = nullptr;
    std::ptrdiff_t size = 0;
  };

  void step(std::size_t count = 1) {
    steps_ += count;
    if (steps_ < steps_per_question) return;
    steps_ = 0;
    State::of(lua_).ask(lua_);
  }

  // Calls itself at most as often as the pattern has items: pattern_bytes_max bounds that.
  const char* match(const char* s, const char* p) {
    for (;;) {
      step();
      switch (*p) {
        case '\0': return s;
        case '(':
          return p[1] == ')' ? open_capture(s, p + 2, position_only) : open_capture(s, p + 1, unfinished);
        case ')': return close_capture(s, p + 1);
        case '$':
          if (p[1] == '\0') return s == end_ ? s : nullptr;
          break;
        case escape:
          if (p[1] == 'b' || p[1] == 'f' || std::isdigit(byte_of(p[1])) != 0) {
            if (!match_special(s, p)) return nullptr;
            continue;
          }
          break;
        default: break;
      }
      const char* const after = class_end(p);
      if (const Found found = match_repeated(s, p, after); found.decided) return found.end;
    }
  }

  // %b, %f, and %1 to %9: moves both behind the match.
  bool match_special(const char*& s, const char*& p) {
    if (p[1] == 'b') {
      s = match_balanced(s, p + 2);
      p += 4;
      return s != nullptr;
    }
    if (p[1] != 'f') {
      s = match_captured(s, p[1]);
      p += 2;
      return s != nullptr;
    }
    p += 2;
    if (*p != '[') luaL_error(lua_, "missing '[' after '%%f' in pattern");
    const char* const set = std::exchange(p, class_end(p));
    const char before = s == begin_ ? '\0' : s[-1];
    return !in_set(byte_of(before), set, p - 1) && in_set(byte_of(*s), set, p - 1);
  }

  struct Found {
    bool decided = false;  // else match() goes on with the next item
    const char* end = nullptr;
  };
  // One class, and what is behind it: ? * + - or nothing.
  Found match_repeated(const char*& s, const char*& p, const char* after) {
    switch (*after) {
      case '?':
        if (is_one(s, p, after))
          if (const char* const end = match(s + 1, after + 1)) return {true, end};
        p = after + 1;
        return {};
      case '*': return {true, expand(s, p, after)};
      case '+': return {true, is_one(s, p, after) ? expand(s + 1, p, after) : nullptr};
      case '-': return {true, expand_little(s, p, after)};
      default:
        if (!is_one(s, p, after)) return {true, nullptr};
        ++s;
        p = after;
        return {};
    }
  }

  const char* expand(const char* s, const char* p, const char* after) {
    std::ptrdiff_t count = 0;
    for (; is_one(s + count, p, after); ++count) step();
    for (; count >= 0; --count)
      if (const char* const end = match(s + count, after + 1)) return end;
    return nullptr;
  }
  const char* expand_little(const char* s, const char* p, const char* after) {
    for (;; ++s) {
      if (const char* const end = match(s, after + 1)) return end;
      if (!is_one(s, p, after)) return nullptr;
    }
  }

  const char* open_capture(const char* s, const char* p, std::ptrdiff_t what) {
    if (count_ >= captures_max) luaL_error(lua_, "too many captures");
    captures_[count_++] = {.begin = s, .size = what};
    const char* const end = match(s, p);
    if (end == nullptr) --count_;
    return end;
  }
  const char* close_capture(const char* s, const char* p) {
    std::size_t at = count_;
    while (at > 0 && captures_[at - 1].size != unfinished) --at;
    if (at == 0) luaL_error(lua_, "invalid pattern capture");
    captures_[at - 1].size = s - captures_[at - 1].begin;
    const char* const end = match(s, p);
    if (end == nullptr) captures_[at - 1].size = unfinished;
    return end;
  }

  const char* match_balanced(const char* s, const char* p) {
    if (p[0] == '\0' || p[1] == '\0') luaL_error(lua_, "unbalanced pattern");
    if (s >= end_ || *s != p[0]) return nullptr;
    int depth = 1;
    for (++s; s < end_; ++s) {
      step();
      if (*s == p[1]) {
        if (--depth == 0) return s + 1;
      } else if (*s == p[0]) {
        ++depth;
      }
    }
    return nullptr;
  }

  const char* match_captured(const char* s, char digit) {
    const std::ptrdiff_t at = digit - '1';
    if (at < 0 || at >= static_cast<std::ptrdiff_t>(count_) ||
        captures_[static_cast<std::size_t>(at)].size == unfinished)
      luaL_error(lua_, "invalid capture index");
    const Capture& capture = captures_[static_cast<std::size_t>(at)];
    if (capture.size < 0 || end_ - s < capture.size) return nullptr;
    const auto size = static_cast<std::size_t>(capture.size);
    step(size / 16);
    return std::memcmp(capture.begin, s, size) == 0 ? s + size : nullptr;
  }

  // Behind the class that begins at `p`.
  const char* class_end(const char* p) {
    const char first = *p++;
    if (first == escape) {
      if (*p == '\0') luaL_error(lua_, "malformed pattern (ends with '%%')");
      return p + 1;
    }
    if (first != '[') return p;
    if (*p == '^') ++p;
    do {
      if (*p == '\0') luaL_error(lua_, "malformed pattern (missing ']')");
      if (*p++ == escape && *p != '\0') ++p;
    } while (*p != ']');
    return p + 1;
  }

  // The next byte of the text is one of the class between `p` and `after`.
  bool is_one(const char* s, const char* p, const char* after) {
    if (s >= end_) return false;
    switch (*p) {
      case '.': return true;
      case escape: return in_class(byte_of(*s), byte_of(p[1]));
      case '[': return in_set(byte_of(*s), p, after - 1);
      default: return *p == *s;
    }
  }

  // A class is a letter; the upper-case one means all other bytes. Another byte means itself.
  static bool in_class(int byte, int letter) {
    const int lower = std::tolower(letter);
    for (const Class& each : classes)
      if (each.letter == lower) return (each.has(byte) != 0) == (letter == lower);
    return letter == byte;
  }

  // `p` is the bracket that opens the set, `last` the one that closes it.
  bool in_set(int byte, const char* p, const char* last) {
    step(static_cast<std::size_t>(last - p) / 8);
    const bool wanted = p[1] != '^';
    if (!wanted) ++p;
    while (++p < last) {
      if (*p == escape) {
        ++p;
        if (in_class(byte, byte_of(*p))) return wanted;
      } else if (p[1] == '-' && p + 2 < last) {
        p += 2;
        if (byte_of(p[-2]) <= byte && byte <= byte_of(*p)) return wanted;
      } else if (byte_of(*p) == byte) {
        return wanted;
      }
    }
    return !wanted;
  }

  lua_State* lua_;
  const char* begin_;
  const char* end_;
  std::size_t count_ = 0;
  std::array<Capture, captures_max> captures_;
  std::size_t steps_ = 0;
};

std::string_view text_at(lua_State* lua, int index) {
  std::size_t size = 0;
  const char* const bytes = luaL_checklstring(lua, index, &size);
  return {bytes, size};
}

const char* pattern_at(lua_State* lua, int index) {
  const std::string_view pattern = text_at(lua, index);
  if (pattern.size() > pattern_bytes_max)
    luaL_error(lua, "pattern too long (it has more than %d bytes)", static_cast<int>(pattern_bytes_max));
  return pattern.data();
}

// Where a search begins: the third argument.
std::size_t search_begin(lua_State* lua, std::size_t size) {
  lua_Integer begin = luaL_optinteger(lua, 3, 1);
  if (begin < 0) begin += static_cast<lua_Integer>(size) + 1;
  if (begin <= 1) return 0;
  return std::min(size, static_cast<std::size_t>(begin) - 1);
}

// One match, from the place that the third argument tells. Null: there is none.
struct Place {
  const char* begin = nullptr;
  const char* end = nullptr;
};
Place search(Matcher& matcher, const char* s, const char* pattern) {
  const bool is_anchored = *pattern == '^';
  if (is_anchored) ++pattern;
  for (; s <= matcher.end(); ++s) {
    if (const char* const end = matcher.match_at(s, pattern)) return {s, end};
    if (is_anchored) break;
  }
  return {};
}

// memmem() takes a time that grows with the length of the text alone.
int find_plain(lua_State* lua, std::string_view text, std::size_t from, std::string_view wanted) {
  State::of(lua).spend(lua, text.size() - from);
  const void* const found = ::memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  if (found == nullptr) {
    lua_pushnil(lua);
    return 1;
  }
  const auto at = static_cast<const char*>(found) - text.data();
  lua_pushinteger(lua, at + 1);
  lua_pushinteger(lua, at + static_cast<std::ptrdiff_t>(wanted.size()));
  return 2;
}

int find(lua_State* lua) {
  const std::string_view text = text_at(lua, 1);
  const std::string_view wanted = text_at(lua, 2);
  const std::size_t from = search_begin(lua, text.size());
  if (lua_toboolean(lua, 4) != 0 || std::strpbrk(wanted.data(), "^$*+?.([%-") == nullptr)
    return find_plain(lua, text, from, wanted);
  const char* const pattern = pattern_at(lua, 2);
  Matcher matcher(lua, text);
  const Place place = search(matcher, text.data() + from, pattern);
  if (place.end == nullptr) {
    lua_pushnil(lua);
    return 1;
  }
  lua_pushinteger(lua, place.begin - text.data() + 1);
  lua_pushinteger(lua, place.end - text.data());
  return 2 + matcher.push_captures(nullptr, nullptr);
}

int match(lua_State* lua) {
  const std::string_view text = text_at(lua, 1);
  const char* const pattern = pattern_at(lua, 2);
  Matcher matcher(lua, text);
  const Place place = search(matcher, text.data() + search_begin(lua, text.size()), pattern);
  if (place.end != nullptr) return matcher.push_captures(place.begin, place.end);
  lua_pushnil(lua);
  return 1;
}

// Upvalues: the text, the pattern, and where the next search begins.
int match_next(lua_State* lua) {
  std::size_t size = 0;
  const char* const text = lua_tolstring(lua, lua_upvalueindex(1), &size);
  const char* const pattern = lua_tostring(lua, lua_upvalueindex(2));
  Matcher matcher(lua, {text, size});
  for (const char* s = text + lua_tointeger(lua, lua_upvalueindex(3)); s <= matcher.end(); ++s) {
    const char* const end = matcher.match_at(s, pattern);
    if (end == nullptr) continue;
    lua_pushinteger(lua, end - text + (end == s ? 1 : 0));
    lua_replace(lua, lua_upvalueindex(3));
    return matcher.push_captures(s, end);
  }
  return 0;
}

int match_all(lua_State* lua) {
  text_at(lua, 1);
  pattern_at(lua, 2);
  lua_settop(lua, 2);
  lua_pushinteger(lua, 0);
  lua_pushcclosure(lua, match_next, 3);
  return 1;
}

// The third argument of gsub, a text, with its %0 to %9 replaced.
void add_text(lua_State* lua, Matcher& matcher, luaL_Buffer& to, Place place) {
  std::size_t size = 0;
  const char* const text = lua_tolstring(lua, 3, &size);
  for (std::size_t at = 0; at < size; ++at) {
    if (text[at] != escape) {
      luaL_addchar(&to, text[at]);
      continue;
    }
    ++at;  // behind the text is a byte 0
    if (std::isdigit(byte_of(text[at])) == 0) {
      luaL_addchar(&to, text[at]);
    } else if (text[at] == '0') {
      luaL_addlstring(&to, place.begin, static_cast<std::size_t>(place.end - place.begin));
    } else {
      matcher.push_capture(static_cast<std::size_t>(text[at] - '1'), place.begin, place.end);
      luaL_addvalue(&to);
    }
  }
}

void add_replacement(lua_State* lua, Matcher& matcher, luaL_Buffer& to, Place place) {
  switch (lua_type(lua, 3)) {
    case LUA_TFUNCTION: {
      lua_pushvalue(lua, 3);
      const int count = matcher.push_captures(place.begin, place.end);
      lua_call(lua, count, 1);
      break;
    }
    case LUA_TTABLE:
      matcher.push_capture(0, place.begin, place.end);
      lua_gettable(lua, 3);
      break;
    default: return add_text(lua, matcher, to, place);
  }
  if (lua_toboolean(lua, -1) == 0) {
    lua_pop(lua, 1);
    lua_pushlstring(lua, place.begin, static_cast<std::size_t>(place.end - place.begin));
  } else if (lua_isstring(lua, -1) == 0) {
    luaL_error(lua, "invalid replacement value (a %s)", luaL_typename(lua, -1));
  }
  luaL_addvalue(&to);
}

int replace_all(lua_State* lua) {
  const std::string_view text = text_at(lua, 1);
  const char* pattern = pattern_at(lua, 2);
  const int type = lua_type(lua, 3);
  const lua_Integer count_max = luaL_optinteger(lua, 4, static_cast<lua_Integer>(text.size()) + 1);
  luaL_argcheck(lua,
                type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
                "string/function/table expected");
  const bool is_anchored = *pattern == '^';
  if (is_anchored) ++pattern;
  Matcher matcher(lua, text);
  luaL_Buffer to;
  luaL_buffinit(lua, &to);
  const char* s = text.data();
  lua_Integer count = 0;
  while (count < count_max) {
    const char* const end = matcher.match_at(s, pattern);
    if (end != nullptr) {
      ++count;
      add_replacement(lua, matcher, to, {s, end});
    }
    if (end != nullptr && end > s) {
      s = end;
    } else if (s < matcher.end()) {
      luaL_addchar(&to, *s++);
    } else {
      break;
    }
    if (is_anchored) break;
  }
  luaL_addlstring(&to, s, static_cast<std::size_t>(matcher.end() - s));
  luaL_pushresult(&to);
  lua_pushinteger(lua, count);
  return 2;
}

}  // namespace

void bound_patterns(lua_State* lua) {
  lua_getglobal(lua, LUA_STRLIBNAME);
  SEPAL_ASSERT(lua_istable(lua, -1), "Lua has the library string");
  script::replace(lua, "find", find);
  script::replace(lua, "match", match);
  script::replace(lua, "gmatch", match_all);
  script::replace(lua, "gfind", match_all);
  script::replace(lua, "gsub", replace_all);
  lua_pop(lua, 1);
}

}  // namespace sepal::script
