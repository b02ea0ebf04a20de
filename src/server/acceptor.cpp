#include "server/acceptor.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/displace.hpp>
#include <sepal/base/thread.hpp>
#include <sepal/log/event.hpp>

#include <boost/asio/post.hpp>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <netinet/in.h>
#include <string>
#include <sys/eventfd.h>
#include <system_error>
#include <utility>

namespace sepal::server {
namespace {

// The most connections that one listener accepts before the next listener gets its turn.
constexpr int accepts_per_turn_max = 64;
// How long the acceptor waits when descriptors or memory have run out.
constexpr std::chrono::milliseconds accept_pause{200};
// The most input of a refused client that is read and thrown away.
constexpr std::size_t scrap_bytes = 64 * 1024;
static_assert(accepts_per_turn_max > 0 && scrap_bytes > 0);

// The connection was gone before accept(), or its network has a fault: the next connection may be fine.
bool concerns_one_connection(int error) {
  switch (error) {
    case ECONNABORTED:
    case EINTR:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH: return true;
    default: return false;
  }
}

template <class SocketAddress>
std::string ip_text(const sockaddr_storage& storage) {
  static_assert(sizeof(SocketAddress) <= sizeof(sockaddr_storage));
  const auto& address = reinterpret_cast<const SocketAddress&>(storage);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if constexpr (std::is_same_v<SocketAddress, sockaddr_in>) {
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(address.sin_port));
  } else {
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(address.sin6_port));
  }
}

bool is_out_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE;
}

// Any kind of descriptor will do: it only has to take a place in the tables of the process and of the system.
Descriptor open_spare() {
  return Descriptor(::eventfd(0, EFD_CLOEXEC));
}

std::string endpoint_text(const sockaddr_storage& address) {
  if (address.ss_family == AF_UNSPEC) return "?:0";
  return address.ss_family == AF_INET ? ip_text<sockaddr_in>(address) : ip_text<sockaddr_in6>(address);
}

std::string local_endpoint_text(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "?:0";
  return endpoint_text(address);
}

std::uint64_t network_of_peer(const sockaddr_storage& peer) {
  const auto bytes_of = [](const auto& address) {
    return std::span(reinterpret_cast<const unsigned char*>(&address), sizeof address);
  };
  if (peer.ss_family == AF_INET)
    return network_of(bytes_of(reinterpret_cast<const sockaddr_in&>(peer).sin_addr));
  if (peer.ss_family == AF_INET6)
    return network_of(bytes_of(reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr));
  return 0;
}

// The peer's address comes with the connection: a peer that is gone a moment later would have none.
Descriptor accept_from(int listener, sockaddr_storage& peer) {
  peer = {};
  socklen_t size = sizeof peer;
  return Descriptor(
      ::accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

}  // namespace

Acceptor::Acceptor(std::span<const std::unique_ptr<Worker>> workers, ClientCounts& counts,
                   std::chrono::milliseconds look_interval)
    : workers_(workers),
      counts_(counts),
      scrap_(std::make_unique_for_overwrite<char[]>(scrap_bytes)),
      context_(1),
      look_interval_(look_interval),
      look_timer_(context_),
      duty_(workers.size()),
      seen_(workers.size()) {
  SEPAL_ASSERT(!workers.empty(), "the acceptor has no worker that takes connections");
  if (look_interval.count() == 0) duty_.serve(workers.size());
}

Acceptor::~Acceptor() {
  stop();
}

Result<void> Acceptor::start(std::vector<Listener> listeners) {
  SEPAL_ASSERT(!thread_.joinable() && doors_.empty(), "an acceptor is started once");
  spare_ = open_spare();
  for (Listener& listener : listeners) {
    auto door = std::make_unique<Door>(Door{.listener = std::move(listener),
                                            .descriptor = boost::asio::posix::stream_descriptor(context_),
                                            .pause_timer = boost::asio::steady_timer(context_)});
    boost::system::error_code error;
    door->descriptor.assign(door->listener.descriptor.number(), error);
    if (error) return fail(Errc::io, "cannot watch a listening socket: " + error.message());
    // Asio's object owns the number from here on. Released only after assign() has succeeded, so an error
    // closes it.
    static_cast<void>(door->listener.descriptor.release());
    await(*door);
    doors_.push_back(std::move(door));
  }
  thread_ = start_thread("acceptor", [this] {
    if (look_interval_.count() > 0 && workers_.size() > 1) {
      tell({});
      schedule_look();
    }
    context_.run();
  });
  return {};
}

void Acceptor::stop() {
  SEPAL_ASSERT(thread_.get_id() != std::this_thread::get_id(), "the acceptor cannot wait for its own end");
  context_.stop();
  if (thread_.joinable()) thread_.join();
  // The acceptor's thread has ended, so no handler refers to a door any more.
  // Before the sockets are closed: until then another sepald finds the path taken, and does not replace the
  // file.
  for (const auto& door : doors_) remove_socket_file(door->listener);
  doors_.clear();
}

void Acceptor::await(Door& door) {
  door.descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                             [this, &door](const boost::system::error_code& error) {
                               if (!error) accept_waiting(door);
                             });
}

void Acceptor::accept_waiting(Door& door) {
  // The last attempt to open it may have failed.
  if (!spare_.is_open()) spare_ = open_spare();
  for (int taken = 0; taken < accepts_per_turn_max; ++taken) {
    sockaddr_storage peer;
    Descriptor descriptor = accept_from(door.descriptor.native_handle(), peer);
    if (descriptor.is_open()) {
      pause_logged_ = false;
      // The bound is checked after the accept: only a client that is accepted can be told why it is refused.
      if (has_room(door.listener.kind)) {
        hand_over(door, std::move(descriptor), peer);
      } else {
        turn_away(door, std::move(descriptor), peer, no_descriptor);
      }
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) break;
    if (concerns_one_connection(error)) continue;
    if (!is_out_of_descriptors(error) || !spare_.is_open()) return pause(door, error);
    // Each connection in the backlog is refused like this, so that clients hear why instead of waiting.
    if (!refuse_with_spare(door, error)) break;
  }
  await(door);
}

// Worker::load() also counts connections that are on their way to the worker or being closed: each of them
// has a descriptor.
bool Acceptor::has_room(StreamKind kind) const {
  std::uint64_t open = 0;
  for (const auto& worker : workers_) open += worker->load();
  const std::uint64_t sockets_max = sockets_max_.load(std::memory_order_relaxed);
  return open < sockets_max || (kind == StreamKind::unix_socket && open - sockets_max < operator_places);
}

// Returns false when no connection waits. accept() looks for a free descriptor before it looks for a
// connection, so it also fails with EMFILE when none waits.
bool Acceptor::refuse_with_spare(Door& door, int error) {
  SEPAL_ASSERT(spare_.is_open(), "there is no spare descriptor to accept with");
  // Another thread may take the free descriptor first. Then nothing is accepted here, the spare stays closed,
  // and the next turn pauses.
  spare_.close();
  sockaddr_storage peer;
  Descriptor descriptor = accept_from(door.descriptor.native_handle(), peer);
  const bool accepted = descriptor.is_open();
  const std::string reason = std::generic_category().message(error);
  if (accepted) {
    turn_away(door, std::move(descriptor), peer,
              {.reply = no_descriptor.reply, .reason = reason, .advice = no_descriptor.advice});
  }
  spare_ = open_spare();
  return accepted;
}

// Before its handshake, a client of TLS understands no reply.
void Acceptor::turn_away(const Door& door, Descriptor descriptor, const sockaddr_storage& peer,
                         Refusal refusal) {
  if (door.listener.kind == StreamKind::tls) refusal.reply = {};
  SEPAL_ASSERT(descriptor.is_open(), "a connection is turned away that is closed already");
  counts_.rejected.fetch_add(1, std::memory_order_relaxed);
  refuse(descriptor.number(), refusal, {scrap_.get(), scrap_bytes});
  refusals_.note(refusal, peer.ss_family == AF_UNIX ? "a UNIX socket" : endpoint_text(peer));
}

// For when memory has run out, or when descriptors have and there is no spare one. Waiting connections stay
// in the backlog. Another try at once would fail again.
void Acceptor::pause(Door& door, int error) {
  if (!std::exchange(pause_logged_, true)) {
    log::error("accepting_paused", "accepting paused", {{"reason", std::generic_category().message(error)}});
  }
  door.pause_timer.expires_after(accept_pause);
  door.pause_timer.async_wait([this, &door](const boost::system::error_code& ended) {
    if (!ended) await(door);
  });
}

// --- how many workers serve ------------------------------------------------------------------------------

void Acceptor::serve(std::size_t worker_count) {
  boost::asio::post(context_, [this, worker_count] {
    duty_.serve(worker_count);
    tell({});
  });
}

void Acceptor::schedule_look() {
  looked_at_ = std::chrono::steady_clock::now();
  look_timer_.expires_after(look_interval_);
  look_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) look();
  });
}

void Acceptor::look() {
  const SteadyTime now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - looked_at_;
  std::vector<Duty::Work> serving;
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    const Seen before = std::exchange(seen_[index], {.cpu_time = workers_[index]->cpu_time(),
                                                     .long_batches = workers_[index]->long_batches(),
                                                     .gift = seen_[index].gift});
    if (index >= duty_.serving()) continue;
    const std::chrono::duration<double> busy = seen_[index].cpu_time - before.cpu_time;
    const auto squares = static_cast<double>(seen_[index].long_batches - before.long_batches);
    const std::chrono::duration<double, std::micro> wait(
        squares / 2 / std::chrono::duration<double, std::micro>(passed).count());
    serving.push_back({.busy = busy / passed, .wait = wait});
  }
  if (Duty::asks_for_cores(serving)) {
    tell(duty_.look(serving, idle_cores_.since_last_look(now)));
  } else {
    idle_cores_.forget();
    tell(duty_.look(serving, 0));
  }
  schedule_look();
}

// A gift that is told twice in a row is one more share. That a worker gives none, or all, is told once.
void Acceptor::tell(std::span<const Duty::Gift> gifts) {
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    std::optional<Duty::Gift> gift;
    const auto given = std::ranges::find(gifts, index, &Duty::Gift::from);
    if (given != gifts.end()) gift = *given;
    if (index >= duty_.serving()) gift = {.from = index, .to = duty_.heir_of(index), .share = 1};
    const std::optional<Duty::Gift> before = std::exchange(seen_[index].gift, gift);
    const bool is_told = before == gift && (!gift || gift->share == 1);
    if (is_told) continue;
    if (gift) {
      workers_[index]->give(*workers_[gift->to], gift->share);
    } else {
      workers_[index]->give_none();
    }
  }
}

void Acceptor::hand_over(Door& door, Descriptor descriptor, const sockaddr_storage& peer) {
  SEPAL_ASSERT(descriptor.is_open(), "a connection is handed over that is closed already");
  // A worker's load grows within adopt(), before its thread runs: so this choice also sees the connections
  // that were handed over a moment ago.
  const auto serving = workers_.first(duty_.serving());
  const auto fewest =
      std::ranges::min_element(serving, {}, [](const auto& worker) { return worker->load(); });
  const bool tcp = door.listener.kind != StreamKind::unix_socket;
  Accepted accepted{.descriptor = std::move(descriptor),
                    .kind = door.listener.kind,
                    .id = ++last_id_,
                    .from_this_machine = false,
                    .address = {},
                    .local_address = {},
                    .network = network_of_peer(peer)};
  const int number = accepted.descriptor.number();
  // A client of the UNIX socket is shown as the reference shows it.
  accepted.address = tcp ? endpoint_text(peer) : door.listener.path + ":0";
  accepted.from_this_machine = !tcp || is_loopback(accepted.address);
  accepted.local_address = tcp ? local_endpoint_text(number) : door.listener.path + ":0";
  (*fewest)->adopt(std::move(accepted));
}

}  // namespace sepal::server
