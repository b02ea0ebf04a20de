// Runs scripts in Lua 5.1, as the reference does: the same library for scripts (`redis`), the same sandbox,
// the same conversions between replies and Lua's values
// (https://redis.io/docs/latest/develop/interact/programmability/lua-api/).
//
// A script sees only the tables of the sandbox, which it cannot change. Nothing of one run is seen by the
// next, except the state of math.random. A script can read no file, load no bytecode, and take no more memory
// than Limits says. A script that runs or is compiled for long asks the Server, again and again, whether it
// goes on: the Server may suspend the fiber it runs on.
#pragma once

#include <sepal/resp/reply.hpp>
#include <sepal/script/library.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sepal::script {

// The levels of redis.log, by the reference's numbers.
enum class LogLevel : std::uint8_t { debug = 0, verbose = 1, notice = 2, warning = 3 };

// What a script may ask for. Called on the engine's thread, in the middle of a run. Throws nothing.
class Server {
 public:
  virtual ~Server() = default;
  // Runs a command, of at least one word, and appends its reply. The words are valid during the call. False:
  // there is no reply, and the script ends now with an error.
  virtual bool call(std::span<const std::string_view> words, resp::Reply& reply) = 0;
  enum class Permission : std::uint8_t { granted, denied, unknown_command };
  [[nodiscard]] virtual Permission permits(std::span<const std::string_view> words) = 0;
  virtual void log(LogLevel level, std::string_view text) = 0;
  enum class Pace : std::uint8_t {
    ends,   // the script ends with an error
    brisk,  // it goes on, and asks again soon
    slow    // the same, but its instructions take long: it asks again after a few of them
  };
  // Called every few microseconds of a script that runs for longer than that.
  virtual Pace goes_on() = 0;
};

struct Limits {
  std::uint64_t memory_bytes_max = 256ull << 20;  // of one worker's scripts; half of it for compiled ones
  std::uint64_t reply_bytes_max = 256ull << 20;   // of one run
};

// The stack that a run may need: Lua allows 200 C calls within each other, each with a buffer of its own.
inline constexpr std::size_t stack_bytes_needed = std::size_t{8} << 20;

class State;

// Confined to one worker. Takes its memory with the first script.
class Engine {
 public:
  Engine();
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The error in the script's text, or that of its end; empty if it can be compiled. If the compiled scripts
  // take too much memory, all of them are dropped before this one is compiled.
  [[nodiscard]] std::string compile(const std::shared_ptr<const Source>& source, Server& server,
                                    const Limits& limits);

  struct Run {
    const Source& source;  // compile() took it
    std::span<const std::string_view> keys;
    std::span<const std::string_view> arguments;
    Server& server;
    resp::Reply& reply;  // gets one reply
    Limits limits;
  };
  // A script may leave so much free memory that all compiled scripts are dropped with it: call compile()
  // again before each run.
  struct Outcome {
    bool failed_in_command = false;  // the reply is an error that a command gave the script
  };
  Outcome run(const Run& run);

  // Drops all that is compiled, and the memory with it. No script runs.
  void reset();
  // What the engine has from the system, free blocks too.
  [[nodiscard]] std::uint64_t held_bytes() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace sepal::script
