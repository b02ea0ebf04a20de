// One worker's Lua: the allocator with its limit, the sandbox, and the run that is under way. Lua reports
// errors as C++ exceptions here (the library liblua5.1-c++), so objects on the stack are destroyed.
#pragma once

#include <sepal/script/engine.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <lua.hpp>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "block_pool.hpp"

namespace sepal::script {

class State {
 public:
  // With the sandbox opened. Null: the system has no memory, or Lua would take more than `memory_bytes_max`
  // (0: no limit) already.
  static std::unique_ptr<State> make(std::uint64_t memory_bytes_max = 0);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // The state that this Lua belongs to.
  static State& of(lua_State* lua);

  [[nodiscard]] std::string compile(const std::shared_ptr<const Source>& source);
  Engine::Outcome run(const Engine::Run& run);
  [[nodiscard]] std::size_t compiled_count() const { return compiled_.size(); }
  [[nodiscard]] std::uint64_t held_bytes() const { return pool_.held_bytes(); }
  // A script has left so much free memory behind that this State is to be replaced by a new one.
  [[nodiscard]] bool is_bloated() const;

  // For the functions of the sandbox, while a script runs.
  [[nodiscard]] Server& server() const { return run_->server; }
  [[nodiscard]] const Engine::Run& current() const { return *run_; }
  // A reply for one command of the script, empty.
  [[nodiscard]] resp::Reply& command_reply();
  void set_version(resp::Version version) { command_reply_.set_version(version); }
  [[nodiscard]] resp::Version version() const { return command_reply_.version(); }
  // The arguments at the bottom of Lua's stack as words; they are valid as long as they stay there. Empty:
  // one of them is neither a string nor a number.
  [[nodiscard]] std::span<const std::string_view> words(lua_State* lua);
  // Raises an error, and raises it again with each further line: else the script could catch it with pcall,
  // and go on. The text lives as long as the program.
  int end(lua_State* lua, std::string_view text);
  // The script must end: functions that catch errors raise it again.
  [[nodiscard]] bool is_ending() const { return !ends_because_.empty(); }
  std::minstd_rand& random() { return random_; }

 private:
  struct Compiled {
    std::shared_ptr<const Source> source;  // so that no other script gets its address
    int reference = LUA_NOREF;
  };
  struct Task;  // what runs in protected mode

  explicit State(std::uint64_t memory_bytes_max);

  static void* allocate(void* self, void* block, std::size_t old_bytes, std::size_t new_bytes);
  static int open_protected(lua_State* lua);
  static int compile_protected(lua_State* lua);
  static int run_protected(lua_State* lua);
  static int tell_protected(lua_State* lua);
  static int handle_error(lua_State* lua);
  static void count_hook(lua_State* lua, lua_Debug* activation);
  void set_global_list(int name, std::span<const std::string_view> words);
  void open();
  int keep_on_top();
  // The registry has what each run needs again. A number from luaL_ref() leads to a value without a look-up
  // by name.
  void push_kept(int reference) { lua_rawgeti(lua_, LUA_REGISTRYINDEX, reference); }
  void begin_run(const Engine::Run& run);
  void end_run();
  void answer_error(int status, Engine::Outcome& outcome);
  void drop_forgotten();

  BlockPool pool_;  // before lua_, which frees its blocks at its end
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t memory_bytes_max_ = 0;  // 0: no limit
  std::uint64_t collected_bytes_ = 0;   // after the last whole collection
  lua_State* lua_;                      // null in make() only
  std::unordered_map<const Source*, Compiled> compiled_;
  // From so many compiled scripts on, the next one first drops those that the library has forgotten. Twice of
  // what stays, so that scripts that stay are not looked through again and again.
  static constexpr std::size_t forgotten_max = 1024;
  std::size_t look_at_ = forgotten_max;
  // References to values that each run needs: names, and functions of this class.
  int keys_name_ = LUA_NOREF;
  int arguments_name_ = LUA_NOREF;
  int handler_ = LUA_NOREF;
  int runner_ = LUA_NOREF;
  int teller_ = LUA_NOREF;
  int sandbox_ = LUA_NOREF;
  const Engine::Run* run_ = nullptr;
  std::string_view ends_because_;  // a constant text: the script does not go on. Empty: it does
  resp::Reply command_reply_;
  std::vector<std::string_view> words_;
  std::vector<std::array<char, 32>> numbers_;  // the words that are numbers, in digits
  std::minstd_rand random_;
};

// Keys of Lua's registry: the addresses of these.
struct RegistryKeys {
  char guarded;  // tables that a script may only read, as keys
};
inline RegistryKeys registry_keys{};

// sandbox.cpp. Leaves the table that scripts have as their globals on the stack, and nothing else.
void open_sandbox(lua_State* lua);

// redis_library.cpp. Leaves the table `redis` on the stack.
void push_redis_library(lua_State* lua);
// The error object of the reference: a table with the field err. `from_command`: the command has counted it.
void push_error(lua_State* lua, std::string_view text, bool from_command);

// values.cpp
// Pushes the RESP value at the beginning of `encoded`, which is one of our own replies, and removes it there.
void push_reply(lua_State* lua, std::string_view& encoded);
// Appends the value on top of Lua's stack to the reply, and pops it. `version`: what the script has set by
// redis.setresp. False: the reply grew beyond `reply_bytes_max`.
bool append_value(lua_State* lua, resp::Version version, std::size_t reply_bytes_max, resp::Reply& reply);

}  // namespace sepal::script
