// From the worker to a command of the script, from the outside to the inside:
//
//     run(), resume()   on the worker's stack: they enter the fiber, and return when it ends or is suspended
//       run_whole()     on the fiber: the request, EVAL or EXEC, of the client that has sent it
//         eval()        called by the handler: Lua runs the script
//           call()      for each redis.call: run_whole() once more, for the script's own client
//           goes_on()   at intervals: it suspends the fiber, and all these frames stay where they are
#include "command/run/script_runner.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/command/run/scripts.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/command/users/acl_log.hpp>

#include <algorithm>
#include <utility>

#include "command/run/refuse.hpp"
#include "command/table/command_index.hpp"

namespace sepal::command {
namespace {

// The first change of a script asks for so much more room in the journal, so that its further changes find
// some: a script that waits can do so only before its first change.
constexpr std::uint64_t room_ahead_bytes = std::uint64_t{64} << 10;

// If more time lies between two questions, the script is to ask more often.
constexpr std::chrono::milliseconds question_period_max{1};

// The copy of a longer request is freed behind it, and a longer reply is not kept.
constexpr std::size_t kept_bytes_max = std::size_t{64} << 10;

}  // namespace

ScriptRunner::ScriptRunner(Services& services, Dispatcher& dispatcher, std::size_t worker)
    : services_(services), dispatcher_(dispatcher), worker_(worker) {
  SEPAL_ASSERT(worker < services.scripts->memory_bytes.size(),
               "a worker has no place for the memory of its Lua");
  // MONITOR shows the commands of scripts with this address, as the reference does.
  client_.address = "lua";
}

// At a stop the worker has ended what was suspended, so this loop is for tests that end in the middle. The
// fiber has to end, because objects on its stack are destroyed only then. Each further script of a
// transaction clears `ends_` when it begins, so the loop sets it each time.
ScriptRunner::~ScriptRunner() {
  while (fiber_.suspended()) {
    ends_ = true;
    fiber_.resume();
  }
}

// --- the request on the fiber ----------------------------------------------------------------------------

Dispatcher::Outcome ScriptRunner::run(const Request& request, const RunMode& mode) {
  SEPAL_ASSERT(mode.alone && !suspended(), "scripts of one worker run one after the other, alone");
  // Without memory for its stack the request runs on the worker's stack, and compile() refuses each script.
  // So a transaction ends all the same, and its other commands run. A request that is too long is refused by
  // its handler, and is not copied.
  if (!fiber_.prepare() || byte_count_of(request.words) > script_words_bytes_max)
    return dispatcher_.run_whole(request, mode);
  request_client_ = &request.client;
  request_spec_ = request.spec;
  // When the fiber is suspended, this function returns. The caller's RunMode then ends, and the buffers of
  // the words and of the reply serve other sessions. So this object has its own.
  copy_words(request.words);
  reply_.truncate(0);
  reply_.set_version(request.reply.version());
  mode_ = mode;
  began_.reset();
  was_suspended_ = false;
  const bool has_ended = fiber_.run([this] {
    outcome_ = dispatcher_.run_whole({.client = *request_client_,
                                      .reply = reply_,
                                      .spec = request_spec_,
                                      .words = words_,
                                      .partial = partial_},
                                     mode_);
  });
  if (has_ended) return finish(request.reply);
  set_aside();
  // Without a row the session measures nothing. note_duration() counts the call when it has ended.
  return {.next = Next::wait, .spec = nullptr};
}

void ScriptRunner::copy_words(std::span<const std::string_view> words) {
  bytes_.clear();
  bytes_.reserve(byte_count_of(words));  // the views stay good
  words_.clear();
  for (const std::string_view word : words) {
    words_.emplace_back(bytes_.data() + bytes_.size(), word.size());
    bytes_.append(word);
  }
}

bool ScriptRunner::resume() {
  SEPAL_ASSERT(suspended(), "only what is suspended goes on");
  // First the dispatcher gets back what set_aside() took. Otherwise it would answer BUSY to the commands of
  // the script itself, and note what they record for the batch of another client.
  services_.busy = false;
  dispatcher_.suspended_client_ = 0;
  dispatcher_.record_ = std::exchange(record_, {});
  slice_ends_ = mode_.clock() + script_slice;
  if (!fiber_.resume()) {
    set_aside();
    return false;
  }
  services_.control.log_busy_script_ended(*request_client_, mode_.clock() - *began_);
  note_duration();
  return true;
}

// The session measures requests that end in their batch; this one did not.
void ScriptRunner::note_duration() {
  if (outcome_.spec == nullptr) return;
  const auto duration = mode_.clock() - *began_;
  dispatcher_.count_calls(*outcome_.spec, 1, duration);
  if (dispatcher_.is_slow(duration))
    dispatcher_.note_slow({.client = *request_client_,
                           .spec = *outcome_.spec,
                           .words = words_,
                           .times = 1,
                           .duration = duration,
                           .now = mode_.now});
}

// Called with the gate closed, which guards what other workers read of the suspended script. Batches of other
// clients seal theirs meanwhile and take the dispatcher's record with them, so the script's record is kept
// here.
void ScriptRunner::set_aside() {
  SEPAL_ASSERT(!services_.busy && suspended(), "one script at a time is suspended");
  SEPAL_ASSERT(began_.has_value(), "a script was suspended before it was asked whether it goes on");
  if (!was_suspended_)
    services_.control.log_busy_script(*request_client_, request_spec_->name, mode_.clock() - *began_);
  record_ = std::exchange(dispatcher_.record_, {});
  services_.busy = true;
  was_suspended_ = true;
  dispatcher_.suspended_client_ = request_client_->id;
  services_.scripts->busy_has_written = has_written_;
  services_.scripts->busy_since = *began_;
}

Dispatcher::Outcome ScriptRunner::finish(resp::Reply& reply) {
  SEPAL_ASSERT(!reply_.has_later(), "the reply of a script is there as a whole");
  if (reply_.size() > kept_bytes_max) {
    // Not copied: the session sends it in parts.
    std::vector<resp::Piece> pieces(1);
    reply_.swap_out(pieces.front().bytes);
    reply.raw_later(std::move(pieces));
  } else {
    reply.raw(reply_.bytes());
  }
  // A worker without scripts does not keep the memory of one long request. The words are views of the bytes,
  // so they go first.
  if (bytes_.capacity() > kept_bytes_max) {
    words_.clear();
    free_memory(bytes_);
  }
  return outcome_;
}

// --- scripts ---------------------------------------------------------------------------------------------

std::string ScriptRunner::compile(const std::shared_ptr<const script::Source>& source) {
  if (!fiber_.inside()) return std::string(text::no_memory_for_scripts);
  // After a SCRIPT FLUSH the library has another generation, and the worker drops all that it has compiled.
  // No script runs on this worker here, as reset() demands.
  const std::uint64_t generation = services_.scripts->library.generation();
  if (std::exchange(generation_, generation) != generation) engine_.reset();
  // The script begins here: it may be ended while it is compiled.
  has_written_ = false;
  ends_ = false;
  std::string error = engine_.compile(source, *this, limits());
  if (error.empty()) return {};
  // It was meant for this script.
  services_.scripts->kill_asked = false;
  if (ends_) return error;
  return "ERR Error compiling script (new function): " + error;
}

// The replies of all scripts of a transaction are in memory together.
script::Limits ScriptRunner::limits() const {
  const std::uint64_t bytes = services_.options.script_memory_max;
  return {.memory_bytes_max = bytes,
          .reply_bytes_max = bytes - std::min<std::uint64_t>(bytes, reply_.size())};
}

Next ScriptRunner::eval(Context& context, const std::shared_ptr<const script::Source>& source,
                        const Arguments& arguments) {
  if (const std::string error = compile(source); !error.empty()) return command::refuse(context, error);
  begin_script(context, *source, arguments.read_only);
  // A script that declares its flags is refused before it begins. In any other script, each command is
  // checked (refusal()).
  if (over_memory_ && source->declared.any && !read_only_)
    return command::refuse(context, text::script_over_memory);
  // Here, because Dispatcher::run() would show the script behind its own commands.
  if (services_.monitors.any())
    dispatcher_.show_always({.client = context.client,
                             .reply = context.reply,
                             .spec = &context.spec,
                             .words = context.words,
                             .partial = partial_},
                            context.mode);
  const std::size_t reply_bytes = context.reply.size();
  const auto outcome = engine_.run({.source = *source,
                                    .keys = arguments.keys,
                                    .arguments = arguments.others,
                                    .server = *this,
                                    .reply = context.reply,
                                    .limits = limits()});
  end_script();
  if (postponed_) {
    // Nothing was changed, so the request can run again when the journal has room (decisions/0025). The error
    // that has ended the script is no answer.
    context.reply.truncate(reply_bytes);
    return Next::later;
  }
  // The command that failed has counted its error.
  if (outcome.failed_in_command) ++context.errors_told;
  return Next::done;
}

void ScriptRunner::begin_script(const Context& context, const script::Source& source, bool read_only) {
  SEPAL_ASSERT(log_ == nullptr, "a script begins before the group of the last one has ended");
  client_.id = context.client.id;
  client_.database = context.client.database;
  client_.user = context.client.user;
  // The sender has passed this check: the dispatcher refuses EVAL before a login.
  client_.authenticated = true;
  call_mode_ = context.mode;
  // To the dispatcher, each command is one of a transaction: it asks for no room in the journal, because
  // call() does that, and a handler leaves no work to a job that answers later.
  in_transaction_ = std::exchange(call_mode_.in_transaction, true);
  read_only_ = read_only || source.declared.no_writes;
  const bool is_over = services_.keyspace.over_memory_limit();
  over_memory_ = is_over && !source.declared.allow_oom;
  // Above the limit, refusal() decides in place of the dispatcher, because a script may finish what it began.
  call_mode_.may_exceed_memory = is_over;
  has_written_ = false;
  postponed_ = false;
  ends_ = false;
}

void ScriptRunner::end_script() {
  // It was meant for this script. It must not end the next one, which may be of the same transaction.
  services_.scripts->kill_asked = false;
  // Null if nothing was recorded, and within EXEC, which ends the group that it has begun.
  if (keyspace::WorkerLog* const log = std::exchange(log_, nullptr)) log->end_group();
  services_.scripts->memory_bytes[worker_].store(engine_.held_bytes(), std::memory_order_relaxed);
}

bool ScriptRunner::call(std::span<const std::string_view> words, resp::Reply& reply) {
  const Request request{
      .client = client_, .reply = reply, .spec = row_for(words), .words = words, .partial = call_partial_};
  if (const std::string refused = refusal(request); !refused.empty()) return refuse(request, refused);
  if (request.spec->flags.has(Flag::write) && !only_asks(*request.spec, request.words)) {
    switch (make_room(request)) {
      case Room::granted: break;
      case Room::refused:
        return refuse_add(request, journal_refuses(services_.journal.status().refusal), RefusedAdd::journal);
      case Room::never: return refuse_add(request, text::record_too_large, RefusedAdd::journal);
      case Room::postponed:
        // A script that has changed nothing can run again from its beginning. In a transaction it cannot,
        // because commands before it may have changed something. Nor after it was suspended: its session has
        // gone on, and waits for the reply.
        if (!has_written_ && !in_transaction_ && !was_suspended_) {
          postponed_ = true;
          return false;
        }
        return refuse_add(request, text::script_without_room, RefusedAdd::journal);
    }
    // Set before the command runs: from here on the script is neither killed nor run again.
    has_written_ = true;
  }
  Dispatcher::Outcome outcome{.next = Next::more};
  // A long command runs all its parts at once, because no other client may run within a script.
  // Between two parts the script may be suspended. Its end waits for that of the command.
  while (outcome.next == Next::more) {
    outcome = dispatcher_.run_whole(request, call_mode_);
    if (outcome.next == Next::more) goes_on();
  }
  SEPAL_ASSERT(outcome.next == Next::done || outcome.next == Next::close,
               "a command of a script answers at once");
  call_partial_.reset();
  if (reply.overflowed()) {
    reply.drop(0);
    return refuse(request, text::script_reply_too_long);
  }
  // Lua reads the reply as one whole value.
  reply.fill_whole();
  if (services_.monitors.any() && outcome.spec != nullptr) dispatcher_.show(request, call_mode_);
  // Its time is a part of the script's: to read the clock twice takes as long as a look-up.
  if (outcome.spec != nullptr) dispatcher_.stats_.commands[command_row(*outcome.spec)].calls.add();
  return true;
}

// The texts of the reference; empty if the command may run.
std::string ScriptRunner::refusal(const Request& request) const {
  const CommandSpec* const spec = request.spec;
  if (spec == nullptr || (!spec->subcommands.empty() && request.words.size() > 1))
    return std::string(text::unknown_in_script);
  if (!arity_fits(*spec, request.words.size())) return std::string(text::wrong_arity_in_script);
  if (spec->flags.has(Flag::no_script)) return std::string(text::not_in_script);
  if (const auto denial = client_.user->denied(*spec, request.words)) {
    // ACL LOG names the client that has sent the script, and not the script's own client.
    dispatcher_.note_denial(*denial, *request_client_, *spec, request.words, AclPlace::script, call_mode_);
    return "ERR ACL failure in script: " + denial_text(*denial, *client_.user, *spec);
  }
  const bool writes = spec->flags.has(Flag::write);
  if (writes && read_only_) return std::string(text::write_in_read_only_script);
  // Once a script has changed something, it may go on: else it would stop in the middle.
  if (over_memory_ && !has_written_ && spec->flags.has(Flag::deny_oom) && !only_asks(*spec, request.words)) {
    dispatcher_.count_refused_adds(*spec, request.words, RefusedAdd::memory);
    return std::string(text::over_memory);
  }
  return {};
}

// Always true: the command has its reply.
bool ScriptRunner::refuse(const Request& request, std::string_view text) {
  request.reply.error(text);
  if (request.spec != nullptr) dispatcher_.stats_.commands[command_row(*request.spec)].rejected.add();
  dispatcher_.count_errors(text, 1);
  return true;
}

bool ScriptRunner::refuse_add(const Request& request, std::string_view text, RefusedAdd reason) {
  dispatcher_.count_refused_adds(*request.spec, request.words, reason);
  return refuse(request, text);
}

// Asks for room for what the command may record, and begins the group with the first change.
ScriptRunner::Room ScriptRunner::make_room(const Request& request) {
  keyspace::WorkerLog* const log = dispatcher_.log_of(*request.spec);
  if (log == nullptr) return Room::granted;
  // An admission takes nothing out of the log's reserve: it only says that the reserve is large enough. So
  // this asks once more for the room that EXEC was granted for its other commands. Otherwise the script could
  // use that room.
  std::uint64_t bytes_max =
      dispatcher_.most_record_bytes(request, request.words.size(), call_mode_) + call_mode_.room_bytes;
  if (!has_written_) bytes_max += room_ahead_bytes;
  switch (log->admit(bytes_max, Dispatcher::change_of(request, call_mode_.now))) {
    case keyspace::Admission::granted: break;
    case keyspace::Admission::refused: return Room::refused;
    case keyspace::Admission::never: return Room::never;
    case keyspace::Admission::later: return Room::postponed;
  }
  SEPAL_ASSERT(log_ == nullptr || log_ == log, "a script records in two logs");
  if (log_ == nullptr && !in_transaction_) {
    log->begin_group();
    log_ = log;
  }
  return Room::granted;
}

script::Server::Permission ScriptRunner::permits(std::span<const std::string_view> words) {
  const CommandSpec* const spec = row_for(words);
  if (spec == nullptr || (!spec->subcommands.empty() && words.size() > 1)) return Permission::unknown_command;
  if (client_.user->denied(*spec, words)) return Permission::denied;
  return Permission::granted;
}

void ScriptRunner::log(script::LogLevel level, std::string_view text) {
  services_.control.log_from_script(level, text);
}

// Suspends the fiber when the time of the slice is over. The first slice begins with the first question, some
// microseconds late: most scripts end before it, and need no reading of the clock.
script::Server::Pace ScriptRunner::goes_on() {
  SteadyTime now = mode_.clock();
  if (!began_) {
    began_ = now;
    asked_ = now;
    slice_ends_ = now + services_.options.busy_reply_threshold;
  }
  const bool is_slow = now - asked_ > question_period_max;
  if (!ends_ && now >= slice_ends_) {
    fiber_.suspend();
    now = mode_.clock();
  }
  asked_ = now;
  // SCRIPT KILL comes while the fiber is suspended, so this looks for it behind suspend().
  if (services_.scripts->kill_asked && !has_written_) ends_ = true;
  if (ends_) return Pace::ends;
  return is_slow ? Pace::slow : Pace::brisk;
}

}  // namespace sepal::command
