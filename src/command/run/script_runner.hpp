// Runs the scripts of one worker.
//
// A script runs with the gate closed, on a stack of its own (script/fiber.hpp). What it calls are commands
// like any others, which run alone. Their records become one group of the journal, so that a crash leaves all
// changes of a script or none.
//
// A script that runs for longer than busy_reply_threshold is suspended: the session reserves the gate and
// opens it, so that workers can tell their clients so (Services::busy). The worker then runs the script in
// slices, and serves its other clients between them.
//
//     closed [ script ...... threshold ]  open: BUSY  closed [ slice ]  open: BUSY  closed [ slice, end ]
#pragma once

#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/script/engine.hpp>
#include <sepal/script/fiber.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

// The words of a request that runs a script are copied, and Lua copies them once more, while all other
// clients wait. A request with more bytes is refused.
inline constexpr std::size_t script_words_bytes_max = std::size_t{16} << 20;

// How long a suspended script runs at a time.
inline constexpr std::chrono::milliseconds script_slice{5};

// Confined to its worker.
class ScriptRunner final : public script::Server {
 public:
  ScriptRunner(Services& services, Dispatcher& dispatcher, std::size_t worker);
  ~ScriptRunner() override;
  ScriptRunner(const ScriptRunner&) = delete;
  ScriptRunner& operator=(const ScriptRunner&) = delete;

  // --- for the dispatcher, with the gate closed -----------------------------------------------------------

  // Runs a request that may run scripts. Next::wait: a script is suspended, and the request has no reply yet.
  // The client's state stays where it is until resume() has ended it.
  Dispatcher::Outcome run(const Request& request, const RunMode& mode);
  // Runs what is suspended for a slice. True: the request has ended, and finish() has its reply.
  bool resume();
  Dispatcher::Outcome finish(resp::Reply& reply);
  [[nodiscard]] bool suspended() const { return fiber_.suspended(); }
  // What is suspended ends with its next line, with an error. Without `even_after_changes`: only if it has
  // changed nothing.
  void end(bool even_after_changes) { ends_ = ends_ || even_after_changes || !has_written_; }

  // --- for handlers, on the fiber --------------------------------------------------------------------------
  // If the system has no memory for the fiber's stack, the handlers run without it, and compile() refuses.

  // The error of a text that cannot be compiled, or of memory; empty if there is none.
  [[nodiscard]] std::string compile(const std::shared_ptr<const script::Source>& source);
  struct Arguments {
    std::span<const std::string_view> keys;
    std::span<const std::string_view> others;
    bool read_only = false;
  };
  // Compiles the script if necessary, runs it and appends its reply. Next::later: nothing was done.
  Next eval(Context& context, const std::shared_ptr<const script::Source>& source,
            const Arguments& arguments);

  // --- for the engine --------------------------------------------------------------------------------------

  bool call(std::span<const std::string_view> words, resp::Reply& reply) override;
  [[nodiscard]] Permission permits(std::span<const std::string_view> words) override;
  void log(script::LogLevel level, std::string_view text) override;
  Pace goes_on() override;

 private:
  [[nodiscard]] script::Limits limits() const;
  void copy_words(std::span<const std::string_view> words);
  void begin_script(const Context& context, const script::Source& source, bool read_only);
  void end_script();
  void set_aside();
  void note_duration();
  [[nodiscard]] std::string refusal(const Request& request) const;
  bool refuse(const Request& request, std::string_view text);
  bool refuse_add(const Request& request, std::string_view text, RefusedAdd reason);
  enum class Room : std::uint8_t { granted, refused, never, postponed };
  [[nodiscard]] Room make_room(const Request& request);

  Services& services_;
  Dispatcher& dispatcher_;
  std::size_t worker_;
  script::Engine engine_;
  std::uint64_t generation_ = 0;  // of the library whose scripts the engine has compiled
  script::Fiber fiber_{script::stack_bytes_needed};

  // The request on the fiber. Its words are copied: they must stay while it is suspended.
  ClientState* request_client_ = nullptr;
  const CommandSpec* request_spec_ = nullptr;
  std::string bytes_;
  std::vector<std::string_view> words_;
  std::unique_ptr<PartialRun> partial_;
  resp::Reply reply_;
  RunMode mode_{};
  Dispatcher::Outcome outcome_;
  BatchRecord record_;               // of the dispatcher, while the request is suspended
  std::optional<SteadyTime> began_;  // of a request that takes long
  SteadyTime slice_ends_{};
  SteadyTime asked_{};  // when the engine asked last

  // The script that runs.
  ClientState client_;  // of its commands: what they do to a client ends with the script
  RunMode call_mode_{};
  std::unique_ptr<PartialRun> call_partial_;
  keyspace::WorkerLog* log_ = nullptr;  // it has begun a group there
  bool in_transaction_ = false;         // EXEC runs the script: it has the group
  bool read_only_ = false;
  bool over_memory_ = false;  // it has begun above maxmemory, and does not say that it may
  bool has_written_ = false;
  bool was_suspended_ = false;  // since run(): the session goes on after it, so the request cannot run again
  bool postponed_ = false;      // nothing was done, and the journal has no room yet
  bool ends_ = false;
};

}  // namespace sepal::command
