#include <sepal/base/assert.hpp>
#include <sepal/script/engine.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <new>

#include "script/state.hpp"

namespace sepal::script {
// How a script runs. Lua tells errors by exceptions. An error outside of a protected call would end the
// process, so each way into Lua is one:
//
//     run()              lua_pcall: catches what fails around the script, such as memory for ARGV
//       run_protected()  lua_pcall with handle_error: catches what fails in the script, and notes its line
//         the script     count_hook asks the Server at intervals; redis.call runs commands
//       tell_protected() lua_pcall: tells the error that run() has caught
//
// An error that a script must not catch is noted in ends_because_. It is raised again wherever the script
// could have caught it: at its next line, and behind pcall, xpcall and coroutine.resume (sandbox.cpp).
namespace {

// The field of an error that a command has counted already, as the reference names it.
constexpr const char* counted_field = "ignore_error_stats_update";

// Whether the error on top of the stack has been counted by the command that failed. Raw: the table may be
// one of the script's own, with a metatable.
bool was_counted(lua_State* lua) {
  lua_pushstring(lua, counted_field);
  lua_rawget(lua, -2);
  const bool counted = lua_toboolean(lua, -1) != 0;
  lua_pop(lua, 1);
  return counted;
}

// How many instructions of Lua lie between two questions to the Server: some microseconds. One instruction
// may take a thousand times longer, such as a comparison of two long strings: then few instructions lie
// between them.
constexpr int instructions_per_question = 1000;
constexpr int instructions_when_slow = 10;

// A question lies between two of these pieces of a text that is compiled. The time for a piece grows with
// what was compiled before it.
constexpr std::size_t piece_bytes = 256;

// Lua and its libraries calculate lengths as int in places.
constexpr std::size_t block_bytes_max = std::size_t{1} << 30;

// The compiled scripts may take this part of the memory; the rest is for a run.
constexpr std::uint64_t compiled_share = 2;

// The text of an error that a script raises may have so many bytes; the rest is cut.
constexpr std::size_t error_bytes_max = std::size_t{64} << 10;

constexpr std::string_view text_killed = "ERR Script killed by user with SCRIPT KILL...";

// The name of a script's text in its error messages. '@': Lua takes the name as it is.
constexpr const char* chunk_name = "@user_script";

// What scripts may leave behind without a whole collection, beside twice of what the last one has left.
constexpr std::uint64_t left_bytes_max = std::uint64_t{4} << 20;

// Small blocks do not go back to the system one by one. A State that holds so much more than twice of what is
// in use is dropped behind the run. Each script is compiled again when it runs next; a run that leaves so
// much behind takes longer than to compile many.
constexpr std::uint64_t bloat_bytes_max = std::uint64_t{8} << 20;

}  // namespace

struct State::Task {
  State& state;
  const Source* source = nullptr;  // to compile, or to run
  int reference = LUA_NOREF;       // of the compiled function
  int status = 0;                  // of the error to tell
  Engine::Outcome outcome{};
};

std::unique_ptr<State> State::make(std::uint64_t memory_bytes_max) {
  std::unique_ptr<State> state(new (std::nothrow) State(memory_bytes_max));
  if (state == nullptr || state->lua_ == nullptr) return nullptr;
  // The sandbox takes memory, and may find none.
  if (lua_cpcall(state->lua_, open_protected, nullptr) != 0) return nullptr;
  state->memory_bytes_max_ = 0;
  return state;
}

State::State(std::uint64_t memory_bytes_max)
    : memory_bytes_max_(memory_bytes_max), lua_(lua_newstate(allocate, this)) {}

int State::open_protected(lua_State* lua) {
  lua_settop(lua, 0);
  of(lua).open();
  return 0;
}

void State::open() {
  open_sandbox(lua_);
  sandbox_ = keep_on_top();
  lua_pushcfunction(lua_, handle_error);
  handler_ = keep_on_top();
  lua_pushcfunction(lua_, run_protected);
  runner_ = keep_on_top();
  lua_pushcfunction(lua_, tell_protected);
  teller_ = keep_on_top();
  lua_pushliteral(lua_, "KEYS");
  keys_name_ = keep_on_top();
  lua_pushliteral(lua_, "ARGV");
  arguments_name_ = keep_on_top();
  SEPAL_ASSERT(lua_gettop(lua_) == 0, "the stack of a new Lua is empty");
}

// Pops the value, and gives the reference that pushes it again.
int State::keep_on_top() {
  return luaL_ref(lua_, LUA_REGISTRYINDEX);
}

State::~State() {
  SEPAL_ASSERT(server_ == nullptr, "Lua ends while a script runs");
  memory_bytes_max_ = 0;
  if (lua_ != nullptr) lua_close(lua_);
  // Lua says the size of each block that it frees, so the sum must come out even.
  SEPAL_ASSERT(memory_bytes_ == 0, "Lua has ended, and has not freed all of its memory");
}

// Lua's own allocator does not change while it lives: its data is the state.
State& State::of(lua_State* lua) {
  void* self = nullptr;
  lua_getallocf(lua, &self);
  return *static_cast<State*>(self);
}

void* State::allocate(void* self, void* block, std::size_t old_bytes, std::size_t new_bytes) {
  State& state = *static_cast<State*>(self);
  if (new_bytes == 0) {
    if (block != nullptr) state.pool_.free(block, old_bytes);
    state.memory_bytes_ -= old_bytes;
    return nullptr;
  }
  const std::uint64_t bytes_after = state.memory_bytes_ - old_bytes + new_bytes;
  // Lua relies on it that a block can be made smaller, so only growth is refused. A refusal is an error
  // that the script may catch.
  if (new_bytes > old_bytes) {
    if (state.memory_bytes_max_ != 0 && bytes_after > state.memory_bytes_max_) return nullptr;
    if (new_bytes > BlockPool::pooled_bytes_max && !state.note_large_block(new_bytes)) return nullptr;
  }
  void* const moved =
      block == nullptr ? state.pool_.allocate(new_bytes) : state.pool_.resize(block, old_bytes, new_bytes);
  if (moved != nullptr) state.memory_bytes_ = bytes_after;
  return moved;
}

// False: the block is too long. Long blocks take time, which the next instruction of Lua asks for: an error
// that is raised here would leave Lua's own structures half changed.
bool State::note_large_block(std::size_t bytes) {
  if (bytes > block_bytes_max) return false;
  largest_block_bytes_ = std::max(largest_block_bytes_, bytes);
  if (running_ == nullptr) return true;
  cost_left_ -= static_cast<std::int64_t>(bytes);
  if (cost_left_ < 0 && !is_ending()) lua_sethook(running_, count_hook, LUA_MASKCOUNT, 1);
  return true;
}

bool State::take_beside(std::size_t bytes) {
  if (memory_bytes_max_ != 0 && memory_bytes_ + bytes > memory_bytes_max_) return false;
  if (!note_large_block(bytes)) return false;
  memory_bytes_ += bytes;
  beside_bytes_ += bytes;
  return true;
}

void State::give_beside(std::size_t bytes) {
  SEPAL_ASSERT(bytes <= beside_bytes_ && bytes <= memory_bytes_, "more memory is given back than was taken");
  memory_bytes_ -= bytes;
  beside_bytes_ -= bytes;
}

State::CompileResult State::compile(const std::shared_ptr<const Source>& source, Server& server,
                                    const Limits& limits) {
  SEPAL_ASSERT(!has_compiled(*source), "a script is compiled that is compiled already");
  if (compiled_.size() >= look_at_ || new_text_bytes_ > new_text_bytes_max) {
    drop_forgotten();
    look_at_ = std::max(forgotten_max, 2 * compiled_.size());
    new_text_bytes_ = 0;
  }
  begin(server, limits.memory_bytes_max / compiled_share);
  Task task{.state = *this, .source = source.get()};
  CompileResult result;
  if (const int status = lua_cpcall(lua_, compile_protected, &task); status != 0) {
    result = {.error = compile_error(), .lacks_memory = status == LUA_ERRMEM || task.status == LUA_ERRMEM};
  } else {
    compiled_.emplace(source.get(), Compiled{.source = source, .reference = task.reference});
    new_text_bytes_ += source->text.size();
  }
  finish();
  return result;
}

// The error is on top of the stack.
std::string State::compile_error() const {
  if (is_ending()) return std::string(ends_because_);
  const char* const text = lua_type(lua_, -1) == LUA_TSTRING ? lua_tostring(lua_, -1) : nullptr;
  return text == nullptr ? "not enough memory" : std::string(text).substr(0, error_bytes_max);
}

int State::compile_protected(lua_State* lua) {
  Task& task = *static_cast<Task*>(lua_touserdata(lua, 1));
  SEPAL_ASSERT(task.source->code_at <= task.source->text.size(), "a script begins behind its text");
  const std::string_view code = std::string_view(task.source->text).substr(task.source->code_at);
  task.status = task.state.load(lua, code, chunk_name);
  if (task.status != 0) return lua_error(lua);
  // Compiled once, and kept by Lua under a number: a script that runs again costs one look-up.
  task.reference = luaL_ref(lua, LUA_REGISTRYINDEX);
  return 0;
}

namespace {
struct PieceReader {
  State& state;
  std::string_view rest;
};
}  // namespace

const char* State::read_piece(lua_State* lua, void* data, std::size_t* size) {
  PieceReader& reader = *static_cast<PieceReader*>(data);
  reader.state.ask(lua);
  const std::string_view piece = reader.rest.substr(0, piece_bytes);
  reader.rest.remove_prefix(piece.size());
  *size = piece.size();
  return piece.empty() ? nullptr : piece.data();
}

int State::load(lua_State* lua, std::string_view text, const char* name) {
  if (text.starts_with(LUA_SIGNATURE[0])) {
    lua_pushliteral(lua, "user_script: a script is text, not bytecode");
    return LUA_ERRSYNTAX;
  }
  // Lua's parser makes a string of the name, and holds it by nothing but its own variable. This one is the
  // same string, and stays.
  lua_pushstring(lua, name);
  PieceReader reader{.state = *this, .rest = text};
  const int status = lua_load(lua, read_piece, &reader, name);
  lua_remove(lua, -2);
  return status;
}

void State::drop_forgotten() {
  std::erase_if(compiled_, [this](const auto& each) {
    if (!each.second.source->forgotten) return false;
    luaL_unref(lua_, LUA_REGISTRYINDEX, each.second.reference);
    return true;
  });
}

Engine::Outcome State::run(const Engine::Run& run) {
  const auto compiled = compiled_.find(&run.source);
  SEPAL_ASSERT(compiled != compiled_.end(), "a script is compiled before it runs");
  begin_run(run);
  Task task{.state = *this, .source = &run.source, .reference = compiled->second.reference};
  const std::size_t reply_before = run.reply.size();
  // Pushed from the registry: a new C function would be garbage behind each run.
  push_kept(runner_);
  lua_pushlightuserdata(lua_, &task);
  if (const int status = lua_pcall(lua_, 1, 0, 0); status != 0) {
    // The error replaces what was appended of the value.
    run.reply.truncate(reply_before);
    memory_bytes_max_ = 0;  // to tell the error takes memory too
    task.status = status;
    push_kept(teller_);
    lua_insert(lua_, -2);
    lua_pushlightuserdata(lua_, &task);
    if (lua_pcall(lua_, 2, 0, 0) != 0)
      run.reply.error("ERR Error running script " + run.source.sha + ", not enough memory");
  }
  end_run();
  return task.outcome;
}

void State::begin(Server& server, std::uint64_t memory_bytes_max) {
  SEPAL_ASSERT(server_ == nullptr, "a script runs within another");
  server_ = &server;
  running_ = lua_;
  memory_bytes_max_ = memory_bytes_max;
  cost_left_ = cost_per_question;
}

void State::begin_run(const Engine::Run& run) {
  begin(run.server, run.limits.memory_bytes_max);
  run_ = &run;
  // No value of an earlier run is left that the script could reach.
  largest_block_bytes_ = 0;
  // The reply of a command and its value in Lua fit below the limit.
  command_reply_.limit(run.limits.memory_bytes_max / 2);
  // redis.setresp of the run before ends with it.
  command_reply_.set_version(resp::Version::resp2);
  // Anew for each run: end() has changed the hook if the run before was ended. Coroutines inherit it when
  // they are made.
  lua_sethook(lua_, count_hook, LUA_MASKCOUNT, instructions_per_question);
}

void State::end_run() {
  // Half of the memory is for runs, and Lua collects nothing when it has reached the limit.
  const std::uint64_t limit = run_->limits.memory_bytes_max;
  run_ = nullptr;
  finish();
  // Behind an error the flag stays, and the State is dropped.
  if (json_settings_changed_ && lua_cpcall(lua_, reset_json_protected, nullptr) == 0)
    json_settings_changed_ = false;
  lua_settop(lua_, 0);
  if (memory_bytes_ > limit / 4 * 3) collect();
}

void State::finish() {
  lua_settop(lua_, 0);
  // The limit is of a run. Behind it Lua must be able to clean up.
  memory_bytes_max_ = 0;
  server_ = nullptr;
  running_ = nullptr;
  ends_because_ = {};
  // What a script has left behind in large amounts goes at once; the rest goes step by step, as Lua works.
  if (memory_bytes_ > 2 * collected_bytes_ + left_bytes_max) collect();
}

void State::collect() {
  lua_gc(lua_, LUA_GCCOLLECT, 0);
  collected_bytes_ = memory_bytes_;
}

int State::reset_json_protected(lua_State* lua) {
  lua_settop(lua, 0);
  reset_json_settings(lua);
  return 0;
}

// A script may have changed the environment of its own function, or of its thread.
int State::run_protected(lua_State* lua) {
  Task& task = *static_cast<Task*>(lua_touserdata(lua, 1));
  State& state = task.state;
  SEPAL_ASSERT(state.run_ != nullptr && task.reference != LUA_NOREF, "a script runs that has not begun");
  const Engine::Run& run = *state.run_;
  lua_settop(lua, 0);
  state.push_kept(state.sandbox_);
  lua_pushvalue(lua, -1);
  // The thread's globals, for code that the script loads.
  lua_replace(lua, LUA_GLOBALSINDEX);
  // By raw access: scripts have a guard as their globals, and it refuses new names. A script may assign to
  // KEYS and ARGV, which stand in the guard itself, so each run sets them anew.
  state.set_global_list(state.keys_name_, run.keys);
  state.set_global_list(state.arguments_name_, run.arguments);
  state.push_kept(state.handler_);
  const int handler = lua_gettop(lua);
  lua_rawgeti(lua, LUA_REGISTRYINDEX, task.reference);
  lua_pushvalue(lua, 1);
  lua_setfenv(lua, -2);
  if (const int status = lua_pcall(lua, 0, 1, handler); status != 0) {
    state.answer_error(status, task.outcome);
    return 0;
  }
  // A table that redis.pcall gave, and the script returns, is an error that the command has counted
  // already.
  if (lua_istable(lua, -1)) task.outcome.failed_in_command = was_counted(lua);
  const std::size_t reply_before = run.reply.size();
  if (!append_value(lua, state.version(), run.limits.reply_bytes_max, run.reply)) {
    run.reply.truncate(reply_before);
    run.reply.error("ERR the reply of the script is too long");
  }
  return 0;
}

// The sandbox is on the bottom of the stack.
void State::set_global_list(int name, std::span<const std::string_view> words) {
  push_kept(name);
  lua_createtable(lua_, static_cast<int>(words.size()), 0);
  int at = 0;
  for (const std::string_view word : words) {
    lua_pushlstring(lua_, word.data(), word.size());
    lua_rawseti(lua_, -2, ++at);
  }
  lua_rawset(lua_, 1);
}

// The error and the task are all there is on the stack.
int State::tell_protected(lua_State* lua) {
  Task& task = *static_cast<Task*>(lua_touserdata(lua, 2));
  lua_settop(lua, 1);
  task.state.answer_error(task.status, task.outcome);
  return 0;
}

// The error is on top of the stack. Errors that no handler saw (of memory) are strings.
void State::answer_error(int status, Engine::Outcome& outcome) {
  resp::Reply& reply = run_->reply;
  if (!lua_istable(lua_, -1)) {
    const char* const text = lua_type(lua_, -1) == LUA_TSTRING ? lua_tostring(lua_, -1) : nullptr;
    const std::string_view known = status == LUA_ERRMEM ? "not enough memory" : "execution failure";
    reply.error("ERR Error running script " + run_->source.sha + ", " +
                std::string(text == nullptr ? known : std::string_view(text).substr(0, error_bytes_max)));
    return;
  }
  // Raw: the error may be a table of the script's own, whose metatable would run code of the script here.
  const auto field = [this](const char* name) {
    lua_pushstring(lua_, name);
    lua_rawget(lua_, -2);
    std::string text;
    if (lua_type(lua_, -1) == LUA_TSTRING || lua_type(lua_, -1) == LUA_TNUMBER) {
      std::size_t size = 0;
      const char* const bytes = lua_tolstring(lua_, -1, &size);
      text.assign(bytes, std::min(size, error_bytes_max));
    }
    lua_pop(lua_, 1);
    return text;
  };
  std::string text = field("err");
  if (text.empty()) text = "ERR unknown error";
  const std::string source = field("source");
  if (const std::string line = field("line"); !source.empty() && !line.empty())
    text += " script: " + run_->source.sha + ", on " + source + ":" + line + ".";
  outcome.failed_in_command = was_counted(lua_);
  reply.error(text);
}

// Gives an error its place: that of the script's line, also when a function of a library raised it. The table
// that it returns is a new one. The script's own may have a metatable, or be one that all scripts see, such
// as `redis`.
int State::handle_error(lua_State* lua) {
  lua_Debug place{};
  // Functions of libraries may call each other: the first function of the script's text is meant.
  bool found = false;
  for (int level = 1; !found && lua_getstack(lua, level, &place) != 0; ++level)
    found = lua_getinfo(lua, "Sl", &place) != 0 && std::string_view(place.what) != "C";
  if (!lua_istable(lua, 1)) {
    std::size_t size = 0;
    const char* const bytes = lua_tolstring(lua, 1, &size);
    const std::string_view text = bytes == nullptr ? "unknown error" : std::string_view(bytes, size);
    push_error(lua, "ERR " + std::string(text), false);
    lua_replace(lua, 1);
  }
  lua_settop(lua, 1);
  lua_newtable(lua);
  for (const char* const name : {"err", counted_field}) {
    lua_pushstring(lua, name);
    lua_pushvalue(lua, -1);
    lua_rawget(lua, 1);
    lua_rawset(lua, 2);
  }
  if (found) {
    lua_pushstring(lua, place.source);
    lua_setfield(lua, 2, "source");
    lua_pushinteger(lua, place.currentline);
    lua_setfield(lua, 2, "line");
  }
  return 1;
}

void State::count_hook(lua_State* lua, lua_Debug*) {
  of(lua).ask(lua);
}

void State::ask(lua_State* lua) {
  SEPAL_ASSERT(server_ != nullptr, "Lua runs code of a script when no script runs");
  // A script that ends is asked for, too: what it still runs may take long, and is suspended meanwhile.
  const Server::Pace pace = server_->goes_on();
  if (pace == Server::Pace::ends || is_ending()) end(lua, text_killed);
  cost_left_ = cost_per_question;
  lua_sethook(lua, count_hook, LUA_MASKCOUNT,
              pace == Server::Pace::slow ? instructions_when_slow : instructions_per_question);
}

int State::end(lua_State* lua, std::string_view text) {
  // The first reason stays: later calls only raise it again.
  if (ends_because_.empty()) ends_because_ = text;
  SEPAL_ASSERT(is_ending(), "a script is ended without a reason, and would go on");
  // This thread of Lua raises the error with each further line. Its other coroutines still have the hook
  // that counts, which raises it too (is_ending).
  lua_sethook(lua, count_hook, LUA_MASKLINE, 0);
  push_error(lua, ends_because_, false);
  return lua_error(lua);
}

resp::Reply& State::command_reply() {
  command_reply_.truncate(0);
  return command_reply_;
}

void State::forget_command_reply(lua_State* lua) {
  // The command has copied these bytes at least once.
  spend(lua, command_reply_.size());
  std::string freed;
  command_reply_.swap_out(freed);
}

std::span<const std::string_view> State::words(lua_State* lua) {
  const int count = lua_gettop(lua);
  words_.clear();
  numbers_.clear();
  numbers_.reserve(static_cast<std::size_t>(count));  // the words point into it
  for (int at = 1; at <= count; ++at) {
    const int type = lua_type(lua, at);
    if (type == LUA_TNUMBER) {
      auto& digits = numbers_.emplace_back();
      const double value = lua_tonumber(lua, at);
      // Whole numbers without an exponent: a command reads them as integers.
      const bool whole = std::nearbyint(value) == value && std::abs(value) < 9.2e18;
      const auto end = whole ? std::to_chars(digits.data(), digits.data() + digits.size(),
                                             static_cast<std::int64_t>(value))
                             : std::to_chars(digits.data(), digits.data() + digits.size(), value);
      words_.emplace_back(digits.data(), static_cast<std::size_t>(end.ptr - digits.data()));
    } else if (type == LUA_TSTRING) {
      std::size_t size = 0;
      const char* const bytes = lua_tolstring(lua, at, &size);
      words_.emplace_back(bytes, size);
      // The command copies them.
      if (size > long_reply_bytes) spend(lua, size);
    } else {
      return {};
    }
  }
  return words_;
}

Engine::Engine() = default;
Engine::~Engine() = default;

std::string Engine::compile(const std::shared_ptr<const Source>& source, Server& server,
                            const Limits& limits) {
  SEPAL_ASSERT(source != nullptr, "a script without its text");
  for (;;) {
    if (state_ == nullptr) state_ = State::make();
    if (state_ == nullptr) return "not enough memory";
    if (state_->has_compiled(*source)) return {};
    const bool is_alone = state_->compiled_count() == 0;
    State::CompileResult result = state_->compile(source, server, limits);
    if (!result.lacks_memory || is_alone) return std::move(result.error);
    state_.reset();
  }
}

Engine::Outcome Engine::run(const Run& run) {
  SEPAL_ASSERT(state_ != nullptr, "a script is compiled before it runs");
  const Outcome outcome = state_->run(run);
  // Only behind the run: while a script runs, its State must stay.
  if (state_->is_bloated()) state_.reset();
  return outcome;
}

bool State::is_bloated() const {
  return json_settings_changed_ || pool_.chunk_bytes() > 2 * memory_bytes_ + bloat_bytes_max;
}

void Engine::reset() {
  state_.reset();
}

std::uint64_t Engine::held_bytes() const {
  return state_ == nullptr ? 0 : state_->held_bytes();
}

}  // namespace sepal::script
