// A session takes bytes and gives bytes plus a next step. It knows no socket and no thread: the scheduler
// around it reads, feeds, writes and times out. The session decides what the bytes are. The scheduler decides
// when they leave: it may keep the replies of several clients and send them in a row.
//
//     bytes in --> [ input | parser ] --> dispatcher --> [ reply ] --> bytes out
//
// A batch is all complete requests that have arrived, bounded by batch_requests_max, batch_time_max and the
// length of its replies. It runs inside the gate, which it enters once. For a request that needs to be alone,
// the session leaves its side and closes the gate. The requests behind it run alone too, for a bounded while,
// so that a pipeline of creations does not stop all workers for each creation.
//
//     enter side: r r r [needs alone]   close: [again, alone] r r r   enter side: r r r
//
// All that a batch has added is in the journal before its replies leave. Where the policy asks for more, the
// session keeps the replies of a batch, and runs nothing, until the journal is durable up to a position that
// the batch has told (Step::hold). A request for which the journal has no room yet is put back into the
// input, and is run later (Step::later), as is a request that a CLIENT PAUSE holds up (Step::pause). The
// worker waits in none of these cases.
//
// A worker lets several sessions receive before the first of them runs. Then the sessions look ahead: what
// their first requests wait for comes from memory together, and requests that ask for the same are run at
// once.
//
// A long request runs in parts (command/partial_run.hpp). The batch may end between two parts. The request
// then stays in the session's input, and the next batch goes on with it.
//
// CLIENT REPLY lets a client do without replies. The requests run as usual, and the session drops what they
// answered.
//
// Between batches a session holds the bytes that it has not run: the beginning of a request, or requests that
// wait for their turn, for the journal or for the end of a pause. It also holds replies that wait for the
// journal. The memory to read into and to reply into belongs to the worker, and is lent for the length of a
// batch.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/clock.hpp>
#include <sepal/base/gate.hpp>
#include <sepal/command/run/client_memory.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/resp/reply.hpp>
#include <sepal/resp/request_parser.hpp>
#include <sepal/session/client_account.hpp>
#include <sepal/session/held_replies.hpp>
#include <sepal/session/input_buffer.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sepal::session {

// The most requests that one connection may run before other connections of its worker get their turn. A
// request with several items counts as so many requests, because items are what takes time. Each batch wakes
// its client, which in a virtual machine can cost as much as hundreds of look-ups: so a pipeline of 16
// requests with 100 items each is one batch.
inline constexpr std::size_t batch_requests_max = 2048;
// The longest that a connection may run requests before others get their turn; the wait to close the gate
// does not count. An item in memory that was never touched takes a hundred times as long as another. The
// session looks at the clock once for so many requests (batch_clock_period), which count as above, and behind
// each request that may take long.
inline constexpr std::chrono::microseconds batch_time_max{500};
static_assert(batch_requests_max > 0 && batch_time_max.count() > 0);
inline constexpr std::size_t batch_clock_period = 64;
// How long the gate stays closed behind a request that needed to be alone: in requests, which count as above,
// and in time.
inline constexpr std::size_t alone_requests_max = 128;
inline constexpr std::chrono::microseconds alone_time_max{200};
// The session looks at the clock once for so many requests.
inline constexpr std::size_t alone_clock_period = 4;
static_assert(alone_clock_period <= alone_requests_max && alone_time_max < batch_time_max);

// The most neighbours in a pipeline that are run together; the array has the last word of each.
inline constexpr std::size_t together_max = 64;
using TogetherWords = std::array<std::string_view, together_max>;
// The most neighbours that share only their command: they are run one after the other, with their keys on the
// way from memory.
inline constexpr std::size_t similar_max = 32;
using SimilarWords = std::array<resp::RequestParser::LastTwoWords, similar_max>;

// Confined to its worker.
class Session {
 public:
  // What belongs to the worker, and outlives the session.
  struct Environment {
    Gate& gate;
    std::size_t gate_side;
    command::Dispatcher& dispatcher;
    command::Services& services;
    command::WorkerStats& stats;
    SharedInput& input;
    std::string& reply_buffer;  // its memory is lent to the session that runs
    TogetherWords& last_words;  // lent as well, as is the next
    SimilarWords& similar_words;
    SteadyTime (*steady_now)() = std::chrono::steady_clock::now;
  };

  enum class Step : std::uint8_t {
    read,       // wait for bytes
    run_again,  // requests may be waiting: let other connections have their turn, then call run() again
    drain,      // the rest of a long reply waits: run nothing until all output is sent, then call run() again
    wait,       // a command answers later: read and run nothing until answer()
    hold,       // replies wait for the journal: read and run nothing until held_until() is durable: release()
    later,      // requests wait for the journal: read nothing until it has made progress, then call run().
                // If output must leave or be held first, call run() right after that, without waiting for
                // progress: the journal may have reported it already.
    pause,  // requests wait for the end of a pause, or a failed login for its answer, until paused_until() at
            // the latest: then call run()
    close,  // send the output, then close; the connection sees to it that the peer gets the last reply
  };

  Session(const Environment& environment, command::ClientState client);
  // Takes its memory off the account of all clients.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The memory to read into; valid until the next call of any member, or of a member of another session of
  // the worker. Empty when the system has no memory. Do not call it while requests wait to be run. The
  // environment's input must have more than copied_tail_bytes_max free.
  [[nodiscard]] std::span<char> input_space() {
    SEPAL_ASSERT(suspended_ == nullptr, "bytes are received behind a long request that has not run whole");
    return input_.space(parser_.bytes_expected());
  }
  // Call run() soon: until then the bytes take room in the environment's input.
  void input_arrived(std::size_t byte_count);
  // Call it once between input_arrived() and run(), inside the gate, as the three members that follow. It
  // parses the first request.
  void look_ahead();
  // Collects the lines that the first request will wait for.
  void collect_lines(LinesAhead& lines) const;
  // The first request, if it is all that has arrived, is short, and may run together with requests of other
  // clients. Valid until run().
  [[nodiscard]] std::optional<command::Request> lone_request();
  // The first request was run at that time: run() has nothing left to do but give its reply.
  void lone_request_ran(SteadyTime at);
  // Call it before run(): the reply waits for this position of the journal; 0: it waits for none.
  void hold_lone_reply(std::uint64_t position) {
    SEPAL_ASSERT(lone_request_ran_, "a reply is held that is not there");
    lone_position_ = position;
  }
  // The peer sends no more: requests that are complete are still run and answered.
  void input_ended() { input_ended_ = true; }

  // Runs one batch. The first look at the clock after `time_max` ends it. Not inside the gate.
  Step run(std::chrono::nanoseconds time_max = batch_time_max);

  // Takes the replies to be sent; empty when there are none. `into` is emptied first and its memory reused.
  // Give the environment's reply_buffer, or a string of your own.
  void take_output(std::string& into);
  [[nodiscard]] bool has_output() const { return reply_.size() > 0; }
  // Notes what was sent just now, and the memory of the output that still waits, for the client's figures.
  // Not inside the gate.
  void output_sent(std::uint64_t byte_count, std::uint64_t bytes_left);

  // For Step::hold: a position of the journal.
  [[nodiscard]] std::uint64_t held_until() const { return held_.until(); }
  // For Step::pause.
  [[nodiscard]] SteadyTime paused_until() const { return paused_until_; }
  // Ends Step::hold: the held replies become the output. Gives the next step.
  Step release();

  // A script of the client is suspended (command::Dispatcher::suspended_client()). The client is in
  // Step::wait and must not be destroyed. The replies before the script's wait with it.
  [[nodiscard]] bool runs_script() const {
    return waiting_ && environment_.dispatcher.suspended_client() == client_.id;
  }
  // Runs the suspended script for a while. Nothing: it has not ended. Else ends Step::wait, and gives the
  // next step. Not inside the gate.
  std::optional<Step> resume_script();

  // Ends Step::wait. False, with nothing done, when the client does not wait. Not inside the gate.
  bool answer(const std::function<void(resp::Reply&)>& append);

  [[nodiscard]] command::ClientState& client() { return client_; }
  [[nodiscard]] const command::ClientState& client() const { return client_; }
  [[nodiscard]] bool is_monitor() const { return client_.monitoring != nullptr; }
  // The beginning of a long reply has left, and its rest has not.
  [[nodiscard]] bool is_inside_reply() const { return reply_.has_later(); }
  [[nodiscard]] SteadyTime last_run_at() const { return last_run_at_; }
  // When the last batch ended.
  [[nodiscard]] SteadyTime last_run_until() const { return last_run_until_; }
  // Brings the counts of bytes up to date. Inside the gate; the session calls it at every batch.
  void update_figures();
  // Call it when the client goes: gives all its memory back. Inside the gate.
  void leaves();
  // Whether all that the client is stands in its ClientState, so that a session of another worker can go on
  // with it: nothing of a request has come, and nothing waits.
  [[nodiscard]] bool can_move() const;
  // Call it then. Gives the client away; only destroy the session after it. Inside the gate.
  command::ClientState move_out();

  // Whether requests that have not run, or replies that the session keeps, take more memory since the last
  // call.
  [[nodiscard]] bool take_grew() { return account_.take_grew(); }
  // The bytes that were received and not run.
  [[nodiscard]] std::size_t bytes_unparsed() const { return input_.unparsed().size(); }
  [[nodiscard]] std::size_t input_bytes_held() const { return input_.bytes_held(); }

 private:
  // The memory of requests that have not come whole, run in parts, or wait for a job or for EXEC.
  [[nodiscard]] std::uint64_t bytes_of_requests() const {
    return input_.bytes_held() + client_.bytes_for_exec() + client_.bytes_of_job +
           command::counted(parser_.bytes_held() + (partial_ == nullptr ? 0 : partial_->byte_count()));
  }
  // The memory of replies that the session keeps: the rest of a long one, and what is held.
  [[nodiscard]] std::uint64_t bytes_of_replies() const {
    return reply_.bytes_later() + command::counted(held_.capacity());
  }
  struct Batch;
  // The outcome of parsing a request, and its row in the command table.
  struct Parsed {
    resp::Progress progress;
    const command::CommandSpec* spec = nullptr;
  };

  void run_shared(Batch& batch);
  void run_alone(Batch& batch);
  void run_requests(Batch& batch, bool alone);
  void run_until_end(Batch& batch, bool alone);
  void give_up(Batch& batch);
  void fill_reply(Batch& batch);
  bool took_long(Batch& batch) const;
  void take_requests(Batch& batch, bool alone);
  command::Request pending_request(const Batch& batch);
  void run_together(Batch& batch, bool alone);
  void take_similar(Batch& batch);
  bool run_request(Batch& batch, bool alone);
  void drop_reply(std::size_t reply_bytes);
  bool put_off(Batch& batch, Step step);
  bool part_ran(Batch& batch, bool alone);
  Parsed parse();
  bool take_request(Batch& batch);
  void lend_reply_buffer();
  void give_back_reply_buffer();
  void put_back(Batch& batch);
  void suspend(Batch& batch);
  void resume(Batch& batch);
  bool stash();
  Step end_batch(Step step);
  void count_requests();
  void count_replies();
  void bound_stranger();
  Step seal_batch(Step step);
  Step hold(Step step, std::uint64_t position);
  [[nodiscard]] bool hold_replies();
  [[nodiscard]] bool give_held();

  const Environment& environment_;
  command::ClientState client_;
  resp::RequestParser parser_;
  std::optional<Parsed> ahead_;  // by look_ahead(), if the parser was not called since
  // A long request: not null from its first part to its last.
  std::unique_ptr<command::PartialRun> partial_;
  // The row of a request that is at the start of the input and in the parser's words, between two of its
  // parts; null: there is none.
  const command::CommandSpec* suspended_ = nullptr;
  std::uint64_t partial_position_ = 0;  // of the journal: what the reply of the long request has to wait for
  std::uint64_t lone_position_ = 0;
  resp::Reply reply_;
  InputBuffer input_;
  ClientAccount account_;
  SteadyTime last_run_at_;
  SteadyTime last_run_until_;
  SteadyTime paused_until_{};
  HeldReplies<Step> held_;  // for the journal, or for the end of a script
  bool lone_request_ran_ = false;
  bool lent_ = false;  // the memory of reply_ is the environment's
  bool input_ended_ = false;
  bool waiting_ = false;
  bool closing_ = false;
};

}  // namespace sepal::session
