#include "worker.hpp"

#include <sepal/base/thread.hpp>

#include <boost/asio/post.hpp>
#include <boost/container/static_vector.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <span>
#include <string_view>
#include <sys/socket.h>
#include <utility>

#include "first_requests.hpp"
#include "gate_entered.hpp"

namespace sepal::server {
namespace {

// What the connections of a round have to run when it ends early. Of the last one that may be any amount.
constexpr std::size_t round_bytes_max = 4096;
// The replies of batches that took this long are kept beyond their round, until so much time has passed,
// apart from what the connection takes that is served then, or so many are kept.
constexpr std::chrono::microseconds long_run_min{10};
constexpr std::chrono::microseconds kept_time_max{250};
constexpr std::size_t kept_max = 16;
static_assert(kept_max <= SpareBuffers::spares_max, "the memory of all that is kept is there for the next");
// One receive takes a whole pipeline.
constexpr std::size_t read_buffer_bytes = 256 * 1024;
constexpr std::chrono::milliseconds sweep_interval{1000};
// At a stop the sweep looks for connections whose last reply has arrived.
constexpr std::chrono::milliseconds stop_sweep_interval{10};
constexpr std::string_view clients_max_reply = "-ERR max number of clients reached\r\n";

void set_option(int descriptor, int level, int option, int value) {
  // An option that the system refuses costs speed or patience, nothing else.
  static_cast<void>(::setsockopt(descriptor, level, option, &value, sizeof value));
}

// As the reference: the first probe after the whole time, the others at a third of it, given up after three.
void set_tcp_options(int descriptor, std::chrono::seconds keepalive) {
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  if (keepalive.count() <= 0) return;
  const int seconds = static_cast<int>(std::min<std::int64_t>(keepalive.count(), 32767));
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, std::max(seconds / 3, 1));
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

Worker::Worker(std::size_t index, Gate& gate, command::Services& services, ClientCounts& counts)
    : index_(index),
      gate_(gate),
      services_(services),
      counts_(counts),
      dispatcher_(services, index),
      read_memory_(std::make_unique_for_overwrite<char[]>(read_buffer_bytes)),
      input_({read_memory_.get(), read_buffer_bytes}),
      environment_{.gate = gate,
                   .gate_side = index,
                   .dispatcher = dispatcher_,
                   .services = services,
                   .stats = services.workers[index],
                   .input = input_,
                   .reply_buffer = reply_buffer_,
                   .last_words = last_words_,
                   .similar_words = similar_words_},
      context_(1),
      work_(context_.get_executor()),
      readiness_(context_),
      sweep_timer_(context_),
      deadline_timer_(context_) {}

Worker::~Worker() {
  context_.stop();
  join();
}

Result<void> Worker::start() {
  if (auto opened = readiness_.open(); !opened) return opened;
  thread_ = std::thread([this] {
    name_this_thread(("worker-" + std::to_string(index_)).c_str());
    schedule_sweep();
    await_next();
    context_.run();
  });
  return {};
}

void Worker::stop(SteadyTime deadline) {
  boost::asio::post(context_, [this, deadline] { begin_stop(deadline); });
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::adopt(Accepted accepted) {
  load_.fetch_add(1, std::memory_order_relaxed);
  boost::asio::post(context_, [this, moved = std::move(accepted)]() mutable { welcome(std::move(moved)); });
}

void Worker::kill(std::uint64_t id) {
  boost::asio::post(context_, [this, id] {
    const auto found = connections_.find(id);
    if (found != connections_.end()) follow(*found->second, Connection::Then::close);
  });
}

void Worker::answer(std::uint64_t id, std::function<void(resp::Reply&)> append) {
  boost::asio::post(context_, [this, id, append = std::move(append)] {
    const auto found = connections_.find(id);
    if (found != connections_.end()) follow(*found->second, found->second->answer(append));
    await_next();
  });
}

void Worker::journal_progressed() {
  journal_progress_.fetch_add(1);
  if (awaits_journal_.exchange(false)) boost::asio::post(context_, [this] { await_next(); });
}

void Worker::collect(std::vector<command::ClientState*>& clients) {
  for (const auto& [id, connection] : connections_) clients.push_back(&connection->session().client());
}

void Worker::welcome(Accepted accepted) {
  Connection* const connection = take_in(accepted);
  if (connection == nullptr) return refuse(accepted);
  counts_.accepted.fetch_add(1, std::memory_order_relaxed);
  if (const auto added = readiness_.add(connection->descriptor(), connection, readable); !added) {
    spdlog::error("connection refused: id={} reason=\"{}\"", accepted.id, added.error().detail);
    remove(*connection);
  }
}

// Null when there is no place left; `accepted` is as it was then.
Connection* Worker::take_in(Accepted& accepted) {
  const GateEntered inside(gate_, index_);
  const command::RuntimeOptions& options = services_.options;
  if (stopping_ || !counts_.take_place(options.clients_max)) return nullptr;
  const int number = accepted.descriptor.number();
  if (accepted.kind == Connection::Kind::tcp) set_tcp_options(number, options.tcp_keepalive);
  command::ClientState client;
  client.id = accepted.id;
  client.address = std::move(accepted.address);
  client.local_address = std::move(accepted.local_address);
  client.descriptor = number;
  client.authenticated = options.password.empty();
  client.connected_at = std::chrono::steady_clock::now();
  client.last_request_at = client.connected_at;
  auto connection = std::make_unique<Connection>(std::move(accepted.descriptor), accepted.kind, environment_,
                                                 spares_, readiness_, std::move(client));
  return connections_.emplace(accepted.id, std::move(connection)).first->second.get();
}

void Worker::refuse(const Accepted& accepted) {
  load_.fetch_sub(1, std::memory_order_relaxed);
  if (stopping_) return;
  counts_.rejected.fetch_add(1, std::memory_order_relaxed);
  const int number = accepted.descriptor.number();
  // The reply fits into the empty send buffer of a new socket. What the client has sent already is thrown
  // away, so that closing does not reset the connection and take the reply along.
  static_cast<void>(::send(number, clients_max_reply.data(), clients_max_reply.size(), MSG_NOSIGNAL));
  static_cast<void>(::shutdown(number, SHUT_WR));
  static_cast<void>(::recv(number, read_memory_.get(), read_buffer_bytes, 0));
}

void Worker::take_turn() {
  queue_put_off_when_progressed();
  for (const Readiness::Event& event : readiness_.take()) {
    // An owner is destroyed only by its own event, its run in the round, the sending of what it has kept, or
    // outside of this loop; so all that were found and not served yet still exist.
    auto& connection = *static_cast<Connection*>(event.owner);
    follow(connection, connection.on_ready(event.events));
    if (round_.size() >= round_max || round_bytes_ > round_bytes_max) run_round();
  }
  run_round();
  // Not behind pipelines of which a whole batch was not enough.
  send_kept();
  turn_.clear();
  turn_.swap(queue_);
  for (const std::uint64_t id : turn_) {
    const auto found = connections_.find(id);
    if (found != connections_.end()) run(*found->second);
  }
  await_next();
}

void Worker::run_round() {
  const bool last_is_large = round_bytes_ > round_bytes_max;
  if (round_.size() > 1) look_ahead();
  for (Connection* const connection : round_) {
    // Short batches' replies do not wait for a long pipeline.
    if (last_is_large && connection == round_.back()) send_due();
    run(*connection);
  }
  round_.clear();
  round_bytes_ = 0;
  send_due();
}

void Worker::look_ahead() {
  boost::container::static_vector<Session*, round_max> sessions;
  for (Connection* const connection : round_) sessions.push_back(&connection->session());
  FirstRequests::look_ahead(environment_, sessions);
}

void Worker::run(Connection& connection) {
  const Connection::Then then = connection.run();
  const SteadyTime began = connection.session().last_run_at();
  const SteadyTime now = connection.session().last_run_until();
  if (then == Connection::Then::send) {
    if (kept_.empty()) kept_since_ = now;
    due_ = due_ || now - began < long_run_min;
  }
  follow(connection, then);
  if (kept_.size() >= kept_max || (!kept_.empty() && now - kept_since_ >= kept_time_max)) send_kept();
}

void Worker::send_due() {
  if (due_) send_kept();
}

void Worker::send_kept() {
  for (const std::uint64_t id : kept_) {
    const auto found = connections_.find(id);
    if (found != connections_.end()) follow(*found->second, found->second->send_kept());
  }
  kept_.clear();
  due_ = false;
}

// Ends a turn, and sees to it that another comes: at once when connections are queued, else when one is
// ready.
void Worker::await_next() {
  look_at_journal();
  send_kept();
  if (!queue_.empty()) {
    if (std::exchange(turn_posted_, true)) return;
    boost::asio::post(context_, [this] {
      turn_posted_ = false;
      take_turn();
    });
  } else if (!std::exchange(awaiting_, true)) {
    readiness_.wait([this](const boost::system::error_code& error) {
      awaiting_ = false;
      if (!error) take_turn();
    });
  }
}

void Worker::follow(Connection& connection, Connection::Then then) {
  switch (then) {
    case Connection::Then::keep:
      return;
    case Connection::Then::run:
      round_.push_back(&connection);
      round_bytes_ += connection.session().bytes_unparsed();
      return;
    case Connection::Then::send:
      kept_.push_back(connection.id());
      return;
    case Connection::Then::queue:
      queue_.push_back(connection.id());
      return;
    case Connection::Then::hold:
      hold(connection);
      return;
    case Connection::Then::later:
      later_.push_back(connection.id());
      return;
    case Connection::Then::linger:
      lingering_.insert(unlist(connection));
      return;
    case Connection::Then::close:
      return remove(connection);
  }
}

// What a round ran first may be held behind what it ran later.
void Worker::hold(Connection& connection) {
  const Held held{.position = connection.session().held_until(), .id = connection.id()};
  held_.insert(std::ranges::upper_bound(held_, held.position, {}, &Held::position), held);
}

// First it says that it waits, then it looks: so progress is either seen here, or posted (both are in the one
// order of sequentially consistent operations).
void Worker::look_at_journal() {
  if (held_.empty() && later_.empty()) return;
  awaits_journal_.store(true);
  queue_put_off_when_progressed();
  release_durable();
}

// Whatever sees progress queues those who wait for it: it is not posted again.
void Worker::queue_put_off_when_progressed() {
  const std::uint64_t progress = journal_progress_.load();
  if (progress == progress_seen_) return;
  progress_seen_ = progress;
  queue_.insert(queue_.end(), later_.begin(), later_.end());
  later_.clear();
}

void Worker::release_durable() {
  if (held_.empty()) return;
  const std::uint64_t durable = services_.journal.durable_position();
  while (!held_.empty() && held_.front().position <= durable) {
    const auto found = connections_.find(held_.front().id);
    held_.pop_front();
    // The last reply may be sent by now, and the connection be waiting again, behind the others.
    if (found != connections_.end()) follow(*found->second, found->second->release());
  }
}

void Worker::remove(Connection& connection) {
  if (lingering_.erase(connection.id()) == 0) unlist(connection);
  load_.fetch_sub(1, std::memory_order_relaxed);
  end_when_empty();
}

Worker::Connections::node_type Worker::unlist(Connection& connection) {
  counts_.leave_place();
  const GateEntered inside(gate_, index_);
  connection.session().settle_figures();
  return connections_.extract(connection.id());
}

void Worker::begin_stop(SteadyTime deadline) {
  stopping_ = true;
  std::vector<Connection*> all;
  for (const Connections* const some : {&connections_, &lingering_}) {
    for (const auto& [id, connection] : *some) all.push_back(connection.get());
  }
  for (Connection* const connection : all) follow(*connection, connection->stop());
  deadline_timer_.expires_at(deadline);
  deadline_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) cut_off_all();
  });
  schedule_sweep();
  await_next();
  end_when_empty();
}

void Worker::end_when_empty() {
  if (!stopping_ || !connections_.empty() || !lingering_.empty()) return;
  work_.reset();
  context_.stop();
}

void Worker::cut_off_all() {
  if (!connections_.empty()) spdlog::warn("connections cut off at the stop: count={}", connections_.size());
  while (!connections_.empty()) remove(*connections_.begin()->second);
  while (!lingering_.empty()) remove(*lingering_.begin()->second);
}

void Worker::schedule_sweep() {
  sweep_timer_.expires_after(stopping_ ? stop_sweep_interval : sweep_interval);
  sweep_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) sweep();
  });
}

// One timer for all connections: an idle client goes up to an interval later than it could.
void Worker::sweep() {
  std::chrono::seconds idle_timeout{0};
  {
    const GateEntered inside(gate_, index_);
    idle_timeout = services_.options.idle_timeout;
  }
  const SteadyTime now = std::chrono::steady_clock::now();
  std::vector<Connection*> expired;
  for (const Connections* const some : {&connections_, &lingering_}) {
    for (const auto& [id, connection] : *some) {
      if (connection->expired(now, idle_timeout)) expired.push_back(connection.get());
    }
  }
  for (Connection* const connection : expired) remove(*connection);
  schedule_sweep();
}

}  // namespace sepal::server
