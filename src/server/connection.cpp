#include "connection.hpp"

#include <sepal/base/free_memory.hpp>

#include <cerrno>
#include <linux/sockios.h>
#include <span>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <utility>

namespace sepal::server {
namespace {

// The reply buffer of a worker is given back above this.
constexpr std::size_t reply_buffer_bytes_max = 1024 * 1024;

// The room that a request was put off for may have come while the replies before it were held or sent, and
// nothing more may come.
Session::Step asked_anew(Session::Step step) {
  return step == Session::Step::later ? Session::Step::run_again : step;
}

bool try_again() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

Connection::Connection(Descriptor descriptor, Kind kind, const Session::Environment& environment,
                       SpareBuffers& spares, Readiness& readiness, command::ClientState client)
    : descriptor_(std::move(descriptor)),
      readiness_(readiness),
      reply_buffer_(environment.reply_buffer),
      spares_(spares),
      session_(environment, std::move(client)),
      kind_(kind) {}

Connection::Then Connection::on_ready(std::uint32_t events) {
  switch (phase_) {
    case Phase::reading:
      return receive();
    case Phase::sending:
      if (!send_unsent()) return Then::close;
      return unsent_.empty() ? proceed(after_sending_) : Then::keep;
    case Phase::lingering:
      return discard();
    // What has arrived is run even when the peer is gone: it may have sent its adds and left.
    case Phase::queued:
      return Then::keep;
    case Phase::waiting:
      return (events & (broken | peer_gone)) != 0 ? Then::close : Then::keep;
    case Phase::held:
      return (events & broken) != 0 ? Then::close : Then::keep;
  }
  return Then::keep;
}

Connection::Then Connection::receive() {
  const std::span<char> space = session_.input_space();
  if (space.empty()) return Then::close;
  const ssize_t received = ::recv(descriptor_.number(), space.data(), space.size(), 0);
  if (received < 0 && try_again()) return stopping_ ? finish() : Then::keep;
  if (received < 0) return Then::close;
  if (received == 0) {
    peer_ended_ = true;
    session_.input_ended();
  } else {
    session_.input_arrived(static_cast<std::size_t>(received));
  }
  return Then::run;
}

Connection::Then Connection::run() {
  return carry_on(session_.run());
}

Connection::Then Connection::send_kept() {
  if (!send_unsent()) return Then::close;
  if (unsent_.empty()) return proceed(after_sending_);
  std::string rest(unsent_, unsent_begin_);
  give_back_unsent();
  unsent_ = std::move(rest);
  watch(writable);
  return Then::keep;
}

Connection::Then Connection::release() {
  return carry_on(asked_anew(session_.release()));
}

Connection::Then Connection::answer(const std::function<void(resp::Reply&)>& append) {
  if (!session_.answer(append)) return Then::keep;
  if (phase_ == Phase::waiting) return carry_on(Session::Step::run_again);
  // Earlier replies are still being sent, or held: the answer goes out behind them, with the next batch.
  after_sending_ = Session::Step::run_again;
  return Then::keep;
}

Connection::Then Connection::stop() {
  stopping_ = true;
  if (phase_ == Phase::waiting) return Then::close;
  if (phase_ != Phase::reading) return Then::keep;
  const Then then = receive();
  return then == Then::run ? run() : then;
}

bool Connection::expired(SteadyTime now, std::chrono::seconds idle_timeout) const {
  if (phase_ == Phase::lingering) return now >= linger_until_ || (stopping_ && all_is_acknowledged());
  if (idle_timeout.count() == 0) return false;
  if (phase_ == Phase::queued || phase_ == Phase::waiting || phase_ == Phase::held) return false;
  return now - session_.last_run_at() > idle_timeout;
}

// Sends what the session answered, or keeps it; its next step follows when all is sent.
Connection::Then Connection::carry_on(Session::Step step) {
  if (may_keep(step)) {
    session_.take_output(unsent_);
    spares_.lend(reply_buffer_);
    after_sending_ = step;
    phase_ = Phase::sending;
    return Then::send;
  }
  if (!send_output()) return Then::close;
  if (unsent_.empty()) return proceed(step);
  after_sending_ = asked_anew(step);
  phase_ = Phase::sending;
  watch(writable);
  return Then::keep;
}

// The steps that let replies wait.
bool Connection::may_keep(Session::Step step) const {
  return session_.has_output() && (step == Session::Step::read || step == Session::Step::run_again);
}

Connection::Then Connection::proceed(Session::Step step) {
  switch (step) {
    case Session::Step::read:
      if (stopping_) return finish();
      phase_ = Phase::reading;
      watch(readable);
      return Then::keep;
    case Session::Step::run_again:
    case Session::Step::drain:
      phase_ = Phase::queued;
      return Then::queue;
    case Session::Step::wait:
      if (stopping_) return Then::close;
      phase_ = Phase::waiting;
      // Who only saves may leave; what is done for one client ends with it.
      watch(session_.client().lifeline.tied() ? peer_gone : 0);
      return Then::keep;
    case Session::Step::hold:
    case Session::Step::later:
      phase_ = Phase::held;
      watch(0);
      return step == Session::Step::hold ? Then::hold : Then::later;
    case Session::Step::close:
      return finish();
  }
  return Then::close;
}

// All is sent, nothing more will be.
Connection::Then Connection::finish() {
  if (kind_ == Kind::unix_socket || peer_ended_ || (stopping_ && all_is_acknowledged())) return Then::close;
  if (::shutdown(descriptor_.number(), SHUT_WR) != 0) return Then::close;
  phase_ = Phase::lingering;
  linger_until_ = std::chrono::steady_clock::now() + linger_max;
  watch(readable);
  return Then::linger;
}

Connection::Then Connection::discard() {
  const std::span<char> space = session_.input_space();
  const ssize_t received = ::recv(descriptor_.number(), space.data(), space.size(), 0);
  return received > 0 || (received < 0 && try_again()) ? Then::keep : Then::close;
}

bool Connection::send_output() {
  if (!session_.has_output()) return true;
  session_.take_output(reply_buffer_);
  ssize_t sent = ::send(descriptor_.number(), reply_buffer_.data(), reply_buffer_.size(), MSG_NOSIGNAL);
  if (sent < 0 && !try_again()) return false;
  if (sent < 0) sent = 0;
  const auto sent_bytes = static_cast<std::size_t>(sent);
  if (sent_bytes < reply_buffer_.size()) unsent_.assign(reply_buffer_, sent_bytes);
  session_.output_sent(sent_bytes, unsent_.size());
  if (reply_buffer_.capacity() > reply_buffer_bytes_max) free_memory(reply_buffer_);
  return true;
}

bool Connection::send_unsent() {
  const std::size_t left = unsent_.size() - unsent_begin_;
  const ssize_t sent = ::send(descriptor_.number(), unsent_.data() + unsent_begin_, left, MSG_NOSIGNAL);
  if (sent < 0) return try_again();
  const auto sent_bytes = static_cast<std::size_t>(sent);
  unsent_begin_ += sent_bytes;
  session_.output_sent(sent_bytes, left - sent_bytes);
  if (sent_bytes == left) give_back_unsent();
  return true;
}

// Kept replies are in memory that the worker lent, with room for more than they need.
void Connection::give_back_unsent() {
  if (unsent_.capacity() > reply_buffer_.capacity() && unsent_.capacity() <= reply_buffer_bytes_max)
    unsent_.swap(reply_buffer_);
  spares_.take_back(unsent_);
  unsent_begin_ = 0;
}

void Connection::watch(std::uint32_t events) {
  if (events == watched_) return;
  watched_ = events;
  readiness_.change(descriptor_.number(), this, events);
}

bool Connection::all_is_acknowledged() const {
  int unacknowledged_bytes = 0;
  return ::ioctl(descriptor_.number(), SIOCOUTQ, &unacknowledged_bytes) == 0 && unacknowledged_bytes == 0;
}

}  // namespace sepal::server
