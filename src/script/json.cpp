// The library cjson. It takes its memory from the system and not from Lua, ends the process when there is
// none, and keeps its settings for all scripts. The build gives its object files other names for the
// functions that do so (cmake/SepalDependencies.cmake); here are these functions, and those in front of
// cjson's own.
//
//     encode(), decode()           a Call begins: its blocks are freed at its end, also when an error ends it
//       cjson's own function
//         sepal_json_malloc()      counts the bytes with Lua's, and raises an error at the limit
//         sepal_json_next()        asks whether the script goes on
//
// Settings are set back behind each run that has changed them.

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "script/state.hpp"

extern "C" int luaopen_cjson(lua_State* lua);

namespace sepal::script {
namespace {

// cjson calculates six bytes for each byte of a text, and lengths as int.
constexpr std::size_t text_bytes_max = std::size_t{64} << 20;
constexpr std::size_t bytes_of_a_byte_max = 6;

// More than a new table of cjson's functions takes.
constexpr std::uint64_t new_bytes_max = std::uint64_t{16} << 10;

struct Block {
  std::size_t bytes;  // of the caller
  Block* next;
};
constexpr std::size_t header_bytes = (sizeof(Block) + 15) / 16 * 16;

// One call of a function of cjson. Outside of calls cjson has no memory.
class Call {
 public:
  explicit Call(lua_State* lua) : lua_(lua), state_(State::of(lua)), before_(std::exchange(current, this)) {}
  ~Call() {
    while (blocks_ != nullptr) free_first(blocks_);
    current = before_;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  static thread_local Call* current;

  void* allocate(std::size_t bytes) {
    state_.spend_before(lua_);
    const std::size_t all = header_bytes + bytes;
    const bool is_granted = bytes < text_bytes_max * bytes_of_a_byte_max && state_.take_beside(all);
    void* const memory = is_granted ? std::malloc(all) : nullptr;
    if (memory == nullptr) {
      if (is_granted) state_.give_beside(all);
      luaL_error(lua_, "not enough memory");
    }
    blocks_ = new (memory) Block{.bytes = bytes, .next = blocks_};
    return static_cast<std::byte*>(memory) + header_bytes;
  }
  // What leads to the block that begins there; null: it is none of this call.
  Block** find(const void* bytes) {
    Block** link = &blocks_;
    while (*link != nullptr && reinterpret_cast<std::byte*>(*link) + header_bytes != bytes)
      link = &(*link)->next;
    return *link == nullptr ? nullptr : link;
  }
  void free_first(Block*& list) {
    Block* const block = list;
    list = block->next;
    state_.give_beside(header_bytes + block->bytes);
    std::free(block);
  }
  void free(void* bytes) {
    if (Block** const link = find(bytes)) free_first(*link);
  }
  void* resize(void* old, std::size_t bytes) {
    void* const moved = allocate(bytes);
    if (Block** const link = find(old)) {
      std::memcpy(moved, old, std::min(bytes, (*link)->bytes));
      free_first(*link);
    }
    return moved;
  }
  void fail(const char* why) { luaL_error(lua_, why); }

 private:
  lua_State* lua_;
  State& state_;
  Call* before_;
  Block* blocks_ = nullptr;
};
thread_local Call* Call::current = nullptr;

int call_json(lua_State* lua) {
  const Call call(lua);
  return call_original(lua);
}

int encode(lua_State* lua) {
  if (State::of(lua).largest_block_bytes() > text_bytes_max)
    return luaL_error(lua, "cjson.encode: the script has a text or a table of more than %d bytes",
                      static_cast<int>(text_bytes_max));
  return call_json(lua);
}

int change_setting(lua_State* lua) {
  State::of(lua).note_json_settings();
  return call_json(lua);
}

// cjson keeps no buffer between two calls: it would be the largest that any script has needed.
int keep_buffer(lua_State* lua) {
  lua_pushboolean(lua, static_cast<int>(lua_isnone(lua, 1) || lua_toboolean(lua, 1) != 0));
  return 1;
}

constexpr const char* settings[] = {"encode_sparse_array",    "encode_max_depth",
                                    "decode_max_depth",       "encode_number_precision",
                                    "encode_invalid_numbers", "decode_invalid_numbers"};

// Leaves a new table of cjson's own functions, with settings of its own. Without a limit: settings that are
// left half made would free their buffer once more when the collector comes to them.
void push_original(lua_State* lua) {
  const State::Unlimited unlimited(State::of(lua));
  const Call call(lua);
  lua_pushcfunction(lua, luaopen_cjson);
  lua_call(lua, 0, 1);
  lua_getfield(lua, -1, "encode_keep_buffer");
  lua_pushboolean(lua, 0);
  lua_call(lua, 1, 0);
}

void bound_functions(lua_State* lua, int (*setting)(lua_State*));

// cjson.new: the settings of the new table are its own, and end with it.
int make_new(lua_State* lua) {
  if (State::of(lua).memory_left() < new_bytes_max) return luaL_error(lua, "not enough memory");
  push_original(lua);
  bound_functions(lua, call_json);
  return 1;
}

// The table is on top of the stack.
void bound_functions(lua_State* lua, int (*setting)(lua_State*)) {
  wrap(lua, "encode", encode);
  wrap(lua, "decode", call_json);
  for (const char* const name : settings) wrap(lua, name, setting);
  replace(lua, "encode_keep_buffer", keep_buffer);
  replace(lua, "new", make_new);
}

}  // namespace

void push_json_library(lua_State* lua) {
  push_original(lua);
  lua_pushlightuserdata(lua, &registry_keys.json);
  lua_newtable(lua);
  for (const char* const name : settings) {
    lua_getfield(lua, -3, name);
    lua_setfield(lua, -2, name);
  }
  lua_rawset(lua, LUA_REGISTRYINDEX);
  bound_functions(lua, change_setting);
}

void reset_json_settings(lua_State* lua) {
  const Call call(lua);
  lua_pushlightuserdata(lua, &registry_keys.json);
  lua_rawget(lua, LUA_REGISTRYINDEX);
  const auto set = [lua](const char* name, auto push) {
    lua_getfield(lua, -1, name);
    const int function = lua_gettop(lua);
    push();
    lua_call(lua, lua_gettop(lua) - function, 0);
  };
  const auto number = [lua](int value) { return [lua, value] { lua_pushinteger(lua, value); }; };
  const auto boolean = [lua](bool value) { return [lua, value] { lua_pushboolean(lua, value ? 1 : 0); }; };
  // The settings with which the library begins.
  set("encode_sparse_array", [lua] {
    lua_pushboolean(lua, 0);
    lua_pushinteger(lua, 2);
    lua_pushinteger(lua, 10);
  });
  set("encode_max_depth", number(1000));
  set("decode_max_depth", number(1000));
  set("encode_number_precision", number(14));
  set("encode_invalid_numbers", boolean(false));
  set("decode_invalid_numbers", boolean(true));
}

}  // namespace sepal::script

extern "C" {

void* sepal_json_malloc(std::size_t bytes) {
  return sepal::script::Call::current->allocate(bytes);
}

void* sepal_json_realloc(void* old, std::size_t bytes) {
  return sepal::script::Call::current->resize(old, bytes);
}

void sepal_json_free(void* bytes) {
  // The collector frees settings, whose buffer is free already, also outside of calls.
  if (sepal::script::Call::current != nullptr) sepal::script::Call::current->free(bytes);
}

// cjson calls this where its own sums overflow; sepal_json_malloc() does not return without memory.
void sepal_json_exit(int) {
  sepal::script::Call::current->fail("cjson cannot hold the text");
}

int sepal_json_next(lua_State* lua, int index) {
  sepal::script::State::of(lua).spend(lua, sepal::script::State::value_cost);
  return lua_next(lua, index);
}
}
