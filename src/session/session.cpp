#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/base/memory_reserve.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/session/session.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "session/run_clock.hpp"

namespace sepal::session {
namespace {

// The words of a request that can run together with its neighbours: a command, a key, an item, and perhaps
// one more behind it.
constexpr std::size_t together_words = 3;
constexpr std::size_t together_tail_max = 1;

constexpr std::size_t line_end_bytes = 2;

// How much of a long reply leaves at a time.
constexpr std::size_t filled_bytes_max = 256 * 1024;

// The longest request that may run together with requests of other clients.
constexpr std::size_t lone_request_bytes_max = 1024;

// How much of batch_requests_max a request of so many words takes: each word behind the key may be an item.
std::size_t share_of(std::size_t word_count) {
  return word_count <= together_words ? 1 : word_count - 2;
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

  // The number of requests that were taken together because they differ in their last word only. These words
  // are in the environment's last_words. If the requests cannot run together, they become pending one by one.
  std::size_t together = 0;
  std::size_t together_at = 0;  // the first one that is neither pending nor run
  // The number of requests, behind the first one, that share only the command with it. Their other words are
  // in the environment's similar_words.
  std::size_t similar = 0;
  std::size_t similar_at = 0;
  std::array<std::string_view, together_words + together_tail_max> copied_words{};
  std::size_t copied_count = together_words;

  void ends(Step step) { end = step; }
  [[nodiscard]] bool holds_requests() const { return together_at < together || similar_at < similar; }
  // Makes the next of these requests the pending one. Its bytes begin where the request before it ends:
  // behind that request's last word and the end of its line. So `copied_words` must still hold the request
  // before.
  void take_held(const Environment& environment) {
    const std::string_view last = copied_words[copied_count - 1];
    pending_at = last.data() + last.size() + line_end_bytes;
    if (together_at < together) {
      const std::string_view item = std::exchange(copied_words[2], environment.last_words[together_at++]);
      // The bytes behind the item are the same as in the request before.
      if (copied_count > together_words)
        copied_words[copied_count - 1] = {copied_words[2].end() + (last.begin() - item.end()), last.size()};
    } else {
      const auto& words = environment.similar_words[similar_at++];
      copied_words[1] = words.second;
      copied_words[2] = words.last;
    }
    pending = std::span(copied_words).first(copied_count);
  }
  // Copies the words of the pending request.
  void hold_pending() {
    std::ranges::copy(pending, copied_words.begin());
    copied_count = pending.size();
  }
};

Session::Session(const Environment& environment, command::ClientState client)
    : environment_(environment),
      client_(std::move(client)),
      parser_(resp::ParserLimits{}),
      input_(environment.input),
      last_run_at_(client_.connected_at),
      last_run_until_(client_.connected_at) {}

Session::~Session() {
  set_requests_counted(0, 0);
  environment_.services.buffers.change_replies(replies_counted_, 0);
}

void Session::input_arrived(std::size_t byte_count) {
  SEPAL_ASSERT(!lone_request_ran_ && !ahead_, "bytes arrive before the session has run what is there");
  input_.arrived(byte_count);
  bytes_in_ += byte_count;
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
  SEPAL_ASSERT(held_until_ == 0, "nothing runs while replies are held");
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
      .ends_at = last_run_at_ + time_max};
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
  batch.together = 0;
  batch.similar = 0;
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
      } else if (batch.holds_requests()) {
        batch.take_held(environment_);
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
  SEPAL_ASSERT(!batch.holds_requests(), "what is taken together has short replies");
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
  if (!command::Dispatcher::runs_together(batch.pending_spec, word_count)) return;
  const std::size_t tail = batch.pending_spec->together_tail;
  SEPAL_ASSERT(tail <= together_tail_max, "a request that runs together has more words than a batch keeps");
  if (word_count != together_words + tail) return;
  // The place in front is for the word of the first request itself: see run_together().
  const auto words = std::span(environment_.last_words).subspan(1);
  batch.together = 1 + (tail == 0 ? parser_.next_alike(input_.unparsed(), words)
                                  : parser_.next_alike_before(tail, input_.unparsed(), words));
  input_.consume(parser_.consumed());
  batch.together_at = 1;
  if (batch.together > 1) {
    run_together(batch, alone);
  } else {
    take_similar(batch);
  }
}

// For a pipeline of one command on many keys: it would spend most of its time waiting for the memory of one
// key after the other.
void Session::take_similar(Batch& batch) {
  batch.similar = parser_.next_similar(input_.unparsed(), environment_.similar_words);
  batch.similar_at = 0;
  if (batch.similar == 0) return;
  input_.consume(parser_.consumed());
  batch.hold_pending();
  std::array<std::string_view, similar_max + 1> keys;
  keys[0] = batch.copied_words[1];
  for (std::size_t i = 0; i < batch.similar; ++i) keys[i + 1] = environment_.similar_words[i].second;
  environment_.dispatcher.prefetch(client_, std::span(keys).first(batch.similar + 1));
  // `pending` views the copy, not the parser's words: take_held() puts the next request's words there.
  batch.pending = std::span(batch.copied_words).first(batch.copied_count);
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
  // The words are copied, because the requests may have to become pending one by one.
  batch.hold_pending();
  environment_.last_words.front() =
      batch.copied_words[command::together_index(*batch.pending_spec, batch.copied_count)];
  batch.clock.before(batch.pending_spec);
  const std::size_t reply_bytes = reply_.size();
  const command::Dispatcher::Outcome outcome = environment_.dispatcher.run_together(
      pending_request(batch), std::span(environment_.last_words).first(batch.together),
      {.now = batch.wall_now,
       .steady_now = batch.clock.now(),
       .alone = alone,
       .clock = environment_.steady_now});
  // Nothing was answered. The first request stays pending, and take_held() gives the rest one by one.
  if (outcome.next != command::Next::done) return;
  if (client_.replies != command::Replies::all) drop_reply(reply_bytes);
  batch.clock.after(outcome.spec, batch.pending_at, batch.together);
  batch.requests += batch.together;
  batch.together_at = batch.together;
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
    case command::Next::later:
      return put_off(batch, Step::later);
    case command::Next::paused:
      paused_until_ = environment_.services.pause.until();
      return put_off(batch, Step::pause);
    case command::Next::delayed:
      paused_until_ = client_.login_due;
      return put_off(batch, Step::pause);
    case command::Next::more:
      return part_ran(batch, alone);
    case command::Next::done:
    case command::Next::wait:
    case command::Next::close:
      break;
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
  batch.together = 0;
  batch.similar = 0;
}

// The long request stays in the input, and its words in the parser, until the next batch.
void Session::suspend(Batch& batch) {
  SEPAL_ASSERT(partial_ != nullptr && suspended_ == nullptr,
               "only a long request is suspended, and only one at a time");
  SEPAL_ASSERT(!batch.holds_requests(), "what is taken together is short");
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

void Session::lend_reply_buffer() {
  if (lent_ || has_output()) return;
  reply_.swap_out(environment_.reply_buffer);
  lent_ = true;
}

// Without this, every session that waits for the rest of a request would keep a buffer.
void Session::give_back_reply_buffer() {
  if (!lent_ || has_output()) return;
  reply_.swap_out(environment_.reply_buffer);
  lent_ = false;
}

void Session::take_output(std::string& into) {
  SEPAL_ASSERT(held_until_ == 0 || !has_output(), "replies leave that the journal holds");
  // If the memory is lent, it leaves with the replies. The scheduler gives the worker another buffer.
  reply_.swap_out(into);
  lent_ = false;
}

Session::Step Session::end_batch(Step step) {
  // What stands behind the request that ends the connection is not run.
  if (closing_) input_.clear();
  // Without memory the bytes are lost, so what comes next could be the middle of a request.
  if (!stash()) closing_ = true;
  // What a stranger has sent is counted anew with each batch, because it may have logged in.
  if (bytes_of_requests() != requests_counted_ || strangers_counted_ != 0) {
    count_requests();
    bound_stranger();
  }
  // Much memory goes back in pieces, one for each batch (decisions/0022). A client that waits for bytes would
  // keep the rest.
  if (step == Step::read && input_.gives_back()) step = Step::run_again;
  give_back_reply_buffer();
  return closing_ ? Step::close : step;
}

// Inside the gate: the users are guarded by it, and other workers look for the client with most.
void Session::count_requests() {
  const std::uint64_t held = bytes_of_requests();
  const GateEntered inside(environment_.gate, environment_.gate_side);
  const bool is_stranger = !client_.authenticated && !environment_.services.users->open();
  // Only growth can lead over the bound, so only growth makes the worker look.
  grew_ = grew_ || held > requests_counted_;
  set_requests_counted(held, is_stranger ? input_.bytes_held() : 0);
  client_.bytes_of_requests = held;
}

void Session::set_requests_counted(std::uint64_t held, std::uint64_t held_by_stranger) {
  command::ClientBuffers& buffers = environment_.services.buffers;
  buffers.change_requests(std::exchange(requests_counted_, held), held);
  buffers.change_strangers(std::exchange(strangers_counted_, held_by_stranger), held_by_stranger);
}

// A client that logs in sends one short request. So the one that brings the strangers over their bound is
// closed, and not the one with most: that costs the others nothing.
void Session::bound_stranger() {
  command::ClientBuffers& buffers = environment_.services.buffers;
  if (strangers_counted_ == 0 || buffers.strangers() <= command::strangers_bytes_max) return;
  buffers.large_stranger_closed();
  reply_.error("ERR clients that have not logged in have sent too much; log in first");
  closing_ = true;
  input_.clear();
  static_cast<void>(stash());  // to give memory back does not fail
  count_requests();
}

// Ends the batch's record: waits for records of other workers that a reply depends on, and holds the replies
// if the policy wants them durable first. Gives the next step. Not inside the gate.
Session::Step Session::seal_batch(Step step) {
  if (runs_script()) {
    if (!hold_replies()) client_.close_after_reply = true;
    return step;
  }
  const command::BatchRecord record = environment_.dispatcher.take_record();
  std::uint64_t position = record.log == nullptr ? 0 : record.log->seal_record(record.answered_known);
  // Parts of a long request that ran in earlier batches have left a position to wait for. This batch may have
  // recorded nothing.
  position = std::max(position, std::exchange(partial_position_, 0));
  // If earlier requests have replies, hold them now; the position of the long request is kept until its reply
  // exists.
  if (partial_ == nullptr || has_output()) return hold(step, position);
  partial_position_ = position;
  return step;
}

// Holds the replies until the journal is durable up to `position`. 0: they wait for nothing. Gives the next
// step.
inline Session::Step Session::hold(Step step, std::uint64_t position) {
  if (position == 0 || position <= environment_.services.journal.durable_position()) return step;
  SEPAL_ASSERT(held_until_ == 0, "replies are held already");
  if (!hold_replies()) return Step::close;
  held_until_ = position;
  step_when_released_ = step;
  return Step::hold;
}

// The replies move to the session's own memory: the lent buffer is for the sessions that run meanwhile.
// False: there is no memory for that, and the replies are lost.
bool Session::hold_replies() {
  SEPAL_ASSERT(held_.empty(), "replies are held already");
  const bool fits = memory_reserve::suffices_for([this] { held_.assign(reply_.bytes()); });
  reply_.truncate(0);
  give_back_reply_buffer();
  count_replies();
  return fits;
}

std::optional<Session::Step> Session::resume_script() {
  SEPAL_ASSERT(runs_script(), "a script goes on that is not suspended");
  {
    const GateClosed closed(environment_.gate);
    if (!environment_.dispatcher.resume_script()) return std::nullopt;
    environment_.dispatcher.commit();
    // After commit(): when the gate opens, all threads see the changes, and may close the gate themselves.
    environment_.gate.unreserve();
  }
  waiting_ = false;
  lend_reply_buffer();
  const bool fits = give_held();
  const command::Dispatcher::Outcome outcome = environment_.dispatcher.finish_script(reply_);
  closing_ = outcome.next == command::Next::close || client_.close_after_reply || !fits;
  return seal_batch(end_batch(closing_ ? Step::close : Step::run_again));
}

Session::Step Session::release() {
  SEPAL_ASSERT(held_until_ != 0, "only what is held is released");
  held_until_ = 0;
  lend_reply_buffer();
  return give_held() ? step_when_released_ : Step::close;
}

bool Session::give_held() {
  const bool fits = memory_reserve::suffices_for([this] { reply_.raw(held_); });
  free_memory(held_);
  count_replies();
  return fits;
}

void Session::output_sent(std::uint64_t byte_count, std::uint64_t bytes_left) {
  bytes_out_ += byte_count;
  count_replies();
  const std::uint64_t unsent = bytes_left + replies_counted_;
  // Most replies are sent whole and leave the figure at 0: they need not enter the gate.
  if (unsent == client_.bytes_unsent) return;
  const GateEntered inside(environment_.gate, environment_.gate_side);
  client_.bytes_unsent = unsent;
}

// Not inside the gate. Mostly there are none, as before.
inline void Session::count_replies() {
  const std::uint64_t bytes = bytes_of_replies();
  if (bytes == replies_counted_) return;
  grew_ = grew_ || bytes > replies_counted_;
  environment_.services.buffers.change_replies(replies_counted_, bytes);
  const GateEntered inside(environment_.gate, environment_.gate_side);
  client_.bytes_unsent += bytes - std::exchange(replies_counted_, bytes);  // may wrap, and wraps back
}

bool Session::answer(const std::function<void(resp::Reply&)>& append) {
  if (!waiting_) return false;
  SEPAL_ASSERT(partial_ == nullptr, "a client waits while a part of its request has run");
  waiting_ = false;
  client_.lifeline.untie();
  client_.bytes_of_job = 0;
  lend_reply_buffer();
  const std::uint64_t errors_before = reply_.error_count();
  const std::size_t reply_bytes = reply_.size();
  if (!memory_reserve::suffices_for([&] { append(reply_); })) {
    reply_.drop(reply_bytes);
    reply_.error(command::text::no_memory_for_reply);
  }
  const bool has_failed = reply_.error_count() != errors_before;
  if (has_failed || client_.administration != nullptr) {
    const GateEntered inside(environment_.gate, environment_.gate_side);
    if (has_failed) environment_.dispatcher.count_error(reply_.last_error(), client_.last_command);
    environment_.dispatcher.end_administration(client_, !has_failed);
  }
  if (client_.replies != command::Replies::all) drop_reply(reply_bytes);
  // Replies of the batch before are still held: the answer waits behind them.
  if (held_until_ != 0) {
    const bool fits = memory_reserve::suffices_for([this] { held_ += reply_.bytes(); });
    reply_.truncate(0);
    give_back_reply_buffer();
    count_replies();
    step_when_released_ = fits ? Step::run_again : Step::close;
  }
  return true;
}

// A client that goes without its answer must not hide what it has done.
void Session::leaves() {
  update_figures();
  environment_.dispatcher.end_administration(client_, true);
  // Nothing runs any more. A client that lingers is no longer listed, so it must have no memory: another
  // client would be closed for it.
  client_.transaction.reset();
  client_.watch.reset();
  partial_.reset();
  suspended_ = nullptr;
  parser_.close();
  input_.close();
  free_memory(held_);
  reply_.drop(0);
  set_requests_counted(0, 0);
  environment_.services.buffers.change_replies(std::exchange(replies_counted_, 0), 0);
}

void Session::update_figures() {
  client_.bytes_read += bytes_in_;
  client_.bytes_written += bytes_out_;
  environment_.stats.bytes_in.add(bytes_in_);
  environment_.stats.bytes_out.add(bytes_out_);
  bytes_in_ = 0;
  bytes_out_ = 0;
}

}  // namespace sepal::session
