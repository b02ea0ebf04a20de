// A session takes bytes and gives bytes plus a next step. It knows no socket and no thread: the connection
// around it reads, feeds, writes and times out, and decides nothing.
//
//     bytes in --> [ input | parser ] --> dispatcher --> [ reply ] --> bytes out
//
// A batch is all complete requests that have arrived, bounded by batch_requests_max, batch_time_max and the
// replies it may pile up. It runs inside the gate, entered once. A request that needs to be alone makes the
// session leave its side and close the gate; what follows it runs alone too, for a bounded while, so that a
// pipeline of creations does not stop all workers for each of them.
//
//     enter side: r r r [needs alone]   close: [again, alone] r r r   enter side: r r r
//
// Whatever a batch has added is in the journal before its replies leave. Where the policy asks for more, the
// session keeps the replies of a batch, and runs nothing, until the journal is durable up to a position that
// the batch has told (Step::hold). A request for which the journal has no room yet is put back into the
// input, and run later (Step::later). The worker waits for neither.
//
// A worker lets several sessions receive before the first of them runs: then they look ahead, so that what
// their first requests wait for is on its way together, or the same thing that several ask for is done at
// once.
//
// Between batches a session holds only the beginning of a request that has not arrived whole: the memory to
// read into and to reply into belongs to the worker and is lent for the length of a batch.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/gate.hpp>
#include <sepal/command/dispatcher.hpp>
#include <sepal/resp/reply.hpp>
#include <sepal/resp/request_parser.hpp>
#include <sepal/server/input_buffer.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sepal::server {

// Requests that one connection may run before others of its worker get their turn. One with several items
// counts as so many: items are what takes time. Each batch wakes its client, which in a virtual machine can
// cost as much as hundreds of look-ups: so a pipeline of 16 requests with 100 items each is one batch.
inline constexpr std::size_t batch_requests_max = 2048;
// How long it may run requests before others get their turn; closing the gate does not count. Memory that was
// never touched makes an item take a hundred times as long as another. Looked at once for so many requests,
// which count as above.
inline constexpr std::chrono::microseconds batch_time_max{500};
inline constexpr std::size_t batch_clock_period = 64;
// How long the gate stays closed behind a request that needed to be alone, in requests, which count as above,
// and in time.
inline constexpr std::size_t alone_requests_max = 128;
inline constexpr std::chrono::microseconds alone_time_max{200};
// The time is looked at once for so many requests.
inline constexpr std::size_t alone_clock_period = 4;

// Neighbours in a pipeline that are run together, at most; of each its last word.
inline constexpr std::size_t together_max = 64;
using TogetherWords = std::array<std::string_view, together_max>;
// Neighbours that share their command only, and are run one after the other with their keys on the way.
inline constexpr std::size_t similar_max = 32;
using SimilarWords = std::array<resp::RequestParser::LastTwoWords, similar_max>;

// Confined to its worker.
class Session {
 public:
  // What belongs to the worker and outlives the session.
  struct Environment {
    Gate& gate;
    std::size_t gate_side;
    command::Dispatcher& dispatcher;
    command::Services& services;
    command::WorkerStats& stats;
    SharedInput& input;
    std::string& reply_buffer;  // its memory is lent to the session that runs
    TogetherWords& last_words;  // as well, and so the next
    SimilarWords& similar_words;
    SteadyTime (*steady_now)() = std::chrono::steady_clock::now;
  };

  enum class Step : std::uint8_t {
    read,       // wait for bytes
    run_again,  // requests may be waiting: let other connections have their turn, then call run() again
    drain,      // too many replies wait: read and run nothing until they are sent, then call run() again
    wait,       // a command answers later: read and run nothing until answer()
    hold,       // replies wait for the journal: read and run nothing until held_until() is durable: release()
    later,      // requests wait for the journal: read nothing until it has made progress, then call run()
    close,      // send the output, then close
  };

  Session(const Environment& environment, command::ClientState client);

  // Where to read to; valid until the next call of any member, or of one of another session of the worker.
  // Empty when the system has no memory. Not while requests wait to be run. The environment's input has more
  // than copied_tail_bytes_max free.
  [[nodiscard]] std::span<char> input_space() { return input_.space(parser_.bytes_expected()); }
  // Call run() soon: until then the bytes take room in the environment's input.
  void input_arrived(std::size_t byte_count);
  // Between input_arrived() and run(), once, inside the gate, as the three that follow: parses the first
  // request.
  void look_ahead();
  // Adds the memory that it will wait for.
  void collect_lines(LinesAhead& lines) const;
  // The first request, where it is all that has arrived, is short, and may run together with others. Valid
  // until run().
  [[nodiscard]] std::optional<command::SingleRequest> single();
  // It was run, by that time: run() has nothing left but to give the reply.
  void single_was_run(SteadyTime at);
  // Before run(): its reply is to wait for this position of the journal; 0: for none.
  void hold_single(std::uint64_t position) { single_position_ = position; }
  // The peer sends no more: what is complete is still run and answered.
  void input_ended() { input_ended_ = true; }

  // Runs one batch. Not inside the gate.
  Step run();

  // Takes the replies to be sent; empty when there are none. `into` is emptied first and its memory reused.
  // Give the environment's reply_buffer, or a string of one's own.
  void take_output(std::string& into);
  [[nodiscard]] bool has_output() const { return reply_.size() > 0; }
  // Keeps the client's figures: what was sent just now, and what of the output still waits. Not inside the
  // gate.
  void output_sent(std::uint64_t byte_count, std::uint64_t bytes_left);

  // Of Step::hold: a position of the journal.
  [[nodiscard]] std::uint64_t held_until() const { return held_until_; }
  // Ends Step::hold: the replies are the output. Gives the next step.
  Step release();

  // Ends Step::wait; false, and nothing happens, when nothing waits. Not inside the gate.
  bool answer(const std::function<void(resp::Reply&)>& append);

  [[nodiscard]] command::ClientState& client() { return client_; }
  // When the last batch began.
  [[nodiscard]] SteadyTime last_run_at() const { return last_run_at_; }
  // When it ended.
  [[nodiscard]] SteadyTime last_run_until() const { return last_run_until_; }
  // Brings the counts of bytes up to date. Inside the gate; the session does so at every batch.
  void settle_figures();

  // Received and not run.
  [[nodiscard]] std::size_t bytes_unparsed() const { return input_.unparsed().size(); }
  [[nodiscard]] std::size_t input_bytes_held() const { return input_.bytes_held(); }

 private:
  struct Batch;
  enum class Pause : std::uint8_t;
  // What came of parsing a request, and its row in the command table.
  struct Parsed {
    resp::Progress progress;
    const command::CommandSpec* spec = nullptr;
  };

  Pause run_shared(Batch& batch);
  Pause run_alone(Batch& batch);
  Pause run_requests(Batch& batch, bool alone);
  bool took_long(Batch& batch) const;
  Pause take_requests(Batch& batch, bool alone);
  void run_together(Batch& batch, bool alone);
  void take_similar(Batch& batch);
  Pause run_request(Batch& batch, bool alone);
  Parsed parse();
  bool take_request(Batch& batch);
  void lend_reply_buffer();
  void give_back_reply_buffer();
  void put_back(Batch& batch);
  Step end_batch(Pause pause);
  Step settle(Step step);
  Step hold(Step step, std::uint64_t position);

  const Environment& environment_;
  command::ClientState client_;
  resp::RequestParser parser_;
  std::optional<Parsed> ahead_;  // by look_ahead(); the parser was not called since
  bool single_was_run_ = false;
  std::uint64_t single_position_ = 0;
  resp::Reply reply_;
  bool lent_ = false;  // its memory is the environment's
  InputBuffer input_;
  SteadyTime last_run_at_;
  SteadyTime last_run_until_;
  std::uint64_t bytes_in_ = 0;  // not in the figures yet
  std::uint64_t bytes_out_ = 0;
  std::string held_;              // replies
  std::uint64_t held_until_ = 0;  // 0: none are held
  Step step_when_released_ = Step::read;
  bool input_ended_ = false;
  bool waiting_ = false;
  bool closing_ = false;
};

}  // namespace sepal::server
