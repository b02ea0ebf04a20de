#include <sepal/base/memory_reserve.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/session/session.hpp>

#include <algorithm>
#include <utility>

#include "session/neighbours.hpp"
#include "session/run_clock.hpp"

namespace sepal::session {
namespace {

// How much of a long reply leaves at a time.
constexpr std::size_t filled_bytes_max = 256 * 1024;

// The longest request that may run together with requests of other clients.
constexpr std::size_t lone_request_bytes_max = 1024;

// How much of batch_requests_max a request of so many words takes: each word behind the key may be an item.
std::size_t share_of(std::size_t word_count) {
  return word_count <= neighbour_words ? 1 : word_count - 2;
}

bool may_run_in_parts(const command::Request& request) {
  if (request.spec != nullptr && request.spec->flags.has(command::Flag::runs_script)) return false;
  return request.words.size() > command::whole_items_max || request.byte_count > command::whole_bytes_max ||
         may_be_slow(request.spec);
}

}  // namespace

struct Session::Batch {
  WallTime wall_now;
  RunClock clock;
  SteadyTime ends_at;         // the first look at the clock after this ends the batch
  std::optional<Step> end{};  // what follows, once the batch has ended
  std::uint64_t output_bytes_max = 0;
  std::size_t requests = 0;
  std::size_t timed_requests = 0;  // `requests` when took_long() last read the clock
  bool ran_slow = false;           // a request that may be slow has run since then
  bool begun = false;
  std::span<const std::string_view> pending{};         // a request that was taken and has not run yet
  const command::CommandSpec* pending_spec = nullptr;  // its row, and the row of all requests taken with it
  const char* pending_at = nullptr;                    // where its bytes begin in the input

  Neighbours neighbours;  // the requests that were taken with the pending one, or with one before it

  void ends(Step step) { end = step; }
  // Makes the next of the neighbours the pending request.
  void take_neighbour() {
    pending_at = neighbours.next();
    pending = neighbours.words();
  }
};

Session::Session(const Environment& environment, command::ClientState client)
    : environment_(environment),
      client_(std::move(client)),
      parser_(resp::ParserLimits{}),
      input_(environment.input),
      account_(environment.services.buffers),
      last_run_at_(std::max(client_.connected_at, client_.last_request_at)),
      last_run_until_(last_run_at_) {
  reply_.set_version(static_cast<resp::Version>(client_.protocol));
}

Session::~Session() = default;

void Session::input_arrived(std::size_t byte_count) {
  SEPAL_ASSERT(!lone_request_ran_ && !ahead_, "bytes arrive before the session has run what is there");
  input_.arrived(byte_count);
  account_.received(byte_count);
}

void Session::look_ahead() {
  SEPAL_ASSERT(suspended_ == nullptr && !ahead_, "the parser would lose a request that has not run");
  parser_.set_limits(environment_.services.options.parser);
  ahead_ = parse();
}

void Session::collect_lines(LinesAhead& lines) const {
  if (ahead_->progress == resp::Progress::complete)
    environment_.dispatcher.collect_lines(client_, ahead_->spec, parser_.words(), lines);
}

// After the end of the input the session must also close, so the request then runs in run().
std::optional<command::Request> Session::lone_request() {
  SEPAL_ASSERT(ahead_.has_value(), "a session is asked for its first request before it looked ahead");
  const std::size_t bytes = input_.unparsed().size();
  // The request must be all that the client has sent, and its reply the next thing that leaves as it is. A
  // transaction would queue the request, and CLIENT REPLY would drop the reply: run() deals with these.
  if (ahead_->progress != resp::Progress::complete || parser_.consumed() != bytes ||
      bytes > lone_request_bytes_max ||
      !command::Dispatcher::runs_together(ahead_->spec, parser_.words().size()) || input_ended_ || closing_ ||
      waiting_ || has_output() || client_.transaction != nullptr || client_.replies != command::Replies::all)
    return std::nullopt;
  return command::Request{.client = client_,
                          .reply = reply_,
                          .spec = ahead_->spec,
                          .words = parser_.words(),
                          .partial = partial_};
}

// Inside the gate. The reply is in the session's own memory, not in the lent one: several sessions have such
// a reply at a time.
void Session::lone_request_ran(SteadyTime at) {
  SEPAL_ASSERT(ahead_.has_value() && !lone_request_ran_, "a first request runs once");
  SEPAL_ASSERT(has_output(), "what was run has a reply");
  lone_request_ran_ = true;
  ahead_.reset();
  input_.consume(parser_.consumed());
  last_run_at_ = at;
  last_run_until_ = at;
  environment_.stats.batches.add();
  client_.bytes_unparsed = 0;
  update_figures();
}

Session::Step Session::run(std::chrono::nanoseconds time_max) {
  SEPAL_ASSERT(held_.until() == 0, "nothing runs while replies are held");
  SEPAL_ASSERT(partial_ == nullptr || suspended_ != nullptr, "a long request has lost its words");
  // FirstRequests has run the only request of this batch. Its reply is there, and its record is sealed.
  if (std::exchange(lone_request_ran_, false))
    return hold(end_batch(Step::read), std::exchange(lone_position_, 0));
  if (closing_) return Step::close;
  if (waiting_) return Step::wait;
  lend_reply_buffer();
  last_run_at_ = environment_.steady_now();
  const WallTime wall_now = std::chrono::system_clock::now();
  Batch batch{
      .wall_now = wall_now,
      .clock = {environment_.dispatcher, client_, input_, environment_.steady_now, last_run_at_, wall_now},
      .ends_at = last_run_at_ + time_max,
      .neighbours = {environment_.last_words, environment_.similar_words}};
  // A long request goes on before anything else is parsed: its words are still in the parser.
  if (suspended_ != nullptr) resume(batch);
  run_shared(batch);
  // run_shared() returns without an end when a request needs the gate closed, and run_alone() when the gate
  // was closed for long enough.
  for (bool alone = true; !batch.end; alone = !alone) {
    if (alone) {
      run_alone(batch);
    } else {
      run_shared(batch);
    }
  }
  environment_.dispatcher.end_retired();
  last_run_until_ = batch.clock.now();
  return seal_batch(end_batch(*batch.end));
}

void Session::run_shared(Batch& batch) {
  const GateEntered inside(environment_.gate, environment_.gate_side);
  // The options are guarded by the gate, so they are read here and not in run().
  if (!batch.begun) {
    batch.begun = true;
    batch.output_bytes_max = environment_.services.options.output_bytes_max;
    parser_.set_limits(environment_.services.options.parser);
    environment_.stats.batches.add();
  }
  run_requests(batch, false);
  environment_.dispatcher.append_gathered();
  batch.clock.record_runs();
  client_.bytes_unparsed = input_.unparsed().size();
  update_figures();
}

void Session::run_alone(Batch& batch) {
  const SteadyTime asked_at = batch.clock.now();
  // While a script of another worker is busy, only that worker closes the gate. The request then goes on at
  // the other side, where it is refused.
  if (!environment_.gate.close_unless_reserved()) return;
  // The wait for the gate counts neither for the command nor against the batch.
  batch.clock.skip_wait();
  batch.ends_at += batch.clock.now() - asked_at;
  run_requests(batch, true);
  // Before the gate opens, and other workers see the changes.
  environment_.dispatcher.commit();
  batch.clock.record_runs();
  client_.bytes_unparsed = input_.unparsed().size();
  update_figures();
  // The batch has suspended a script. The gate is reserved before it opens: else another thread could close
  // it, and change what the script works on.
  if (environment_.dispatcher.suspended_client() != 0) environment_.gate.reserve();
  environment_.gate.open();
}

// Until the batch ends, or has to go on at the other side: with the gate closed because the pending request
// needs it, or shared because the gate was closed for long enough.
void Session::run_requests(Batch& batch, bool alone) {
  if (!memory_reserve::suffices_for([&] { run_until_end(batch, alone); })) give_up(batch);
}

// The dispatcher answers a handler that lacks memory. What lacks it beside a handler (a long request, its
// reply, the queue of a transaction) costs the client its connection. What the request has changed is whole.
void Session::give_up(Batch& batch) {
  partial_.reset();
  suspended_ = nullptr;
  ahead_.reset();
  reply_.drop(reply_.size());
  batch.pending = {};
  batch.neighbours.drop();
  closing_ = true;
  batch.ends(Step::close);
}

void Session::run_until_end(Batch& batch, bool alone) {
  const std::size_t requests_before = batch.requests;
  std::size_t looked_at_clock = batch.requests;
  const SteadyTime opens_at = batch.clock.now() + alone_time_max;
  // Asked only when no request is pending: so the request that needed the closed gate always runs.
  const auto must_share = [&] {
    if (batch.requests - requests_before > alone_requests_max) return true;
    if (batch.requests - looked_at_clock < alone_clock_period) return false;
    looked_at_clock = batch.requests;
    return environment_.steady_now() >= opens_at;
  };
  while (!batch.end) {
    if (batch.pending.empty()) {
      if (alone && must_share()) return;
      // In this order, so that replies keep the order of requests: the rest of a long reply, requests that
      // were taken from the input already, then the input.
      if (reply_.has_later()) {
        fill_reply(batch);
      } else if (batch.neighbours.any()) {
        batch.take_neighbour();
      } else {
        take_requests(batch, alone);
      }
    }
    if (!batch.pending.empty() && !run_request(batch, alone)) return;
  }
}

// The rest of a long reply leaves piece by piece, and nothing runs before it has left.
void Session::fill_reply(Batch& batch) {
  SEPAL_ASSERT(reply_.has_later(), "a reply has no rest to be filled in");
  SEPAL_ASSERT(!batch.neighbours.any(), "what is taken together has short replies");
  reply_.fill(filled_bytes_max);
  if (reply_.has_later()) batch.ends(Step::drain);
}

bool Session::took_long(Batch& batch) const {
  if (batch.requests - batch.timed_requests < batch_clock_period && !batch.ran_slow) return false;
  // With nothing left to run, the batch ends anyway.
  if (input_.unparsed().empty()) return false;
  batch.timed_requests = batch.requests;
  batch.ran_slow = false;
  return environment_.steady_now() >= batch.ends_at;
}

// Takes the next request, and the requests behind it that can run with it. Runs them at once if they can run
// together; else they stay pending.
void Session::take_requests(Batch& batch, bool alone) {
  if (batch.requests >= batch_requests_max || took_long(batch)) return batch.ends(Step::run_again);
  // The replies leave before more requests run, so short requests with long replies do not fill the memory.
  if (reply_.size() > batch.output_bytes_max) return batch.ends(Step::run_again);
  if (!take_request(batch)) return batch.ends(closing_ ? Step::close : Step::read);
  // A client that waits for each reply has sent nothing behind its request.
  if (input_.unparsed().empty() || client_.skips_a_reply()) return;
  const std::size_t word_count = batch.pending.size();
  // A request that is cut goes on with the parser's words, in the next batch too.
  if (word_count > neighbour_words + neighbour_tail_max || parser_.consumed() > command::whole_bytes_max)
    return;
  if (batch.pending_spec != nullptr && batch.pending_spec->flags.has(command::Flag::key_after_key))
    return take_similar(batch);
  if (!command::Dispatcher::runs_together(batch.pending_spec, word_count)) return;
  const std::size_t tail = batch.pending_spec->together_tail;
  SEPAL_ASSERT(tail <= neighbour_tail_max, "a request that runs together has more words than a batch keeps");
  if (word_count != neighbour_words + tail) return;
  const std::size_t alike = batch.neighbours.take_alike(parser_, input_.unparsed(), tail);
  input_.consume(parser_.consumed());
  if (alike > 1) {
    run_together(batch, alone);
  } else {
    take_similar(batch);
  }
}

// For a pipeline of one command on many keys: it would spend most of its time waiting for the memory of one
// key after the other.
void Session::take_similar(Batch& batch) {
  std::array<std::string_view, similar_max + 1> room;
  // None of them is cut.
  const std::string_view input = input_.unparsed().substr(0, command::whole_bytes_max);
  const auto keys = batch.neighbours.take_similar(parser_, input, batch.pending, room);
  if (keys.empty()) return;
  input_.consume(parser_.consumed());
  environment_.dispatcher.prefetch(client_, keys);
  // The copy, not the parser's words: the next of them replaces words in it.
  batch.pending = batch.neighbours.words();
}

command::Request Session::pending_request(const Batch& batch) {
  return {.client = client_,
          .reply = reply_,
          .spec = batch.pending_spec,
          .words = batch.pending,
          .partial = partial_,
          .byte_count = static_cast<std::size_t>(input_.unparsed().data() - batch.pending_at)};
}

void Session::run_together(Batch& batch, bool alone) {
  const auto words = batch.neighbours.words_of_alike(
      batch.pending, command::together_index(*batch.pending_spec, batch.pending.size()));
  batch.clock.before(batch.pending_spec);
  const std::size_t reply_bytes = reply_.size();
  const command::Dispatcher::Outcome outcome =
      environment_.dispatcher.run_together(pending_request(batch), words,
                                           {.now = batch.wall_now,
                                            .steady_now = batch.clock.now(),
                                            .alone = alone,
                                            .clock = environment_.steady_now});
  // Nothing was answered. The first request stays pending, and take_neighbour() gives the rest one by one.
  if (outcome.next != command::Next::done) return;
  if (client_.replies != command::Replies::all) drop_reply(reply_bytes);
  batch.clock.after(outcome.spec, batch.pending_at, words.size());
  batch.requests += words.size();
  batch.neighbours.alike_ran();
  batch.pending = {};
}

// False: the request stays pending. It needs the gate closed, or a part of it has run with the gate closed,
// and other workers get their turn before the next part.
bool Session::run_request(Batch& batch, bool alone) {
  const bool goes_on = partial_ != nullptr;
  const std::chrono::nanoseconds duration_before = goes_on ? partial_->duration : std::chrono::nanoseconds(0);
  const command::Request request = pending_request(batch);
  const std::size_t reply_bytes = reply_.size();
  // The requests before it are recorded now: their time is not that of its first part.
  if (may_run_in_parts(request)) batch.clock.record_runs();
  batch.clock.before(batch.pending_spec);
  const command::Dispatcher::Outcome outcome =
      environment_.dispatcher.run(request, {.now = batch.wall_now,
                                            .steady_now = batch.clock.now(),
                                            .alone = alone,
                                            .clock = environment_.steady_now});
  switch (outcome.next) {
    case command::Next::need_alone:
      SEPAL_ASSERT(!alone, "a request that runs alone does not ask to be alone");
      return false;
    case command::Next::later: return put_off(batch, Step::later);
    case command::Next::paused:
      paused_until_ = environment_.services.pause.until();
      return put_off(batch, Step::pause);
    case command::Next::delayed: paused_until_ = client_.login_due; return put_off(batch, Step::pause);
    case command::Next::more: return part_ran(batch, alone);
    case command::Next::done:
    case command::Next::wait:
    case command::Next::close: break;
  }
  SEPAL_ASSERT(partial_ == nullptr, "a request that has ended keeps the state of a long one");
  // A client that waits has no reply yet: answer() drops it.
  if (client_.replies != command::Replies::all && outcome.next != command::Next::wait)
    drop_reply(reply_bytes);
  batch.requests += share_of(batch.pending.size());
  const std::span<const std::string_view> words = std::exchange(batch.pending, {});
  batch.ran_slow = batch.ran_slow || may_be_slow(outcome.spec);
  // A long request counts as one call, which took as long as all of its parts.
  if (goes_on && outcome.spec != nullptr) {
    batch.clock.after_last_part(*outcome.spec, words, duration_before);
  } else {
    batch.clock.after(outcome.spec, batch.pending_at);
  }
  if (outcome.next == command::Next::done && !client_.close_after_reply) return true;
  waiting_ = outcome.next == command::Next::wait;
  closing_ = outcome.next == command::Next::close || client_.close_after_reply;
  batch.ends(waiting_ ? Step::wait : Step::close);
  return true;
}

// The client does not want the reply that stands behind this many bytes.
void Session::drop_reply(std::size_t reply_bytes) {
  using command::Replies;
  reply_.drop(reply_bytes);
  if (client_.replies == Replies::all_but_one) client_.replies = Replies::all;
  if (client_.replies == Replies::all_but_two) client_.replies = Replies::all_but_one;
}

// The pending request waits for room in the journal, for the end of a pause, or for its answer to be due.
// Always true, as run_request() has it.
bool Session::put_off(Batch& batch, Step step) {
  // A long request keeps the state of its parts, so its words must stay in the parser. Any other request is
  // parsed again.
  if (partial_ != nullptr) {
    suspend(batch);
  } else {
    put_back(batch);
  }
  batch.ends(step);
  return true;
}

// A part of the pending request has run, and it was not the last. False: other workers get their turn.
bool Session::part_ran(Batch& batch, bool alone) {
  SEPAL_ASSERT(partial_ != nullptr, "a request with more to run keeps its state");
  batch.clock.after_part(partial_->duration);
  // A part counts as its items, so a long request ends its batch like many short ones.
  batch.requests += command::part_items_max;
  if (batch.requests < batch_requests_max && batch.clock.now() < batch.ends_at) return !alone;
  suspend(batch);
  batch.ends(Step::run_again);
  return true;
}

Session::Parsed Session::parse() {
  // `default` may have lost its password since this client connected.
  const bool authenticated = client_.authenticated || environment_.services.users->open();
  Parsed parsed{.progress = parser_.next(input_.unparsed(), authenticated)};
  if (parsed.progress == resp::Progress::complete) parsed.spec = command::row_for(parser_.words());
  return parsed;
}

// Takes the next request. Returns false if there is none; closing_ then says whether more can come.
bool Session::take_request(Batch& batch) {
  const Parsed parsed = ahead_ ? *std::exchange(ahead_, std::nullopt) : parse();
  if (parsed.progress == resp::Progress::malformed) {
    const std::size_t reply_bytes = reply_.size();
    reply_.error(parser_.error_text());
    environment_.dispatcher.count_error(reply_.last_error(), nullptr);
    if (parser_.is_too_long()) environment_.stats.too_long_requests.add();
    if (client_.replies != command::Replies::all) drop_reply(reply_bytes);
    closing_ = true;
    return false;
  }
  batch.pending_at = input_.unparsed().data();
  input_.consume(parser_.consumed());
  if (parsed.progress == resp::Progress::complete) {
    batch.pending = parser_.words();
    batch.pending_spec = parsed.spec;
    return true;
  }
  // The input holds no whole request. If the peer has ended, the rest will not come.
  closing_ = input_ended_;
  return false;
}

// Puts the pending request, and the requests that were taken with it and have not run, back into the input.
void Session::put_back(Batch& batch) {
  input_.take_back(static_cast<std::size_t>(input_.unparsed().data() - batch.pending_at));
  batch.pending = {};
  batch.neighbours.drop();
}

// The long request stays in the input, and its words in the parser, until the next batch.
void Session::suspend(Batch& batch) {
  SEPAL_ASSERT(partial_ != nullptr && suspended_ == nullptr,
               "only a long request is suspended, and only one at a time");
  SEPAL_ASSERT(!batch.neighbours.any(), "what is taken together is short");
  suspended_ = batch.pending_spec;
  put_back(batch);
}

void Session::resume(Batch& batch) {
  SEPAL_ASSERT(partial_ != nullptr && !ahead_, "a long request goes on with its own words");
  batch.pending = parser_.words();
  batch.pending_spec = std::exchange(suspended_, nullptr);
  batch.pending_at = input_.unparsed().data();
  input_.consume(parser_.consumed());
}

// False when the system has no memory: the bytes are lost.
bool Session::stash() {
  const std::string_view before = input_.unparsed();
  if (!input_.stash()) return false;
  // The words of a suspended request are views of bytes that have moved.
  if (suspended_ != nullptr) parser_.input_moved(before, input_.unparsed().data());
  return true;
}

}  // namespace sepal::session
