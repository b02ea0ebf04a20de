// What a session does with its replies, and with what it holds, when a batch has ended.
#include <sepal/base/assert.hpp>
#include <sepal/base/memory_reserve.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/session/session.hpp>

#include <algorithm>
#include <utility>

namespace sepal::session {

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
  SEPAL_ASSERT(held_.until() == 0 || !has_output(), "replies leave that the journal holds");
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
  if (bytes_of_requests() != account_.requests() || account_.of_stranger() != 0) {
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
  account_.set_requests(held, is_stranger ? input_.bytes_held() : 0);
  client_.bytes_of_requests = held;
}

// A client that logs in sends one short request. So the one that brings the strangers over their bound is
// closed, and not the one with most: that costs the others nothing.
void Session::bound_stranger() {
  command::ClientBuffers& buffers = environment_.services.buffers;
  if (account_.of_stranger() == 0 || buffers.strangers() <= command::strangers_bytes_max) return;
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
  if (!hold_replies()) return Step::close;
  held_.wait(position, step);
  return Step::hold;
}

// The replies move to the session's own memory: the lent buffer is for the sessions that run meanwhile.
// False: there is no memory for that, and the replies are lost.
bool Session::hold_replies() {
  const bool fits = held_.take(reply_);
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
  const Step next = held_.release();
  lend_reply_buffer();
  return give_held() ? next : Step::close;
}

bool Session::give_held() {
  const bool fits = held_.give(reply_);
  count_replies();
  return fits;
}

void Session::output_sent(std::uint64_t byte_count, std::uint64_t bytes_left) {
  account_.sent(byte_count);
  count_replies();
  const std::uint64_t unsent = bytes_left + account_.replies();
  // Most replies are sent whole and leave the figure at 0: they need not enter the gate.
  if (unsent == client_.bytes_unsent) return;
  const GateEntered inside(environment_.gate, environment_.gate_side);
  client_.bytes_unsent = unsent;
}

// Not inside the gate. Mostly there are none, as before.
inline void Session::count_replies() {
  const std::uint64_t bytes = bytes_of_replies();
  if (bytes == account_.replies()) return;
  const std::uint64_t growth = account_.set_replies(bytes);
  const GateEntered inside(environment_.gate, environment_.gate_side);
  client_.bytes_unsent += growth;  // may wrap, and wraps back
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
  if (held_.until() != 0) {
    const bool fits = held_.append(reply_);
    give_back_reply_buffer();
    count_replies();
    held_.change_next(fits ? Step::run_again : Step::close);
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
  held_.clear();
  reply_.drop(0);
  account_.clear();
}

bool Session::can_move() const {
  return input_.bytes_held() == 0 && input_.unparsed().empty() && partial_ == nullptr && !has_output() &&
         held_.until() == 0 && !waiting_ && !closing_ && !input_ended_ && client_.can_move();
}

command::ClientState Session::move_out() {
  SEPAL_ASSERT(can_move(), "a client moves while its session has something of it");
  update_figures();
  account_.clear();
  return std::move(client_);
}

void Session::update_figures() {
  account_.settle(client_, environment_.stats);
}

}  // namespace sepal::session
