#include "server/worker.hpp"

#include <sepal/base/free_memory.hpp>
#include <sepal/base/memory_reserve.hpp>
#include <sepal/base/random.hpp>
#include <sepal/base/thread.hpp>
#include <sepal/command/clients/certificate_login.hpp>
#include <sepal/command/run/client_memory.hpp>
#include <sepal/command/run/client_users.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/log/event.hpp>
#include <sepal/server/server.hpp>

#include <boost/asio/post.hpp>

#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <span>
#include <string_view>
#include <sys/socket.h>
#include <utility>

namespace sepal::server {
namespace {

// One receive takes a whole pipeline.
constexpr std::size_t read_buffer_bytes = 256 * 1024;
static_assert(read_buffer_bytes < mapped_allocation_min, "what is left in it moves into a block of the heap");
static_assert(read_buffer_bytes > session::round_bytes_max + session::copied_tail_bytes_max,
              "the last client of a round has room behind the bytes of the others");
constexpr std::chrono::milliseconds sweep_interval{1000};
constexpr std::chrono::seconds log_period{60};
// At a stop the sweep looks for clients whose last reply has arrived: with sweep_interval, a stop could
// take a second longer.
constexpr std::chrono::milliseconds stop_sweep_interval{10};
static_assert(stop_sweep_interval < sweep_interval);

void set_option(int descriptor, int level, int option, int value) {
  // If the system refuses an option, the connection is slower, or the end of its peer is noticed later.
  static_cast<void>(::setsockopt(descriptor, level, option, &value, sizeof value));
}

// As in the reference: the system sends the first probe after `keepalive`, further probes after a third of
// that time each, and gives the connection up after three probes without an answer.
void set_tcp_options(int descriptor, std::chrono::seconds keepalive) {
  // A send has all replies of a batch already. Nagle's algorithm would hold a short one back until the client
  // has acknowledged the one before.
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  if (keepalive.count() <= 0) return;
  // Linux refuses more seconds than this, and refuses an interval of 0.
  const int seconds = static_cast<int>(std::min<std::int64_t>(keepalive.count(), 32767));
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, std::max(seconds / 3, 1));
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

Worker::Worker(std::size_t index, Gate& gate, command::Services& services, ClientCounts& counts,
               const HandshakeOptions& handshakes, std::function<void()> ask_others)
    : index_(index),
      gate_(gate),
      services_(services),
      counts_(counts),
      ask_others_(std::move(ask_others)),
      dispatcher_(services, index, &gate),
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
      // One thread runs the context. The hint says no more than that, because other threads post to it
      // (decisions/0006).
      context_(1),
      work_(context_.get_executor()),
      readiness_(context_),
      sweep_timer_(context_),
      deadline_timer_(context_),
      pause_timer_(context_),
      unread_([this] { ask_for_unread(); }),
      scheduler_(environment_, {.left = [&counts] { counts.leave_place(); },
                                .gone = [this] { socket_closed(); },
                                .buffers_grew = [this] { bound_buffers(); }}) {
  SEPAL_ASSERT(index < gate.side_count() && index < services.workers.size(),
               "a worker without a side of the gate, or without statistics");
  if (handshakes.tls == nullptr) return;
  handshakes_ = std::make_unique<Handshakes>(
      context_, handshakes, counts.handshakes, std::span(read_memory_.get(), read_buffer_bytes),
      Handshakes::Observer{
          .done = [this](Accepted accepted,
                         Greeted greeted) { admit(std::move(accepted), std::move(greeted)); },
          .gone = [this] { socket_closed(); }});
}

Worker::~Worker() {
  // Without stop(), the thread still runs. It must end before the members that it uses.
  halt();
}

void Worker::halt() {
  context_.stop();
  join();
}

Result<void> Worker::start() {
  SEPAL_ASSERT(!thread_.joinable(), "a worker is started once");
  if (auto opened = readiness_.open(); !opened) return opened;
  if (handshakes_ != nullptr)
    if (auto opened = handshakes_->open(); !opened) return opened;
  // Last, so an error above leaves no thread behind.
  thread_ = start_thread("worker-" + std::to_string(index_), [this] {
    schedule_sweep();
    await_next();
    context_.run();
  });
  // Fails only for a thread that has ended.
  static_cast<void>(::pthread_getcpuclockid(thread_.native_handle(), &cpu_clock_));
  return {};
}

void Worker::stop(SteadyTime deadline) {
  boost::asio::post(context_, [this, deadline] { begin_stop(deadline); });
}

void Worker::join() {
  SEPAL_ASSERT(thread_.get_id() != std::this_thread::get_id(), "a worker cannot wait for its own end");
  if (thread_.joinable()) thread_.join();
}

void Worker::adopt(Accepted accepted) {
  SEPAL_ASSERT(accepted.descriptor.is_open(), "the acceptor hands over a connection that is closed");
  SEPAL_ASSERT(accepted.id != 0, "the acceptor hands over a connection without an id");
  // Before the post: the acceptor must count connections that are on their way. It is the only
  // caller, so it sees its own sums without an order.
  load_.fetch_add(1, std::memory_order_relaxed);
  boost::asio::post(context_, [this, moved = std::move(accepted)]() mutable { welcome(std::move(moved)); });
}

void Worker::kill(std::uint64_t id) {
  boost::asio::post(context_, [this, id] {
    scheduler_.kill(id);
    await_next();
  });
}

void Worker::push(std::uint64_t id, std::shared_ptr<const std::string> bytes) {
  boost::asio::post(context_, [this, id, bytes = std::move(bytes)] {
    scheduler_.push(id, *bytes);
    await_next();
  });
}

void Worker::pause_ended() {
  boost::asio::post(context_, [this] {
    scheduler_.end_pause(SteadyTime::max());
    await_next();
  });
}

void Worker::give_place() {
  boost::asio::post(context_, [this] {
    if (make_place()) await_next();
  });
}

void Worker::answer(std::uint64_t id, std::function<void(resp::Reply&)> append) {
  SEPAL_ASSERT(append != nullptr, "an answer without a reply");
  boost::asio::post(context_, [this, id, append = std::move(append)] {
    scheduler_.answer(id, append);
    await_next();
  });
}

void Worker::journal_progressed() {
  // The count grows before the flag is taken: see journal_progress_to_act_on(). To take the flag keeps the
  // posts few: one is enough until the worker waits for the journal again.
  journal_progress_.fetch_add(1);
  if (awaits_journal_.exchange(false)) boost::asio::post(context_, [this] { await_next(); });
}

void Worker::take_turn_for(std::function<void()> task) {
  boost::asio::post(context_, [this, task = std::move(task)] {
    task();
    await_next();
  });
}

std::chrono::nanoseconds Worker::cpu_time() const {
  timespec used{};
  static_cast<void>(::clock_gettime(cpu_clock_, &used));
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

void Worker::collect(std::vector<command::ClientState*>& clients) {
  scheduler_.collect(clients);
  const MutexLock lock(inbox_mutex_);
  for (session::Scheduler::Moved& moved : inbox_) clients.push_back(&moved.client);
}

void Worker::welcome(Accepted accepted) {
  if (accepted.kind != StreamKind::tls) return admit(std::move(accepted), {});
  SEPAL_ASSERT(handshakes_ != nullptr, "a connection of TLS without a TLS port");
  if (stopping_) return turn_away(std::move(accepted), {}, no_place);
  handshakes_->begin(std::move(accepted));
}

void Worker::admit(Accepted accepted, Greeted greeted) {
  const auto taken = take_in(accepted, greeted);
  if (const auto* const refusal = std::get_if<const Refusal*>(&taken))
    return turn_away(std::move(accepted), greeted, **refusal);
  const auto& added = std::get<Added>(taken);
  counts_.accepted.fetch_add(1, std::memory_order_relaxed);
  watch(added, accepted.id);
}

void Worker::watch(Added added, std::uint64_t id) {
  const auto watched = added.stream.watch_for(added.client, readiness_, unread_);
  if (watched) return;
  log::error("connection_refused", "connection refused", {{"id", id}, {"reason", watched.error().detail}});
  // The scheduler has the client already. kill() gives back its place and its count, as for any client.
  scheduler_.kill(id);
  await_next();
}

// Strangers must not take the places of clients that log in. Where clients need not log in, all are the same.
bool Worker::make_place() {
  if (stopping_) return false;
  {
    const GateEntered inside(gate_, index_);
    if (services_.users->open()) return false;
  }
  const auto address = scheduler_.displace_stranger(random_number());
  if (!address) return false;
  counts_.rejected.fetch_add(1, std::memory_order_relaxed);
  refusals_.note(stranger_displaced, *address);
  return true;
}

// `accepted` is unchanged if the client is refused.
std::variant<Worker::Added, const Refusal*> Worker::take_in(Accepted& accepted, Greeted& greeted) {
  auto taken = take_place(accepted, greeted);
  const auto* const refusal = std::get_if<const Refusal*>(&taken);
  if (refusal == nullptr || *refusal != &no_place) return taken;
  if (make_place()) return take_place(accepted, greeted);
  // Another worker may have one. Its place is for the next that comes: perhaps the same client again.
  ask_others_();
  return taken;
}

// Inside the gate, because it reads the options and the users, and because collect() reads the scheduler's
// clients with the gate closed.
std::variant<Worker::Added, const Refusal*> Worker::take_place(Accepted& accepted, Greeted& greeted) {
  const GateEntered inside(gate_, index_);
  const command::RuntimeOptions& options = services_.options;
  // Protected mode comes first, so a stranger takes no place. The place is taken last: nothing below fails,
  // so no refused client has to give a place back.
  const bool is_protected = options.protected_mode == command::Switch::yes && services_.users->open();
  if (is_protected && !accepted.from_this_machine) return &stranger;
  if (!memory_reserve::permits()) return &no_memory;
  const std::uint64_t beyond = accepted.kind == StreamKind::unix_socket ? operator_places : 0;
  if (stopping_ || !counts_.take_place(options.clients_max + beyond)) return &no_place;
  const int number = accepted.descriptor.number();
  if (accepted.kind != StreamKind::unix_socket) set_tcp_options(number, options.tcp_keepalive);
  command::ClientState client;
  client.id = accepted.id;
  client.address = std::move(accepted.address);
  client.local_address = std::move(accepted.local_address);
  client.descriptor = number;
  client.connected_at = std::chrono::steady_clock::now();
  client.last_request_at = client.connected_at;
  command::welcome(*services_.users, client);
  if (greeted.user_name) command::log_in_by_certificate(services_, client, *greeted.user_name);
  SocketStream socket(std::move(accepted.descriptor), accepted.kind);
  const auto add = [&](auto stream) {
    WatchedStream& added = *stream;
    return Added{.client = scheduler_.add(std::move(stream), std::move(client), accepted.network),
                 .stream = added};
  };
  if (greeted.connection == nullptr) return add(std::make_unique<SocketStream>(std::move(socket)));
  return add(std::make_unique<TlsStream>(std::move(socket), std::move(greeted.connection)));
}

// The memory for reading is free to be overwritten: connections are welcomed between turns.
void Worker::turn_away(Accepted accepted, const Greeted& greeted, const Refusal& refusal) {
  if (!stopping_) {
    auto& count = &refusal == &stranger ? counts_.denied : counts_.rejected;
    count.fetch_add(1, std::memory_order_relaxed);
    const std::span scrap(read_memory_.get(), read_buffer_bytes);
    if (greeted.connection == nullptr) {
      refuse(accepted.descriptor.number(), refusal, scrap);
    } else {
      // The client is closed in any case, so an error changes nothing.
      static_cast<void>(greeted.connection->send(refusal.reply));
      greeted.connection->end();
      part_from(accepted.descriptor.number(), scrap);
    }
    refusals_.note(refusal, accepted.address);
  }
  accepted.descriptor.close();
  socket_closed();  // after the close: the acceptor may open another descriptor now
}

void Worker::take_turn() {
  scheduler_.begin_turn(journal_progress_.load());
  // Events name clients by pointer. That is safe, because until end_turn() a turn closes only clients whose
  // event has already come; kill(), sweep() and cut_off() run between turns.
  for (const Readiness::Event& event : readiness_.take()) {
    auto& client = *static_cast<session::Client*>(event.owner);
    if (heir_ == nullptr || !give_away(client)) scheduler_.ready(client, event.events);
  }
  scheduler_.end_turn();
  await_next();
}

void Worker::ask_for_unread() {
  if (std::exchange(unread_posted_, true)) return;
  boost::asio::post(context_, [this] {
    unread_posted_ = false;
    take_unread();
  });
}

// A turn of the streams that hold bytes which no event tells of.
void Worker::take_unread() {
  scheduler_.begin_turn(journal_progress_.load());
  // A copy: to receive takes a stream off the list. As in take_turn(), no client is closed before its name
  // has come.
  const std::vector<TlsStream*> streams = unread_.all();
  for (TlsStream* const stream : streams) scheduler_.ready(*stream->owner(), session::readable);
  scheduler_.end_turn();
  // A stream that is still listed was not added again, so UnreadStreams has asked for no further turn.
  if (!unread_.all().empty()) ask_for_unread();
  await_next();
}

// The worker sets awaits_journal_ first and reads journal_progress_ then; journal_progressed() writes the two
// in the opposite order. All four operations are sequentially consistent. So either the worker sees the new
// progress here, or journal_progressed() sees the flag and posts. With weaker orders both could miss, and the
// clients would wait until the journal makes progress again.
std::uint64_t Worker::journal_progress_to_act_on() {
  if (scheduler_.awaits_journal()) awaits_journal_.store(true);
  return journal_progress_.load();
}

// Sends what is kept or released by the journal, and makes sure that another turn follows: at once if clients
// are queued, else when a stream is ready. Every handler that may have queued or kept a client, or closed the
// last one, must end with this call.
//
// A turn at once is posted and not called: so connections, answers and timers that wait in the io_context get
// their turn too. A turn that is posted while the wait is under way takes the ready streams as well; the wait
// then leads to a turn that may find nothing.
void Worker::await_next() {
  scheduler_.release_replies(journal_progress_to_act_on());
  if (end_when_empty()) return;
  if (scheduler_.has_paused()) await_pause_end();
  if (scheduler_.has_more()) {
    if (std::exchange(turn_posted_, true)) return;
    boost::asio::post(context_, [this] {
      turn_posted_ = false;
      take_turn();
    });
  } else if (!std::exchange(awaiting_, true)) {
    readiness_.wait([this](const boost::system::error_code& error) {
      SEPAL_ASSERT(awaiting_, "two waits for ready streams were under way");
      awaiting_ = false;
      if (!error) take_turn();
    });
  }
}

// While clients are paused, a timer runs for the one whose time comes first.
void Worker::await_pause_end() {
  const std::optional<SteadyTime> ends_at = scheduler_.paused_until();
  if (!ends_at || pause_awaited_ == ends_at) return;
  pause_awaited_ = ends_at;
  pause_timer_.expires_at(*ends_at);  // a wait for another time ends here
  pause_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    pause_awaited_.reset();
    scheduler_.end_pause(std::chrono::steady_clock::now());
    await_next();
  });
}

// Posted behind all connections that the acceptor has handed over, so each of them is welcomed before.
void Worker::begin_stop(SteadyTime deadline) {
  SEPAL_ASSERT(!stopping_, "a worker is told to stop once");
  stopping_ = true;
  heir_ = nullptr;
  {
    const GateEntered inside(gate_, index_);
    const MutexLock lock(inbox_mutex_);
    inbox_closed_ = true;
  }
  take_inbox();
  if (handshakes_ != nullptr) handshakes_->close_all();
  scheduler_.stop();
  // The clients get their replies until then. A client that does not read must not hold up the stop.
  deadline_timer_.expires_at(deadline);
  deadline_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) cut_off_all();
  });
  // The new time of the timer cancels the slow sweep that waits, so only one sweep is ever scheduled.
  schedule_sweep();
  await_next();
}

// Ends the worker's loop and returns true once the worker is stopping and has no client left. Handlers that
// other threads post after that never run: they are destroyed with the io_context.
bool Worker::end_when_empty() {
  if (!stopping_ || !scheduler_.empty()) return false;
  SEPAL_ASSERT(load() == 0, "a worker ends while a socket of it is open");
  work_.reset();
  context_.stop();
  return true;
}

void Worker::cut_off_all() {
  SEPAL_ASSERT(stopping_, "only a worker that stops cuts its clients off");
  if (const std::size_t count = scheduler_.cut_off(); count > 0)
    log::warn("connections_cut_off", "connections cut off at the stop", {{"count", count}});
  await_next();
}

void Worker::schedule_sweep() {
  sweep_timer_.expires_after(stopping_ ? stop_sweep_interval : sweep_interval);
  sweep_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) sweep();
  });
}

// One timer serves all clients, so the worker closes an idle client up to one interval late. The patience is
// copied inside the gate, and the clients are closed outside: to close one enters the gate.
void Worker::sweep() {
  session::Patience patience;
  std::chrono::seconds login_timeout{0};
  {
    const GateEntered inside(gate_, index_);
    patience.idle = services_.options.idle_timeout;
    login_timeout = services_.options.login_timeout;
    if (!services_.users->open()) patience.login = login_timeout;
  }
  // What the last batch has left, because another worker was inside then.
  dispatcher_.end_retired();
  const SteadyTime now = std::chrono::steady_clock::now();
  scheduler_.sweep(now, patience);
  if (handshakes_ != nullptr) handshakes_->sweep(now, login_timeout);
  // No memory may grow any more, and a script that ran has kept the worker from looking when it grew.
  bound_buffers();
  if (index_ == 0) {
    log_strangers(now);
    log_memory(now);
  }
  schedule_sweep();
  await_next();
}

// One worker logs for all, and not each client: strangers may come in storms.
void Worker::log_strangers(SteadyTime now) {
  if (const auto count = slow_strangers_.take(services_.buffers.slow_strangers(), now))
    log::warn("strangers_closed", "clients closed that had not logged in",
              {{"count", count}, {"reason", "they took longer than login_timeout"}});
  if (const auto count = large_strangers_.take(services_.buffers.large_strangers(), now))
    log::warn("strangers_closed", "clients closed that had not logged in",
              {{"count", count},
               {"bytes_max", command::strangers_bytes_max},
               {"reason", "they sent more than all such clients may together"}});
}

// Also takes the reserve again, where no request asks for it.
void Worker::log_memory(SteadyTime now) {
  const bool is_whole = memory_reserve::permits();
  if (const auto count = memory_refusals_.take(memory_reserve::uses(), now))
    log::warn("memory_refused", "the system refused memory",
              {{"count", count},
               {"reserve", is_whole ? "whole" : "in use"},
               {"advice", "give sepald more memory, or lower maxmemory and maxmemory_clients"}});
}

std::uint64_t Worker::Told::take(std::uint64_t counted, SteadyTime now) {
  if (counted == count || now < due) return 0;
  due = now + log_period;
  return counted - std::exchange(count, counted);
}

// The clients with most may be of other workers. Their figures are read with the gate closed, which is rare
// enough: only requests that grow and do not run, or a stream that does not take its replies, lead here.
void Worker::bound_buffers() {
  std::uint64_t bytes_max = 0;
  {
    const GateEntered inside(gate_, index_);
    bytes_max = services_.options.clients_memory_max;
    if (bytes_max == 0 || services_.buffers.total() <= bytes_max) return;
  }
  // While a script is busy, the replies are few: clients are told only that.
  if (!gate_.close_unless_reserved()) return;
  const std::vector<std::uint64_t> chosen =
      command::choose_clients_to_close(services_.clients, services_.buffers, bytes_max);
  if (!chosen.empty()) log_closed(chosen.front(), chosen.size());
  gate_.open();
  // This worker's own clients give their memory back before anything else runs. Other workers come to theirs
  // at the end of their turns.
  for (const std::uint64_t id : chosen)
    if (!scheduler_.drop(id)) services_.clients.kill(id);
}

// With the gate closed.
void Worker::log_closed(std::uint64_t id_of_most, std::size_t count) {
  constexpr std::string_view reason =
      "the unread replies of all clients, and their requests that are unfinished or wait for EXEC, exceed "
      "maxmemory_clients, and this client has most of them";
  services_.clients.for_each([&](const command::ClientState& client) {
    if (client.id != id_of_most) return;
    log::warn("client_closed", "client closed",
              {{"id", client.id},
               {"address", client.address},
               {"unread_bytes", client.bytes_unsent},
               {"request_bytes", client.bytes_of_requests},
               {"of_all_clients", services_.buffers.total()},
               {"closed_together", count},
               {"reason", reason}});
  });
}

}  // namespace sepal::server
