// One worker's Lua: the allocator with its limit, the sandbox, and the run that is under way. Lua reports
// errors as C++ exceptions here (the library liblua5.1-c++), so objects on the stack are destroyed.
#pragma once

#include <sepal/script/engine.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <lua.hpp>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "script/block_pool.hpp"

namespace sepal::script {

class State {
 public:
  // With the sandbox opened. Null: the system has no memory, or Lua would take more than `memory_bytes_max`
  // (0: no limit) already.
  static std::unique_ptr<State> make(std::uint64_t memory_bytes_max = 0);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  static State& of(lua_State* lua);

  [[nodiscard]] bool has_compiled(const Source& source) const { return compiled_.contains(&source); }
  struct CompileResult {
    std::string error;
    bool lacks_memory = false;  // an empty State may have enough
  };
  [[nodiscard]] CompileResult compile(const std::shared_ptr<const Source>& source, Server& server,
                                      const Limits& limits);
  Engine::Outcome run(const Engine::Run& run);
  [[nodiscard]] std::size_t compiled_count() const { return compiled_.size(); }
  [[nodiscard]] std::uint64_t held_bytes() const { return pool_.held_bytes() + beside_bytes_; }
  // A script has left so much free memory behind that this State is to be replaced by a new one.
  [[nodiscard]] bool is_bloated() const;

  // For the functions of the sandbox, while a script runs.
  [[nodiscard]] Server& server() const { return *server_; }
  // A reply for one command of the script, empty.
  [[nodiscard]] resp::Reply& command_reply();
  void set_version(resp::Version version) { command_reply_.set_version(version); }
  [[nodiscard]] resp::Version version() const { return command_reply_.version(); }
  // The arguments at the bottom of Lua's stack as words; they are valid as long as they stay there. Empty:
  // one of them is neither a string nor a number.
  [[nodiscard]] std::span<const std::string_view> words(lua_State* lua);
  // The memory of a longer reply is freed behind the command.
  static constexpr std::size_t long_reply_bytes = std::size_t{16} << 10;
  void forget_command_reply(lua_State* lua);
  // Below the limit of the run, which there is.
  [[nodiscard]] std::uint64_t memory_left() const {
    return memory_bytes_max_ - std::min(memory_bytes_, memory_bytes_max_);
  }
  // Frees the reply of a command if it is a long one.
  void forget_command_reply();

  // Time. Lua counts its instructions, and asks the Server (ask()) after some of them. A function in C that
  // may take longer says what its work costs, in bytes that are copied, and asks when that has added up.
  // Both raise the error that ends the script.
  void spend(lua_State* lua, std::uint64_t bytes) {
    cost_left_ -= static_cast<std::int64_t>(std::min(bytes, cost_per_question));
    if (cost_left_ < 0) ask(lua);
  }
  // Asks for the memory that was taken meanwhile.
  void spend_before(lua_State* lua) {
    if (cost_left_ < 0 && server_ != nullptr) ask(lua);
  }
  void ask(lua_State* lua);
  static constexpr std::uint64_t cost_per_question = std::uint64_t{64} << 10;
  // To look at one value: a table may have room for many more values than it has.
  static constexpr std::uint64_t value_cost = cost_per_question / 64;
  // As luaL_loadbuffer(), for text only, and asks while it is compiled. Bytecode could do what it likes to
  // Lua's memory. `name` stays as it is until this returns.
  int load(lua_State* lua, std::string_view text, const char* name);

  // Enters a coroutine; its destructor leaves it.
  class Inside;
  class Unlimited;
  // The coroutine that runs.
  [[nodiscard]] lua_State* running() const { return running_; }

  // Memory of a library that does not take it from Lua: counted with Lua's, and below its limit.
  [[nodiscard]] bool take_beside(std::size_t bytes);
  void give_beside(std::size_t bytes);
  // The bytes of the largest block of Lua's memory in this run.
  [[nodiscard]] std::size_t largest_block_bytes() const { return largest_block_bytes_; }
  // The script has changed the settings of the shared cjson: they are set back behind the run.
  void note_json_settings() { json_settings_changed_ = true; }

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
  static int reset_json_protected(lua_State* lua);
  static void count_hook(lua_State* lua, lua_Debug* activation);
  static const char* read_piece(lua_State* lua, void* data, std::size_t* size);
  bool note_large_block(std::size_t bytes);
  [[nodiscard]] std::string compile_error() const;
  void collect();
  void set_global_list(int name, std::span<const std::string_view> words);
  void open();
  int keep_on_top();
  // The registry has what each run needs again. A number from luaL_ref() leads to a value without a look-up
  // by name.
  void push_kept(int reference) { lua_rawgeti(lua_, LUA_REGISTRYINDEX, reference); }
  void begin(Server& server, std::uint64_t memory_bytes_max);
  void finish();
  void begin_run(const Engine::Run& run);
  void end_run();
  void answer_error(int status, Engine::Outcome& outcome);
  void drop_forgotten();

  BlockPool pool_;  // before lua_, which frees its blocks at its end
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t memory_bytes_max_ = 0;  // 0: no limit
  std::uint64_t collected_bytes_ = 0;   // after the last whole collection
  std::uint64_t beside_bytes_ = 0;      // a part of memory_bytes_: of libraries
  std::size_t largest_block_bytes_ = 0;
  lua_State* running_ = nullptr;  // a coroutine of lua_, or itself; null: no script runs
  Server* server_ = nullptr;      // while a script runs or is compiled
  std::int64_t cost_left_ = 0;    // until the next question
  bool json_settings_changed_ = false;
  std::unordered_map<const Source*, Compiled> compiled_;
  // From so many compiled scripts on, the next one first drops those that the library has forgotten. Twice of
  // what stays, so that scripts that stay are not looked through again and again.
  static constexpr std::size_t forgotten_max = 1024;
  std::size_t look_at_ = forgotten_max;
  // As well if the scripts that came since then have texts of so many bytes: forgotten texts are in no bound
  // of the library.
  static constexpr std::size_t new_text_bytes_max = std::size_t{1} << 20;
  std::size_t new_text_bytes_ = 0;
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
  // Last: Lua takes its first memory from allocate(), which reads other members. Null in make() only.
  lua_State* lua_;
};

class State::Inside {
 public:
  Inside(State& state, lua_State* coroutine) : state_(state), before_(state.running_) {
    state_.running_ = coroutine;
  }
  ~Inside() { state_.running_ = before_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  State& state_;
  lua_State* before_;
};

// Lifts the limit of the memory while it lives.
class State::Unlimited {
 public:
  explicit Unlimited(State& state) : state_(state), before_(std::exchange(state.memory_bytes_max_, 0)) {}
  ~Unlimited() { state_.memory_bytes_max_ = before_; }
  Unlimited(const Unlimited&) = delete;
  Unlimited& operator=(const Unlimited&) = delete;

 private:
  State& state_;
  std::uint64_t before_;
};

// Keys of Lua's registry: the addresses of these.
struct RegistryKeys {
  char guarded;  // tables that a script may only read, as keys
  char json;     // the table of cjson's own functions
};
inline RegistryKeys registry_keys{};

// sandbox.cpp. Leaves the table that scripts have as their globals on the stack, and nothing else.
void open_sandbox(lua_State* lua);
bool is_guarded(lua_State* lua, int table);
int refuse_change(lua_State* lua);
// Raises the error again that ends the script, if there is one.
void go_on_ending(lua_State* lua);
// Runs the function that wrap() has put this one in front of, with the same arguments. Answers how many
// results it leaves on top of the stack.
int call_original(lua_State* lua);
// Puts a function in front of the one that the table on top of the stack has under that name.
void wrap(lua_State* lua, const char* name, lua_CFunction function);
void replace(lua_State* lua, const char* name, lua_CFunction function);

// Each of these puts functions into Lua's libraries in place of those that take memory or time without a
// bound, or that write beyond their memory. The libraries are Lua's globals.
void bound_basic_functions(lua_State* lua);  // bounded.cpp: unpack, coroutine, string.rep, collectgarbage
void bound_table_functions(lua_State* lua);  // bounded_tables.cpp
void bound_patterns(lua_State* lua);         // patterns.cpp: string.find and its like
// json.cpp. Leaves a new table of cjson's functions on the stack.
void push_json_library(lua_State* lua);
void reset_json_settings(lua_State* lua);

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
