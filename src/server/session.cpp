#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/server/session.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "gate_entered.hpp"
#include "run_clock.hpp"

namespace sepal::server {
namespace {

// The words of a request that is run together with others: a command, a key, an item.
constexpr std::size_t together_words = 3;

constexpr std::size_t line_end_bytes = 2;

// Of a request that may be run ahead, with others.
constexpr std::size_t single_bytes_max = 1024;

// Of batch_requests_max, what a request of so many words takes: each word behind a key may be an item.
std::size_t share_of(std::size_t word_count) {
  return word_count <= together_words ? 1 : word_count - 2;
}

}  // namespace

// Why a run of requests stopped.
enum class Session::Pause : std::uint8_t {
  none,        // it did not: the next one may run
  need_alone,  // the request that is pending wants the gate closed
  share,       // it was alone for long enough
  read,        // the others end the batch, as Step says
  run_again,
  drain,
  wait,
  later,
  close,
};

struct Session::Batch {
  WallTime wall_now;
  RunClock clock;
  SteadyTime ends_at;  // where it still runs by then
  std::uint64_t output_bytes_max = 0;
  std::size_t requests = 0;
  std::size_t timed_requests = 0;  // of them, those before the last look at how long the batch has taken
  bool begun = false;
  std::span<const std::string_view> pending{};         // a request that was taken and not run yet
  const command::CommandSpec* pending_spec = nullptr;  // its row, and that of all taken with it
  const char* pending_at = nullptr;                    // where its bytes begin in the input

  // Requests that differ in their last word only and were taken together; those are in the environment's
  // last_words. When they cannot be run together, they become pending one by one.
  std::size_t together = 0;
  std::size_t together_at = 0;  // the first that is neither pending nor run
  // Requests that share their command only; the other words are in the environment's similar_words.
  std::size_t similar = 0;
  std::size_t similar_at = 0;
  std::array<std::string_view, together_words> single{};

  [[nodiscard]] bool holds_requests() const { return together_at < together || similar_at < similar; }
  // Makes one of them the pending one. Its bytes follow those of the one before, which end with its last word
  // and the end of a line.
  void take_held(const Environment& environment) {
    pending_at = single[2].data() + single[2].size() + line_end_bytes;
    if (together_at < together) {
      single[2] = environment.last_words[together_at++];
    } else {
      const auto& words = environment.similar_words[similar_at++];
      single[1] = words.second;
      single[2] = words.last;
    }
    pending = single;
  }
};

Session::Session(const Environment& environment, command::ClientState client)
    : environment_(environment),
      client_(std::move(client)),
      parser_(resp::ParserLimits{}),
      input_(environment.input),
      last_run_at_(client_.connected_at),
      last_run_until_(client_.connected_at) {}

void Session::input_arrived(std::size_t byte_count) {
  input_.arrived(byte_count);
  bytes_in_ += byte_count;
}

void Session::look_ahead() {
  parser_.set_limits(environment_.services.options.parser);
  ahead_ = parse();
}

void Session::collect_lines(LinesAhead& lines) const {
  if (ahead_->progress == resp::Progress::complete)
    environment_.dispatcher.collect_lines(client_, ahead_->spec, parser_.words(), lines);
}

// Behind the end of the input there is more to do than to answer.
std::optional<command::SingleRequest> Session::single() {
  const std::size_t bytes = input_.unparsed().size();
  if (ahead_->progress != resp::Progress::complete || parser_.consumed() != bytes ||
      bytes > single_bytes_max || !command::Dispatcher::runs_together(ahead_->spec, parser_.words().size()) ||
      input_ended_ || closing_ || waiting_ || has_output())
    return std::nullopt;
  return command::SingleRequest{
      .client = client_, .reply = reply_, .spec = *ahead_->spec, .words = parser_.words()};
}

void Session::single_was_run(SteadyTime at) {
  SEPAL_ASSERT(has_output(), "what was run has a reply");
  single_was_run_ = true;
  ahead_.reset();
  input_.consume(parser_.consumed());
  last_run_at_ = at;
  last_run_until_ = at;
  environment_.stats.batches.add();
  client_.bytes_unparsed = 0;
  settle_figures();
}

Session::Step Session::run() {
  SEPAL_ASSERT(held_until_ == 0, "nothing runs while replies are held");
  if (std::exchange(single_was_run_, false))
    return hold(end_batch(Pause::read), std::exchange(single_position_, 0));
  if (closing_) return Step::close;
  if (waiting_) return Step::wait;
  lend_reply_buffer();
  last_run_at_ = environment_.steady_now();
  Batch batch{.wall_now = std::chrono::system_clock::now(),
              .clock = {environment_.dispatcher, environment_.steady_now, last_run_at_},
              .ends_at = last_run_at_ + batch_time_max};
  Pause pause = run_shared(batch);
  while (pause == Pause::need_alone || pause == Pause::share) {
    pause = pause == Pause::need_alone ? run_alone(batch) : run_shared(batch);
  }
  last_run_until_ = batch.clock.now();
  return settle(end_batch(pause));
}

Session::Pause Session::run_shared(Batch& batch) {
  const GateEntered inside(environment_.gate, environment_.gate_side);
  if (!batch.begun) {
    batch.begun = true;
    batch.output_bytes_max = environment_.services.options.output_bytes_max;
    parser_.set_limits(environment_.services.options.parser);
    environment_.stats.batches.add();
  }
  const Pause pause = run_requests(batch, false);
  batch.clock.settle();
  client_.bytes_unparsed = input_.unparsed().size();
  settle_figures();
  return pause;
}

Session::Pause Session::run_alone(Batch& batch) {
  const SteadyTime asked_at = batch.clock.now();
  const GateClosed closed(environment_.gate);
  batch.clock.skip_wait();
  batch.ends_at += batch.clock.now() - asked_at;
  const Pause pause = run_requests(batch, true);
  // Before any other worker sees what was done.
  environment_.dispatcher.commit();
  batch.clock.settle();
  client_.bytes_unparsed = input_.unparsed().size();
  settle_figures();
  return pause;
}

Session::Pause Session::run_requests(Batch& batch, bool alone) {
  const std::size_t requests_before = batch.requests;
  std::size_t looked_at_clock = batch.requests;
  const SteadyTime opens_at = batch.clock.now() + alone_time_max;
  const auto must_share = [&] {
    if (batch.requests - requests_before > alone_requests_max) return true;
    if (batch.requests - looked_at_clock < alone_clock_period) return false;
    looked_at_clock = batch.requests;
    return environment_.steady_now() >= opens_at;
  };
  while (true) {
    if (batch.pending.empty()) {
      if (alone && must_share()) return Pause::share;
      if (batch.holds_requests()) {
        batch.take_held(environment_);
      } else if (const Pause pause = take_requests(batch, alone); pause != Pause::none) {
        return pause;
      }
    }
    if (batch.pending.empty()) continue;
    if (const Pause pause = run_request(batch, alone); pause != Pause::none) return pause;
  }
}

bool Session::took_long(Batch& batch) const {
  if (batch.requests - batch.timed_requests < batch_clock_period) return false;
  batch.timed_requests = batch.requests;
  return environment_.steady_now() >= batch.ends_at;
}

// Takes what comes next, and runs it at once where several requests can be run together.
Session::Pause Session::take_requests(Batch& batch, bool alone) {
  if (batch.requests >= batch_requests_max || took_long(batch)) return Pause::run_again;
  if (reply_.size() > batch.output_bytes_max) return Pause::drain;
  if (!take_request(batch)) return closing_ ? Pause::close : Pause::read;
  if (batch.pending.size() != together_words ||
      !command::Dispatcher::runs_together(batch.pending_spec, together_words))
    return Pause::none;
  batch.together = 1 + parser_.next_alike(input_.unparsed(), std::span(environment_.last_words).subspan(1));
  input_.consume(parser_.consumed());
  batch.together_at = 1;
  if (batch.together > 1) {
    run_together(batch, alone);
  } else {
    take_similar(batch);
  }
  return Pause::none;
}

// A pipeline of one command on many keys: most of its time would be spent waiting for them one by one.
void Session::take_similar(Batch& batch) {
  batch.similar = parser_.next_similar(input_.unparsed(), environment_.similar_words);
  batch.similar_at = 0;
  if (batch.similar == 0) return;
  input_.consume(parser_.consumed());
  std::ranges::copy(batch.pending, batch.single.begin());
  std::array<std::string_view, similar_max + 1> keys;
  keys[0] = batch.single[1];
  for (std::size_t i = 0; i < batch.similar; ++i) keys[i + 1] = environment_.similar_words[i].second;
  environment_.dispatcher.prefetch(client_, std::span(keys).first(batch.similar + 1));
  batch.pending = batch.single;
}

void Session::run_together(Batch& batch, bool alone) {
  std::ranges::copy(batch.pending, batch.single.begin());
  environment_.last_words.front() = batch.single.back();
  batch.clock.before(batch.pending_spec);
  const command::Dispatcher::Outcome outcome = environment_.dispatcher.run_together(
      client_, reply_, *batch.pending_spec, batch.pending,
      std::span(environment_.last_words).first(batch.together), alone, batch.wall_now, batch.clock.now());
  if (outcome.next != command::Next::done) return;
  batch.clock.after(outcome.spec, batch.together);
  batch.requests += batch.together;
  batch.together_at = batch.together;
  batch.pending = {};
}

Session::Pause Session::run_request(Batch& batch, bool alone) {
  const std::size_t share = share_of(batch.pending.size());
  batch.clock.before(batch.pending_spec);
  const command::Dispatcher::Outcome outcome = environment_.dispatcher.run(
      client_, reply_, batch.pending, batch.pending_spec, alone, batch.wall_now, batch.clock.now());
  if (outcome.next == command::Next::need_alone) {
    SEPAL_ASSERT(!alone, "a request that runs alone does not ask to be alone");
    return Pause::need_alone;
  }
  if (outcome.next == command::Next::later) {
    put_back(batch);
    return Pause::later;
  }
  batch.pending = {};
  batch.requests += share;
  batch.clock.after(outcome.spec);
  waiting_ = outcome.next == command::Next::wait;
  closing_ = outcome.next == command::Next::close || client_.close_after_reply;
  if (waiting_) return Pause::wait;
  return closing_ ? Pause::close : Pause::none;
}

Session::Parsed Session::parse() {
  // The password may have been taken away since this client came.
  const bool authenticated = client_.authenticated || environment_.services.options.password.empty();
  Parsed parsed{.progress = parser_.next(input_.unparsed(), authenticated)};
  if (parsed.progress == resp::Progress::complete) parsed.spec = command::row_for(parser_.words());
  return parsed;
}

// Parses the next request. None: closing_ says whether there will be none at all.
bool Session::take_request(Batch& batch) {
  const Parsed parsed = ahead_ ? *std::exchange(ahead_, std::nullopt) : parse();
  if (parsed.progress == resp::Progress::malformed) {
    reply_.error(parser_.error_text());
    environment_.dispatcher.count_error(reply_.last_error(), nullptr);
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
  closing_ = input_ended_;
  return false;
}

// The pending request, and those that were taken with it and not run.
void Session::put_back(Batch& batch) {
  input_.take_back(static_cast<std::size_t>(input_.unparsed().data() - batch.pending_at));
  batch.pending = {};
  batch.together = 0;
  batch.similar = 0;
}

void Session::lend_reply_buffer() {
  if (lent_ || has_output()) return;
  reply_.swap_out(environment_.reply_buffer);
  lent_ = true;
}

// Else every session that waits for the rest of a request would keep one.
void Session::give_back_reply_buffer() {
  if (!lent_ || has_output()) return;
  reply_.swap_out(environment_.reply_buffer);
  lent_ = false;
}

void Session::take_output(std::string& into) {
  reply_.swap_out(into);
  lent_ = false;
}

Session::Step Session::end_batch(Pause pause) {
  if (closing_) input_.clear();
  if (!input_.stash()) closing_ = true;
  give_back_reply_buffer();
  if (closing_) return Step::close;
  switch (pause) {
    case Pause::read:
      return Step::read;
    case Pause::drain:
      return Step::drain;
    case Pause::wait:
      return Step::wait;
    case Pause::later:
      return Step::later;
    case Pause::close:
      return Step::close;
    default:
      return Step::run_again;
  }
}

// Sees to it that what was answered is in the journal, as far as the policy asks. Gives the next step.
Session::Step Session::settle(Step step) {
  const command::BatchRecord record = environment_.dispatcher.take_record();
  return record.log == nullptr ? step : hold(step, record.log->settle(record.answered_known));
}

// Until the journal is durable up to `position`; 0 is nowhere.
Session::Step Session::hold(Step step, std::uint64_t position) {
  if (position == 0 || position <= environment_.services.journal.durable_position()) return step;
  // In memory of its own: what was lent is for the sessions that run meanwhile.
  held_.assign(reply_.bytes());
  reply_.truncate(0);
  give_back_reply_buffer();
  held_until_ = position;
  step_when_released_ = step;
  return Step::hold;
}

Session::Step Session::release() {
  SEPAL_ASSERT(held_until_ != 0, "only what is held is released");
  held_until_ = 0;
  lend_reply_buffer();
  reply_.raw(held_);
  free_memory(held_);
  return step_when_released_;
}

void Session::output_sent(std::uint64_t byte_count, std::uint64_t bytes_left) {
  bytes_out_ += byte_count;
  if (bytes_left == client_.bytes_unsent) return;
  const GateEntered inside(environment_.gate, environment_.gate_side);
  client_.bytes_unsent = bytes_left;
}

bool Session::answer(const std::function<void(resp::Reply&)>& append) {
  if (!waiting_) return false;
  waiting_ = false;
  client_.lifeline.untie();
  lend_reply_buffer();
  const std::uint64_t errors_before = reply_.error_count();
  append(reply_);
  if (reply_.error_count() != errors_before) {
    const GateEntered inside(environment_.gate, environment_.gate_side);
    environment_.dispatcher.count_error(reply_.last_error(), client_.last_command);
  }
  if (held_until_ != 0) {
    held_ += reply_.bytes();
    reply_.truncate(0);
    give_back_reply_buffer();
    step_when_released_ = Step::run_again;
  }
  return true;
}

void Session::settle_figures() {
  client_.bytes_read += bytes_in_;
  client_.bytes_written += bytes_out_;
  environment_.stats.bytes_in.add(bytes_in_);
  environment_.stats.bytes_out.add(bytes_out_);
  bytes_in_ = 0;
  bytes_out_ = 0;
}

}  // namespace sepal::server
